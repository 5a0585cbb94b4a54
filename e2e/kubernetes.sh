#!/usr/bin/env bash
# Runs a real Kubernetes control plane on the loopback interface, for comparison with ours.
#
#   kubernetes.sh up DIR [PORT]   starts etcd, kube-apiserver and kube-controller-manager
#   kubernetes.sh down DIR        stops them; the data stays
#   kubernetes.sh restart DIR NAME SIGNAL   ends one of them, or what another script has started in DIR, and starts it again
#   kubernetes.sh env DIR         prints the shell line that points kubectl at it
#
# DIR receives data, logs, certificates and `kubeconfig`. PORT is the API server's (default: a free
# one). RONDE_CONTROLLERS replaces the list of controllers (`none`: not one), RONDE_MORE_CONTROLLERS adds to it; there
# are no workload controllers in it, so that nothing but the test writes objects. RONDE_NODES names the nodes that will
# have a kubeconfig, and RONDE_ADDRESS is where they reach the API server. RONDE_APISERVER_OPTIONS are more options of the
# API server. Every process is stopped by its recorded id.
set -euo pipefail

readonly SERVICE_RANGE=10.96.0.0/16
readonly SERVICE_IP=10.96.0.1
readonly LOOPBACK=127.0.0.1
# Where the API server listens, and what kubeconfigs say.
readonly ADDRESS=${RONDE_ADDRESS:-$LOOPBACK}
readonly CONTROLLERS=${RONDE_CONTROLLERS:-garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,persistentvolumeclaim-protection-controller,persistentvolume-protection-controller}${RONDE_MORE_CONTROLLERS:+,$RONDE_MORE_CONTROLLERS}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"

usage() {
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

make_certificates() {
    local pki=$1
    mkdir -p "$pki"
    [[ -f $pki/server.crt ]] && return
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=ronde-test-ca \
        -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
    # The server shows the same certificate to the kubelet, as a client.
    openssl req -newkey rsa:2048 -nodes -subj /CN=kube-apiserver \
        -keyout "$pki/server.key" -out "$pki/server.csr" 2>/dev/null
    openssl x509 -req -in "$pki/server.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial \
        -days 3650 -out "$pki/server.crt" 2>/dev/null -extfile <(
            printf 'subjectAltName=IP:%s,IP:%s,DNS:localhost,DNS:kubernetes.default.svc\n' "$ADDRESS" "$SERVICE_IP"
            printf 'extendedKeyUsage=serverAuth,clientAuth\n'
        )
    openssl genrsa -out "$pki/serviceaccount.key" 2048 2>/dev/null
}

# write_kubeconfig FILE DIR PORT USER
write_kubeconfig() {
    cat >"$1" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: real
  cluster:
    server: https://$ADDRESS:$3
    certificate-authority-data: $(base64 -w0 <"$2/pki/ca.crt")
users:
- name: $4
  user:
    token: $(token_of "$2" "$4")
contexts:
- name: real
  context: {cluster: real, user: "$4"}
current-context: real
YAML
    chmod 600 "$1"
}

get() { curl --silent --fail --max-time 5 "$@"; }

start_etcd() {
    local dir=$1 client=$2 peer=$3
    start "$dir" etcd "$("$HERE/peers.sh" path etcd)" --name default --data-dir "$dir/etcd" \
        --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "default=http://127.0.0.1:$peer" --force-new-cluster
    wait_until "$dir" etcd get "http://127.0.0.1:$client/health"
}

