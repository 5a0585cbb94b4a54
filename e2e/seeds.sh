#!/usr/bin/env bash
# Runs a command against a cluster of this machine in whose store are stand-ins for the seeds' images; as root.
#
#   seeds.sh RONDE COMMAND...   RONDE is the built program; COMMAND finds the cluster in RONDE_SEEDS_KUBECONFIG
#
# The seeds' texts are in RONDE_SEEDS, by default beside the checkout; without them there is no need of their images. IMAGE
# may name one more archive to load. Four nodes, with room and GPUs for what the seeds ask for. No registry answers: arena
# asks for each image always, and what is stored is used. What was skipped is counted. Everything is stopped and removed
# at the end.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

[[ $# -ge 2 ]] || {
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
RONDE_SEEDS=$(realpath -m "${RONDE_SEEDS:-$HERE/../../shared/seeds}")
ronde=$(realpath "$1")
shift
dir=$(mktemp -d)

of_the_cluster() { HOME=$dir RONDE_DATA_DIR=$dir/data "$ronde" "$@"; }

finish() {
    if of_the_cluster down --delete-data >/dev/null; then
        rm -rf "$dir"
    else
        say "the cluster could not be stopped; it is in $dir"
    fi
}
trap finish EXIT
trap 'exit 130' INT TERM

load() {
    local begin=$SECONDS
    of_the_cluster image load "$1"
    say "loaded in $((SECONDS - begin)) s"
}

mkdir -p "$dir/registries/_default"
printf 'server = "http://127.0.0.1:9"\n' >"$dir/registries/_default/hosts.toml"
of_the_cluster up --detach --listen 127.0.0.1:0 --nodes 4 --cpus 4 --gpus 1 --memory 8Gi --registries "$dir/registries"
if [[ -d $RONDE_SEEDS ]]; then
    RONDE_SEEDS_FRAMEWORK=$("$HERE/seed-images.sh" framework)
    say "the seeds' images train with $RONDE_SEEDS_FRAMEWORK"
    "$HERE/seed-images.sh" save | load -
fi
[[ -z ${IMAGE-} ]] || load "$IMAGE"
of_the_cluster image list
du -sh "$dir/data/images" >&2
export RONDE_SEEDS RONDE_SEEDS_FRAMEWORK RONDE_SEEDS_KUBECONFIG=$dir/.kube/config RONDE_SKIPS=$dir/skips
touch "$RONDE_SKIPS"
"$@"
sort "$RONDE_SKIPS"
printf '%d skipped\n' "$(wc -l <"$RONDE_SKIPS")"
