#!/usr/bin/env bash
# Runs a command against a real control plane with simulated nodes, on which `ronde operator` runs jobs and schedules.
#
#   scenarios.sh RONDE COMMAND...   RONDE is the built program; COMMAND finds the cluster in RONDE_SCENARIOS_KUBECONFIG
#
# Three nodes of two processors, simulated by KWOK. Everything is stopped at the end, whatever happens.
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
kwok=$("$HERE/peers.sh" path kwok)
kubectl=$("$HERE/peers.sh" path kubectl)

finish() {
    stop "$dir" operator ronde
    stop "$dir" kwok
    "$HERE/kubernetes.sh" down "$dir"
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

node() {
    cat <<NODE
apiVersion: v1
kind: Node
metadata: {name: $1, labels: {kubernetes.io/hostname: $1}, annotations: {kwok.x-k8s.io/node: fake}}
status:
  capacity: &room {cpu: "2", memory: 8Gi, pods: "110"}
  allocatable: *room
  conditions: [{type: Ready, status: "True", reason: Simulated}]
---
NODE
}

# The Horovod chart has workers in a StatefulSet and a master in a Job.
RONDE_MORE_CONTROLLERS=statefulset-controller,job-controller "$HERE/kubernetes.sh" up "$dir"
export KUBECONFIG=$dir/kubeconfig
{ node node-0 && node node-1 && node node-2; } | "$kubectl" apply -f -
# Admission marks every new node; the controller that would take the mark away does not run.
"$kubectl" taint nodes --all node.kubernetes.io/not-ready- >/dev/null
start "$dir" kwok "$kwok" --kubeconfig "$KUBECONFIG" --config "$HERE/kwok/stages.yaml" \
    --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --server-address ''
start "$dir" operator "$ronde" operator --kubeconfig "$KUBECONFIG"
wait_until "$dir" operator "$kubectl" get queue default
RONDE_SCENARIOS_KUBECONFIG=$KUBECONFIG "$@" || {
    tail -n 40 "$dir/operator.log" "$dir/kwok.log" >&2
    exit 1
}
