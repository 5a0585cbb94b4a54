#!/usr/bin/env bash
# Names everything this machine lacks for a build, each with the command that installs it.
# Says nothing and succeeds when nothing is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=0

# lacks WHAT COMMAND: reports one missing thing.
lacks() {
    printf 'missing: %s\n  install it with: %s\n' "$1" "$2" >&2
    missing=1
}

# Prints the command that installs a package with this machine's package manager.
install_command() {
    local sudo=''
    [[ $(id -u) == 0 ]] || sudo='sudo '
    if command -v apt-get >/dev/null; then
        printf '%sapt-get install -y %s\n' "$sudo" "$1"
    elif command -v dnf >/dev/null; then
        printf '%sdnf install -y %s\n' "$sudo" "$2"
    elif command -v pacman >/dev/null; then
        printf '%spacman -S --needed %s\n' "$sudo" "$3"
    elif command -v apk >/dev/null; then
        printf '%sapk add %s\n' "$sudo" "$4"
    else
        printf 'your package manager (Debian calls it %s)\n' "$1"
    fi
}

# at_least WANTED FOUND: compares versions such as 1.95.
at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -1) == "$1" ]]; }

check_system() {
    [[ $(uname -s) == Linux ]] || lacks "Linux (this is $(uname -s))" 'a Linux machine, a virtual one or a container'
}

check_rust() {
    local wanted found
    wanted=$(sed -nE 's/^rust-version = "(.*)"/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null; then
        lacks "Rust $wanted or newer" "$(install_command rustup rustup rustup rustup) && rustup toolchain install stable"
        return
    fi
    found=$(cargo --version | cut -d' ' -f2)
    at_least "$wanted" "$found" || lacks "Rust $wanted or newer (found $found)" 'rustup update stable'
}

check_c_compiler() {
    # The cryptography library has parts in C and assembler.
    command -v cc >/dev/null ||
        lacks 'a C compiler (cc)' "$(install_command build-essential gcc base-devel build-base)"
}

check_system
check_rust
check_c_compiler
exit "$missing"
