#!/bin/bash
# Waits until every worker of this very revision can be reached: those of an earlier one are about to be replaced.
set -euo pipefail
# shellcheck source=charts/horovod/files/ssh.sh
source /horovod/generated/ssh.sh
# shellcheck source=charts/horovod/files/end.sh
source /horovod/generated/end.sh

# A wait in vain is a try of the master; after another one, the command counts for itself.
finish() {
    local code=$?
    ((code != 0)) || return 0
    [[ $stopped ]] || count_attempt
    release_after "$code"
}
trap finish EXIT
trap 'stopped=yes; exit 143' TERM INT

is_ready() {
    local answer
    # shellcheck disable=SC2016 # The worker is to put its own value in.
    answer=$("${remote[@]}" -q -n -o BatchMode=yes -o ConnectTimeout=2 "$1" 'echo "$WORKER_REVISION"' 2>/dev/null) &&
        [[ $answer == "$WORKER_REVISION" ]]
}

mapfile -t workers < <(cut -d ' ' -f 1 /horovod/generated/hostfile | grep -vx "$FULLNAME-master")
# A rollback may bring a master back to workers that were let go. After the last try a container is started once more
# before Kubernetes gives up: by then they are to stay away.
if [[ -f $SCALE ]] && ((attempt < LAST_ATTEMPT)); then
    bash "$SCALE" "${#workers[@]}" || say "waits for the workers that are there"
fi
if [[ $LAUNCHER == agent ]]; then
    remote=(/horovod/agent/ronde rsh)
else
    setup_ssh
    remote=(ssh)
fi
say "waits for ${#workers[@]} workers"
# Before bash 4.4 an empty list is an unset variable.
for worker in ${workers[@]+"${workers[@]}"}; do
    until is_ready "$worker"; do
        ((SECONDS < WAIT_SECONDS)) || die "$worker is not ready after $WAIT_SECONDS s: \`kubectl describe pod ${worker%%.*}\` tells more"
        sleep 1
    done
    say "$worker is ready"
done
