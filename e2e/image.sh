#!/usr/bin/env bash
# Builds the image of charts/horovod/Dockerfile as `docker save` would write it, without Docker and without a registry.
#
#   image.sh check             says whether it can be done here
#   image.sh folder DIR        makes the root filesystem; the wheels of `make wheel` go into it if they are there
#   image.sh build FILE [DIR]  writes the archive, of such a folder or of one that is made for it
#   image.sh import FILE       lets a containerd of its own take the archive, if there is one on this machine
#   image.sh try DIR           checks sshd and the agent and trains in such a folder, by mpirun, as the user `trainer`
#
# Needs root, debootstrap and a mirror of Debian (MIRROR, by default the one of this machine). What is installed is read
# from the Dockerfile, so that the two cannot differ.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly ROOT=$HERE/..
readonly DOCKERFILE=$ROOT/charts/horovod/Dockerfile
readonly NAME=docker.io/library/horovod-cpu:latest
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/roots.sh
source "$HERE/roots.sh"

# The packages that the Dockerfile installs.
packages() {
    sed -n '/apt-get install/,/&& rm/p' "$DOCKERFILE" | sed -e 1d -e '/&& rm/d' | sed 's/.$//' | xargs -n 1
}

folder() {
    local dir=$1 wanted
    check
    mapfile -t wanted < <(packages)
    bootstrap "$dir" "${wanted[@]}"
    install_wheels "$dir"
    mkdir -p "$dir/examples"
    cp "$ROOT/examples/pytorch_mnist.py" "$dir/examples/"
    chroot "$dir" useradd --create-home --shell /bin/bash --uid 1000 trainer
}

# Mounts and processes are in namespaces of their own, and go with the last process.
try_folder() {
    check
    # shellcheck disable=SC2016 # The inner shells are to put their own values in.
    unshare --mount --pid --ipc --net --fork --kill-child bash -euc '
        ip link set lo up
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/dev/shm"
        exec chroot "$1" bash -euc "
            mkdir -p /run/sshd
            ssh-keygen -q -N \"\" -f /run/key
            /usr/sbin/sshd -t -h /run/key
            rm /run/key /run/key.pub
            ronde agent install /run/agent
            /run/agent/ronde --version
            rm -r /run/agent
            su trainer -c \"cd && OMP_NUM_THREADS=1 mpirun -np 2 --oversubscribe python /examples/pytorch_mnist.py --epochs 5\""
    ' bash "$1"
}

# Makes a folder that goes with this script, $dir.
scratch() {
    dir=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf '$dir'" EXIT
}

build() {
    local file root
    check
    file=$(realpath "$1")
    scratch
    root=${2:-$dir/root}
    [[ -d $root ]] || folder "$root"
    mkdir "$dir/archive"
    tar -C "$root" -cf "$dir/archive/layer.tar" .
    add_image "$dir/archive" "$NAME" '{"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["bash"]}' layer.tar
    save "$dir/archive" >"$file"
    say "$NAME is in $file"
}

# containerd unpacks the layer, which is more than to read it. Its mounts go with its namespace.
import() {
    local file
    ((EUID == 0)) || die "containerd needs root"
    command -v containerd ctr >/dev/null || {
        say "the archive is not imported: there is no containerd here (apt-get install containerd)"
        return
    }
    file=$(realpath "$1")
    scratch
    cat >"$dir/containerd.toml" <<TOML
version = 2
root = "$dir/containerd"
state = "$dir/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$dir/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/opt"
TOML
    # shellcheck disable=SC2016 # The inner shell is to put its own values in.
    unshare --mount --pid --fork --kill-child --mount-proc bash -euc '
        containerd --config "$1/containerd.toml" >"$1/containerd.log" 2>&1 &
        tell() { ctr --address "$1/containerd.sock" "${@:2}"; }
        until tell "$1" version >/dev/null 2>&1; do
            kill -0 "$!" 2>/dev/null || { cat "$1/containerd.log"; exit 1; }
            sleep 0.2
        done
        tell "$1" images import "$2"
        tell "$1" images check --quiet "name==$3" | grep -xF "$3"
    ' bash "$dir" "$file" "$NAME"
}

case ${1-} in
check) check && say "can be built here, from $(mirror)" ;;
build)
    [[ $# == [23] ]] || die "which file?"
    build "${@:2}"
    ;;
import)
    [[ $# == 2 ]] || die "which file?"
    import "$2"
    ;;
folder)
    [[ $# == 2 ]] || die "which folder?"
    folder "$(realpath "$2")"
    ;;
try)
    [[ $# == 2 ]] || die "which folder?"
    try_folder "$(realpath "$2")"
    ;;
*)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
