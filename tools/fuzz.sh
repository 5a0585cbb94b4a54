#!/usr/bin/env bash
# Runs every fuzz target for a bounded time: fuzz.sh SECONDS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?seconds for each target}

if ! cargo fuzz --version >/dev/null 2>&1; then
    printf 'missing: cargo-fuzz\n  install it with: cargo install --locked cargo-fuzz\n' >&2
    exit 1
fi
if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    printf 'missing: a nightly toolchain\n  install it with: rustup toolchain install nightly\n' >&2
    exit 1
fi

for target in $(cargo +nightly fuzz list --fuzz-dir fuzz); do
    printf '== %s, %s s\n' "$target" "$seconds"
    # What is found goes beside the seeds, which stay as they are.
    mkdir -p "fuzz/corpus/$target"
    cargo +nightly fuzz run --fuzz-dir fuzz "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout=10 -max_len=8192
done
