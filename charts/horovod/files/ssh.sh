# shellcheck shell=bash
# Sets ssh up for the user that the container runs as: one key pair for the release, a client that knows its hosts, and
# a server. Sourced by the other scripts.

readonly SECRETS=/etc/secret-volume

say() { printf 'horovod: %s\n' "$*" >&2; }

die() {
    say "$@"
    exit 1
}

# Prints the folder that ssh reads, whatever HOME says.
ssh_folder() {
    local home
    home=$(getent passwd "$(id -u)" | cut -d : -f 6)
    [[ -n $home ]] || die "user $(id -u) is not in /etc/passwd of the image, where ssh looks for it"
    printf '%s/.ssh\n' "$home"
}

# What a container has in its environment, ranks that are started by ssh have too, but for what ssh says itself.
write_environment() {
    local name value
    while IFS='=' read -r -d '' name value; do
        case $name in
        _ | HOME | HOSTNAME | LOGNAME | MAIL | OLDPWD | PWD | SHELL | SHLVL | SSH_* | TERM | USER) ;;
        *) [[ $value == *$'\n'* ]] || printf '%s=%s\n' "$name" "$value" ;;
        esac
    done < <(env -0)
}

setup_ssh() {
    local dir public
    dir=$(ssh_folder)
    umask 077
    if ! mkdir -p "$dir" || ! rm -f "$dir"/{id_rsa,authorized_keys,known_hosts,config,environment} || ! cp "$SECRETS/id_rsa" "$dir/"; then
        die "cannot write to $dir: the user of the image needs a home of its own"
    fi
    chmod 600 "$dir/id_rsa"
    public=$(ssh-keygen -y -P '' -f "$dir/id_rsa") ||
        die "ssh cannot read the private key: is ssh.hostKey whole, and without a passphrase?"
    { cat "$SECRETS/authorized_keys" && printf '\n%s\n' "$public"; } >"$dir/authorized_keys"
    # The servers show the same key, so that clients know them.
    printf '* %s\n' "$public" >"$dir/known_hosts"
    cat >"$dir/config" <<CONFIG
Host localhost $FULLNAME-master $FULLNAME-master.* $FULLNAME-*.$FULLNAME $FULLNAME-*.$FULLNAME.*
  Port $SSHPORT
  IdentityFile $dir/id_rsa
  UserKnownHostsFile $dir/known_hosts
  StrictHostKeyChecking yes
  LogLevel ERROR
CONFIG
    write_environment >"$dir/environment"
}

# Becomes the server. What the image says about sshd holds but for what is given here; the port, too, is given here,
# because a `Port` line of the image may be there, commented out, or missing, and so are the addresses, because a
# `ListenAddress` with a port of its own would count for more.
serve_ssh() {
    local dir program config=/etc/ssh/sshd_config addresses=(-o ListenAddress=0.0.0.0)
    dir=$(ssh_folder)
    program=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd) ||
        die "there is no sshd in the image; with \`launcher: agent\` none is needed"
    [[ -r $config ]] || config=/dev/null
    if ((EUID == 0)); then
        mkdir -p /run/sshd /var/run/sshd
    elif ((SSHPORT < 1024)); then
        say "user $EUID may not listen on port $SSHPORT on most clusters: set ssh.port to 1024 or more"
    fi
    if (exec 3<>"/dev/tcp/127.0.0.1/$SSHPORT") 2>/dev/null; then
        die "port $SSHPORT is taken on $(hostname): set another ssh.port"
    fi
    if grep -qs . /proc/net/if_inet6; then
        addresses+=(-o ListenAddress=::)
    fi
    exec "$program" -D -e -f "$config" -p "$SSHPORT" "${addresses[@]}" -h "$dir/id_rsa" -o PidFile=none -o StrictModes=no \
        -o UsePAM=no -o PermitRootLogin=yes -o PubkeyAuthentication=yes -o "AuthorizedKeysFile=$dir/authorized_keys" \
        -o PermitUserEnvironment=yes -o LogLevel=ERROR
}
