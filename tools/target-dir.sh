#!/usr/bin/env bash
# Prints where cargo puts what it builds: users move it by variables and configuration files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
