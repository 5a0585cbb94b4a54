#!/usr/bin/env bash
# Tries the static program where pods may put it: in a root with busybox alone, and in one with an old C library.
# In each: installs itself, runs as an agent, reaches it by names of /etc/hosts and of a name server, as ssh too.
#
# usage: e2e/static.sh PROGRAM
set -euo pipefail

readonly PROGRAM="${1:?usage: e2e/static.sh PROGRAM}"
readonly CACHE="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/static"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/roots.sh
source "$HERE/roots.sh"
# The oldest release of Debian that is still on the mirrors; its C library is 2.31.
MIRROR=${RONDE_DEBIAN_MIRROR:-$(mirror)}
readonly RELEASE=bullseye

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-3}"
}

# The path of a package of RELEASE, downloaded once.
package() {
    local index="$CACHE/Packages" path
    if [[ ! -s $index ]]; then
        curl -fsSL "$MIRROR/dists/$RELEASE/main/binary-amd64/Packages.xz" | xz -dc >"$index.part"
        mv "$index.part" "$index"
    fi
    path="$(awk -v name="$1" '$1 == "Package:" { found = ($2 == name) } found && $1 == "Filename:" { print $2; exit }' "$index")"
    [[ -n $path ]] || fail "$RELEASE has no package $1"
    if [[ ! -s $CACHE/${path##*/} ]]; then
        curl -fsSL "$MIRROR/$path" -o "$CACHE/part"
        mv "$CACHE/part" "$CACHE/${path##*/}"
    fi
    printf '%s\n' "$CACHE/${path##*/}"
}

# A root with the given packages of RELEASE, one of which is a busybox, and the files of a pod.
make_root() {
    local root="$1" name
    mkdir -p "$root"/{bin,dev,etc,opt,proc,tmp}
    for name in "${@:2}"; do
        dpkg-deb --extract "$(package "$name")" "$root"
    done
    cp "$PROGRAM" "$root/opt/ronde"
    for name in sh cat sleep; do
        ln -s busybox "$root/bin/$name"
    done
    mknod -m 666 "$root/dev/null" c 1 3
    printf '127.0.0.1 localhost\n127.0.0.5 by-hosts\n' >"$root/etc/hosts"
    printf 'search team.svc.cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n' >"$root/etc/resolv.conf"
    # A module that no static program could load.
    printf 'hosts: mdns4_minimal [NOTFOUND=return] files dns\n' >"$root/etc/nsswitch.conf"
}

# Answers every question for the address of worker-0 in its cluster, and for nothing else.
name_server() {
    python3 - <<'PYTHON'
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
name = b"\x08worker-0\x04team\x03svc\x07cluster\x05local\x00"
while True:
    query, peer = server.recvfrom(4096)
    question = query[12:12 + query.index(b"\0", 12) - 12 + 5]
    known = question == name + b"\0\1\0\1"
    flags = b"\x81\x80" if known else b"\x81\x83"
    answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + bytes([127, 0, 0, 6]) if known else b""
    server.sendto(query[:2] + flags + b"\0\1" + (b"\0\1" if known else b"\0\0") + b"\0\0\0\0" + question + answer, peer)
PYTHON
}

# Runs inside the root, as the agent's own command.
# shellcheck disable=SC2016  # Expanded by the shell in there.
readonly TRY='
set -e
check() { [ "$2" = "$3" ] || { echo "$1: expected $2, got $3" >&2; exit 1; }; }
check "by address" one "$(/opt/kube/ronde rsh 127.0.0.1 echo one)"
check "by /etc/hosts, as ssh" two "$(ssh -o StrictHostKeyChecking=no by-hosts echo two)"
check "by the name server" three "$(ssh -x worker-0 echo three)"
check "input" four "$(echo four | ssh worker-0 cat)"
code=0; ssh worker-0 "exit 7" || code=$?
check "exit code" 7 "$code"
code=0; ssh nobody true 2>/dev/null || code=$?
check "unknown host" 255 "$code"
'

# In a network, mount and process namespace of its own, which ends with everything in it.
try_root() {
    local root="$1"
    ip link set lo up
    mount -t proc proc "$root/proc"
    name_server &
    export RONDE_SECRET=not-a-secret
    until [[ -n $(ss -Hlun 'sport = :53') ]]; do sleep 0.05; done
    chroot "$root" /opt/ronde agent install /opt/kube
    chroot "$root" /opt/kube/ronde --quiet agent -- /bin/sh -c "$TRY"
}

main() {
    ((EUID == 0)) || fail 'needs root: it makes roots and namespaces'
    local tool
    for tool in curl xz dpkg-deb python3 ip ss unshare; do
        command -v "$tool" >/dev/null || fail "needs \`$tool\`"
    done
    [[ -x $PROGRAM ]] || fail "there is no program $PROGRAM; \`make static\` builds it" 2
    if ldd "$PROGRAM" 2>/dev/null | grep -q '=>'; then
        fail "$PROGRAM is not static; \`make static\` builds it" 2
    fi
    mkdir -p "$CACHE"
    local roots
    roots="$(mktemp -d)"
    # shellcheck disable=SC2064  # The folder as it is now.
    trap "rm -rf '$roots'" EXIT
    make_root "$roots/busybox-alone" busybox-static
    make_root "$roots/old-libc" libc6 busybox
    [[ ! -e $roots/busybox-alone/lib ]] || fail 'the first root has libraries'
    local root
    for root in "$roots"/*; do
        timeout 60 unshare --net --mount --pid --fork --kill-child "$0" --inside "$root" ||
            fail "the program does not work in the root ${root##*/}" 1
        printf 'works in the root %s\n' "${root##*/}"
    done
}

if [[ $PROGRAM == --inside ]]; then
    try_root "$2"
else
    main
fi
