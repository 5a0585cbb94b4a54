#!/usr/bin/env bash
# Asks a real kube-apiserver and ours the same questions: the real one must answer as recorded, so
# that the recordings are current, and ours must too, apart from the known differences, which are
# listed in e2e/conformance/known-differences.md.
#
#   conformance.sh [SCENARIO...]   only these, by a part of their names
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ronde="$(tools/target-dir.sh)/debug/ronde"
work=$(mktemp -d)

finish() {
    e2e/kubernetes.sh down "$work/real" || true
    "$ronde" --quiet down --data-dir "$work/ours" || true
    rm -rf "$work"
}
trap finish EXIT

# ask VERB KUBECONFIG [SCENARIO...]
ask() { cargo run --quiet -p ronde-e2e -- "$1" --kubeconfig "$2" "${@:3}"; }

result=0
printf '== a real kube-apiserver\n'
e2e/kubernetes.sh up "$work/real"
ask verify "$work/real/kubeconfig" "$@" || result=$?

printf '== ronde\n'
"$ronde" up --nodes 0 --detach --listen 127.0.0.1:0 --data-dir "$work/ours" --kubeconfig "$work/ours.kubeconfig"
ask check "$work/ours.kubeconfig" "$@" || result=$?
((result == 0))
