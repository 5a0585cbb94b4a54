#!/usr/bin/env bash
# Shows what ronde does, in a folder of its own: your kubeconfig and your data are not touched.
#   demo.sh RONDE    where RONDE is the built command; `make demo` calls it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

ronde=$(realpath "${1:?the ronde command}")
work=$(mktemp -d)
touch "$work/seen"
follower=''
# One stream, so that what ronde says stands where it was said also in a pipe.
exec 2>&1
export KUBECONFIG="$work/kubeconfig" RONDE_DATA_DIR="$work/data"

finish() {
    trap '' INT TERM
    unfollow
    "$ronde" --quiet down --delete-data || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
[[ -t 1 && -z ${NO_COLOR:-} ]] || say() { printf '\n# %s\n' "$*"; }

# Shows a command as a user would type it, then runs it.
run() {
    printf '$ %s\n' "$*"
    "$@"
}
ronde() { "$ronde" "$@"; }

# Runs a command that goes on and shows what it says, until unfollow.
follow() {
    printf '$ ronde %s &\n' "$*"
    : >"$work/seen"
    "$ronde" "$@" > >(show) &
    follower=$!
}

unfollow() {
    [[ -n $follower ]] || return 0
    kill "$follower" 2>/dev/null || true
    wait "$follower" 2>/dev/null || true
    follower=''
}

# Prints lines as they come, and keeps them for seen.
show() {
    local line
    while IFS= read -r line; do
        printf '  | %s\n' "$line"
        printf '%s\n' "$line" >>"$work/seen"
    done
}

# Waits until so many of the followed lines match, so that the demo needs no fixed pauses.
seen() {
    wait_for "the lines never came: $1" matched "$1" "${2:-1}"
}
matched() { (($(grep -cE -- "$1" "$work/seen") >= $2)); }

# wait_for COMPLAINT COMMAND...: at most 20 s.
wait_for() {
    local complaint=$1 attempt
    shift
    for ((attempt = 0; attempt < 400; attempt++)); do
        if "$@"; then return; fi
        sleep 0.05
    done
    printf '%s\n' "$complaint"
    return 1
}

gone() { ! "$ronde" status -o json | grep -q '"running": true'; }
has_ended() { "$ronde" get job guest -n demo -o json | grep -q '"succeeded": 1'; }

# Prints the step that a dancer has come to.
step_of() { "$ronde" logs "$1" -n demo --tail 1 | sed -nE 's/^step ([0-9]+):.*/\1/p'; }

# Finds the process of a pod among the records that its supervisor keeps: a container's first process only watches,
# its child is the program.
process_of() {
    local uid init
    uid=$("$ronde" get pod "$1" -n demo -o json | sed -nE 's/^ *"uid": "(.*)",?$/\1/p' | tail -1)
    init=$(sed -nE 's/.*"pid":([0-9]+).*/\1/p' "$RONDE_DATA_DIR/node/pods/$uid"/containers/*/0/record.json)
    cut -d' ' -f1 "/proc/$init/task/$init/children"
}

say 'A Kubernetes on this machine: one process, nothing to install.'
run ronde up --detach --listen 127.0.0.1:0

say 'Three dancers in a ring, each a pod with an address and a name of its own.'
run ronde apply -f demo/dance.yaml
follow get pods -n demo --watch
seen 'dancer-[0-9] +1/1' 3
unfollow
run ronde get pods -n demo -o wide

say 'They hand a step round, each finding the next by name.'
follow logs dancer-1 -n demo --follow
seen '^step' 3
unfollow
run ronde logs dancer-2 -n demo --tail 2

say 'A guest, as a Job, asks whichever dancer the service finds.'
run ronde apply -f demo/guest.yaml
wait_for 'the guest got no answer' has_ended
guest=$("$ronde" get pods -n demo -l job-name=guest -o name)
run ronde logs "$guest" -n demo

say 'Kill a dancer: it is back at once, and the dance goes on.'
run kill -9 "$(process_of dancer-1)"
follow get pods -n demo --watch
seen 'dancer-1 +1/1 +Running +1 '
unfollow
follow logs dancer-1 -n demo --follow
seen '^step' 2
unfollow

say 'Pull the plug on ronde itself: kill -9. The pods dance on without it.'
before=$(step_of dancer-0)
run kill -9 "$("$ronde" status -o json | sed -nE 's/.*"pid": ([0-9]+).*/\1/p')"
wait_for 'it is still there' gone
sleep 1
run ronde up --detach --listen 127.0.0.1:0
run ronde get pods -n demo
printf 'dancer-0 was at step %d before and is at step %d now\n' "$before" "$(step_of dancer-0)"

say 'Kinds of your own, with rules that the API keeps.'
run ronde apply -f demo/objects.yaml
run ronde apply -f demo/too-few.yaml || printf '(refused, as it should be: exit code %d)\n' $?

if command -v kubectl >/dev/null; then
    say 'kubectl, helm and every other Kubernetes client work too.'
    run kubectl exec -n demo dancer-0 -- getent hosts dancer-2.ring dancer.demo.svc.cluster.local
fi

say 'Stop it. Pods, links, mounts and groups are gone, and the kubeconfig is as it was before.'
run ronde down --delete-data
