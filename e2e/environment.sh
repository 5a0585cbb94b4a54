#!/usr/bin/env bash
# Prints the folder of a Python environment with a framework and what its tests need; makes it, in a cache outside the
# checkout, when missing.
#
# usage: environment.sh tensorflow | tensorflow-VERSION | jax | jax-VERSION | mxnet | keras-torch
set -euo pipefail

readonly NAME=${1:?"usage: $0 tensorflow | tensorflow-VERSION | jax | jax-VERSION | mxnet | keras-torch"}
readonly FOLDER="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/$NAME"

case $NAME in
tensorflow) modules=tensorflow,tf_keras packages=(tensorflow-cpu) ;;
tensorflow-*) modules=tensorflow packages=("tensorflow-cpu==${NAME#*-}.*") ;;
jax) modules=jax,optax,keras packages=(jax optax keras) ;;
jax-*) modules=jax,optax packages=("jax==${NAME#*-}" "jaxlib==${NAME#*-}" optax) ;;
mxnet) modules=mxnet packages=(mxnet==1.9.1 numpy==1.23.5) ;;
keras-torch) modules=keras,torch packages=(keras torch lightning accelerate) ;;
*)
    printf 'error: there is no environment %s\n' "$NAME" >&2
    exit 2
    ;;
esac

# Not imported: Keras wants to know its backend first, and TensorFlow takes seconds.
is_there='import importlib.util as i, sys; sys.exit(any(i.find_spec(name) is None for name in sys.argv[1].split(",")))'
if ! "$FOLDER/bin/python" -c "$is_there" "$modules,sklearn,pytest,cloudpickle" >/dev/null 2>&1; then
    printf 'environment: installing %s into %s\n' "${packages[*]}" "$FOLDER" >&2
    python3 -m venv --clear "$FOLDER"
    "$FOLDER/bin/pip" install --quiet "${packages[@]}" scikit-learn pytest cloudpickle mypy >&2
    if [[ $NAME == tensorflow ]]; then
        # Keras 2, for TF_USE_LEGACY_KERAS; what it depends on is a TensorFlow with CUDA.
        "$FOLDER/bin/pip" install --quiet --no-deps tf_keras >&2
    fi
fi
printf '%s\n' "$FOLDER"
