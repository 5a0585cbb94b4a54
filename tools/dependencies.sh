#!/usr/bin/env bash
# Checks what we depend on: one version of each crate, and licences that we accept.
#
# The rules are those of deny.toml, read from there. cargo-deny checks the same and more; where it
# is installed it runs instead. It is not required, because building it takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if cargo deny --version >/dev/null 2>&1; then
    exec cargo deny --workspace check bans licenses sources
fi

# What every build of the product on this machine contains; tools of the tests may differ.
tree=(cargo tree --workspace --prefix none --edges "normal,build" --no-dedupe --format)

# Prints crates that appear in several versions and are not excused in deny.toml.
unexcused_duplicates() {
    local name version
    "${tree[@]}" '{p}' --duplicates --depth 0 | sed -nE 's/^([a-zA-Z0-9_-]+) v([^ ]+).*/\1 \2/p' | sort -u |
        while read -r name version; do
            grep -qE "crate = \"$name(@[^\"]*)?\"" deny.toml || printf '  %s %s\n' "$name" "$version"
        done
}

# Prints crates whose licence offers no choice that deny.toml accepts.
unaccepted_licences() {
    local accepted crate licence
    accepted=$(sed -nE '/^allow = \[/,/^\]/s/^ *"(.*)",.*/\1/p' deny.toml)
    "${tree[@]}" '{p}|{l}' | sed '/^$/d' | sort -u | while IFS='|' read -r crate licence; do
        is_accepted "$licence" || printf '  %s: %s\n' "${crate%% (*}" "${licence:-none}"
    done
}

# is_accepted EXPRESSION: every part of an AND has an accepted choice of its OR.
is_accepted() {
    local part choice found
    while IFS= read -r part; do
        found=0
        while IFS= read -r choice; do
            grep -qxF "$choice" <<<"$accepted" && found=1
        done < <(sed -E 's/ OR |\//\n/g' <<<"$part" | tr -d '()' | sed 's/^ *//;s/ *$//')
        ((found)) || return 1
    done <<<"${1// AND /$'\n'}"
}

duplicates=$(unexcused_duplicates)
licences=$(unaccepted_licences)
if [[ -n $duplicates ]]; then
    printf 'several versions of one crate (cargo tree -d shows why); agree on one or excuse it in deny.toml:\n%s\n' "$duplicates" >&2
fi
if [[ -n $licences ]]; then
    printf 'licences that deny.toml does not accept:\n%s\n' "$licences" >&2
fi
[[ -z $duplicates && -z $licences ]] && printf 'dependencies: one version each, licences accepted\n'
