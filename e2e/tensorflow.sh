#!/usr/bin/env bash
# Prints the folder of a Python environment with TensorFlow and what its tests need; makes it, in a cache outside the checkout, when missing.
set -euo pipefail

readonly FOLDER="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/tensorflow"

if ! "$FOLDER/bin/python" -c 'import tensorflow, sklearn, pytest, cloudpickle' >/dev/null 2>&1; then
    printf 'tensorflow: installing tensorflow-cpu into %s (about 700 MB)\n' "$FOLDER" >&2
    python3 -m venv --clear "$FOLDER"
    "$FOLDER/bin/pip" install --quiet tensorflow-cpu scikit-learn pytest cloudpickle >&2
fi
printf '%s\n' "$FOLDER"
