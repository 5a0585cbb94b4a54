#!/usr/bin/env bash
# Runs a command against a cluster that has stand-ins for the seeds' images; as root.
#
#   seeds.sh machine RONDE COMMAND...   on a cluster of this machine, which RONDE runs
#   seeds.sh cluster IMAGE COMMAND...   on the real Kubernetes of cluster.sh, with the operator of the chart from IMAGE
#
# RONDE is the built program, IMAGE the archive of `make image`; COMMAND finds the cluster in RONDE_SEEDS_KUBECONFIG. The seeds' texts are in RONDE_SEEDS, by
# default beside the checkout; without them there is no need of their images. ARCHIVE may name one more archive to load.
# There are room and GPUs for what the seeds ask for. No registry of the world answers: arena asks for each image always,
# and what is stored is used. What was skipped is counted. Everything is stopped and removed at the end.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

[[ $# -ge 3 && $1 =~ ^(machine|cluster)$ ]] || {
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
RONDE_SEEDS=$(realpath -m "${RONDE_SEEDS:-$HERE/../../shared/seeds}")
where=$1
ronde=$(realpath "$2")
image=$ronde
shift 2
dir=$(mktemp -d)

of_the_machine() { HOME=$dir RONDE_DATA_DIR=$dir/data "$ronde" "$@"; }

start_machine() {
    mkdir -p "$dir/registries/_default"
    printf 'server = "http://127.0.0.1:9"\n' >"$dir/registries/_default/hosts.toml"
    of_the_machine up --detach --listen 127.0.0.1:0 --nodes 4 --cpus 4 --gpus 1 --memory 8Gi --registries "$dir/registries"
    RONDE_SEEDS_KUBECONFIG=$dir/.kube/config
}

stop_machine() {
    of_the_machine down --delete-data >/dev/null || die "the cluster could not be stopped; it is in $dir"
}

# load_machine ARCHIVE
load_machine() { of_the_machine image load "$1"; }

start_cluster() {
    RONDE_SEEDS_KUBECONFIG=$KUBECONFIG
    load_cluster "$image"
    "$("$HERE/peers.sh" path helm)" install ronde "$HERE/../charts/ronde" --namespace ronde-system --create-namespace \
        --wait --timeout "${READY_SECONDS}s" >/dev/null || {
        say_operator
        die "the operator is not ready"
    }
}

# The cluster goes as a whole.
stop_cluster() { :; }

say_operator() {
    kubectl get pods --namespace ronde-system >&2
    kubectl logs --namespace ronde-system --selector app.kubernetes.io/name=ronde --prefix --tail 40 >&2 || true
}

# load_cluster ARCHIVE
load_cluster() { "$HERE/cluster.sh" push "$1"; }

finish() {
    "stop_$where"
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

load() {
    local begin=$SECONDS
    "load_$where" "$1"
    say "loaded in $((SECONDS - begin)) s"
}

"start_$where"
if [[ -d $RONDE_SEEDS ]]; then
    RONDE_SEEDS_FRAMEWORK=$("$HERE/seed-images.sh" framework)
    say "the seeds' images train with $RONDE_SEEDS_FRAMEWORK"
    "$HERE/seed-images.sh" save >"$dir/seeds.tar"
    load "$dir/seeds.tar"
    rm "$dir/seeds.tar"
fi
[[ -z ${ARCHIVE-} ]] || load "$ARCHIVE"
export RONDE_SEEDS RONDE_SEEDS_FRAMEWORK RONDE_SEEDS_KUBECONFIG RONDE_SKIPS=$dir/skips
touch "$RONDE_SKIPS"
"$@" || {
    [[ $where == machine ]] || say_operator
    exit 1
}
sort "$RONDE_SKIPS"
printf '%d skipped\n' "$(wc -l <"$RONDE_SKIPS")"
