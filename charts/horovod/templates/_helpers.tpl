{{/* The name of the chart. */}}
{{- define "horovod.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
The name of the objects. At most 52 characters: Kubernetes adds up to 11 to the name of a StatefulSet in a label.
*/}}
{{- define "horovod.fullname" -}}
{{- $name := include "horovod.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "horovod.labels" -}}
app: {{ include "horovod.name" . | quote }}
chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
release: {{ .Release.Name | quote }}
heritage: {{ .Release.Service | quote }}
{{- end -}}

{{/* Whether ranks are started by ssh; empty if by the agent. */}}
{{- define "horovod.ssh" -}}
{{- if eq .Values.launcher "ssh" }}true{{ end -}}
{{- end -}}

{{- define "horovod.port" -}}
{{- if include "horovod.ssh" . }}{{ .Values.ssh.port | int }}{{ else }}{{ .Values.agent.port | int }}{{ end -}}
{{- end -}}

{{/* How many ranks a host has room for: as many as GPUs, at least one. */}}
{{- define "horovod.slots" -}}
{{- $slots := 0 -}}
{{- range $name, $amount := (.Values.resources | default dict).limits -}}
{{- if hasSuffix "/gpu" $name }}{{ $slots = add $slots ($amount | toString | int) }}{{ end -}}
{{- end -}}
{{- max 1 $slots -}}
{{- end -}}

{{/*
What the hosts of the release share: a private key for ssh, a token for the agent. Made once in a rendering, and only
if the cluster has none of an earlier revision.
*/}}
{{- define "horovod.secret" -}}
{{- if not (hasKey .Values "theSecret") -}}
{{- $live := (lookup "v1" "Secret" .Release.Namespace (include "horovod.fullname" .)) | default dict -}}
{{- $secret := dict -}}
{{- if not (include "horovod.ssh" .) -}}
{{- $_ := set $secret "agent-token" (dig "data" "agent-token" "" $live | default (randAlphaNum 48 | b64enc)) -}}
{{- else if .Values.ssh.useSecrets -}}
{{- /* `|-` cuts the last newline off, and without it ssh does not read a key. */ -}}
{{- $key := .Values.ssh.hostKey | default "" | replace "\r" "" | trim -}}
{{- $_ := set $secret "host-key" (printf "%s\n" $key | b64enc) -}}
{{- $_ := set $secret "host-key-pub" (.Values.ssh.hostKeyPub | default "" | replace "\r" "" | trim | b64enc) -}}
{{- else -}}
{{- $kept := dig "metadata" "annotations" "horovod/generated" "" $live -}}
{{- /* ECDSA: of the kinds that Helm makes and every ssh reads, the one that does not take seconds. */ -}}
{{- $key := ternary (dig "data" "host-key" "" $live) "" (eq $kept "true") -}}
{{- $_ := set $secret "host-key" ($key | default (genPrivateKey "ecdsa" | b64enc)) -}}
{{- $_ := set $secret "host-key-pub" "" -}}
{{- end -}}
{{- $_ := set .Values "theSecret" $secret -}}
{{- end -}}
{{- toYaml .Values.theSecret -}}
{{- end -}}

{{/* A short name for the contents of a text. */}}
{{- define "horovod.digest" -}}
{{- sha256sum . | trunc 8 -}}
{{- end -}}

{{/* A plain value as text. A whole number of a values file would come as 1e+06. */}}
{{- define "horovod.text" -}}
{{- if kindIs "float64" . }}{{ ternary (int64 .) . (eq (floor .) .) }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* The variables of a role (NAME: value) as a list. */}}
{{- define "horovod.env" -}}
{{- $list := list -}}
{{- range $name, $value := . -}}
{{- $list = append $list (dict "name" $name "value" (include "horovod.text" $value)) -}}
{{- end -}}
{{- toYaml $list -}}
{{- end -}}

{{/* The variables that every container of the chart has. */}}
{{- define "horovod.ownEnv" -}}
- name: FULLNAME
  value: {{ include "horovod.fullname" . | quote }}
- name: LAUNCHER
  value: {{ .Values.launcher }}
{{- if include "horovod.ssh" . }}
- name: SSHPORT
  value: {{ .Values.ssh.port | int | quote }}
{{- if .Values.ssh.useSecrets }}
- name: USESECRETS
  value: "true"
{{- end }}
{{- else }}
- name: RONDE_AGENT_PORT
  value: {{ .Values.agent.port | int | quote }}
- name: RONDE_SECRET_FILE
  value: /etc/secret-volume/token
{{- end }}
{{- end -}}

{{/* What a pod says about its place, for both roles. */}}
{{- define "horovod.place" -}}
enableServiceLinks: false
{{- if .Values.useHostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- if .Values.useHostPID }}
hostPID: true
{{- end }}
{{- with .Values.schedulerName | default (ternary "volcano" "" .Values.gang) }}
schedulerName: {{ . | quote }}
{{- end }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "horovod.image" -}}
image: {{ printf "%s:%s" .repository .tag | quote }}
imagePullPolicy: {{ .pullPolicy }}
{{- end -}}

