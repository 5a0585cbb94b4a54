#!/usr/bin/env bash
# Runs the behaviour suite against a real kube-apiserver and against ours, and compares both with
# the recorded answers. Known differences are listed in e2e/conformance/known-differences.md.
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

printf '== a real kube-apiserver\n'
e2e/kubernetes.sh up "$work/real"
cargo run --quiet -p ronde-e2e -- check --kubeconfig "$work/real/kubeconfig" "$@"

printf '== ronde\n'
"$ronde" up --detach --listen 127.0.0.1:0 --data-dir "$work/ours" --kubeconfig "$work/ours.kubeconfig"
cargo run --quiet -p ronde-e2e -- check --kubeconfig "$work/ours.kubeconfig" "$@"
