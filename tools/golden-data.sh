#!/usr/bin/env bash
# Writes the golden data directory that tests open with every later version: a store with the objects of objects.yaml, and
# the resourceVersion of each. Run it when the format of the store changes, with the last program that wrote the old
# one, into a folder of its own.
#
# usage: tools/golden-data.sh PROGRAM FOLDER     (FOLDER has objects.yaml: crates/ronde/tests/cli/golden)
set -euo pipefail

readonly PROGRAM="${1:?usage: tools/golden-data.sh PROGRAM FOLDER}" FOLDER="${2:?a folder}"

data="$(mktemp -d)"
trap '"$PROGRAM" down --quiet --data-dir "$data/data" || true; rm -rf "$data"' EXIT
"$PROGRAM" up --detach --quiet --nodes 0 --listen 127.0.0.1:0 --data-dir "$data/data" --kubeconfig "$data/kubeconfig"
"$PROGRAM" apply --quiet --kubeconfig "$data/kubeconfig" -f "$FOLDER/objects.yaml" >/dev/null
for object in configmap/settings secret/password deployment/web boat/golden; do
    "$PROGRAM" get --kubeconfig "$data/kubeconfig" -n team-a "$object" -o json |
        sed -n "s|.*\"resourceVersion\": \"\([0-9]*\)\".*|$object \1|p"
done >"$FOLDER/versions.txt"
"$PROGRAM" down --quiet --data-dir "$data/data"
cp "$data/data/store.redb" "$data/data/format" "$FOLDER/"
