#!/usr/bin/env bash
# Shows what ronde does, in a folder of its own: your kubeconfig and your data are not touched.
#   demo.sh RONDE    where RONDE is the built command; `make demo` calls it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

ronde=$(realpath "${1:?the ronde command}")
work=$(mktemp -d)
touch "$work/watch"
watcher=''
# One stream, so that what ronde says stands where it was said also in a pipe.
exec 2>&1
export KUBECONFIG="$work/kubeconfig" RONDE_DATA_DIR="$work/data"

finish() {
    [[ -z $watcher ]] || kill "$watcher" 2>/dev/null || true
    "$ronde" --quiet down || true
    rm -rf "$work"
}
trap finish EXIT

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
[[ -t 1 && -z ${NO_COLOR:-} ]] || say() { printf '\n# %s\n' "$*"; }

# Shows a command as a user would type it, then runs it.
run() {
    printf '$ %s\n' "$*"
    "$@"
}
ronde() { "$ronde" "$@"; }

# Prints what a watch says, and keeps it for seen.
show() {
    local line
    while IFS= read -r line; do
        printf '  watch | %s\n' "$line"
        printf '%s\n' "$line" >>"$work/watch"
    done
}

# Waits until the watch has shown a text, so that the demo needs no fixed pauses.
seen() {
    local attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        grep -q -- "$1" "$work/watch" && return
        sleep 0.05
    done
    printf 'the watch never showed: %s\n' "$1" >&2
    return 1
}

say 'A Kubernetes API on this machine: one process, nothing to install.'
run ronde up --detach --listen 127.0.0.1:0

say 'Objects: a namespace, settings, a deployment, and a kind of our own with one object.'
run ronde apply -f demo/objects.yaml

say 'Watch one change.'
printf '$ ronde get dances -n demo --watch &\n'
"$ronde" get dances -n demo --watch > >(show) &
watcher=$!
seen slow
run ronde apply -f demo/more-dancers.yaml
seen quick
kill "$watcher"
wait "$watcher" 2>/dev/null || true
watcher=''

say 'The same with the deployment: more replicas, a newer image.'
run ronde get deployments -n demo -o wide
run ronde apply -f demo/scaled.yaml
run ronde get deployments -n demo -o wide

say 'The definition has a rule, and the API keeps it.'
run ronde apply -f demo/too-few.yaml || printf '(refused, as it should be: exit code %d)\n' $?

if command -v kubectl >/dev/null; then
    say 'kubectl, helm and every other Kubernetes client work too.'
    run kubectl get configmaps,deployments,dances --namespace demo
fi

say 'Pull the plug: kill -9. Then start it again: nothing is lost.'
pid=$("$ronde" status -o json | sed -nE 's/.*"pid": ([0-9]+).*/\1/p')
run kill -9 "$pid"
while "$ronde" status -o json | grep -q '"running": true'; do sleep 0.05; done
run ronde up --detach --listen 127.0.0.1:0
run ronde get dances -n demo
run ronde status

say 'Stop it. The kubeconfig is as it was before.'
run ronde down --delete-data
