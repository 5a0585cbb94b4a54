#!/bin/bash
# The master: runs the command and, when it has ended for good, lets the workers go.
set -euo pipefail
# shellcheck source=charts/horovod/files/ssh.sh
source /horovod/generated/ssh.sh
# shellcheck source=charts/horovod/files/end.sh
source /horovod/generated/end.sh

readonly NAME_WAIT_SECONDS=60

# mpirun starts the ranks of its own host by itself, if it recognises the host by its name.
wait_for_own_name() {
    local deadline=$((SECONDS + NAME_WAIT_SECONDS))
    until getent hosts "$FULLNAME-master" | grep -qF "$POD_IP"; do
        ((SECONDS < deadline)) || {
            say "$FULLNAME-master is not known to be $POD_IP after $NAME_WAIT_SECONDS s; goes on without"
            return
        }
        sleep 0.5
    done
}

command=
# shellcheck disable=SC2317 # The trap calls it.
stop() {
    stopped=yes
    [[ $command ]] || exit 143
    kill -TERM -- "-$command" 2>/dev/null || true
}

count_attempt
trap 'release_after $?' EXIT
trap stop TERM INT
run=(bash -c "$(</horovod/generated/command)")
if [[ $LAUNCHER == agent ]]; then
    run=(/horovod/agent/ronde agent -- "${run[@]}")
else
    setup_ssh
    serve_ssh &
fi
wait_for_own_name

# A process group of its own, so that the end of the pod reaches all of the command.
set -m
"${run[@]}" &
command=$!
code=0
wait "$command" || code=$?
if [[ $stopped ]]; then
    # The wait above ended with the signal, not with the command.
    wait "$command" || code=$?
fi
exit "$code"
