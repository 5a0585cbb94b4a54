#!/usr/bin/env bash
# Adds a node to the real control plane of kubernetes.sh: kube-scheduler, containerd and kubelet, as root.
#
#   kubelet.sh check      names what this machine lacks for it
#   kubelet.sh up DIR     starts the control plane and the node, and waits until pods can be run
#   kubelet.sh down DIR   stops them and removes what they made in the machine; DIR stays
#
# Pods run the image `busybox`, which is made here from Debian's busybox-static; nothing is pulled.
# containerd and kubelet live in mount and process namespaces of their own: their mounts and processes
# go with the first process in there, even after a crash. What else they make is a bridge with its
# links, and cgroups below one name; `down` removes them and fails when anything is left.
set -euo pipefail

readonly NODE=real
# What kubelet and containerd write at places that cannot be configured; covered in their namespace.
readonly COVERED=(/run/containerd /var/lib/cni /var/lib/kubelet /var/log/containers)
# Settings of the kernel that kubelet changes; it gets copies.
readonly SETTINGS=(vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes)
readonly CNI_PROGRAMS=/usr/lib/cni
readonly PEERS=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet)
# The controllers without which no pod is run: accounts, and the taint of new nodes.
readonly CONTROLLERS=garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,node-lifecycle-controller
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

