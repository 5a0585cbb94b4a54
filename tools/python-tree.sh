#!/usr/bin/env bash
# Puts the Python packages and the built extension together, without pip; prints the folder for PYTHONPATH.
#
# usage: python-tree.sh debug | release
#
# The extension must have been built before: by `make build`, or for the second by `cargo build --release -p ronde-python`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=${1:?"usage: $0 debug | release"}
target=$(tools/target-dir.sh)
folder=$target/python/$profile
extension=$target/$profile/lib_ronde.so

[[ -f $extension ]] || {
    printf 'error: %s is missing\nhint: run make build\n' "$extension" >&2
    exit 1
}
rm -rf "$folder"
mkdir -p "$folder"
cp -r python/ronde/ronde python/horovod/horovod "$folder"
cp "$extension" "$folder/ronde/_ronde.abi3.so"
printf '%s\n' "$folder"
