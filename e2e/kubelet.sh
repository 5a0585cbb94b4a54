#!/usr/bin/env bash
# Adds nodes to the real control plane of kubernetes.sh: kube-scheduler, and a containerd and a kubelet for each; as root.
#
#   kubelet.sh check             names what this machine lacks for it
#   kubelet.sh up DIR [NODES]    starts the control plane and the nodes (default: one), and waits until pods can be run
#   kubelet.sh down DIR          stops them and removes what they made in the machine; DIR stays
#
# Pods run the image `busybox`, which is made here from Debian's busybox-static; other images are asked of the registries
# that DIR/registries names, as containerd reads it. RONDE_CONTROLLERS is as for kubernetes.sh. Pods ask the first address
# of the network (DIR/address) for names.
# Each node has a folder in DIR and lives in mount, process and network namespaces of its own: its mounts, processes and
# links go with the first process in there, even after a crash. What else there is are a bridge that joins the nodes, and
# cgroups below one name; `down` removes them and fails when anything is left.
set -euo pipefail

# What kubelet and containerd write at places that cannot be configured; covered in their namespace.
readonly COVERED=(/run/containerd /var/lib/cni /var/lib/kubelet /var/log/containers)
# Settings of the kernel that kubelet changes; it gets copies.
readonly SETTINGS=(vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes)
readonly CNI_PROGRAMS=/usr/lib/cni
# What joins the pods of a node, in its namespace.
readonly BRIDGE=pods
# The addresses of the network that pods have, as last numbers; those below are for the machine and the nodes.
readonly PODS_FIRST=16
readonly PODS_LAST=254
readonly PEERS=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet)
# The controllers without which no pod is run: accounts, and the taint of new nodes.
readonly CONTROLLERS=${RONDE_CONTROLLERS:-garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,node-lifecycle-controller}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

usage() {
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
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

# The nodes and their pods are in one network, with the machine and nothing else.
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
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "${1%/*}/registries"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "ronde.test/pause:1"
  netns_mounts_under_state_dir = true
  # In a container of its own this machine may not lower the scores of processes.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_PROGRAMS"
    conf_dir = "$1/cni"
  # What was unpacked need not be there twice.
  [plugins."io.containerd.grpc.v1.cri".containerd]
    discard_unpacked_layers = true
TOML
}

