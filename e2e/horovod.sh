#!/usr/bin/env bash
# Runs Horovod's own tests, unmodified, against our drop-in, and compares what does not pass with horovod-expected.txt.
#
# usage: horovod.sh [--update] CHECKOUT [FRAMEWORK[:FILE]...]
#
# CHECKOUT is a clone of github.com/horovod/horovod; nothing of it is kept here. A FRAMEWORK is torch or tensorflow, a
# FILE one of its tests, as in parallel/test_tensorflow.py; without any, all are run. --update writes the list anew.
# PYTHON names an interpreter with PyTorch; TensorFlow, and what the tests need, is brought into a cache outside of the
# checkout. What tests say is kept in horovod in the folder of builds. RANKS is how many ranks there are, by default 2.
# With RONDE_TRANSPORT=tcp each is as if on a host of its own.
set -euo pipefail

how=check
if [[ ${1:-} == --update ]]; then
    how=update
    shift
fi
CHECKOUT=$(realpath "${1:?"usage: $0 [--update] CHECKOUT [FRAMEWORK[:FILE]...]"}")
readonly CHECKOUT RANKS=${RANKS:-2}
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly CACHE="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}"
readonly PACKAGES=(mock pytest pytest-timeout parameterized psutil cloudpickle packaging pyyaml)

# What is run; `keras-2/` before a file means the Keras of old. The other elastic tests need TensorFlow 1.
files() {
    case $1 in
    torch)
        echo {parallel/test_torch,parallel/test_timeline,parallel/test_common,single/test_torch_elastic}.py \
            single/{test_run,test_elastic_run,test_elastic_discovery}.py integration/test_elastic_torch.py
        ;;
    tensorflow)
        echo keras-2/parallel/test_tensorflow{,2_keras,2_keras_process_sets}.py \
            parallel/test_{tensorflow2_keras,tensorflow2_keras_process_sets,tensorflow_keras,keras}.py \
            parallel/test_{tensorflow_process_sets,tensorflow_process_sets_dynamic,process_sets_static}.py \
            parallel/test_{adasum_tensorflow,xla,xla_process_sets}.py \
            keras-2/integration/test_elastic_tensorflow2.py
        ;;
    esac
}

# The interpreter of a framework.
interpreter() {
    case $1 in
    torch) tools/find-python.sh torch ;;
    tensorflow) printf '%s/bin/python\n' "$(e2e/environment.sh tensorflow)" ;;
    *) false ;;
    esac
}

# prepare FRAMEWORK: brings what its tests need; sets python and PYTHONPATH
prepare() {
    local extras=$CACHE/horovod-tests-$1
    python=$(interpreter "$1") || {
        printf 'error: no Python with %s\nhint: name one that has it in PYTHON\n' "$1" >&2
        exit 1
    }
    if [[ ! -d $extras/parameterized ]]; then
        "$python" -m pip install --quiet --target "$extras" "${PACKAGES[@]}" >&2
    fi
    export PYTHONPATH=$tree:$PWD/e2e:$extras:$CHECKOUT/test/utils
    # Tests start `python`.
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$meeting/bin/python"
}

# rank FOLDER FILE RANK: the pytest of a rank
rank() {
    export HOROVOD_RANK=$3 HOROVOD_LOCAL_RANK=$3 HOROVOD_SIZE=$RANKS HOROVOD_LOCAL_SIZE=$RANKS
    export HOROVOD_CROSS_RANK=0 HOROVOD_CROSS_SIZE=1 RONDE_RENDEZVOUS=$meeting/ring-${1##*/}
    mkdir -p "$RONDE_RENDEZVOUS"
    alone "$@"
}

# alone FOLDER FILE NAME: a pytest; notes what its tests come to, and if it dies itself
alone() {
    local code=0 plugins=(-p no:cacheprovider -p horovod_results)
    # Tests of the launcher are about the very names that the others find replaced.
    [[ $2 == single/* ]] || plugins+=(-p horovod_surroundings)
    cd "$CHECKOUT/test/$(dirname "$2")"
    "$python" -m pytest -q "${plugins[@]}" --disable-warnings --timeout "$TIMEOUT_SECONDS" --results "$1/$3.notes" \
        "$(basename "$2")" >"$1/$3.log" 2>&1 || code=$?
    # 1: tests failed, 2: a file could not be read; both are noted.
    if ((code > 2)); then
        printf 'rank %s ended with %d\tfailed\tunknown\n' "$3" "$code" >>"$1/$3.notes"
    fi
}

# run FILE: its tests, by as many ranks as they need
run() {
    local number folder=$results/${1//\//,} file=${1#keras-2/}
    mkdir -p "$folder"
    unset TF_USE_LEGACY_KERAS
    if [[ $file != "$1" ]]; then
        export TF_USE_LEGACY_KERAS=1
    fi
    if [[ $file == parallel/* ]]; then
        for ((number = 0; number < RANKS; number++)); do
            rank "$folder" "$file" "$number" &
        done
        wait
    else
        (alone "$folder" "$file" 0)
    fi
    printf '%s: %s\n' "$1" "$(tail -n 1 "$folder/0.log")"
}

tools/build.sh --quiet
RONDE_HOROVODRUN=$(tools/target-dir.sh)/debug/horovodrun RONDE_BINARY=$(tools/target-dir.sh)/debug/ronde
tree=$(tools/python-tree.sh debug)
meeting=$(mktemp -d)
trap 'rm -rf "$meeting"' EXIT
results=$(tools/target-dir.sh)/horovod
rm -rf "$results"
mkdir -p "$meeting/bin" "$results"
printf '#!/bin/sh\n' >"$meeting/bin/python"
chmod +x "$meeting/bin/python"
# A rank that failed leaves its peers waiting; an elastic job takes a minute.
readonly TIMEOUT_SECONDS=300
export RONDE_HOROVODRUN RONDE_BINARY PATH="$meeting/bin:$PATH" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

result=0
(($# > 0)) || set -- torch tensorflow
for what; do
    framework=${what%%:*}
    prepare "$framework"
    if [[ $what == *:* ]]; then
        run "${what#*:}"
        continue
    fi
    "$python" e2e/horovod_names.py "$CHECKOUT" "$framework" || result=1
    for file in $(files "$framework"); do
        run "$file"
    done
done
"$python" e2e/horovod_results.py "$how" e2e/horovod-expected.txt "$results" || result=1
exit "$result"
