#!/usr/bin/env bash
# Runs a command against a cluster of this machine in whose store are stand-ins for the seeds' images; as root.
#
#   seeds.sh RONDE COMMAND...   RONDE is the built program; COMMAND finds the cluster in RONDE_SEEDS_KUBECONFIG
#
# The seeds' texts are in RONDE_SEEDS, by default beside the checkout; without them they are not typed. IMAGE may name one more
# archive to load. Four nodes, with room and GPUs for what the seeds ask for. A pod sees an image or does not start: nothing
# here is of this machine. Everything is stopped and removed at the end, whatever happens.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

[[ $# -ge 2 ]] || {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
RONDE_SEEDS=$(realpath -m "${RONDE_SEEDS:-$HERE/../../shared/seeds}")
if ! compgen -G "$RONDE_SEEDS/00[0-3]_*.txt" >/dev/null; then
    printf 'SKIPPED: the seeds as printed: their texts are not beside the checkout (RONDE_SEEDS names the folder)\n' |
        tee -a "${RONDE_SKIPS:-/dev/null}" >&2
    exit
fi
ronde=$(realpath "$1")
shift
dir=$(mktemp -d)

of_the_cluster() { HOME=$dir RONDE_DATA_DIR=$dir/data "$ronde" "$@"; }

finish() {
    of_the_cluster down --delete-data >/dev/null 2>&1 || say "\`ronde down\` failed; what is left is in $dir"
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

load() {
    local begin=$SECONDS
    of_the_cluster image load "$1"
    say "loaded in $((SECONDS - begin)) s"
}

of_the_cluster up --detach --listen 127.0.0.1:0 --nodes 4 --cpus 4 --gpus 1 --memory 8Gi --images pull
RONDE_SEEDS_FRAMEWORK=$("$HERE/seed-images.sh" framework)
say "the images train with $RONDE_SEEDS_FRAMEWORK"
"$HERE/seed-images.sh" save | load -
[[ -z ${IMAGE-} ]] || load "$IMAGE"
of_the_cluster image list
du -sh "$dir/data/images" >&2
export RONDE_SEEDS RONDE_SEEDS_FRAMEWORK RONDE_SEEDS_KUBECONFIG=$dir/.kube/config
"$@"