# write_network DIR ADDRESS FIRST LAST: pods get the addresses from FIRST to LAST, and reach services through the node.
write_network() {
    mkdir -p "$1/cni"
    cat >"$1/cni/10-bridge.conflist" <<JSON
{
  "cniVersion": "1.0.0", "name": "$BRIDGE",
  "plugins": [{
    "type": "bridge", "bridge": "$BRIDGE", "isGateway": false, "ipMasq": false,
    "ipam": {"type": "host-local", "dataDir": "$1/addresses", "routes": [{"dst": "0.0.0.0/0"}],
      "ranges": [[{"subnet": "${2%.*}.0/24", "rangeStart": "${2%.*}.$3", "rangeEnd": "${2%.*}.$4", "gateway": "$2"}]]}
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
    local dir=$1 cgroup=$2 address=$3
    cat >"$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
healthzPort: 0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: ${dir%/*}/pki/ca.crt}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://$dir/containerd.sock
clusterDNS: [${address%.*}.1]
clusterDomain: cluster.local
podLogsDir: $dir/pods
volumePluginDir: $dir/kubelet/volume-plugins
makeIPTablesUtilChains: false
failSwapOn: false
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
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
    join_network "$address"
    containerd --config "$dir/containerd.toml" >"$dir/containerd.log" 2>&1 &
    until ctr --address "$dir/containerd.sock" version >/dev/null 2>&1; do
        kill -0 "$!" 2>/dev/null || die "containerd stopped: $(tail -n 3 "$dir/containerd.log")"
        sleep 0.1
    done
    ctr --address "$dir/containerd.sock" --namespace k8s.io images import "${dir%/*}/image.tar"
    "$kubelet" --config "$dir/kubelet.yaml" --kubeconfig "$dir.kubeconfig" \
        --root-dir "$dir/kubelet" --cert-dir "$dir/kubelet/pki" \
        --hostname-override "${dir##*/}" --node-ip "$address" >"$dir/kubelet.log" 2>&1 &
    wait -n
    die "containerd or kubelet stopped; see $dir/containerd.log and $dir/kubelet.log"
}

# Waits for the link that `connect` makes, and joins it with the pods.
join_network() {
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
    ip link set lo up
    ip link add "$BRIDGE" type bridge
    ip link set eth0 master "$BRIDGE" up
    ip address add "$1/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    ip route add default via "${1%.*}.1"
    printf '1\n' >/proc/sys/net/ipv4/ip_forward
}

# connect PID NAME BRIDGE: a link between a process that makes a network namespace and the bridge of the machine.
connect() {
    local own theirs='' deadline=$((SECONDS + READY_SECONDS))
    own=$(readlink /proc/self/ns/net)
    # A process that is being replaced by its program has none for a moment.
    until theirs=$(readlink "/proc/$1/ns/net") && [[ $theirs != "$own" ]]; do
        ((SECONDS < deadline)) || die "there is no namespace for $2"
        sleep 0.02
    done
    ip link add "$2" type veth peer name eth0 netns "$1"
    ip link set "$2" master "$3" up
}

# ask DIR PATH: as the administrator.
ask() {
    local token server
    token=$(sed -n 's/,admin,.*//p' "$1/tokens.csv")
    server=$(sed -n 's/^ *server: //p' "$1/kubeconfig")
    curl --silent --fail --max-time 5 --cacert "$1/pki/ca.crt" -H "Authorization: Bearer $token" "$server$2"
}

# can_run_pods DIR NODE
can_run_pods() {
    local node
    ask "$1" /api/v1/namespaces/default/serviceaccounts/default >/dev/null || return 1
    node=$(ask "$1" "/api/v1/nodes/$2?pretty=false") || return 1
    [[ $node == *'"type":"Ready","status":"True"'* && $node != *'"taints"'* ]]
}

# start_node INDEX: of those that `up` starts.
start_node() {
    local folder=$dir/node-$1 link=$name-$1 address=${subnet%0/24}$(($1 + 2)) share first
    share=$(((PODS_LAST - PODS_FIRST + 1) / count))
    first=$((PODS_FIRST + $1 * share))
    mkdir -p "$folder"
    make_cgroups "$link"
    copy_settings "$folder"
    write_containerd_config "$folder"
    write_network "$folder" "$address" "$first" "$((first + share - 1))"
    write_kubelet_config "$folder" "$link" "$address"
    start "$dir" "node-$1" unshare --mount --pid --net --fork --kill-child \
        "$HERE/kubelet.sh" inside "$folder" "$address" "$kubelet"
    connect "$(<"$folder.pid")" "$link" "$name"
}

up() {
    local dir=$1 count=$2 name subnet kubelet index node nodes
    check || exit 1
    kubelet=$("$HERE/peers.sh" path kubelet)
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    # shellcheck disable=SC2064
    trap "down '$dir'" EXIT
    name=ronde$RANDOM
    subnet=$(free_subnet)
    nodes=$(seq -f 'node-%g' -s ' ' 0 $((count - 1)))
    printf '%s\n' "$name" >"$dir/name"
    printf '%s\n' "${subnet%0/24}1" >"$dir/address"
    printf '%s\n' "$nodes" >"$dir/nodes"
    : >"$dir/made-folders"
    make_bridge "$name" "$subnet"
    RONDE_CONTROLLERS=$CONTROLLERS RONDE_ADDRESS=$(<"$dir/address") RONDE_NODES=$nodes "$HERE/kubernetes.sh" up "$dir"
    start_scheduler "$dir"
    make_covered "$dir"
    make_image "$dir"
    mkdir -p "$dir/registries"
    for ((index = 0; index < count; index++)); do start_node "$index"; done
    for node in $nodes; do wait_until "$dir" "$node" can_run_pods "$dir" "$node"; done
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
    local dir name node nodes=() left deadline=$((SECONDS + STOP_SECONDS))
    dir=$(cd "$1" && pwd)
    # With `--kill-child` the end of this process is the end of all others in there.
    [[ ! -f $dir/nodes ]] || read -ra nodes <"$dir/nodes"
    for node in "${nodes[@]}"; do stop "$dir" "$node" unshare KILL; done
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
    rm -f "$dir/name" "$dir/nodes" "$dir/made-folders"
    say "nothing is left of the nodes"
}

main() {
    case ${1:-} in
    check) check ;;
    up) up "${2:?DIR}" "${3:-1}" ;;
    down) down "${2:?DIR}" ;;
    inside) inside "$2" "$3" "$4" ;;
    *) usage ;;
    esac
}

main "$@"
