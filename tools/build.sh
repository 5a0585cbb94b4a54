#!/usr/bin/env bash
# Builds what developers and scripts run: the `ronde` command, `horovodrun` and the Python extension, unoptimised.
#
# Takes the arguments of cargo. Always all three at once: cargo unites the features of what one command names, so that
# commands with other names compile most dependencies anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec cargo build -p ronde -p ronde-launch -p ronde-python "$@"
