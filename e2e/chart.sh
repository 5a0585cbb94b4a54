#!/usr/bin/env bash
# Tests the Horovod chart on this machine, as `make e2e-chart` does, with our wheels in an environment of their own. What
# `make test` would skip for want of a program or a package is a failure here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment=$(tools/python.sh environment)
PATH="$environment/bin:$(dirname "$(e2e/peers.sh path kubectl)"):$(dirname "$(e2e/peers.sh path helm)"):$PATH"
RONDE_TEST_PYTHON=$environment/bin/python
RONDE_TEST_PYTHONPATH=$("$RONDE_TEST_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
RONDE_SKIPS=$(mktemp)
export PATH RONDE_TEST_PYTHON RONDE_TEST_PYTHONPATH RONDE_SKIPS
trap 'rm -f "$RONDE_SKIPS"' EXIT

cargo test -p ronde --test chart "$@"
# The scenarios beside the first are for real control planes: `make e2e` runs them. TensorFlow is for `make e2e-frameworks`.
cargo test -p ronde --test pods "$@" -- horovod_chart seed_001 scenarios::chart --skip scenarios::chart_ --skip seed_001_keras --nocapture
if [[ -s $RONDE_SKIPS ]]; then
    sort "$RONDE_SKIPS" >&2
    printf 'error: not all tests of the chart could run on this machine\n' >&2
    exit 1
fi
