#!/usr/bin/env bash
# Prints the first Python that has all of the named modules; fails if there is none.
#
# usage: find-python.sh MODULE...
#
# PYTHON names the one to look at. Else: the one in the PATH, then the system's, which often has what a newer one has not.
set -euo pipefail

for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    path=$(command -v "$candidate") || continue
    if "$path" - "$@" <<<'import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]' 2>/dev/null; then
        printf '%s\n' "$path"
        exit
    fi
done
exit 1
