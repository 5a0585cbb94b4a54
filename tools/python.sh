#!/usr/bin/env bash
# Builds the Python wheels and tests them, in a virtual environment outside the checkout.
#
# usage: python.sh wheel | test [pytest arguments] | environment
#
# `environment` installs the wheels and prints where the environment is.
#
# The wheel brings the `ronde` program, linked statically in a release so that it runs wherever the wheel can be installed.
# WHEEL_PROFILE is how both are built: release for `wheel`, dev, which takes less time, for the others. RONDE_BINARY names
# a program that is there already.
#
# PYTHON names the interpreter; the environment sees its packages, so that PyTorch and scikit-learn are found if they
# are installed there: without PYTHON one that has them is taken if there is one. What is not installed is skipped by the
# tests, with the reason. The wheels are also installed, without a compiler, for each Python from 3.9 on that is found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-$(tools/find-python.sh torch sklearn || command -v python3)}
cache=${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/python
# Two Pythons of one version are not the same: one may have PyTorch.
name=$("$python" -c 'import sys, zlib; print("%d.%d-%08x" % (*sys.version_info[:2], zlib.crc32(sys.prefix.encode())))')
environment=$cache/venv-$name
dist=$PWD/python/dist

prepare() {
    [[ -f $environment/is-ready ]] && return
    rm -rf "$environment"
    "$python" -m venv --system-site-packages "$environment"
    # An interpreter that is of a virtual environment itself hands on nothing but its base.
    "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(echo "$environment"/lib/python3.*/site-packages)/outer.pth"
    "$environment/bin/pip" install --quiet 'maturin>=1.9,<2' 'setuptools>=61' wheel pytest numpy cloudpickle mypy
    touch "$environment/is-ready"
}

# program PROFILE: puts the ronde program where the wheel takes it from, without what only a debugger needs.
program() {
    local built=${RONDE_BINARY-}
    if [[ -z $built ]]; then
        if [[ $1 == dev ]]; then
            tools/build.sh
            built=$(tools/target-dir.sh)/debug/ronde
        else
            make static STATIC_PROFILE="$1"
            built=$(tools/target-dir.sh)/static/ronde
        fi
    fi
    strip -o python/ronde/ronde.data/scripts/ronde "$built"
}

# wheel PROFILE
wheel() {
    rm -rf "$dist"
    program "$1"
    (cd python/ronde && "$environment/bin/maturin" build --profile "$1" --out "$dist")
    "$environment/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$dist" python/horovod
    printf 'wheels:\n'
    printf '  %s\n' "$dist"/*.whl
}

install_wheels() { "$environment/bin/pip" install --quiet --no-deps --force-reinstall "$dist"/*.whl; }

# pythons: every version that is found, in the PATH or put there by pyenv, one of each.
pythons() {
    local minor each
    for minor in 9 10 11 12 13 14; do
        for each in "$(command -v "python3.$minor" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
            # A shim of pyenv is there also for versions that are not chosen, and needs pyenv; so the interpreter says.
            if [[ -x $each ]] && "$each" -c 'import ensurepip, venv, sys; print(sys.executable)' 2>/dev/null; then break; fi
        done
    done
}

run_tests() {
    install_wheels
    RONDE_WHEELS=$dist RONDE_PYTHONS=$(pythons)
    export RONDE_WHEELS RONDE_PYTHONS
    # The program that the wheel has brought, and no other.
    env -u RONDE_BINARY "$environment/bin/python" -m pytest -rs "$@" python/tests
}

prepare
case ${1-} in
wheel) wheel "${WHEEL_PROFILE:-release}" ;;
test)
    shift
    wheel "${WHEEL_PROFILE:-dev}"
    run_tests "$@"
    ;;
environment)
    { wheel "${WHEEL_PROFILE:-dev}" && install_wheels; } >&2
    printf '%s\n' "$environment"
    ;;
*)
    printf 'usage: %s wheel | test [pytest arguments] | environment\n' "$0" >&2
    exit 2
    ;;
esac
