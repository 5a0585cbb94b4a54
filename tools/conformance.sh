#!/usr/bin/env bash
# Asks a real kube-apiserver and ours the same questions and compares the answers.
# Known differences are listed in e2e/conformance/known-differences.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ronde="$(tools/target-dir.sh)/debug/ronde"
work=$(mktemp -d)
trap '"$ronde" --quiet down --data-dir "$work/data" || true; rm -rf "$work"' EXIT

"$ronde" up --detach --listen 127.0.0.1:0 --data-dir "$work/data" --kubeconfig "$work/kubeconfig"
e2e/conformance.sh "$work/kubeconfig"

if ! git diff --quiet -- e2e/conformance 2>/dev/null; then
    printf 'note: the real server answered differently from the recordings; see: git diff e2e/conformance\n' >&2
fi
