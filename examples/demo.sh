#!/usr/bin/env bash
# Shows an elastic training from its beginning to its end, in a folder of its own: your kubeconfig and your data are
# not touched.
#   demo.sh RONDE PYTHON PYTHONPATH    the built command, a Python with NumPy, our package; `make demo` calls it
set -euo pipefail

ronde=$(realpath "${1:?the ronde command}")
python=$(command -v "${2:?a Python with NumPy}")
package=$(realpath "${3:?the folder of our Python package}")
cd "$(dirname "${BASH_SOURCE[0]}")"
picture=$PWD/../demo.svg
# More than anybody waits for: the story ends the training, however fast the machine is.
readonly STEPS=1000003
work=$(mktemp -d)
mkdir "$work/story"
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

# wait_for COMPLAINT COMMAND...: at most two minutes.
wait_for() {
    local complaint=$1 deadline=$((SECONDS + 120))
    shift
    until "$@"; do
        if ((SECONDS >= deadline)); then
            printf '%s\n' "$complaint"
            return 1
        fi
        sleep 0.1
    done
}

# The processes that train, as this machine sees them.
ranks() { pgrep -f "^[^ ]*python[^ ]* numpy_elastic.py --steps $STEPS" | sort; }
# The processes of a worker.
processes_of() { grep -lzx "HOSTNAME=$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3; }
# Whether so many processes train, and one of them did not when `before` was noted.
has_new_rank() {
    local now
    now=$(ranks)
    (($(wc -l <<<"$now") == $1)) && [[ -n $(comm -13 <(printf '%s\n' "$before") <(printf '%s\n' "$now")) ]]
}
# Shows the training until each of so many ranks has said something, from now on. The number before a line is a worker's
# own; who takes the place of a dead one has its number.
watch_ranks() {
    local rank
    follow logs demo --follow --tail 0
    for ((rank = 0; rank < $1; rank++)); do
        seen "^\[$rank\]<stdout>:Step" 2
    done
    unfollow
}
has_ended() { "$ronde" get trainingjob demo -o json | grep -qE '"phase": "(Succeeded|Failed)"'; }

say 'A cluster on this machine: one process, nothing to install.'
run ronde up --detach --listen 127.0.0.1:0 --nodes 3 --cpus 4 --memory 2Gi

say 'An elastic job: three workers to begin with, at least one, at most nine.'
run ronde submit etjob --name=demo --cpu-only --workers=3 --min-workers=1 --max-workers=9 --image=this-machine \
    --working-dir=/examples --data-dir="$PWD:/examples" --data-dir="$package:/python" --data-dir="$work/story:/story" \
    --env=PYTHONPATH=/python --wait \
    "horovodrun -np \${workers} --min-np \${minWorkers} --max-np \${maxWorkers} \
--host-discovery-script /etc/edl/discover_hosts.sh $python numpy_elastic.py --steps $STEPS --pause 0.02 --until /story/end"
watch_ranks 3
run ronde get demo
before=$(ranks)

say 'One more worker. It joins while the others train; none of them starts again.'
run ronde scaleout etjob --name=demo --count=1 --timeout=1m --wait
watch_ranks 4
printf '%d of the %d processes of before still train\n' \
    "$(comm -12 <(printf '%s\n' "$before") <(ranks) | wc -l)" "$(wc -l <<<"$before")"

say 'One less. It leaves at a commit.'
run ronde scalein etjob --name=demo --count=1 --timeout=1m --wait

say 'Kill a worker. The others go back to their last commit, in memory, and on; another comes in its place.'
before=$(ranks)
mapfile -t victims < <(processes_of demo-worker-1)
run kill -9 "${victims[@]}"
wait_for 'nobody has come in the place of the worker' has_new_rank 3
watch_ranks 3

say 'It ends as if nothing had happened.'
touch "$work/story/end"
wait_for 'the job does not end' has_ended
run ronde get demo
"$ronde" logs demo --timestamps >"$work/log"
printf '\n'
result=$(grep -o 'steps: .*' "$work/log") || { printf 'the training has failed\n' && exit 1; }
steps=$(sed -E 's/steps: ([0-9]+),.*/\1/' <<<"$result")
alone=$(cd "$work" && PYTHONPATH=$package "$python" "$OLDPWD/numpy_elastic.py" --steps "$steps" | tail -n 1)
printf '%s\nalone, without any of this:\n%s\n\n' "$result" "$alone"
[[ $result == "$alone" ]] || { printf 'these should be the same\n' && exit 1; }
"$python" demo/picture.py "$work/log" "$picture"
printf '  the same as a picture: %s\n' "$(realpath "$picture")"

say 'Stop it. Pods, links, mounts and groups are gone, and the kubeconfig is as it was before.'
run ronde down --delete-data
