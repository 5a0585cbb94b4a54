#!/bin/bash
# A worker: a server that starts ranks when the master asks for it.
set -euo pipefail
# shellcheck source=charts/horovod/files/ssh.sh
source /horovod/generated/ssh.sh
setup_ssh
serve_ssh
