#!/usr/bin/env bash
# Prints a Python that has Horovod 0.28.1; builds it, in a cache outside the checkout, when missing.
#
# PYTHON names an interpreter with PyTorch 1.13 or another that Horovod can be compiled for (python3 otherwise): its
# headers are needed, a C++ compiler and cmake. Horovod then has PyTorch and Gloo, without MPI and TensorFlow.
set -euo pipefail

readonly PYTHON=${PYTHON:-python3}
readonly FOLDER="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/horovod"

if ! "$FOLDER/bin/python" -c 'import horovod.torch.mpi_lib_v2' >/dev/null 2>&1; then
    "$PYTHON" -c 'import torch' || {
        printf 'error: %s has no PyTorch\nhint: name one that has in PYTHON\n' "$PYTHON" >&2
        exit 1
    }
    printf 'horovod: building 0.28.1 into %s (takes ten minutes and more)\n' "$FOLDER" >&2
    "$PYTHON" -m venv --clear --system-site-packages "$FOLDER"
    "$FOLDER/bin/pip" install --quiet 'setuptools<70' wheel >&2
    export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
    export HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_CPU_OPERATIONS=GLOO
    "$FOLDER/bin/pip" install --quiet --no-build-isolation --no-binary horovod horovod==0.28.1 >&2
fi
printf '%s\n' "$FOLDER/bin/python"
