#!/usr/bin/env bash
# Runs PyTorch's own tests for any backend of torch.distributed, from its wheel, against ours, and lists what does not
# pass, and why. Fails if there is a failure that no rule explains.
#
# usage: torch.sh [PYTEST-ARGUMENT...]
#
# PyTorch, and what the tests need, is brought into a cache outside of the checkout. The list, and what tests say, is
# kept in torch in the folder of builds. RANKS is how many ranks there are, by default 3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly RANKS=${RANKS:-3} CACHE="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}"
readonly EXTRAS=$CACHE/torch-tests
# Of a test; a rank that failed leaves its peers waiting.
readonly TIMEOUT_SECONDS=180

tools/build.sh --quiet
tree=$(tools/python-tree.sh debug)
environment=$(e2e/environment.sh keras-torch)
python=$environment/bin/python
if [[ ! -d $EXTRAS/expecttest ]]; then
    "$python" -m pip install --quiet --target "$EXTRAS" expecttest pytest-timeout >&2
fi
results=$(tools/target-dir.sh)/torch
meeting=$(mktemp -d)
trap 'rm -rf "$meeting"' EXIT
rm -rf "$results"
mkdir -p "$results/distributed_test" "$meeting"/{barrier,test_dir,init_dir}
export PYTHONPATH=$tree:$PWD/e2e:$EXTRAS OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES=-1
export WORLD_SIZE=$RANKS TEMP_DIR=$meeting MASTER_ADDR=127.0.0.1

# rank NUMBER [PYTEST-ARGUMENT...]: the pytest of a rank
rank() {
    local code=0 number=$1
    shift
    RANK=$number LOCAL_RANK=$number "$python" -m pytest -q -p no:cacheprovider -p torch_results --disable-warnings \
        --timeout "$TIMEOUT_SECONDS" --results "$results/distributed_test/$number.notes" "$@" e2e/torch_backend.py \
        >"$results/distributed_test/$number.log" 2>&1 || code=$?
    # 1: tests failed, which is noted.
    if ((code > 1)); then
        printf 'rank %s ended with %d\tfailed\tunknown\n' "$number" "$code" \
            >>"$results/distributed_test/$number.notes"
    fi
}

for ((number = 0; number < RANKS; number++)); do
    rank "$number" "$@" &
done
wait
tail -n 1 "$results/distributed_test/0.log"
printf 'list: %s\n' "$results/list.txt"
exec "$python" e2e/torch_results.py update "$results/list.txt" "$results"
