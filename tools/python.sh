#!/usr/bin/env bash
# Builds the Python wheels and tests them, in a virtual environment outside the checkout.
#
# usage: python.sh wheel | test [pytest arguments] | environment
#
# `environment` installs the wheels and prints where the environment is.
#
# The wheel brings the `ronde` program: a release build for `wheel`, a debug build, which takes less time, for `test`.
# RONDE_BINARY names one that is there already.
#
# PYTHON names the interpreter; the environment sees its packages, so that PyTorch and scikit-learn are found if
# they are installed there. What is not installed is skipped by the tests, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
cache=${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/python
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
environment=$cache/venv-$version
dist=$PWD/python/dist

prepare() {
    [[ -x $environment/bin/maturin && -x $environment/bin/pip ]] && return
    "$python" -m venv --system-site-packages "$environment"
    "$environment/bin/pip" install --quiet 'maturin>=1.9,<2' 'setuptools>=61' wheel pytest numpy cloudpickle
}

# program PROFILE: puts the ronde program where the wheel takes it from, without what only a debugger needs.
program() {
    local built=${RONDE_BINARY-}
    if [[ -z $built ]]; then
        if [[ $1 == release ]]; then cargo build --release -p ronde; else cargo build -p ronde; fi
        built=$(tools/target-dir.sh)/$1/ronde
    fi
    strip -o python/ronde/ronde.data/scripts/ronde "$built"
}

# wheel PROFILE
wheel() {
    rm -rf "$dist"
    program "$1"
    (cd python/ronde && "$environment/bin/maturin" build --release --out "$dist")
    "$environment/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$dist" python/horovod
    printf 'wheels:\n'
    printf '  %s\n' "$dist"/*.whl
}

install_wheels() { "$environment/bin/pip" install --quiet --no-deps --force-reinstall "$dist"/*.whl; }

run_tests() {
    install_wheels
    # The program that the wheel has brought, and no other.
    env -u RONDE_BINARY "$environment/bin/python" -m pytest -rs "$@" python/tests
}

prepare
case ${1-} in
wheel) wheel release ;;
test)
    shift
    wheel debug
    run_tests "$@"
    ;;
environment)
    { wheel debug && install_wheels; } >&2
    printf '%s\n' "$environment"
    ;;
*)
    printf 'usage: %s wheel | test [pytest arguments] | environment\n' "$0" >&2
    exit 2
    ;;
esac
