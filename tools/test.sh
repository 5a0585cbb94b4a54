#!/usr/bin/env bash
# Runs all tests, then lists and counts those that could not run on this machine.
#
# A test skips itself through `ronde_sim::skip`, which appends a line to $RONDE_SKIPS. With
# RONDE_REQUIRE_PROGRAMS=1 (CI) a test that was skipped for want of kubectl or helm is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skips=$(mktemp)
trap 'rm -f "$skips"' EXIT
export RONDE_SKIPS=$skips
# kubectl and helm as `make e2e-tools` built them, if it did.
export PATH="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/peers/bin:$PATH"

# What pods that train are given: a Python with NumPy, and our package beside it.
if RONDE_TEST_PYTHON=$(tools/find-python.sh numpy cloudpickle); then
    tools/build.sh "$@"
    RONDE_TEST_PYTHONPATH=$(tools/python-tree.sh debug)
    export RONDE_TEST_PYTHON RONDE_TEST_PYTHONPATH
fi

result=0
cargo test --workspace --no-fail-fast "$@" || result=$?
tools/test-python.sh "$@" || result=$?

count=$(wc -l <"$skips")
if ((count > 0)); then
    printf '\nskipped on this machine:\n'
    sort "$skips" | sed 's/^SKIPPED: /  /'
fi
printf '\n%d skipped\n' "$count"

if [[ ${RONDE_REQUIRE_PROGRAMS:-0} == 1 ]] && grep -qE '(kubectl|helm4?). is not installed' "$skips"; then
    printf 'error: kubectl or helm is missing, and RONDE_REQUIRE_PROGRAMS is set\n' >&2
    ((result)) || result=1
fi
exit "$result"
