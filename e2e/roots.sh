# shellcheck shell=bash
# Root filesystems of Debian, and archives of images as `docker save` writes them. Read by the other scripts of this
# folder, not run; they have `say` and `die`.

readonly SUITE=bookworm

# The first mirror that apt uses here.
mirror() {
    local found
    found=${MIRROR:-$(sed -nE 's/^URIs: *(\S+)$/\1/p; s/^deb (\[[^]]*\] )?(\S+) .*/\2/p' \
        /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -1)}
    [[ -n $found ]] || die "no mirror of Debian is known here: set MIRROR"
    printf '%s\n' "$found"
}

check() {
    ((EUID == 0)) || die "only root can make a root filesystem"
    command -v debootstrap >/dev/null || die "\`debootstrap\` is missing: apt-get install debootstrap"
}

# bootstrap DIR PACKAGE...: Debian with these packages, and `python`.
bootstrap() {
    local dir=$1
    shift
    say "bootstraps $SUITE from $(mirror) (minutes)"
    debootstrap --variant=minbase "$SUITE" "$dir" "$(mirror)" >&2
    # No daemon starts while packages are configured.
    printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
    chmod 755 "$dir/usr/sbin/policy-rc.d"
    DEBIAN_FRONTEND=noninteractive chroot "$dir" apt-get install -y -qq --no-install-recommends "$@" >&2
    rm -rf "$dir"/var/lib/apt/lists/* "$dir"/var/cache/apt/archives/*.deb "$dir"/etc/ssh/ssh_host_* "$dir/usr/sbin/policy-rc.d"
    ln -s python3 "$dir/usr/bin/python"
}

# install_wheels DIR: what `make wheel` built, with the pip that is there.
install_wheels() {
    local dir=$1 wheels
    mapfile -t wheels < <(compgen -G "$ROOT/python/dist/*.whl")
    if ((${#wheels[@]} == 0)); then
        say "without our wheels: \`make wheel\` builds them"
        return
    fi
    mkdir "$dir/tmp/wheels"
    cp "${wheels[@]}" "$dir/tmp/wheels/"
    chroot "$dir" sh -c 'pip install --quiet --break-system-packages --no-deps --root-user-action ignore /tmp/wheels/*.whl' >&2
    rm -r "$dir/tmp/wheels"
}

# add_image DIR NAME CONFIG LAYER...: one more image of the archive that is prepared in DIR, where the layers are files;
# CONFIG is what the image says about running it.
add_image() {
    local dir=$1 name=$2 config=$3 file layer digests=() layers
    shift 3
    file=config-$(sha256sum <<<"$name" | cut -c 1-12).json
    for layer in "$@"; do
        digests+=("\"sha256:$(digest "$dir/$layer")\"")
    done
    printf '{"architecture": "%s", "os": "linux", "config": %s, "rootfs": {"type": "layers", "diff_ids": [%s]}}\n' \
        "$(dpkg --print-architecture)" "$config" "$(list "${digests[@]}")" >"$dir/$file"
    mapfile -t layers < <(printf '"%s"\n' "$@")
    printf '{"Config": "%s", "RepoTags": ["%s"], "Layers": [%s]}\n' "$file" "$name" "$(list "${layers[@]}")" >>"$dir/images"
}

# digest FILE: its SHA-256, which is kept beside it.
digest() {
    local file
    file=$(realpath "$1")
    [[ $file.digest -nt $file ]] || sha256sum "$file" | cut -d ' ' -f 1 >"$file.digest"
    cat "$file.digest"
}

# save DIR: writes the archive that was prepared in DIR, with what symbolic links in it lead to, to stdout.
save() {
    local images
    mapfile -t images <"$1/images"
    printf '[%s]\n' "$(list "${images[@]}")" >"$1/manifest.json"
    (cd "$1" && tar --dereference -cf - manifest.json config-*.json ./*.tar --transform 's,^\./,,')
}

list() {
    local IFS=,
    printf '%s' "$*"
}