usage() {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

check() {
    local packages=() missing=0
    has containerd && has ctr || packages+=(containerd)
    has runc || packages+=(runc)
    has "$CNI_PROGRAMS/bridge" && has "$CNI_PROGRAMS/host-local" || packages+=(containernetworking-plugins)
    is_static_busybox || packages+=(busybox-static)
    has ip || packages+=(iproute2)
    has curl || packages+=(curl)
    has openssl || packages+=(openssl)
    if ((${#packages[@]} > 0)); then
        say "missing: ${packages[*]}; install with: apt-get install -y --no-install-recommends ${packages[*]}"
        missing=1
    fi
    has go || "$HERE/peers.sh" has "${PEERS[@]}" || {
        say "missing: go, to build ${PEERS[*]}"
        missing=1
    }
    [[ $(id -u) == 0 ]] || {
        say "kubelet and containerd need root"
        missing=1
    }
    return "$missing"
}

has() { command -v "$1" >/dev/null; }

is_static_busybox() {
    local program
    program=$(command -v busybox) && ! ldd "$program" >/dev/null 2>&1
}

# Prints a private network that the machine has no route into but the default one.
free_subnet() {
    local number subnet
    for ((number = 0; number < 256; number++)); do
        subnet=10.251.$number.0/24
        if [[ -z $(ip -4 route show root "$subnet") ]] &&
            ! ip -4 route show match "$subnet" | grep -qv '^default'; then
            printf '%s\n' "$subnet"
            return
        fi
    done
    die "found no free network in 10.251.0.0/16"
}

# Only the machine itself reaches the bridge, and so kubelet, which listens there: it refuses loopback.
make_bridge() {
    local name=$1 subnet=$2
    ip link add "$name" type bridge
    ip address add "${subnet%0/24}1/24" dev "$name"
    ip link set "$name" up
}

# Makes the folders that will be covered, and records those that were not there.
make_covered() {
    mkdir -pv "${COVERED[@]}" | sed -n "s/^mkdir: created directory '\(.*\)'$/\1/p" >>"$1/made-folders"
}

copy_settings() {
    local setting
    for setting in "${SETTINGS[@]}"; do
        [[ -e /proc/sys/$setting ]] || continue
        install -D -m 644 /dev/null "$1/settings/$setting"
        cat "/proc/sys/$setting" >"$1/settings/$setting"
    done
}

# Writes the image as `docker save` would: one layer, for pods and, under its second name, for sandboxes.
make_image() {
    local dir=$1/image applet
    mkdir -p "$dir/root/bin" "$dir/root/tmp" "$dir/root/etc"
    cp "$(command -v busybox)" "$dir/root/bin/busybox"
    for applet in $(busybox --list); do
        [[ $applet == busybox ]] || ln -sf busybox "$dir/root/bin/$applet"
    done
    # A name of its own tells the process of a sandbox from those of the pod.
    ln "$dir/root/bin/busybox" "$dir/root/bin/busybox-pause"
    tar -C "$dir/root" -cf "$dir/layer.tar" .
    cat >"$dir/config.json" <<JSON
{
  "architecture": "$(goarch)", "os": "linux",
  "config": {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/busybox-pause", "sleep", "2147483647"]},
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum <"$dir/layer.tar" | cut -d' ' -f1)"]}
}
JSON
    cat >"$dir/manifest.json" <<JSON
[{"Config": "config.json", "Layers": ["layer.tar"],
  "RepoTags": ["docker.io/library/busybox:latest", "ronde.test/pause:1"]}]
JSON
    tar -C "$dir" -cf "$1/image.tar" manifest.json config.json layer.tar
    rm -rf "$dir"
}

goarch() {
    case $(uname -m) in
    x86_64) printf 'amd64\n' ;;
    aarch64) printf 'arm64\n' ;;
    *) uname -m ;;
    esac
}

write_containerd_config() {
    cat >"$1/containerd.toml" <<TOML
version = 2
root = "$1/containerd"
state = "$1/run"
[grpc]
  address = "$1/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$1/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "ronde.test/pause:1"
  netns_mounts_under_state_dir = true
  # In a container of its own this machine may not lower the scores of processes.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_PROGRAMS"
    conf_dir = "$1/cni"
TOML
}

# write_network DIR BRIDGE SUBNET: pods reach each other and the machine; no rule of a firewall is made.
write_network() {
    mkdir -p "$1/cni"
    cat >"$1/cni/10-bridge.conflist" <<JSON
{
  "cniVersion": "1.0.0", "name": "real",
  "plugins": [{
    "type": "bridge", "bridge": "$2", "isGateway": false, "ipMasq": false,
    "ipam": {"type": "host-local", "dataDir": "$1/addresses", "ranges": [[{"subnet": "$3"}]]}
  }]
}
JSON
}

# Kubelet insists on a root for its cgroups that is there in every hierarchy.
make_cgroups() {
    local hierarchy
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
        mkdir "/sys/fs/cgroup/$1"
    else
        for hierarchy in /sys/fs/cgroup/*/; do mkdir -p "$hierarchy$1"; done
    fi
}

# All is as by default but places, addresses and what may be left of the disk.
write_kubelet_config() {
    local dir=$1 name=$2 address=$3
    cat >"$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
port: $(free_port)
healthzPort: 0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: $dir/pki/ca.crt}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://$dir/containerd.sock
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
podLogsDir: $dir/pods
volumePluginDir: $dir/kubelet/volume-plugins
makeIPTablesUtilChains: false
failSwapOn: false
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$name
# A disk that is nearly full is no reason to run no pods here.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
YAML
}

start_scheduler() {
    local dir=$1 port
    port=$(free_port)
    start "$dir" kube-scheduler "$("$HERE/peers.sh" path kube-scheduler)" \
        --kubeconfig "$dir/scheduler.kubeconfig" --bind-address 127.0.0.1 --secure-port "$port" --leader-elect=false
    wait_until "$dir" kube-scheduler curl --silent --fail --insecure --max-time 5 "https://127.0.0.1:$port/healthz"
}

# The first process of the namespaces: covers, mounts, starts, and ends when one of the programs does.
inside() {
    local dir=$1 address=$2 kubelet=$3 path
    mount -t proc proc /proc
    for path in "${COVERED[@]}"; do mount -t tmpfs tmpfs "$path"; done
    for path in "${SETTINGS[@]}"; do
        [[ ! -e /proc/sys/$path ]] || mount --bind "$dir/settings/$path" "/proc/sys/$path"
    done
    containerd --config "$dir/containerd.toml" >"$dir/containerd.log" 2>&1 &
    until ctr --address "$dir/containerd.sock" version >/dev/null 2>&1; do
        kill -0 "$!" 2>/dev/null || die "containerd stopped: $(tail -n 3 "$dir/containerd.log")"
        sleep 0.1
    done
    ctr --address "$dir/containerd.sock" --namespace k8s.io images import "$dir/image.tar"
    "$kubelet" --config "$dir/kubelet.yaml" --kubeconfig "$dir/node.kubeconfig" \
        --root-dir "$dir/kubelet" --cert-dir "$dir/kubelet/pki" \
        --hostname-override "$NODE" --node-ip "$address" >"$dir/kubelet.log" 2>&1 &
    wait -n
    die "containerd or kubelet stopped; see $dir/containerd.log and $dir/kubelet.log"
}

# ask DIR PATH: as the administrator.
ask() {
    local token server
    token=$(sed -n 's/,admin,.*//p' "$1/tokens.csv")
    server=$(sed -n 's/^ *server: //p' "$1/kubeconfig")
    curl --silent --fail --max-time 5 --cacert "$1/pki/ca.crt" -H "Authorization: Bearer $token" "$server$2"
}

can_run_pods() {
    local node
    ask "$1" /api/v1/namespaces/default/serviceaccounts/default >/dev/null || return 1
    node=$(ask "$1" "/api/v1/nodes/$NODE?pretty=false") || return 1
    [[ $node == *'"type":"Ready","status":"True"'* && $node != *'"taints"'* ]]
}

up() {
    local dir=$1 name subnet address kubelet
    check || exit 1
    kubelet=$("$HERE/peers.sh" path kubelet)
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    # shellcheck disable=SC2064
    trap "down '$dir'" EXIT
    RONDE_CONTROLLERS=$CONTROLLERS "$HERE/kubernetes.sh" up "$dir"
    start_scheduler "$dir"
    name=ronde$RANDOM
    subnet=$(free_subnet)
    address=${subnet%0/24}1
    printf '%s\n' "$name" >"$dir/name"
    : >"$dir/made-folders"
    make_bridge "$name" "$subnet"
    make_cgroups "$name"
    make_covered "$dir"
    copy_settings "$dir"
    make_image "$dir"
    write_containerd_config "$dir"
    write_network "$dir" "$name" "$subnet"
    write_kubelet_config "$dir" "$name" "$address"
    start "$dir" node unshare --mount --pid --fork --kill-child "$HERE/kubelet.sh" inside "$dir" "$address" "$kubelet"
    wait_until "$dir" node can_run_pods "$dir"
    trap - EXIT
}

# Prints what the node left in the machine.
leftovers() {
    local dir=$1 name=$2
    grep -la "${dir}[/]" /proc/[0-9]*/cmdline 2>/dev/null | sed 's/^/process: /'
    grep -F "$dir/" /proc/self/mountinfo | sed 's/^/mount: /'
    [[ ! -e /sys/class/net/$name ]] || printf 'link: %s\n' "$name"
    cgroups "$name" | sed 's/^/cgroup: /'
}

cgroups() { find /sys/fs/cgroup -depth -type d -path "*/$1*" 2>/dev/null; }

# Removes what can be removed by now.
sweep() {
    local dir=$1 name=$2 link
    for link in /sys/class/net/"$name"/brif/*; do
        [[ ! -e $link ]] || ip link delete "${link##*/}" || true
    done
    [[ ! -e /sys/class/net/$name ]] || ip link delete "$name" || true
    cgroups "$name" | while read -r group; do rmdir "$group" || true; done
} 2>/dev/null

down() {
    local dir name left deadline=$((SECONDS + STOP_SECONDS))
    dir=$(cd "$1" && pwd)
    # With `--kill-child` the end of this process is the end of all others in there.
    stop "$dir" node unshare KILL
    stop "$dir" kube-scheduler
    "$HERE/kubernetes.sh" down "$dir"
    [[ -f $dir/name ]] || return 0
    name=$(<"$dir/name")
    while sweep "$dir" "$name" && left=$(leftovers "$dir" "$name") && [[ -n $left ]]; do
        ((SECONDS < deadline)) || die "left in the machine:
$left"
        sleep 0.1
    done
    tac "$dir/made-folders" | while read -r folder; do rmdir --ignore-fail-on-non-empty "$folder"; done
    rm -f "$dir/name" "$dir/made-folders"
    say "nothing is left of the node"
}

main() {
    case ${1:-} in
    check) check ;;
    up) up "${2:?DIR}" ;;
    down) down "${2:?DIR}" ;;
    inside) inside "$2" "$3" "$4" ;;
    *) usage ;;
    esac
}

main "$@"
