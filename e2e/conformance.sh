#!/usr/bin/env bash
# Runs the conformance suite live on a real Kubernetes, and on another server when one is given.
#
#   conformance.sh [OURS_KUBECONFIG]
#
# The recordings are made anew from the real server first (a difference from the committed ones
# shows in `git diff`), then the other server is compared with them. RONDE_REAL names a folder
# where `kubernetes.sh up` already runs one; otherwise one is started and stopped again.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly OURS=${1:-}

run() {
    cargo run --quiet --manifest-path "$HERE/Cargo.toml" -- --suite "$HERE/conformance" "$@"
}

real=${RONDE_REAL:-}
if [[ -z $real ]]; then
    real=$(mktemp -d)
    trap '"$HERE/kubernetes.sh" down "$real"; rm -rf "$real"' EXIT
    "$HERE/kubernetes.sh" up "$real"
fi

run record --kubeconfig "$real/kubeconfig"
if [[ -n $OURS ]]; then
    run check --kubeconfig "$OURS"
fi
