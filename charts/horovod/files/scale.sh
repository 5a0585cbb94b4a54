#!/bin/bash
# Scales the workers to a number, with what the image has: scale.sh NUMBER.
set -euo pipefail

readonly ACCOUNT=/var/run/secrets/kubernetes.io/serviceaccount
readonly TRIES=5
readonly PAUSE_SECONDS=2
readonly BODY="{\"spec\":{\"replicas\":$1}}"
readonly TYPE=application/merge-patch+json
host=$KUBERNETES_SERVICE_HOST
[[ $host != *:* ]] || host="[$host]"
namespace=$(<"$ACCOUNT/namespace")
readonly URL="https://$host:$KUBERNETES_SERVICE_PORT/apis/apps/v1/namespaces/$namespace/statefulsets/$FULLNAME/scale"

scale_with_curl() {
    curl --silent --show-error --fail --max-time 10 --cacert "$ACCOUNT/ca.crt" --output /dev/null \
        --request PATCH --header "Content-Type: $TYPE" --data "$BODY" \
        --config <(printf 'header = "Authorization: Bearer %s"\n' "$(<"$ACCOUNT/token")") "$URL"
}

scale_with_python() {
    python3 - "$URL" "$TYPE" "$BODY" "$ACCOUNT" <<'PYTHON'
import ssl, sys, urllib.request
url, kind, body, account = sys.argv[1:]
headers = {"Content-Type": kind, "Authorization": "Bearer " + open(account + "/token").read()}
request = urllib.request.Request(url, body.encode(), headers, method="PATCH")
urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account + "/ca.crt"), timeout=10)
PYTHON
}

scale() {
    if command -v curl >/dev/null; then
        scale_with_curl
    else
        scale_with_python
    fi
}

command -v curl python3 >/dev/null || {
    echo 'horovod: cannot scale the workers: the image has neither curl nor python3' >&2
    exit 1
}
for ((try = 1; try <= TRIES; try++)); do
    if scale; then
        exit 0
    fi
    sleep "$PAUSE_SECONDS"
done
exit 1
