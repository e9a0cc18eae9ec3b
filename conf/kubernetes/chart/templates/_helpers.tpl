{{- define "hatwisted.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "hatwisted.nameServers" -}}
{{- $service := printf "%s-namesrv" .Release.Name -}}
{{- range $number := until (int .Values.namesrv.replicas) -}}
{{- if $number }};{{ end }}{{ $service }}-{{ $number }}.{{ $service }}:9876
{{- end -}}
{{- end }}

{{/* What the cluster would refuse later, or half of it: a set's name is in a label of its pods, with a hash behind it. */}}
{{- define "hatwisted.checked" -}}
{{- $release := .Release.Name -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $release) -}}
{{- fail (printf "release %s: services are named after it, so it has to begin with a letter and have letters, digits and hyphens only" $release) -}}
{{- end -}}
{{- $seen := dict "namesrv" true -}}
{{- range .Values.groups -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "groups: %s is there already: each needs a name of its own, and namesrv is the name servers'" .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- $longest := printf "%s-%s-master" $release .name -}}
{{- if gt (len $longest) 52 -}}
{{- fail (printf "groups: %s has %d characters, and a set of pods may have 52: shorten the release's name or the group's" $longest (len $longest)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Labels that select: they stay as they are for as long as a set lives. */}}
{{- define "hatwisted.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}, app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* What every pod has. */}}
{{- define "hatwisted.pod" -}}
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* What every container has. */}}
{{- define "hatwisted.locked" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* A broker.conf. root: of the chart, group: one of groups, role: brokerRole. */}}
{{- define "hatwisted.conf" -}}
brokerName={{ .group.name }}
brokerRole={{ .role }}
namesrvAddr={{ include "hatwisted.nameServers" .root }}
storePathRootDir=/var/lib/hatwisted/store
metricsPort=5557
metricsAddress=0.0.0.0
{{- range $key, $value := merge (dict) (.group.config | default dict) (.root.Values.config | default dict) }}
{{- /* Numbers come as floats: 1048576 mustn't become 1.048576e+06. */}}
{{ $key }}={{ if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end }}

{{/* A set of brokers. root: of the chart, group: one of groups, which: master or slave, replicas: how many. */}}
{{- define "hatwisted.brokers" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $name := printf "%s-%s" .root.Release.Name .group.name -}}
{{- $labels := printf "%s, hatwisted/group: %q" (include "hatwisted.labels" .root) .group.name -}}
{{- $storage := merge (dict) (.group.storage | default dict) $values.storage -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}-{{ .which }}
  labels: { {{- $labels }}, app.kubernetes.io/component: {{ .which }}}
spec:
  serviceName: {{ $name }}
{{- if eq .which "master" }}
  # One: a group has one master.
{{- end }}
  replicas: {{ .replicas }}
  # A changed pod comes with the pod's next start: who upgrades decides on the order.
  updateStrategy: {type: OnDelete}
  selector:
    matchLabels: { {{- $labels }}, app.kubernetes.io/component: {{ .which }}}
  template:
    metadata:
      labels: { {{- $labels }}, app.kubernetes.io/component: {{ .which }}}
{{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
{{- end }}
    spec:
{{- include "hatwisted.pod" $root | nindent 6 }}
{{- if $values.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
{{- end }}
      # It waits for its slaves to have the rest, and for a last flush.
      terminationGracePeriodSeconds: 120
      affinity:
        podAntiAffinity:
          # A node that dies mustn't take master and slave along.
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels: { {{- $labels }}}
      containers:
        - name: {{ .which }}
          image: {{ include "hatwisted.image" $root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
{{- if eq .which "master" }}
          args: [hamaster, --conf, /etc/hatwisted/master.conf, --set, brokerIP1=$(NODE_OR_POD_IP), --set, brokerIP2=$(NODE_OR_POD_IP)]
{{- else }}
          # The pods of a set are numbered from 0, slaves from 1.
          command: [/bin/sh, -ec]
          args:
            - >-
              exec twistd -n --pidfile= --logfile=- haslave --conf /etc/hatwisted/slave.conf
              --set brokerId=$(( ${POD_NAME##*-} + 1 ))
              --set brokerIP1="$NODE_OR_POD_IP" --set brokerIP2="$NODE_OR_POD_IP"
{{- end }}
          env:
            - {name: NODE_OR_POD_IP, valueFrom: {fieldRef: {fieldPath: status.{{ ternary "hostIP" "podIP" $values.hostNetwork }}}}}
{{- if eq .which "slave" }}
            - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
{{- end }}
          ports:
            - {name: remoting, containerPort: 10911}
            - {name: vip, containerPort: 10909}
            - {name: ha, containerPort: 10912}
            - {name: metrics, containerPort: 5557}
          # A recovery may take long, and nothing answers meanwhile: an hour.
          startupProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 5, failureThreshold: 720}
          readinessProbe: {httpGet: {path: /readyz, port: metrics}, periodSeconds: 5, timeoutSeconds: 3}
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          resources:
            {{- toYaml (.group.resources | default $values.resources) | nindent 12 }}
{{- include "hatwisted.locked" . | nindent 10 }}
          volumeMounts:
            - {name: data, mountPath: /var/lib/hatwisted}
            - {name: conf, mountPath: /etc/hatwisted}
            - {name: tmp, mountPath: /tmp}
{{- if $values.secret }}
            - {name: secret, mountPath: /etc/hatwisted-secret, readOnly: true}
{{- end }}
      volumes:
        - {name: conf, configMap: {name: {{ $name }}}}
        - {name: tmp, emptyDir: {}}
{{- with $values.secret }}
        - {name: secret, secret: {secretName: {{ . | quote }}, defaultMode: 0440}}
{{- end }}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
{{- with $storage.className }}
        storageClassName: {{ . | quote }}
{{- end }}
        resources: {requests: {storage: {{ $storage.size }}}}
{{- end }}