start_apiserver() {
    local dir=$1 port=$2 etcd=$3 token=$4 endpoints=lease
    # Kubernetes allows no service to lead to loopback.
    [[ $ADDRESS != "$LOOPBACK" ]] || endpoints=none
    start "$dir" kube-apiserver "$("$HERE/peers.sh" path kube-apiserver)" \
        --etcd-servers "http://127.0.0.1:$etcd" --bind-address "$ADDRESS" --secure-port "$port" \
        --advertise-address "$ADDRESS" --endpoint-reconciler-type "$endpoints" \
        --service-cluster-ip-range "$SERVICE_RANGE" --authorization-mode RBAC,Node --allow-privileged \
        --token-auth-file "$dir/tokens.csv" --client-ca-file "$dir/pki/ca.crt" \
        --tls-cert-file "$dir/pki/server.crt" --tls-private-key-file "$dir/pki/server.key" \
        --service-account-issuer https://kubernetes.default.svc \
        --service-account-key-file "$dir/pki/serviceaccount.key" \
        --service-account-signing-key-file "$dir/pki/serviceaccount.key" \
        --kubelet-preferred-address-types InternalIP \
        --kubelet-client-certificate "$dir/pki/server.crt" --kubelet-client-key "$dir/pki/server.key" \
        "${@:5}"
    wait_until "$dir" kube-apiserver get --cacert "$dir/pki/ca.crt" -H "Authorization: Bearer $token" \
        "https://$ADDRESS:$port/readyz"
}

start_controllers() {
    local dir=$1 port=$2
    start "$dir" kube-controller-manager "$("$HERE/peers.sh" path kube-controller-manager)" \
        --kubeconfig "$dir/controllers.kubeconfig" --bind-address 127.0.0.1 --secure-port "$port" \
        --leader-elect=false --use-service-account-credentials=false --controllers "$CONTROLLERS" \
        --root-ca-file "$dir/pki/ca.crt" \
        --service-account-private-key-file "$dir/pki/serviceaccount.key"
    wait_until "$dir" kube-controller-manager curl --silent --fail --insecure --max-time 5 \
        "https://127.0.0.1:$port/healthz"
}

random_token() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# Tokens stay the same when the server is started again. The third word is what the user's kubeconfig is called.
make_tokens() (
    [[ -f $1 ]] && return
    umask 077
    {
        printf '%s,admin,admin,"system:masters"\n' "$(random_token)"
        printf '%s,system:kube-controller-manager,controllers,"system:masters"\n' "$(random_token)"
        printf '%s,system:kube-scheduler,scheduler,"system:masters"\n' "$(random_token)"
        printf '%s,system:kube-proxy,proxy\n' "$(random_token)"
        printf '%s,system:coredns,dns,"system:masters"\n' "$(random_token)"
        for node in ${RONDE_NODES-}; do printf '%s,system:node:%s,%s,"system:nodes"\n' "$(random_token)" "$node" "$node"; done
    } >"$1"
)

# token_of DIR USER
token_of() { sed -n "s/,$2,.*//p" "$1/tokens.csv"; }

up() {
    local dir=$1 port=${2:-} etcd user name more
    is_running "$dir/kube-apiserver.pid" && {
        say "already running in $dir"
        return
    }
    mkdir -p "$dir"
    chmod 700 "$dir"
    dir=$(cd "$dir" && pwd)
    make_certificates "$dir/pki"
    port=${port:-$(free_port)}
    etcd=$(free_port)
    make_tokens "$dir/tokens.csv"
    write_kubeconfig "$dir/kubeconfig" "$dir" "$port" admin
    while IFS=, read -r _ user name _; do
        write_kubeconfig "$dir/$name.kubeconfig" "$dir" "$port" "$user"
    done <"$dir/tokens.csv"
    start_etcd "$dir" "$etcd" "$(free_port)"
    read -ra more <<<"${RONDE_APISERVER_OPTIONS:-}"
    start_apiserver "$dir" "$port" "$etcd" "$(token_of "$dir" admin)" "${more[@]}"
    [[ $CONTROLLERS == none ]] || start_controllers "$dir" "$(free_port)"
    say "up: KUBECONFIG=$dir/kubeconfig"
}

down() {
    stop "$1" kube-controller-manager
    stop "$1" kube-apiserver
    stop "$1" etcd
}

main() {
    [[ $# -ge 2 ]] || usage
    case $1 in
    up) up "$2" "${3:-}" ;;
    down) down "$2" ;;
    restart) restart "$2" "${3:?NAME}" "${4:?SIGNAL}" ;;
    env) printf 'export KUBECONFIG=%q\n' "$(cd "$2" && pwd)/kubeconfig" ;;
    *) usage ;;
    esac
}

main "$@"
