#!/usr/bin/env bash
# Tests of TensorFlow and Keras, in an environment in a cache outside the checkout.
#
# usage: test-frameworks.sh short | all [CARGO-ARGUMENT...]
#
# Where TensorFlow cannot be installed they are skipped, with the reason in $RONDE_SKIPS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

which=${1:?"usage: $0 short | all"}
shift
if ! environment=$(e2e/tensorflow.sh); then
    printf 'SKIPPED: python/tests/test_tensorflow.py: TensorFlow cannot be installed here\n' |
        tee -a "${RONDE_SKIPS:-/dev/null}" >&2
    exit 0
fi
cargo build -p ronde-python -p ronde-launch "$@"
PYTHONPATH=$(tools/python-tree.sh debug)
RONDE_HOROVODRUN=$(tools/target-dir.sh)/debug/horovodrun
export PYTHONPATH RONDE_HOROVODRUN OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
tests=()
[[ $which == all ]] || tests=(-k 'at_once_and_in_graphs or any_order or keras_trains or mnist_lm or elastic')
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_tensorflow.py "${tests[@]}"
