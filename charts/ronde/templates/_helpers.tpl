{{/* The name of the chart. */}}
{{- define "ronde.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects. At most 50 characters: some of them get a suffix. */}}
{{- define "ronde.fullname" -}}
{{- $name := include "ronde.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ronde.selector" -}}
app.kubernetes.io/name: {{ include "ronde.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "ronde.labels" -}}
{{ include "ronde.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "ronde.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "ronde.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "ronde.fullname" .) -}}
{{- end -}}

{{/* The words after `ronde`. */}}
{{- define "ronde.args" -}}
- operator
- --definitions=check
- --listen=0.0.0.0:{{ .Values.metrics.port }}
{{- range .Values.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
{{- range .Values.topologyLabels }}
- --topology-label={{ . }}
{{- end }}
{{- if .Values.pack }}
- --pack
{{- end }}
{{- if .Values.agent.inject }}
- --agent-image={{ .Values.agent.image | default (include "ronde.image" .) }}
- --agent-program={{ .Values.agent.program }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}
