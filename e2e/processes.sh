# shellcheck shell=bash
# Starts, watches and stops processes that outlive the script: each has a log and a file with its id in
# a folder of its own. Read by the other scripts of this folder, not run.

readonly READY_SECONDS=60
readonly STOP_SECONDS=20

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# Prints a loopback port that nothing listens on, below the range of outgoing connections.
free_port() {
    local port attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        port=$((20000 + RANDOM % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s\n' "$port"
            return
        fi
    done
    die "found no free port"
}

# start DIR NAME PROGRAM ARGUMENT...: in the background, in its own session. How it was started is written down.
start() {
    local dir=$1 name=$2
    shift 2
    printf '%q ' "$@" >"$dir/$name.command"
    setsid nohup "$@" >>"$dir/$name.log" 2>&1 </dev/null &
    printf '%s\n' "$!" >"$dir/$name.pid"
}

# restart DIR NAME SIGNAL: ends a process and starts it again as it was.
restart() {
    local dir=$1 name=$2 command
    stop "$dir" "$name" "$name" "$3"
    eval "command=($(<"$dir/$name.command"))"
    start "$dir" "$name" "${command[@]}"
}

# is_running PIDFILE
is_running() {
    local pid
    [[ -f $1 ]] && pid=$(<"$1") && kill -0 "$pid" 2>/dev/null
}

# wait_until DIR NAME COMMAND...: repeats the command until it succeeds.
wait_until() {
    local dir=$1 name=$2 deadline=$((SECONDS + READY_SECONDS))
    shift 2
    until "$@" >/dev/null 2>&1; do
        is_running "$dir/$name.pid" || die "$name stopped; the last lines of $dir/$name.log:
$(tail -5 "$dir/$name.log")"
        ((SECONDS < deadline)) || die "$name is not ready after $READY_SECONDS s; see $dir/$name.log"
        sleep 0.1
    done
    say "$name is ready"
}

# stop DIR NAME [PROGRAM [SIGNAL]]: waits for its end; PROGRAM is what the process is called if not NAME.
stop() {
    local dir=$1 name=$2 program=${3:-$2} signal=${4:-TERM} pid deadline=$((SECONDS + STOP_SECONDS))
    [[ -f $dir/$name.pid ]] || return 0
    pid=$(<"$dir/$name.pid")
    # An id that another program has by now is left alone.
    if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "${program:0:15}" ]]; then
        kill -"$signal" "$pid" 2>/dev/null || true
        while kill -0 "$pid" 2>/dev/null; do
            ((SECONDS < deadline)) || kill -KILL "$pid" 2>/dev/null || true
            sleep 0.1
        done
        say "$name stopped"
    fi
    rm -f "$dir/$name.pid"
}
