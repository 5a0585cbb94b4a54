# shellcheck shell=bash
# How the master ends: it counts its tries, and lets the workers go after the last one. Sourced after ssh.sh.

readonly ATTEMPTS=/horovod/state/attempts
readonly SCALE=/horovod/generated/scale.sh

# A master that is told to stop lets nobody go: another may go on with the workers.
stopped=

# Tries so far, of all containers of the pod: Kubernetes, too, adds their restarts up and compares them with its limit.
attempt=0
[[ ! -s $ATTEMPTS ]] || attempt=$(<"$ATTEMPTS")

count_attempt() {
    attempt=$((attempt + 1))
    echo "$attempt" >"$ATTEMPTS"
}

# Lets the workers go if the try that ends with this code is the last one.
release_after() {
    if [[ $stopped || ! -f $SCALE ]] || (($1 != 0 && attempt < LAST_ATTEMPT)); then
        return
    fi
    if bash "$SCALE" 0; then
        say "the workers are released"
    else
        say "the workers still run: \`kubectl scale statefulset $FULLNAME --replicas 0\` ends them"
    fi
}
