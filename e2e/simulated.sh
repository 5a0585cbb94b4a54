#!/usr/bin/env bash
# Runs a real control plane with nodes that KWOK simulates.
#
#   simulated.sh up DIR     starts both
#   simulated.sh down DIR   stops them; the data stays
#
# Three nodes of two processors. Pods run until they are deleted, or end as their label `ronde.test/exit` says. The
# variables of kubernetes.sh count here too.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

[[ $# == 2 && $1 =~ ^(up|down)$ ]] || {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

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

up() {
    local dir=$1 kwok kubectl
    kwok=$("$HERE/peers.sh" path kwok)
    kubectl=$("$HERE/peers.sh" path kubectl)
    "$HERE/kubernetes.sh" up "$dir"
    export KUBECONFIG=$dir/kubeconfig
    { node node-0 && node node-1 && node node-2; } | "$kubectl" apply -f -
    # Admission marks every new node; the controller that would take the mark away does not run.
    "$kubectl" taint nodes --all node.kubernetes.io/not-ready- >/dev/null
    start "$dir" kwok "$kwok" --kubeconfig "$KUBECONFIG" --config "$HERE/kwok/stages.yaml" --config "$HERE/kwok/ends.yaml" \
        --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --server-address ''
}

down() {
    stop "$1" kwok
    "$HERE/kubernetes.sh" down "$1"
}

"$@"
