#!/bin/bash
# A worker: a server that starts ranks when the master asks for it.
set -euo pipefail
source /horovod/generated/ssh.sh
setup_ssh
serve_ssh
