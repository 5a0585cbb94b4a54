#!/bin/bash
# Waits until every worker of this very revision can be reached: those of an earlier one are about to be replaced.
set -euo pipefail
# shellcheck source=charts/horovod/files/ssh.sh
source /horovod/generated/ssh.sh

is_ready() {
    local answer
    # shellcheck disable=SC2016 # The worker is to put its own value in.
    answer=$("${remote[@]}" -q -n -o BatchMode=yes -o ConnectTimeout=2 "$1" 'echo "$WORKER_REVISION"' 2>/dev/null) &&
        [[ $answer == "$WORKER_REVISION" ]]
}

if [[ $LAUNCHER == agent ]]; then
    remote=(/horovod/agent/ronde rsh)
else
    setup_ssh
    remote=(ssh)
fi
mapfile -t workers < <(cut -d ' ' -f 1 /horovod/generated/hostfile | grep -vx "$FULLNAME-master")
say "waits for ${#workers[@]} workers"
for worker in "${workers[@]}"; do
    until is_ready "$worker"; do
        ((SECONDS < WAIT_SECONDS)) || die "$worker is not ready after $WAIT_SECONDS s: \`kubectl describe pod ${worker%%.*}\` tells more"
        sleep 1
    done
    say "$worker is ready"
done
