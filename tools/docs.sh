#!/usr/bin/env bash
# Builds the documentation site into docs/ of the target folder: plain files with a search that needs no server.
# Zensical is the successor of MkDocs Material by the same authors, and reads its configuration, so there is a way back.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ZENSICAL=0.0.73
environment=${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/python/docs-$ZENSICAL
if ! [[ -x $environment/bin/zensical ]]; then
    printf 'installing Zensical into %s\n' "$environment" >&2
    if ! "${PYTHON:-python3}" -m venv "$environment"; then
        printf 'error: Python cannot create a virtual environment\nhint: apt-get install -y python3-venv\n' >&2
        exit 1
    fi
    "$environment/bin/pip" install --quiet --disable-pip-version-check "zensical==$ZENSICAL"
fi

target=$(tools/target-dir.sh)
rm -rf "$target/docs" "$target/docs-source"
mkdir -p "$target/docs-source"
"$environment/bin/python" tools/docs/stage.py "$target/docs-source"
(cd "$target/docs-source" && "$environment/bin/zensical" build --strict)
mv "$target/docs-source/site" "$target/docs"
"$environment/bin/python" tools/docs/offline.py "$target/docs"
printf 'open %s\n' "$target/docs/index.html"
