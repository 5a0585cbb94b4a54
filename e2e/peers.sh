#!/usr/bin/env bash
# Builds the programs that Ronde is compared with, into a cache outside the checkout.
#
#   peers.sh build NAME...   builds what is missing
#   peers.sh path NAME       prints the path of one program, builds it when missing
#   peers.sh has NAME...     succeeds when nothing of it needs to be built
#   peers.sh list            prints the names
#
# K8S=VERSION makes the programs of Kubernetes those of another version, beside the usual ones.
# All of them come as source from the Go module proxy.
# Nothing is installed into the system and no service is started.
set -euo pipefail

readonly KUBERNETES_VERSION_DEFAULT=1.34.4
readonly KUBERNETES_VERSION=${K8S:-$KUBERNETES_VERSION_DEFAULT}
readonly ETCD_VERSION=3.6.5
readonly HELM_VERSION=3.22.0
readonly HELM4_VERSION=4.3.1
readonly KWOK_VERSION=0.7.0
readonly COREDNS_VERSION=1.14.7
readonly KUBECTL_MINOR_MIN=30
readonly NAMES=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl etcd helm helm4 kwok coredns)

# The module proxy limits how fast one client may ask; a pause of this length was always enough.
readonly RETRIES=8
readonly RETRY_PAUSE_S=15

readonly PEERS="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/peers"
readonly BIN="$PEERS/bin"

# Prints where a program is kept.
file_of() {
    if [[ $1 == kube* && $KUBERNETES_VERSION != "$KUBERNETES_VERSION_DEFAULT" ]]; then
        printf '%s/kubernetes-%s/%s\n' "$PEERS" "$KUBERNETES_VERSION" "$1"
    else
        printf '%s/%s\n' "$BIN" "$1"
    fi
}

say() { printf 'peers: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

usage() {
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# Runs a command until it succeeds, with a pause after each failure.
retry() {
    local attempt
    for ((attempt = 1; attempt <= RETRIES; attempt++)); do
        if "$@"; then
            return 0
        fi
        say "attempt $attempt of $RETRIES failed: $*"
        ((attempt == RETRIES)) || sleep "$RETRY_PAUSE_S"
    done
    return 1
}

require_program() {
    command -v "$1" >/dev/null || die "\`$1\` is missing: $2"
}

# Writes a module whose requirements are those of k8s.io/kubernetes itself. Its go.mod points the
# staging modules into its own tree; here they become the published modules of the same release.
write_kubernetes_module() {
    local dir=$1 go_mod
    go_mod=$(retry go mod download -json "k8s.io/kubernetes@v$KUBERNETES_VERSION" |
        sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    [[ -n $go_mod ]] || die "cannot fetch k8s.io/kubernetes v$KUBERNETES_VERSION"
    sed -E -e 's|^module .*|module ronde.test/peers|' \
        -e "s|=> \./staging/src/(k8s\.io/[a-z0-9-]+)|=> \1 v0.${KUBERNETES_VERSION#1.}|" \
        "$go_mod" >"$dir/go.mod"
    (cd "$dir" && go mod edit -require="k8s.io/kubernetes@v$KUBERNETES_VERSION")
}

write_helm_module() {
    printf 'module ronde.test/peers\n' >"$1/go.mod"
    (cd "$1" && retry go get "helm.sh/helm/v3/cmd/helm@v$HELM_VERSION") >&2
}

write_helm4_module() {
    printf 'module ronde.test/peers\n' >"$1/go.mod"
    (cd "$1" && retry go get "helm.sh/helm/v4/cmd/helm@v$HELM4_VERSION") >&2
}

write_etcd_module() {
    printf 'module ronde.test/peers\n' >"$1/go.mod"
    (cd "$1" && retry go get "go.etcd.io/etcd/server/v3@v$ETCD_VERSION") >&2
}

write_kwok_module() {
    printf 'module ronde.test/peers\n' >"$1/go.mod"
    (cd "$1" && retry go get "sigs.k8s.io/kwok/cmd/kwok@v$KWOK_VERSION") >&2
}

# With the plugins that a cluster's names need, and none of the clouds.
write_coredns_module() {
    printf 'module ronde.test/peers\n' >"$1/go.mod"
    cat >"$1/main.go" <<GO
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
GO
    (cd "$1" && retry go get "github.com/coredns/coredns/coremain@v$COREDNS_VERSION") >&2
}

# go_build NAME MODULE_WRITER PACKAGE LDFLAGS
go_build() {
    local name=$1 writer=$2 package=$3 ldflags=$4 dir file
    file=$(file_of "$name")
    mkdir -p "${file%/*}"
    require_program go "install the Go toolchain"
    dir=$(mktemp -d)
    "$writer" "$dir"
    say "building $name (minutes when the Go build cache is cold)"
    (
        cd "$dir"
        # -mod=mod lets go add the checksums; the module is thrown away afterwards.
        CGO_ENABLED=0 retry nice go build -mod=mod -trimpath \
            -ldflags "-s -w $ldflags" -o "$file.new" "$package" >&2
    ) || die "cannot build $name"
    rm -rf "$dir"
    mv "$file.new" "$file"
}

build_kubernetes() {
    local v=k8s.io/component-base/version c=k8s.io/client-go/pkg/version flags='' package
    for package in $v $c; do
        flags+=" -X $package.gitVersion=v$KUBERNETES_VERSION"
        flags+=" -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES_VERSION")"
        flags+=" -X $package.gitTreeState=clean"
    done
    go_build "$1" write_kubernetes_module "k8s.io/kubernetes/cmd/$1" "$flags"
}

# Prints a kubectl of this machine that is new enough, if there is one.
find_kubectl() {
    local found minor
    found=$(command -v kubectl) || return 1
    minor=$("$found" version --client -o json 2>/dev/null |
        sed -n 's/.*"minor": *"\([0-9]*\).*/\1/p' | head -1)
    [[ -n $minor ]] && ((minor >= KUBECTL_MINOR_MIN)) && printf '%s\n' "$found"
}

# Prints a program that this machine already has and that serves as well as a built one.
find_installed() {
    case $1 in
    kubectl) find_kubectl ;;
    *) return 1 ;;
    esac
}

