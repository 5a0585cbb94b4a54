#!/usr/bin/env bash
# Runs Horovod's own tests of PyTorch and of the launcher, unmodified, against our drop-in.
#
# usage: horovod.sh CHECKOUT [RANKS]
#
# CHECKOUT is a clone of github.com/horovod/horovod; nothing of it is kept here. PYTHON names an interpreter with PyTorch
# (python3 otherwise). What the tests need beside it is put into a cache outside of the checkout. With
# RONDE_TRANSPORT=tcp the ranks do as if each were on a host of its own.
set -euo pipefail
readonly CHECKOUT=${1:?"usage: $0 CHECKOUT [RANKS]"} RANKS=${2:-2}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PYTHON=${PYTHON:-python3}
readonly EXTRAS="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/horovod-tests"
# One test takes seconds; a rank that failed leaves its peers waiting.
readonly PYTEST=("$PYTHON" -m pytest -q -rs -p no:cacheprovider -p without_muon --disable-warnings --timeout 120)

"$PYTHON" -c 'import torch' || {
    printf 'error: %s has no PyTorch\nhint: name one that has in PYTHON\n' "$PYTHON" >&2
    exit 1
}
if [[ ! -d $EXTRAS/psutil ]]; then
    "$PYTHON" -m pip install --quiet --target "$EXTRAS" mock parameterized psutil pytest pytest-timeout >&2
fi
cargo build --quiet -p ronde-python -p ronde
meeting=$(mktemp -d)
trap 'rm -rf "$meeting"' EXIT
result=0
PYTHONPATH=$(tools/python-tree.sh debug):$EXTRAS:$meeting
RONDE_BINARY=$(tools/target-dir.sh)/debug/ronde
export PYTHONPATH RONDE_BINARY OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

# Three tests try every optimizer of PyTorch on a model with a bias; Muon, which is newer than they are, refuses those.
cat >"$meeting/without_muon.py" <<'END'
import torch

if hasattr(torch.optim, "Muon"):
    torch.optim.Muon.__module__ = "none of those that are tried"
END

# parallel FILE: one pytest for each rank; the first one's words, and the others' if they fail.
parallel() {
    local rank ranks=()
    printf '%s, %d ranks\n' "$1" "$RANKS"
    mkdir "$meeting/$1"
    for ((rank = 0; rank < RANKS; rank++)); do
        (
            cd "$CHECKOUT/test/parallel"
            export HOROVOD_RANK=$rank HOROVOD_SIZE=$RANKS RONDE_RENDEZVOUS=$meeting/$1
            export HOROVOD_LOCAL_RANK=$rank HOROVOD_LOCAL_SIZE=$RANKS HOROVOD_CROSS_RANK=0 HOROVOD_CROSS_SIZE=1
            exec "${PYTEST[@]}" "$1" >"$meeting/$1.$rank" 2>&1
        ) &
        ranks+=("$!")
    done
    for ((rank = 0; rank < RANKS; rank++)); do
        if ! wait "${ranks[rank]}"; then
            result=1
            ((rank == 0)) || tail -n 40 "$meeting/$1.$rank"
        fi
    done
    cat "$meeting/$1.0"
}

"$PYTHON" e2e/horovod_names.py "$CHECKOUT" || result=1
for file in test_torch.py test_timeline.py test_common.py; do
    parallel "$file"
done
printf 'test_torch_elastic.py, alone\n'
(cd "$CHECKOUT/test/single" && "${PYTEST[@]}" test_torch_elastic.py) || result=1
# One compares our errors with advice on how to build Horovod, the other wants jsrun, which is not used.
printf 'the launcher, alone\n'
(cd "$CHECKOUT/test/single" && "${PYTEST[@]}" test_run.py test_elastic_run.py test_elastic_discovery.py \
    --deselect test_run.py::RunTests::test_run_controller \
    --deselect test_run.py::RunTests::test_generate_jsrun_rankfile) || result=1
exit "$result"
