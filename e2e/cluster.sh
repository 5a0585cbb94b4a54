#!/usr/bin/env bash
# Runs a command against a real Kubernetes on this machine: control plane, nodes with kubelet and containerd, names,
# services and a registry; as root.
#
#   cluster.sh check                 names what this machine lacks for it
#   cluster.sh run COMMAND...        COMMAND finds the cluster in KUBECONFIG, and in CLUSTER the folder of its processes
#   cluster.sh push ARCHIVE          puts the images of a `docker save` into the registry, for COMMAND to use
#
# CLUSTER_NODES is the number of nodes (default: 3), each with the processors and the memory of this machine, and two
# GPUs that are not there. No other registry answers: pods have the images that were pushed, whatever registry they name,
# and `busybox`. Everything is stopped and removed at the end, whatever happens; where COMMAND fails, CLUSTER_KEEP=1 keeps
# the folder with the logs.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly REGISTRY_PORT=5000
readonly GPUS=2
readonly PEERS=(kube-proxy coredns)
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

check() {
    local missing=0 program
    "$HERE/kubelet.sh" check || missing=1
    for program in docker-registry skopeo nft; do
        command -v "$program" >/dev/null || {
            say "missing: $program; install with: apt-get install -y --no-install-recommends ${program/#nft/nftables}"
            missing=1
        }
    done
    command -v go >/dev/null || "$HERE/peers.sh" has "${PEERS[@]}" || {
        say "missing: go, to build ${PEERS[*]}"
        missing=1
    }
    return "$missing"
}

# Names of services and of pods behind headless ones; nothing is asked of others.
start_dns() {
    cat >"$dir/Corefile" <<DNS
.:53 {
    bind $address
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig $dir/dns.kubeconfig
        pods insecure
        ttl 1
    }
}
DNS
    start "$dir" coredns "$("$HERE/peers.sh" path coredns)" -conf "$dir/Corefile"
    wait_until "$dir" coredns busybox nslookup kubernetes.default.svc.cluster.local "$address"
}

# start_proxy NODE: in the network of the node, which alone sees its rules.
start_proxy() {
    start "$dir" "kube-proxy-$1" nsenter --target "$(<"$dir/$1.pid")" --net \
        "$("$HERE/peers.sh" path kube-proxy)" --kubeconfig "$dir/proxy.kubeconfig" --hostname-override "$1" \
        --proxy-mode nftables --masquerade-all --conntrack-max-per-core 0
    wait_until "$dir" "kube-proxy-$1" nsenter --target "$(<"$dir/$1.pid")" --net \
        curl --silent --fail http://127.0.0.1:10256/healthz
}

start_registry() {
    cat >"$dir/registry.yaml" <<YAML
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $dir/registry}}
http: {addr: "$address:$REGISTRY_PORT"}
YAML
    start "$dir" docker-registry docker-registry serve "$dir/registry.yaml"
    wait_until "$dir" docker-registry curl --silent --fail "http://$address:$REGISTRY_PORT/v2/"
    mkdir -p "$dir/registries/_default"
    printf '[host."http://%s"]\ncapabilities = ["pull", "resolve"]\n' "$address:$REGISTRY_PORT" \
        >"$dir/registries/_default/hosts.toml"
}

# The usual way to tell of devices that no plugin manages.
add_gpus() {
    kubectl patch node "$1" --subresource status --type merge \
        --patch "{\"status\": {\"capacity\": {\"nvidia.com/gpu\": \"$GPUS\"}}}" >/dev/null
}

# push ARCHIVE: under the names without registries that the archive has. Layers stay as they are: nobody saves disk here.
push() {
    local address name
    address=$(<"${CLUSTER:?only while \`cluster.sh run\` runs}/address")
    tar -xOf "$1" manifest.json | grep -o '"RepoTags": *\["[^"]*"' | sed 's/.*"\(.*\)"/\1/' | while read -r name; do
        skopeo copy --quiet --insecure-policy --preserve-digests --dest-tls-verify=false \
            "docker-archive:$1:$name" "docker://$address:$REGISTRY_PORT/$(without_registry "$name")"
        say "pushed $name"
    done
}

# What containerd asks a mirror for.
without_registry() {
    case $1 in
    *[.:]*/*) printf '%s\n' "${1#*/}" ;;
    */*) printf '%s\n' "$1" ;;
    *) printf 'library/%s\n' "$1" ;;
    esac
}

finish() {
    local status=$? file
    trap - EXIT INT TERM
    for file in "$dir"/kube-proxy-*.pid; do
        [[ ! -e $file ]] || stop "$dir" "$(basename "$file" .pid)" kube-proxy
    done
    stop "$dir" coredns
    stop "$dir" docker-registry
    "$HERE/kubelet.sh" down "$dir" || status=1
    if ((status != 0)) && [[ ${CLUSTER_KEEP-} ]]; then
        rm -rf "$dir"/registry "$dir"/node-*/containerd
        say "the logs are in $dir"
    else
        rm -rf "$dir"
    fi
    exit "$status"
}

# run COMMAND...; `dir` is the script's own, as `finish` needs it.
run() {
    local address node nodes
    check || exit 1
    dir=$(mktemp -d)
    trap finish EXIT
    trap 'exit 130' INT TERM
    RONDE_CONTROLLERS='*' "$HERE/kubelet.sh" up "$dir" "${CLUSTER_NODES:-3}"
    address=$(<"$dir/address")
    export KUBECONFIG=$dir/kubeconfig CLUSTER=$dir
    read -ra nodes <"$dir/nodes"
    start_registry
    push "$dir/image.tar"
    start_dns
    for node in "${nodes[@]}"; do
        start_proxy "$node"
        add_gpus "$node"
    done
    "$@"
}

case ${1-} in
check) check ;;
run) run "${@:2}" ;;
push) push "${2:?ARCHIVE}" ;;
*)
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
