{{- define "horovod.accountName" -}}
{{- .Values.serviceAccountName | default (ternary (include "horovod.fullname" .) "" .Values.releaseWorkers) -}}
{{- end -}}

{{/* Kubernetes counts restarts, and gives up when there were as many as the limit. */}}
{{- define "horovod.lastAttempt" -}}
- name: LAST_ATTEMPT
  value: {{ max 1 (.Values.master.backoffLimit | int) | quote }}
{{- end -}}

{{/* The pod of the master. */}}
{{- define "horovod.masterPod" -}}
metadata:
  labels:
    app: {{ include "horovod.name" . | quote }}
    release: {{ .Release.Name | quote }}
    role: master
  annotations:
    kubectl.kubernetes.io/default-container: horovod-master
    horovod/scripts: {{ include "horovod.digest" (printf "%s\n%s" (include "horovod.workerScripts" .) (include "horovod.masterScripts" .)) | quote }}
    horovod/hostfile: {{ include "horovod.digest" (include "horovod.hostfile" .) | quote }}
    horovod/secret: {{ include "horovod.digest" (include "horovod.secret" .) | quote }}
    {{- with include "horovod.gang" . }}
    {{- . | nindent 4 }}
    {{- end }}
spec:
  restartPolicy: OnFailure
  {{- include "horovod.place" . | nindent 2 }}
  {{- if not .Values.useHostNetwork }}
  # The first name in the host list.
  hostname: {{ include "horovod.fullname" . }}-master
  {{- end }}
  {{- with include "horovod.accountName" . }}
  serviceAccountName: {{ . | quote }}
  {{- end }}
  initContainers:
    {{- if not (include "horovod.ssh" .) }}
    {{- include "horovod.installAgent" . | nindent 4 }}
    {{- end }}
    - name: wait-workers
      {{- include "horovod.image" .Values.master.image | nindent 6 }}
      command: [/horovod/generated/waitWorkersReady.sh]
      env:
        {{- include "horovod.ownEnv" . | nindent 8 }}
        - name: WORKER_REVISION
          value: {{ include "horovod.workerDigest" . | quote }}
        - name: WAIT_SECONDS
          value: {{ .Values.master.waitSeconds | int | quote }}
        {{- include "horovod.lastAttempt" . | nindent 8 }}
        {{- with .Values.master.env }}
        {{- include "horovod.env" . | nindent 8 }}
        {{- end }}
      {{- include "horovod.mounts" . | nindent 6 }}
        - name: state
          mountPath: /horovod/state
  containers:
    - name: horovod-master
      {{- include "horovod.image" .Values.master.image | nindent 6 }}
      command: [/horovod/generated/run.sh]
      env:
        {{- include "horovod.ownEnv" . | nindent 8 }}
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        {{- include "horovod.lastAttempt" . | nindent 8 }}
        {{- with .Values.master.env }}
        {{- include "horovod.env" . | nindent 8 }}
        {{- end }}
      {{- include "horovod.ports" . | nindent 6 }}
      {{- if .Values.master.privileged }}
      securityContext:
        privileged: true
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- include "horovod.mounts" . | nindent 6 }}
        - name: state
          mountPath: /horovod/state
  volumes:
    - name: {{ include "horovod.fullname" . }}-cm
      configMap:
        name: {{ include "horovod.fullname" . | quote }}
        items:
          - {key: hostfile.config, path: hostfile, mode: 0666}
          - {key: ssh.setup, path: ssh.sh, mode: 0555}
          - {key: master.waitWorkerReady, path: waitWorkersReady.sh, mode: 0555}
          - {key: master.run, path: run.sh, mode: 0555}
          - {key: master.end, path: end.sh, mode: 0555}
          - {key: master.command, path: command, mode: 0444}
          {{- if .Values.releaseWorkers }}
          - {key: master.scale, path: scale.sh, mode: 0555}
          {{- end }}
    {{- include "horovod.volumes" . | nindent 4 }}
    - name: state
      emptyDir: {}
{{- end -}}

{{/* Tells two masters apart. */}}
{{- define "horovod.masterDigest" -}}
{{- include "horovod.digest" (include "horovod.masterPod" .) -}}
{{- end -}}
