{{/* The pod of a worker but for its revision, which is what this says. */}}
{{- define "horovod.workerPod" -}}
metadata:
  labels:
    {{- include "horovod.labels" . | nindent 4 }}
    role: worker
    fullname: {{ include "horovod.fullname" . | quote }}
  annotations:
    horovod/scripts: {{ include "horovod.digest" (include "horovod.workerScripts" .) | quote }}
    horovod/secret: {{ include "horovod.digest" (include "horovod.secret" .) | quote }}
    {{- with include "horovod.gang" . }}
    {{- . | nindent 4 }}
    {{- end }}
spec:
  {{- include "horovod.place" . | nindent 2 }}
  {{- if not (include "horovod.ssh" .) }}
  initContainers:
    {{- include "horovod.installAgent" . | nindent 4 }}
  {{- end }}
  containers:
    - name: worker
      {{- include "horovod.image" .Values.worker.image | nindent 6 }}
      {{- if include "horovod.ssh" . }}
      command: [/horovod/generated/run.sh]
      {{- else }}
      command: [/horovod/agent/ronde, agent]
      {{- end }}
      env:
        {{- include "horovod.ownEnv" . | nindent 8 }}
        {{- with .Values.worker.env }}
        {{- include "horovod.env" . | nindent 8 }}
        {{- end }}
      {{- include "horovod.ports" . | nindent 6 }}
      readinessProbe:
        {{- if include "horovod.ssh" . }}
        exec:
          command: [/horovod/generated/check.sh]
        timeoutSeconds: 5
        {{- else }}
        tcpSocket:
          port: {{ include "horovod.port" . }}
        {{- end }}
        initialDelaySeconds: 1
        periodSeconds: 2
      {{- if .Values.worker.privileged }}
      securityContext:
        privileged: true
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- include "horovod.mounts" . | nindent 6 }}
  volumes:
    - name: {{ include "horovod.fullname" . }}-cm
      configMap:
        name: {{ include "horovod.fullname" . | quote }}
        items:
          - {key: hostfile.config, path: hostfile, mode: 0666}
          - {key: ssh.setup, path: ssh.sh, mode: 0555}
          {{- if include "horovod.ssh" . }}
          - {key: ssh.readiness, path: check.sh, mode: 0555}
          - {key: worker.run, path: run.sh, mode: 0555}
          {{- end }}
    {{- include "horovod.volumes" . | nindent 4 }}
{{- end -}}

{{/* Tells the workers of two revisions apart. */}}
{{- define "horovod.workerDigest" -}}
{{- include "horovod.digest" (include "horovod.workerPod" .) -}}
{{- end -}}
