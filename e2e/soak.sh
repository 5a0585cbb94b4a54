#!/usr/bin/env bash
# Runs a command that may disturb a real control plane with simulated nodes, whose pods end by themselves.
#
#   soak.sh COMMAND...   COMMAND finds the folder of the control plane in RONDE_SOAK_CLUSTER
#
# Every binding is in the folder's audit.log. Everything is stopped at the end; where COMMAND fails, the folder stays.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/simulated.sh
source "$HERE/simulated.sh"

[[ $# -ge 1 ]] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
dir=$(mktemp -d)

finish() {
    stop "$dir" kwok
    "$HERE/kubernetes.sh" down "$dir"
    if [[ -e $dir/passed ]]; then rm -rf "$dir"; else say "the logs are in $dir"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

simulated_up
RONDE_SOAK_CLUSTER=$dir "$@"
touch "$dir/passed"
