#!/usr/bin/env bash
# Tests of the frameworks, each in an environment of its own in a cache outside the checkout.
#
# usage: test-frameworks.sh short | all | seeds | ENVIRONMENT [PYTEST-ARGUMENT...]
#
# `short` is what CI runs; an ENVIRONMENT is one of e2e/environment.sh. Where a framework cannot be installed its tests
# are skipped, with the reason in $RONDE_SKIPS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

which=${1:?"usage: $0 short | all | seeds | ENVIRONMENT [PYTEST-ARGUMENT...]"}
shift
tools/build.sh ${LOCKED:+"$LOCKED"}
PYTHONPATH=$(tools/python-tree.sh debug)
RONDE_HOROVODRUN=$(tools/target-dir.sh)/debug/horovodrun
export PYTHONPATH RONDE_HOROVODRUN OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

# try ENVIRONMENT [PYTEST-ARGUMENT...]: the tests of its framework, and whether type checkers see what it has
try() {
    local environment files=("python/tests/test_${1%%-[0-9]*}.py")
    case $1 in
    jax | tensorflow) files+=(python/tests/test_keras.py) ;;
    keras-torch) files=(python/tests/test_keras.py python/tests/test_torch_{devices,distributed{,_elastic}}.py) ;;
    torch)
        # Newer than what the machine may have: the environment that Keras needs.
        files=(python/tests/test_torch_{devices,distributed{,_elastic}}.py)
        set -- keras-torch "${@:2}"
        ;;
    esac
    if ! environment=$(e2e/environment.sh "$1"); then
        printf 'SKIPPED: %s: %s cannot be installed here\n' "${files[*]}" "$1" | tee -a "${RONDE_SKIPS:-/dev/null}" >&2
        return
    fi
    shift
    "$environment/bin/python" -m pytest -q -p no:cacheprovider "${files[@]}" python/tests/test_{pages,types}.py "$@"
}

# seeds: what users know, with its own scripts, as jobs on a cluster of this machine
seeds() {
    local environment
    environment=$(e2e/environment.sh tensorflow) || return 0
    PATH="$environment/bin:$(dirname "$(e2e/peers.sh path kubectl)"):$(dirname "$(e2e/peers.sh path helm)"):$PATH" \
        RONDE_TEST_PYTHON=$environment/bin/python RONDE_TEST_PYTHONPATH=$PYTHONPATH \
        cargo test ${LOCKED:+"$LOCKED"} -p ronde --test pods -- --nocapture \
        seed_000_tensorflow seed_001_keras seed_002_tensorflow seed_003_tensorflow
}

case $which in
short)
    try tensorflow --deselect python/tests/test_keras.py \
        -k 'at_once_and_in_graphs or any_order or keras_trains or mnist_lm or elastic'
    ;;
all)
    try tensorflow
    try jax
    try mxnet
    try torch
    seeds
    ;;
seeds) seeds ;;
*) try "$which" "$@" ;;
esac
