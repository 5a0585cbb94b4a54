#!/usr/bin/env bash
# Installs a built ronde, and horovodrun and kubectl's plugin, which are the same program, and says how the shell finds and
# completes them.
#
# usage: install.sh RONDE PREFIX
set -euo pipefail

program=${1:?"usage: $0 RONDE PREFIX"}
# A tilde that the shell has left as it is.
prefix=${2/#\~/$HOME}
bin=$prefix/bin

install -D -m 755 "$program" "$bin/ronde"
ln -sf ronde "$bin/horovodrun"
# kubectl looks for `kubectl ronde` under this name.
ln -sf ronde "$bin/kubectl-ronde"
printf 'installed ronde, horovodrun and kubectl-ronde in %s\n' "$bin"

# shellcheck disable=SC2016 # The hint is for the user's shell.
case :$PATH: in
*":$bin:"*) ;;
*) printf 'hint: add it to your PATH: export PATH="%s:$PATH"\n' "$bin" ;;
esac
case ${SHELL-} in
*/zsh) printf 'hint: complete commands with Tab: echo '\''source <(ronde completion zsh)'\'' >> ~/.zshrc\n' ;;
*/fish) printf 'hint: complete commands with Tab: ronde completion fish > ~/.config/fish/completions/ronde.fish\n' ;;
*) printf 'hint: complete commands with Tab: echo '\''source <(ronde completion bash)'\'' >> ~/.bashrc\n' ;;
esac
printf 'try: ronde demo\n'