build() {
    local name=$1
    mkdir -p "$PEERS"
    # Two callers at once build once: the second waits here and then finds the binary.
    exec {lock}>"$PEERS/$name.lock"
    flock "$lock"
    if [[ -x $(file_of "$name") ]]; then
        say "$name is there"
        exec {lock}>&-
        return
    fi
    case $name in
    kube-apiserver | kube-controller-manager | kube-scheduler | kube-proxy | kubelet | kubectl) build_kubernetes "$name" ;;
    # Debian's etcd is 3.4, too old for what this API server asks of it: watches from its cache
    # would wait for progress that never is reported.
    etcd) go_build etcd write_etcd_module go.etcd.io/etcd/server/v3 "" ;;
    helm)
        go_build helm write_helm_module helm.sh/helm/v3/cmd/helm \
            "-X helm.sh/helm/v3/internal/version.version=v$HELM_VERSION"
        ;;
    coredns) go_build coredns write_coredns_module . "" ;;
    helm4)
        go_build helm4 write_helm4_module helm.sh/helm/v4/cmd/helm \
            "-X helm.sh/helm/v4/internal/version.version=v$HELM4_VERSION"
        ;;
    kwok)
        go_build kwok write_kwok_module sigs.k8s.io/kwok/cmd/kwok \
            "-X sigs.k8s.io/kwok/pkg/consts.Version=v$KWOK_VERSION"
        ;;
    esac
    exec {lock}>&-
    say "$name is ready"
}

print_path() {
    local name=$1
    if [[ -x $(file_of "$name") ]]; then
        file_of "$name"
    elif ! find_installed "$name"; then
        build "$name"
        file_of "$name"
    fi
}

check_name() {
    local name
    for name in "${NAMES[@]}"; do
        [[ $name == "$1" ]] && return 0
    done
    die "no peer is called \`$1\`; there are: ${NAMES[*]}"
}

main() {
    local verb=${1:-} name
    case $verb in
    build)
        shift
        [[ $# -gt 0 ]] || usage
        for name in "$@"; do check_name "$name"; done
        for name in "$@"; do build "$name"; done
        ;;
    path)
        [[ $# == 2 ]] || usage
        check_name "$2"
        print_path "$2"
        ;;
    has)
        shift
        for name in "$@"; do
            check_name "$name"
            [[ -x $(file_of "$name") ]] || find_installed "$name" >/dev/null || exit 1
        done
        ;;
    list) printf '%s\n' "${NAMES[@]}" ;;
    *) usage ;;
    esac
}

main "$@"
