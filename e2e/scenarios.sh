#!/usr/bin/env bash
# Runs a command against a real control plane with simulated nodes, on which `ronde operator` runs jobs and schedules.
#
#   scenarios.sh RONDE COMMAND...   RONDE is the built program; COMMAND finds the cluster in RONDE_SCENARIOS_KUBECONFIG
#
# The nodes are those of simulated.sh. Everything is stopped at the end, whatever happens.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

[[ $# -ge 2 ]] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
ronde=$(realpath "$1")
shift
dir=$(mktemp -d)
kubectl=$("$HERE/peers.sh" path kubectl)

finish() {
    stop "$dir" operator ronde
    "$HERE/simulated.sh" down "$dir"
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The Horovod chart has workers in a StatefulSet and a master in a Job.
RONDE_MORE_CONTROLLERS=statefulset-controller,job-controller "$HERE/simulated.sh" up "$dir"
export KUBECONFIG=$dir/kubeconfig
start "$dir" operator "$ronde" operator --kubeconfig "$KUBECONFIG"
wait_until "$dir" operator "$kubectl" get queue default
RONDE_SCENARIOS_KUBECONFIG=$KUBECONFIG "$@" || {
    tail -n 40 "$dir/operator.log" "$dir/kwok.log" >&2
    exit 1
}
