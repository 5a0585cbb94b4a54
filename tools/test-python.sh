#!/usr/bin/env bash
# The quick tests of the Python packages, on the extension of the debug build; `make test-python` runs all, on wheels.
#
# Takes the arguments of cargo. PYTHON names the interpreter. One without pytest, NumPy or cloudpickle skips them, with
# the reason in $RONDE_SKIPS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
    printf 'SKIPPED: python/tests: %s\n' "$1" | tee -a "${RONDE_SKIPS:-/dev/null}" >&2
    exit 0
}

python=$(tools/find-python.sh pytest numpy cloudpickle) || skip 'no python3 with pytest, numpy and cloudpickle'

tools/build.sh "$@"
PYTHONPATH=$(tools/python-tree.sh debug)
built=$(tools/target-dir.sh)/debug
export PYTHONPATH OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export RONDE_HOROVODRUN=$built/horovodrun RONDE_BINARY=$built/ronde
# Trainings with PyTorch take their time: those are for `make test-python`.
exec "$python" -m pytest -q -p no:cacheprovider python/tests/test_{basics,data,frameworks,numpy,report,start,elastic,launch,runner}.py \
    -k 'not digits_are_learned and not no_sample_is_lost'
