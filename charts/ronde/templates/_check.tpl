{{/*
Refuses what two operators would fight over. `lookup` finds nothing in a dry run and for `helm template`: then nothing is
refused, and nothing is installed.
*/}}
{{- define "ronde.check" -}}
{{- include "ronde.checkRunning" . -}}
{{- include "ronde.checkOwners" . -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.service.enabled" -}}
{{- end -}}
{{- end -}}

{{/* Another one that is at work: then it does not help to say whose the definitions are. */}}
{{- define "ronde.checkRunning" -}}
{{- range (lookup "apps/v1" "Deployment" "" "").items -}}
{{- $app := dig "labels" "app" "" .metadata -}}
{{- $peer := ternary "Volcano" "" (has $app (list "volcano-admission" "volcano-controller" "volcano-scheduler")) -}}
{{- $peer = ternary "et-operator" $peer (or (eq .metadata.name "et-operator") (eq $app "et-operator")) -}}
{{- if and $peer (gt (int .spec.replicas) 0) -}}
{{- fail (printf "%s is at work here, and both would run the same jobs. Stop it first: kubectl scale --namespace %s deployment %s --replicas=0" $peer .metadata.namespace .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- range $kind := list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" -}}
{{- range (lookup "admissionregistration.k8s.io/v1" $kind "" "").items -}}
{{- if has true (include "ronde.isVolcanos" . | fromYamlArray) -}}
{{- fail (printf "Volcano's admission is asked about every new pod here, and nobody answers for it once Volcano is gone. Delete it first: kubectl delete %s %s" (lower $kind) .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether each webhook of a configuration is Volcano's. */}}
{{- define "ronde.isVolcanos" -}}
{{- range .webhooks }}
- {{ hasSuffix ".volcano.sh" .name }}
{{- end }}
{{- end -}}

{{/* Definitions that are in the cluster and not ours. */}}
{{- define "ronde.checkOwners" -}}
{{- if .Values.crds.install -}}
{{- range .Files.Lines "files/definitions.jsonl" -}}
{{- if . -}}
{{- $name := (fromJson .).metadata.name -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- $peer := ternary "et-operator" "volcano" (hasSuffix ".kai.alibabacloud.com" $name) -}}
{{- $isOurs := dig "metadata" "annotations" "ronde.dev/digest" "" $found -}}
{{- if and $found (not $isOurs) (not (has $peer $.Values.takeOver)) -}}
{{- fail (printf "%s is there already, and is not Ronde's. If Ronde is to own it from now on, set takeOver={%s} and add --take-ownership; if another one keeps it up to date, set crds.install=false" $name $peer) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
