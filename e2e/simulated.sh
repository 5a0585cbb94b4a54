# shellcheck shell=bash
# A real control plane with three simulated nodes of two processors, and the operator beside it with the account that its
# chart gives it. Read by scenarios.sh, lifecycle.sh and migration.sh after processes.sh, not run. They set HERE, and `dir`
# to a folder of their own; `ronde` is the built program.

readonly NAMESPACE=ronde-system
kwok=$("$HERE/peers.sh" path kwok)
kubectl=$("$HERE/peers.sh" path kubectl)

simulated_node() {
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

# simulated_up: starts the control plane and its nodes. The API server notes what the operator asks for, in audit.log. As on
# some clusters, nobody may tie an object to an owner whom they may not change.
simulated_up() {
    # The Horovod chart has workers in a StatefulSet and a master in a Job.
    RONDE_APISERVER_OPTIONS="--audit-policy-file $HERE/audit.yaml --audit-log-path $dir/audit.log \
        --enable-admission-plugins OwnerReferencesPermissionEnforcement" \
        RONDE_MORE_CONTROLLERS=statefulset-controller,job-controller "$HERE/kubernetes.sh" up "$dir"
    export KUBECONFIG=$dir/kubeconfig
    { simulated_node node-0 && simulated_node node-1 && simulated_node node-2; } | "$kubectl" apply -f -
    # Admission marks every new node; the controller that would take the mark away does not run.
    "$kubectl" taint nodes --all node.kubernetes.io/not-ready- >/dev/null
    start "$dir" kwok "$kwok" --kubeconfig "$KUBECONFIG" --config "$HERE/kwok/stages.yaml" --config "$HERE/kwok/ends.yaml" \
        --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --server-address ''
}

simulated_down() {
    stop_operator
    stop "$dir" kwok
    "$HERE/kubernetes.sh" down "$dir"
    rm -rf "$dir"
}

# operator_kubeconfig FILE: the credentials of the operator's pods, which do not run here.
operator_kubeconfig() (
    umask 077
    cp "$KUBECONFIG" "$1"
    # A day: the longest run takes minutes.
    token=$("$kubectl" create token ronde --namespace "$NAMESPACE" --duration 24h)
    "$kubectl" config --kubeconfig "$1" unset users >/dev/null
    "$kubectl" config --kubeconfig "$1" set-credentials operator --token "$token" >/dev/null
    "$kubectl" config --kubeconfig "$1" set-context --current --user operator >/dev/null
)

# start_operator: with the account of the chart, once that is installed.
start_operator() {
    operator_kubeconfig "$dir/operator.kubeconfig"
    start "$dir" operator "$ronde" operator --kubeconfig "$dir/operator.kubeconfig" --definitions check
    wait_until "$dir" operator grep --quiet '^active' "$dir/operator.log"
}

stop_operator() { stop "$dir" operator ronde; }

# check_rights: the operator was refused nothing; with RONDE_ALL_RIGHTS, it also may do nothing that it never did.
check_rights() {
    "$kubectl" get clusterrole ronde -o json >"$dir/cluster.json"
    "$kubectl" get role ronde-lease --namespace kube-system -o json >"$dir/lease.json"
    "$HERE/rights.py" "system:serviceaccount:$NAMESPACE:ronde" "$dir/audit.log" ${RONDE_ALL_RIGHTS:+--all} \
        "$dir/cluster.json" "$dir/lease.json"
}
