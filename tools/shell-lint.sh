#!/usr/bin/env bash
# Checks our shell scripts: by bash itself, and by shellcheck where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t scripts < <(grep -lE '^#!/usr/bin/env bash' tools/*.sh e2e/*.sh .ci/run)
for script in "${scripts[@]}"; do
    bash -n "$script"
    [[ -x $script ]] || {
        printf 'error: %s is not executable\n' "$script" >&2
        exit 1
    }
done
# These run in containers, out of a ConfigMap.
scripts+=(charts/*/files/*.sh)
for script in charts/*/files/*.sh; do
    bash -n "$script"
done
if command -v shellcheck >/dev/null; then
    shellcheck --external-sources "${scripts[@]}"
else
    printf 'shell scripts: parsed only; shellcheck is not installed\n'
fi
