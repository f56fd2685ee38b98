{{/* What the values change in an object, in place. `state.deleted` says that it is left out. */}}
{{- define "antiphon.adapt" -}}
{{- $kind := .object.kind }}
{{- if has $kind (list "Deployment" "StatefulSet") }}{{ include "antiphon.adaptWorkload" . }}{{ end }}
{{- if eq $kind "HorizontalPodAutoscaler" }}{{ include "antiphon.adaptAutoscaler" . }}{{ end }}
{{- if eq $kind "ScaledObject" }}{{ include "antiphon.adaptScaledObject" . }}{{ end }}
{{- if eq $kind "HTTPRoute" }}
{{- $_ := set .object.spec "parentRefs" (list (dict "name" .root.Values.gateway.name)) }}
{{- $_ := set .object.spec "hostnames" (list .root.Values.gateway.host) }}
{{- end }}
{{- if eq $kind "Ingress" }}
{{- $ingress := .root.Values.ingress }}
{{- $_ := set .object.spec "ingressClassName" $ingress.className }}
{{- $_ := set .object.spec "tls" (list (dict "hosts" (list $ingress.host) "secretName" $ingress.tlsSecret)) }}
{{- $_ := set (index .object.spec.rules 0) "host" $ingress.host }}
{{- end }}
{{- if eq $kind "PersistentVolumeClaim" }}
{{- $_ := set .object.spec "accessModes" (list .root.Values.models.accessMode) }}
{{- $_ := set .object.spec.resources.requests "storage" .root.Values.models.size }}
{{- end }}
{{- end }}

{{- define "antiphon.adaptWorkload" -}}
{{- $name := .object.metadata.name }}
{{- $values := index .root.Values $name }}
{{- $template := .object.spec.template }}
{{- $container := index $template.spec.containers 0 }}
{{- $image := .root.Values.image }}
{{- $tag := $image.tag | default .root.Chart.AppVersion }}
{{- $_ := set $template.metadata.labels "app.kubernetes.io/part-of" "antiphon" }}
{{- $_ := set $template.metadata "annotations" (dict "checksum/settings" (get .sums $name)) }}
{{- $_ := set $container "image" (printf "%s/%s:%s" $image.registry $container.image $tag) }}
{{- with $values.resources }}{{ $_ := set $container "resources" (mergeOverwrite $container.resources .) }}{{ end }}
{{- if not (include "antiphon.isScaled" (dict "root" .root "name" $name)) }}
{{- $_ := set .object.spec "replicas" $values.replicas }}
{{- end }}
{{- if and .root.Values.spreadOverNodes $template.spec.topologySpreadConstraints }}
{{- $_ := set (index $template.spec.topologySpreadConstraints 1) "whenUnsatisfiable" "DoNotSchedule" }}
{{- end }}
{{- end }}

{{- define "antiphon.adaptAutoscaler" -}}
{{- $values := index .root.Values .object.metadata.name }}
{{- if include "antiphon.isScaled" (dict "root" .root "name" .object.metadata.name) }}
{{- $_ := set .object.spec "minReplicas" $values.minReplicas }}
{{- $_ := set .object.spec "maxReplicas" $values.maxReplicas }}
{{- else }}
{{- $_ := set .state "deleted" true }}
{{- end }}
{{- end }}

{{- define "antiphon.adaptScaledObject" -}}
{{- $worker := .root.Values.worker }}
{{- $metadata := (index .object.spec.triggers 0).metadata }}
{{- $_ := set .object.spec "minReplicaCount" $worker.minReplicas }}
{{- $_ := set .object.spec "maxReplicaCount" $worker.maxReplicas }}
{{- $_ := set $metadata "serverAddress" .root.Values.keda.prometheus }}
{{- $own := printf "namespace=%q" .root.Release.Namespace }}
{{- $_ := set $metadata "query" (replace "namespace=\"antiphon\"" $own $metadata.query) }}
{{- end }}

{{/* Whether an autoscaler owns the number of pods of a service. */}}
{{- define "antiphon.isScaled" -}}
{{- $isShared := not (has .root.Values.store.backend (list "memory" "sqlite")) }}
{{- $isQueued := and (eq .name "worker") .root.Values.keda.enabled }}
{{- if or $isQueued (and (index .root.Values .name).autoscaling (or (ne .name "store") $isShared)) }}yes{{ end }}
{{- end }}

{{/* What is computed of the values besides the settings that they have. */}}
{{- define "antiphon.computed" -}}
{{- if eq .name "edge" }}
{{- $edge := .root.Values.edge }}
ANTIPHON_EDGE_REPLICAS: {{ ternary $edge.minReplicas $edge.replicas $edge.autoscaling | toString | quote }}
{{- end }}
{{- end }}
