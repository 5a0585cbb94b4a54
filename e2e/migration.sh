#!/usr/bin/env bash
# Takes the jobs of Volcano and of et-operator over while they run, and gives them back, as docs/migration.md says, on a real
# control plane with simulated nodes. The other side is played by objects in the shape that its controllers write. No pod is
# made anew, on the way there and on the way back.
#
#   migration.sh RONDE   RONDE is the built program
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/simulated.sh
source "$HERE/simulated.sh"

[[ $# == 1 ]] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
ronde=$(realpath "$1")
dir=$(mktemp -d)
trap simulated_down EXIT
trap 'exit 130' INT TERM
mkdir "$dir/bin"
ln -s "$("$HERE/peers.sh" path helm)" "$dir/bin/helm"
ln -s "$ronde" "$dir/bin/ronde"
export PATH="$dir/bin:$PATH"

step() { printf '=== %s\n' "$*"; }

# expect WHAT EXPECTED FOUND
expect() { [[ $2 == "$3" ]] || die "$1: expected \`$2\`, found \`$3\`"; }

# refused WORDS: the installation is refused with a sentence that has these words.
refused() {
    if ronde install operator >"$dir/refused" 2>&1; then die "not refused: $1"; fi
    grep --quiet "$1" "$dir/refused" || die "refused, but not because \`$1\`: $(<"$dir/refused")"
}

now() { date --utc +%Y-%m-%dT%H:%M:%SZ; }
uid() { kubectl get "$1" "$2" --namespace team -o jsonpath='{.metadata.uid}'; }
pods() { kubectl get pods --namespace team --sort-by .metadata.name -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}'; }
phases() { kubectl get pods --namespace team -o jsonpath='{.items[*].status.phase}' | xargs -n 1 | sort -u; }

# status RESOURCE JSON: what a controller has noted of an object.
status() { kubectl patch "$1" --namespace team --subresource status --type merge --patch "{\"status\": $2}" >/dev/null; }

# The definitions are there as from another release, and nothing says that they are Ronde's.
play_the_others() {
    local definition
    kubectl apply --server-side -f "$HERE/../crates/ronde-api/crds" >/dev/null
    for definition in $(kubectl get crd -o name); do
        kubectl wait --for=condition=Established "$definition" >/dev/null
        kubectl annotate "$definition" meta.helm.sh/release-name=volcano meta.helm.sh/release-namespace=volcano-system >/dev/null
    done
    kubectl apply -f "$HERE/migration/peers.yaml" >/dev/null
    kubectl create namespace team >/dev/null
    kubectl apply -f "$HERE/migration/owners.yaml" >/dev/null
    sed -e "s/JOB/$(uid vcjob resnet)/" -e "s/ELASTIC/$(uid trainingjob elastic)/" "$HERE/migration/objects.yaml" |
        kubectl apply -f - >/dev/null
    kubectl wait --namespace team pods --all --for=jsonpath='{.status.phase}'=Running --timeout 60s >/dev/null
    status vcjob/resnet "{\"state\": {\"phase\": \"Running\", \"lastTransitionTime\": \"$(now)\"}, \"minAvailable\": 2,
        \"running\": 2, \"version\": 0, \"taskStatusCount\": {\"worker\": {\"phase\": {\"Running\": 2}}},
        \"controlledResources\": {\"plugin-env\": \"env\", \"plugin-svc\": \"svc\"},
        \"conditions\": [{\"status\": \"Pending\", \"lastTransitionTime\": \"$(now)\"}, {\"status\": \"Running\", \"lastTransitionTime\": \"$(now)\"}]}"
    status trainingjob/elastic "{\"phase\": \"Running\", \"startTime\": \"$(now)\", \"restartCount\": 0, \"currentScaler\": \"\",
        \"replicaStatuses\": {\"Launcher\": {\"active\": 1}, \"Worker\": {\"active\": 2}},
        \"targetWorkers\": [\"elastic-worker-0\", \"elastic-worker-1\"], \"currentWorkers\": [\"elastic-worker-0\", \"elastic-worker-1\"],
        \"conditions\": [$(condition Created), $(condition WorkersCreated), $(condition WorkersReady), $(condition LauncherCreated), $(condition Running)]}"
}

condition() { printf '{"type": "%s", "status": "True", "reason": "TrainingJob%s", "message": "", "lastUpdateTime": "%s", "lastTransitionTime": "%s"}' "$1" "$1" "$(now)" "$(now)"; }

# The operator has looked at both jobs: it remembers something of each that the other side does not know.
is_taken() {
    [[ $(kubectl get vcjob resnet --namespace team -o jsonpath='{.status.controlledResources}') == *ronde.applied* ]] &&
        [[ $(kubectl get secret elastic --namespace team -o jsonpath='{.data}') == *agent* ]]
}

step "Volcano and et-operator at work"
simulated_up
play_the_others
before=$(pods)

step "refused while they are"
refused "is at work here, and both would run the same jobs"
kubectl scale deployment --namespace volcano-system --all --replicas=0
refused "et-operator is at work here"
kubectl scale deployment --namespace kube-ai et-operator --replicas=0
refused "Volcano's admission is asked about every new pod"
kubectl delete mutatingwebhookconfiguration volcano-admission-service-jobs-mutate
refused "is there already, and is not Ronde's"

step "taken over"
ronde install operator --take-over volcano,et-operator
start_operator
wait_until "$dir" operator is_taken
expect "pods" "$before" "$(pods)"
expect "phases" Running "$(phases)"
check_rights

step "at work: a pod that is deleted comes back, alone"
kubectl delete pod resnet-worker-1 --namespace team --wait=false
old=$(grep -o 'resnet-worker-1=[^ ]*' <<<"$before")
is_back() { [[ $(pods) != *"$old"* && $(pods | wc -w) == 5 && $(phases) == Running ]]; }
wait_until "$dir" operator is_back
expect "the others" "${before//"$old "/}" "$(pods | sed 's/resnet-worker-1=[^ ]* //')"

step "given back"
before=$(pods)
stop_operator
ronde uninstall ronde --namespace ronde-system
# From docs/migration.md.
kubectl get pods --all-namespaces -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.name} {.metadata.finalizers}{"\n"}{end}' |
    grep ronde.dev/ | while read -r namespace name _; do
    kubectl patch pod --namespace "$namespace" "$name" --type merge --patch '{"metadata":{"finalizers":null}}'
done
kubectl get queues -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.finalizers}{"\n"}{end}' |
    grep ronde.dev/ | while read -r name _; do
    kubectl patch queue "$name" --type merge --patch '{"metadata":{"finalizers":null}}'
done
expect "pods" "$before" "$(pods)"
expect "what is left of Ronde" '' "$(kubectl get pods,queues --all-namespaces -o jsonpath='{.items[*].metadata.finalizers}')"
expect "job" "Running 2" "$(kubectl get vcjob resnet --namespace team -o jsonpath='{.status.state.phase} {.status.running}')"
expect "group" Running "$(kubectl get podgroup "resnet-$(uid vcjob resnet)" --namespace team -o jsonpath='{.status.phase}')"
expect "training job" Running "$(kubectl get trainingjob elastic --namespace team -o jsonpath='{.status.phase}')"
kubectl scale deployment --namespace volcano-system --all --replicas=1
kubectl scale deployment --namespace kube-ai et-operator --replicas=1
step "done"
