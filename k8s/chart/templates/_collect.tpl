{{/*
The objects of the manifests that kustomize builds, from the same files: those of the base, and of the components that the
values turn on. files/ leads to k8s/base and k8s/components. tests/k8s/test_chart.py holds that both give the same.
*/}}

{{/* The components, each behind those that it includes. */}}
{{- define "antiphon.components" -}}
{{- $values := .Values }}
{{- $chosen := list (printf "store-%s" $values.store.backend) }}
{{- $switches := dict "gateway" "gateway-api" "isolation" "tenant-isolation" }}
{{- range $name := list "keda" "gateway" "ingress" "console" "mtls" "encryption" "isolation" "prometheus" "grafana" }}
{{- if (index $values $name).enabled }}{{ $chosen = append $chosen (get $switches $name | default $name) }}{{ end }}
{{- end }}
{{- $found := list }}
{{- range $name := $chosen }}
{{- range ($.Files.Get (printf "files/components/%s/kustomization.yaml" $name) | fromYaml).components }}
{{- $found = append $found (base .) }}
{{- end }}
{{- $found = append $found $name }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* Every object of the resources of a folder, as a list. */}}
{{- define "antiphon.resources" -}}
{{- $objects := list }}
{{- range $name := (.root.Files.Get (printf "%s/kustomization.yaml" .folder) | fromYaml).resources }}
{{- range $text := regexSplit "(?m)^---\\s*$" ($.root.Files.Get (printf "%s/%s" $.folder $name)) -1 }}
{{- with fromYaml $text }}
{{- $labels := merge (dict "app.kubernetes.io/part-of" "antiphon") (.metadata.labels | default dict) }}
{{- $objects = append $objects (set . "metadata" (set .metadata "labels" $labels)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $objects }}
{{- end }}

{{/* The data of a generated ConfigMap: of the base, of each component, and of the values. */}}
{{- define "antiphon.data" -}}
{{- $data := dict }}
{{- range $folder := .folders }}
{{- range ($.root.Files.Get (printf "%s/kustomization.yaml" $folder) | fromYaml).configMapGenerator }}
{{- if eq .name $.name }}
{{- range .literals }}{{ $_ := set $data (splitn "=" 2 .)._0 (splitn "=" 2 .)._1 }}{{ end }}
{{- range .files }}{{ $_ := set $data (base .) ($.root.Files.Get (printf "%s/%s" $folder .)) }}{{ end }}
{{- range .envs }}
{{- range $line := splitList "\n" ($.root.Files.Get (printf "%s/%s" $folder .)) }}
{{- if $line }}{{ $_ := set $data (splitn "=" 2 $line)._0 (splitn "=" 2 $line)._1 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $value := .more }}{{ $_ := set $data $key (include "antiphon.text" $value) }}{{ end }}
{{- toYaml $data }}
{{- end }}

{{/* A value as text. Helm reads numbers as floats: a large whole number would become 1.048576e+07, which no setting accepts. */}}
{{- define "antiphon.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* Applies the patches of a folder to an object in place: JSON patches, and `$patch: delete`, which sets .deleted. */}}
{{- define "antiphon.patch" -}}
{{- $object := .object }}
{{- range (.root.Files.Get (printf "%s/kustomization.yaml" .folder) | fromYaml).patches }}
{{- $isKind := regexMatch (printf "^(%s)$" .target.kind) $.kind }}
{{- $isName := regexMatch (printf "^(%s)$" (.target.name | default ".*")) $object.metadata.name }}
{{- if and $isKind $isName }}
{{- if contains "$patch: delete" .patch }}
{{- $_ := set $.state "deleted" true }}
{{- else }}
{{- range $step := fromYamlArray .patch }}
{{- include "antiphon.step" (dict "object" $object "step" $step) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* One step of a JSON patch. A list changes by its end alone, and otherwise in the objects that are in it. */}}
{{- define "antiphon.step" -}}
{{- $path := rest (splitList "/" .step.path) }}
{{- $isAppended := eq (last $path) "-" }}
{{- $key := ternary (last (initial $path)) (last $path) $isAppended }}
{{- $place := .object }}
{{- range $part := ternary (initial (initial $path)) (initial $path) $isAppended }}
{{- if kindIs "slice" $place }}{{ $place = index $place (int $part) }}{{ else }}{{ $place = get $place $part }}{{ end }}
{{- end }}
{{- if $isAppended }}
{{- $_ := set $place $key (append (get $place $key) .step.value) }}
{{- else if eq .step.op "remove" }}
{{- $_ := unset $place $key }}
{{- else }}
{{- $_ := set $place $key .step.value }}
{{- end }}
{{- end }}
