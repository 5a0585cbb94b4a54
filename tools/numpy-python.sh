#!/usr/bin/env bash
# Prints a Python that has NumPy; if this machine has none, makes one in a cache outside the checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if tools/find-python.sh numpy; then
    exit
fi
environment=${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/python/numpy
if ! [[ -x $environment/bin/pip ]] && ! "${PYTHON:-python3}" -m venv "$environment"; then
    printf 'error: Python cannot make a virtual environment\nhint: apt-get install -y python3-venv, or python3-numpy\n' >&2
    exit 1
fi
printf 'bringing NumPy into %s\n' "$environment" >&2
"$environment/bin/pip" install --quiet --disable-pip-version-check numpy
PYTHON=$environment/bin/python tools/find-python.sh numpy
