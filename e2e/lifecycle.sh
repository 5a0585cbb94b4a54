#!/usr/bin/env bash
# The life of the operator's chart on a real control plane, with jobs running all the time: installed over definitions that
# an operator by hand has made, upgraded from an older version, rolled back, upgraded again, uninstalled, installed anew.
# No pod is made anew, no job, queue or definition is lost, and the account is refused nothing.
#
#   lifecycle.sh RONDE [HELM]   RONDE is the built program; HELM is `helm` or `helm4`, by default the first
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/simulated.sh
source "$HERE/simulated.sh"

[[ $# -ge 1 ]] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
ronde=$(realpath "$1")
helm=$("$HERE/peers.sh" path "${2:-helm}")
dir=$(mktemp -d)
trap simulated_down EXIT
trap 'exit 130' INT TERM
# `ronde install` starts what is called helm.
mkdir "$dir/bin"
ln -s "$helm" "$dir/bin/helm"
export PATH="$dir/bin:$PATH"

step() { printf '=== %s\n' "$*"; }

# expect WHAT EXPECTED FOUND
expect() { [[ $2 == "$3" ]] || die "$1: expected \`$2\`, found \`$3\`"; }

# The chart as it was before: another version, and a definition with a column less.
older_chart() {
    cp -r "$HERE/../charts/ronde" "$dir/older"
    sed -i 's/^version: .*/version: 0.0.9/' "$dir/older/Chart.yaml"
    sed -i 's/{"jsonPath":".spec.queue","name":"QUEUE","priority":1,"type":"string"}/{"jsonPath":".spec.queue","name":"OLD","priority":1,"type":"string"}/' \
        "$dir/older/files/definitions.jsonl"
    ! cmp --silent "$dir/older/files/definitions.jsonl" "$HERE/../charts/ronde/files/definitions.jsonl" ||
        die "the older chart is not older"
}

# What must stay the same.
pods() { "$kubectl" get pods --namespace team --sort-by .metadata.name -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}'; }
jobs() { "$kubectl" get vcjob,trainingjob --namespace team -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}'; }
columns() { "$kubectl" get crd jobs.batch.volcano.sh -o jsonpath='{.spec.versions[0].additionalPrinterColumns[*].name}'; }
owner() { "$kubectl" get crd jobs.batch.volcano.sh -o jsonpath='{.metadata.annotations.meta\.helm\.sh/release-name}'; }

check_kept() {
    expect "pods after $1" "$pods_before" "$(pods)"
    expect "jobs after $1" "$jobs_before" "$(jobs)"
    expect "queues after $1" 'default root' "$("$kubectl" get queues -o jsonpath='{.items[*].metadata.name}')"
}

# has_run NAME: a job of one pod begins, which takes an operator that works.
has_run() {
    sed "s/NAME/$1/" "$HERE/lifecycle.yaml" | "$kubectl" apply --namespace later -f - >/dev/null
    "$kubectl" wait --namespace later "vcjob/$1" --for=jsonpath='{.status.state.phase}'=Running --timeout 60s >/dev/null
}

step "by hand"
simulated_up
"$kubectl" create namespace team >/dev/null
"$kubectl" create namespace later >/dev/null
start "$dir" operator "$ronde" operator --kubeconfig "$KUBECONFIG"
wait_until "$dir" operator "$kubectl" get queue default
sed 's/NAME/steady/' "$HERE/lifecycle.yaml" | "$kubectl" apply --namespace team -f - >/dev/null
"$kubectl" apply --namespace team -f "$HERE/../examples/elastic/training-job.yaml" >/dev/null
"$kubectl" wait --namespace team vcjob/steady --for=jsonpath='{.status.state.phase}'=Running --timeout 60s
"$kubectl" wait --namespace team trainingjob --all --for=jsonpath='{.status.phase}'=Running --timeout 60s
stop_operator
pods_before=$(pods) jobs_before=$(jobs)

# Helm 4 applies in the server, where the fields are still those of the operator by hand.
adopt=(--take-ownership)
[[ ${2:-helm} != helm4 ]] || adopt+=(--force-conflicts)

step "installed, over what the operator by hand has made"
older_chart
if "$helm" install ronde "$dir/older" --namespace "$NAMESPACE" --create-namespace >"$dir/refused" 2>&1; then
    die "Helm took what is not its own without being told"
fi
"$helm" upgrade --install ronde "$dir/older" --namespace "$NAMESPACE" --create-namespace "${adopt[@]}" >/dev/null
expect "owner" ronde "$(owner)"
start_operator
has_run installed
check_kept "the installation"

step "upgraded"
"$ronde" install operator
expect "columns" "STATUS minAvailable RUNNINGS AGE QUEUE" "$(columns)"
has_run upgraded
check_kept "the upgrade"

step "rolled back"
"$helm" rollback ronde 1 --namespace "$NAMESPACE"
expect "columns" "STATUS minAvailable RUNNINGS AGE OLD" "$(columns)"
has_run rolled-back
check_kept "the rollback"

step "upgraded again"
"$ronde" install operator
expect "columns" "STATUS minAvailable RUNNINGS AGE QUEUE" "$(columns)"
check_rights

step "uninstalled"
stop_operator
"$ronde" uninstall ronde --namespace "$NAMESPACE"
expect "definitions" "$(find "$HERE/../crates/ronde-api/crds" -name '*.yaml' | wc -l)" "$("$kubectl" get crd -o name | grep -c -e volcano.sh -e kai.alibabacloud.com)"
expect "account" '' "$("$kubectl" get serviceaccount ronde --namespace "$NAMESPACE" --ignore-not-found -o name)"
check_kept "the end of the release"

step "installed anew"
"$ronde" install operator
start_operator
has_run reinstalled
check_kept "the new installation"
"$kubectl" delete vcjob steady --namespace team --timeout 60s
check_rights
step "done"
