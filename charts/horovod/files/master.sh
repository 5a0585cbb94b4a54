#!/bin/bash
# The master: runs the command and, when it has ended for good, lets the workers go.
set -euo pipefail
# shellcheck source=charts/horovod/files/ssh.sh
source /horovod/generated/ssh.sh

readonly NAME_WAIT_SECONDS=60
readonly ATTEMPTS=/horovod/state/attempts

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

# Counts the runs in this pod.
count_attempt() {
    local before=0
    [[ ! -s $ATTEMPTS ]] || before=$(<"$ATTEMPTS")
    echo $((before + 1)) | tee "$ATTEMPTS"
}

attempt=$(count_attempt)
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
stopped=
trap 'stopped=yes; kill -TERM -- "-$command" 2>/dev/null' TERM INT
code=0
wait "$command" || code=$?
if [[ $stopped ]]; then
    # The wait above ended with the signal, not with the command. Another master may go on with the workers.
    wait "$command" || code=$?
elif ((code == 0 || attempt >= LAST_ATTEMPT)) && [[ -f /horovod/generated/release.sh ]]; then
    bash /horovod/generated/release.sh || say "the workers still run: \`kubectl scale statefulset $FULLNAME --replicas 0\` ends them"
fi
exit "$code"
