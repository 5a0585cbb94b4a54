#!/usr/bin/env bash
# Runs a command against a real control plane with simulated nodes, on which `ronde operator` runs jobs and schedules.
#
#   scenarios.sh RONDE COMMAND...   RONDE is the built program; COMMAND finds the cluster in RONDE_SCENARIOS_KUBECONFIG
#
# The operator has the account that the chart gives it, and fails the run if it is refused anything; with
# RONDE_ALL_RIGHTS, also if the account may do what it never did. Everything is stopped at the end, whatever happens.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/simulated.sh
source "$HERE/simulated.sh"

[[ $# -ge 2 ]] || {
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
ronde=$(realpath "$1")
shift
helm=$("$HERE/peers.sh" path helm)
dir=$(mktemp -d)
trap simulated_down EXIT
trap 'exit 130' INT TERM

simulated_up
"$helm" install ronde "$HERE/../charts/ronde" --namespace "$NAMESPACE" --create-namespace >/dev/null
start_operator
RONDE_SCENARIOS_KUBECONFIG=$KUBECONFIG "$@" || {
    tail -n 40 "$dir/operator.log" "$dir/kwok.log" >&2
    check_rights || true
    exit 1
}
check_rights
