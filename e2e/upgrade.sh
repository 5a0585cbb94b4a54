#!/usr/bin/env bash
# Upgrades a running instance: the program of another revision starts it, with pods; the current one goes on with them.
# Pods keep their processes, objects their versions. The other program is built from git, once, into a cache outside of
# the checkout. Needs root or user namespaces, and kubectl.
#
# usage: e2e/upgrade.sh PROGRAM [REVISION]     (default: the last tag, or the parent of the main branch)
set -euo pipefail

readonly PROGRAM="${1:?usage: e2e/upgrade.sh PROGRAM [REVISION]}"
ROOT="$(cd "$(dirname "$0")/.." && pwd)"
readonly ROOT
readonly CACHE="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/upgrade"

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# The revision to begin with.
revision() {
    git -C "$ROOT" describe --tags --abbrev=0 2>/dev/null || git -C "$ROOT" rev-parse --verify --quiet main~1 ||
        git -C "$ROOT" rev-parse HEAD~1
}

# The program of a revision, built once.
old_program() {
    local commit="$1" source="$CACHE/source" built="$CACHE/$1/ronde"
    if [[ ! -x $built ]]; then
        rm -rf "$source" && mkdir -p "$source" "$CACHE/$commit"
        git -C "$ROOT" archive "$commit" | tar -x -C "$source"
        CARGO_TARGET_DIR="$CACHE/target" cargo build --quiet --locked --manifest-path "$source/Cargo.toml" -p ronde >&2
        cp "$CACHE/target/debug/ronde" "$built"
        rm -rf "$source"
    fi
    printf '%s\n' "$built"
}

# What must not change: the process of the pod, its identity, and an object's version.
identity() {
    kubectl get pod sleeper -o jsonpath='{.metadata.uid} {.status.containerStatuses[0].containerID} {.status.podIP} '
    kubectl get configmap kept -o jsonpath='{.metadata.resourceVersion} {.data.a} '
    pgrep -f '^sleep 76543$'
}

commit="$(git -C "$ROOT" rev-parse "${2:-$(revision)}^{commit}")"
old="$(old_program "$commit")"
dir="$(mktemp -d)"
export RONDE_DATA_DIR="$dir/data" KUBECONFIG="$dir/kubeconfig"
trap '"$PROGRAM" down --quiet --delete-data || true; rm -rf "$dir"' EXIT

"$old" up --detach --quiet --listen 127.0.0.1:0
kubectl create configmap kept --from-literal a=b >/dev/null
kubectl run sleeper --image none -- sleep 76543 >/dev/null
kubectl create deployment web --image none --replicas 2 -- sleep 76544 >/dev/null
kubectl wait --for=condition=Ready pod/sleeper --timeout 120s >/dev/null
kubectl rollout status deployment/web --timeout 120s >/dev/null
before="$(identity)"
kill -TERM "$("$old" status -o json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')"
for _ in {1..600}; do
    "$old" status >/dev/null || break
    sleep 0.1
done

"$PROGRAM" up --detach --quiet --listen 127.0.0.1:0
kubectl wait --for=condition=Ready pod/sleeper --timeout 120s >/dev/null
after="$(identity)"
[[ $before == "$after" ]] || fail "the pod or the object is another: $before, then $after"
# What the old program has started is the new one's to end.
kubectl exec sleeper -- true || fail 'the new program cannot enter a pod of the old one'
kubectl delete pod sleeper --grace-period 1 >/dev/null
kubectl scale deployment web --replicas 3 >/dev/null
kubectl rollout status deployment/web --timeout 120s >/dev/null
if pgrep -f '^sleep 76543$'; then fail 'the deleted pod goes on'; fi
printf 'upgraded from %s: pods and objects are the same\n' "${commit:0:12}"
