{{/* The files of the ConfigMap, by who depends on them: a change of the host list does not restart a worker. */}}

{{- define "horovod.hostfile" -}}
{{- $name := include "horovod.fullname" . -}}
{{- $slots := include "horovod.slots" . -}}
hostfile.config: |
  {{ $name }}-master slots={{ $slots }}
  {{- range $index := until (.Values.worker.number | int) }}
  {{ $name }}-{{ $index }}.{{ $name }} slots={{ $slots }}
  {{- end }}
{{- end -}}

{{- define "horovod.workerScripts" -}}
ssh.setup: |
  {{- .Files.Get "files/ssh.sh" | trim | nindent 2 }}
{{- if include "horovod.ssh" . }}
worker.run: |
  {{- .Files.Get "files/worker.sh" | trim | nindent 2 }}
ssh.readiness: |
  {{- .Files.Get "files/check.sh" | trim | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "horovod.masterScripts" -}}
master.run: |
  {{- .Files.Get "files/master.sh" | trim | nindent 2 }}
master.waitWorkerReady: |
  {{- .Files.Get "files/wait.sh" | trim | nindent 2 }}
master.end: |
  {{- .Files.Get "files/end.sh" | trim | nindent 2 }}
master.command: {{ include "horovod.command" . | toJson }}
{{- if .Values.releaseWorkers }}
master.scale: |
  {{- .Files.Get "files/scale.sh" | trim | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The command of the master as one text. */}}
{{- define "horovod.command" -}}
{{- if kindIs "slice" .Values.master.args -}}
{{- $words := list -}}
{{- range .Values.master.args }}{{ $words = append $words (include "horovod.text" .) }}{{ end -}}
{{- join " " $words | default "sleep infinity" -}}
{{- else if kindIs "string" .Values.master.args -}}
{{- .Values.master.args | default "sleep infinity" -}}
{{- else -}}
sleep infinity
{{- end -}}
{{- end -}}