{{- define "horovod.ports" -}}
ports:
  - name: {{ .Values.launcher }}
    containerPort: {{ include "horovod.port" . }}
    {{- if .Values.useHostNetwork }}
    {{- /* The scheduler keeps pods apart that want the same port of a node. */}}
    hostPort: {{ include "horovod.port" . }}
    {{- end }}
{{- end -}}

{{- define "horovod.mounts" -}}
volumeMounts:
  - name: {{ include "horovod.fullname" . }}-cm
    mountPath: /horovod/generated
  - name: {{ include "horovod.fullname" . }}-secret
    mountPath: /etc/secret-volume
    readOnly: true
  {{- if not (include "horovod.ssh" .) }}
  - name: agent
    mountPath: /horovod/agent
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The volumes that both roles have; the first one's items depend on the role. */}}
{{- define "horovod.volumes" -}}
- name: {{ include "horovod.fullname" . }}-secret
  secret:
    secretName: {{ include "horovod.fullname" . | quote }}
    # Users other than root read it too; the copy that ssh uses belongs to them alone.
    defaultMode: 0444
    items:
      {{- if include "horovod.ssh" . }}
      - {key: host-key, path: id_rsa}
      - {key: host-key-pub, path: authorized_keys}
      {{- else }}
      - {key: agent-token, path: token}
      {{- end }}
{{- if not (include "horovod.ssh" .) }}
- name: agent
  emptyDir: {}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Brings the agent into the pod. */}}
{{- define "horovod.installAgent" -}}
- name: install-agent
  {{- include "horovod.image" .Values.agent.image | nindent 2 }}
  command: [{{ .Values.agent.program | quote }}, agent, install, /horovod/agent]
  volumeMounts:
    - name: agent
      mountPath: /horovod/agent
{{- end -}}

{{- define "horovod.gang" -}}
{{- if .Values.gang -}}
scheduling.k8s.io/group-name: {{ include "horovod.fullname" . | quote }}
{{- end -}}
{{- end -}}

{{/*
The name of the Job. What a Job runs cannot be changed: another master is another Job, which takes the place of the
one before. The first has the plain name, so that a rollback meets every name with the contents it stands for.
*/}}
{{- define "horovod.jobName" -}}
{{- $name := include "horovod.fullname" . -}}
{{- $digest := include "horovod.masterDigest" . -}}
{{- $live := (lookup "batch/v1" "Job" .Release.Namespace $name) | default dict -}}
{{- if or .Release.IsInstall (eq $digest (dig "metadata" "annotations" "horovod/template" "" $live)) -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s" $name $digest -}}
{{- end -}}
{{- end -}}

{{/* Whether this very master has finished already. */}}
{{- define "horovod.isDone" -}}
{{- $job := (lookup "batch/v1" "Job" .Release.Namespace (include "horovod.jobName" .)) | default dict -}}
{{- if and .Release.IsUpgrade (eq (include "horovod.masterDigest" .) (dig "metadata" "annotations" "horovod/template" "" $job)) -}}
{{- range dig "status" "conditions" list $job -}}
{{- if and (has .type (list "Complete" "Failed")) (eq .status "True") }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How workers are made. It cannot be changed any more once there are some. */}}
{{- define "horovod.podManagementPolicy" -}}
{{- $live := (lookup "apps/v1" "StatefulSet" .Release.Namespace (include "horovod.fullname" .)) | default dict -}}
{{- dig "spec" "podManagementPolicy" .Values.worker.podManagementPolicy $live -}}
{{- end -}}

{{/* What cannot work is refused before anything is made. */}}
{{- define "horovod.check" -}}
{{- $own := list "FULLNAME" "LAUNCHER" "SSHPORT" "USESECRETS" "RONDE_AGENT_PORT" "RONDE_SECRET_FILE" "WORKER_REVISION" "WAIT_SECONDS" "LAST_ATTEMPT" "POD_IP" -}}
{{- range $role, $env := dict "master" .Values.master.env "worker" .Values.worker.env -}}
{{- range $name, $value := $env -}}
{{- if has $name $own -}}
{{- fail (printf "%s.env sets %s, which the chart sets itself: take another name" $role $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "horovod.ssh" .) .Values.ssh.useSecrets (not (.Values.ssh.hostKey | default "" | trim)) -}}
{{- fail "ssh.useSecrets is true and ssh.hostKey is empty: put a private key there, or let the chart make one with ssh.useSecrets=false" -}}
{{- end -}}
{{- if and (include "horovod.ssh" .) .Values.useHostNetwork (eq (.Values.ssh.port | int) 22) -}}
{{- fail "useHostNetwork is true and ssh.port is 22, where the nodes' own sshd listens: set another ssh.port, as in 32222" -}}
{{- end -}}
{{- $context := .Values.securityContext | default dict -}}
{{- if and (include "horovod.ssh" .) (lt (.Values.ssh.port | int) 1024) (or $context.runAsNonRoot ($context.runAsUser | int)) -}}
{{- fail (printf "ssh.port is %d and the pods do not run as root, who alone may listen there: set ssh.port to 1024 or more" (.Values.ssh.port | int)) -}}
{{- end -}}
{{- if and .Values.gang (ne (include "horovod.podManagementPolicy" .) "Parallel") -}}
{{- fail "gang is true and worker.podManagementPolicy is not Parallel: workers that are made one by one cannot be placed together" -}}
{{- end -}}
{{- end -}}
