//! How lists and maps of built-in kinds are merged: by server-side apply and by strategic merge patch.
//!
//! Only what differs from the rule that lists are atomic and replaced, maps granular and merged.

use super::Table;

/// Lists that server-side apply merges: types, then `field=key,key`, or `field=set` for sets of scalars.
pub(super) const APPLY: Table = &[
    (
        "apiextensions.v1",
        &[("CustomResourceDefinitionStatus", "conditions=type"), ("JSONSchemaProps", "x-kubernetes-validations=rule")],
    ),
    ("apps.v1", &[("DeploymentStatus ReplicaSetStatus StatefulSetStatus", "conditions=type")]),
    (
        "batch.v1",
        &[
            ("PodFailurePolicyOnExitCodesRequirement", "values=set"),
            ("UncountedTerminatedPods", "failed=set succeeded=set"),
        ],
    ),
    (
        "core.v1",
        &[
            (
                "Container EphemeralContainer",
                "env=name ports=containerPort,protocol volumeDevices=devicePath volumeMounts=mountPath",
            ),
            ("ContainerRestartRuleOnExitCodes", "values=set"),
            ("ContainerStatus", "allocatedResourcesStatus=name volumeMounts=mountPath"),
            ("NamespaceStatus PersistentVolumeClaimStatus ServiceStatus", "conditions=type"),
            ("NodeSpec", "podCIDRs=set"),
            ("NodeStatus", "addresses=type conditions=type"),
            (
                "PodSpec",
                "containers=name ephemeralContainers=name hostAliases=ip imagePullSecrets=name initContainers=name \
                 resourceClaims=name schedulingGates=name topologySpreadConstraints=topologyKey,whenUnsatisfiable \
                 volumes=name",
            ),
            ("PodStatus", "conditions=type podIPs=ip resourceClaimStatuses=name"),
            ("ResourceRequirements", "claims=name"),
            ("ResourceStatus", "resources=resourceID"),
            ("ServiceAccount", "secrets=name"),
            ("ServiceSpec", "ports=port,protocol"),
        ],
    ),
    ("discovery.v1", &[("Endpoint", "addresses=set")]),
    ("meta.v1", &[("ObjectMeta", "finalizers=set ownerReferences=uid")]),
    ("policy.v1", &[("PodDisruptionBudgetStatus", "conditions=type")]),
];

/// Fields with a strategy of strategic merge patch: types, then `field=strategy`. A strategy is `merge` (a set of
/// scalars), `merge:key`, `merge:key+retainKeys`, `retainKeys` or `replace`.
pub(super) const PATCH: Table = &[
    ("apiextensions.v1", &[("JSONSchemaProps", "x-kubernetes-validations=merge:rule")]),
    (
        "apps.v1",
        &[
            ("DeploymentSpec", "strategy=retainKeys"),
            ("DeploymentStatus ReplicaSetStatus StatefulSetStatus", "conditions=merge:type"),
        ],
    ),
    ("batch.v1", &[("JobStatus", "conditions=merge:type")]),
    (
        "core.v1",
        &[
            (
                "Container EphemeralContainer",
                "env=merge:name ports=merge:containerPort volumeDevices=merge:devicePath volumeMounts=merge:mountPath",
            ),
            ("ContainerStatus", "allocatedResourcesStatus=merge:name volumeMounts=merge:mountPath"),
            ("NamespaceStatus PersistentVolumeClaimStatus ServiceStatus", "conditions=merge:type"),
            ("NodeSpec", "podCIDRs=merge"),
            ("NodeStatus", "addresses=merge:type conditions=merge:type"),
            (
                "PodSpec",
                "containers=merge:name ephemeralContainers=merge:name hostAliases=merge:ip \
                 imagePullSecrets=merge:name initContainers=merge:name resourceClaims=merge:name+retainKeys \
                 schedulingGates=merge:name topologySpreadConstraints=merge:topologyKey volumes=merge:name+retainKeys",
            ),
            (
                "PodStatus",
                "conditions=merge:type hostIPs=merge:ip podIPs=merge:ip resourceClaimStatuses=merge:name+retainKeys",
            ),
            ("ServiceAccount", "secrets=merge:name"),
            ("ServiceSpec", "ports=merge:port"),
        ],
    ),
    ("meta.v1", &[("ObjectMeta", "finalizers=merge ownerReferences=merge:uid")]),
    (
        "policy.v1",
        &[("PodDisruptionBudgetSpec", "selector=replace"), ("PodDisruptionBudgetStatus", "conditions=merge:type")],
    ),
];

/// Objects that server-side apply owns as a whole, by field.
pub(super) const ATOMIC_FIELDS: Table = &[("core.v1", &[("PodSpec", "nodeSelector"), ("ServiceSpec", "selector")])];

/// Objects that it does not own as a whole, although their type says so.
pub(super) const GRANULAR_FIELDS: Table = &[("core.v1", &[("PersistentVolumeSpec", "claimRef")])];

/// Objects that server-side apply owns as a whole wherever they stand: package, then types.
pub(super) const ATOMIC_TYPES: &[(&str, &str)] = &[
    (
        "core.v1",
        "ConfigMapKeySelector EndpointAddress EndpointPort FileKeySelector LocalObjectReference NodeSelector \
         NodeSelectorTerm ObjectFieldSelector ObjectReference ResourceFieldSelector ScopeSelector SecretKeySelector \
         SecretReference TopologySelectorTerm TypedLocalObjectReference",
    ),
    ("discovery.v1", "EndpointPort"),
    ("meta.v1", "LabelSelector OwnerReference"),
    ("networking.v1", "ServiceBackendPort"),
    ("rbac.v1", "RoleRef Subject"),
];

/// Defaults of fields that are keys of merged lists: types, then `field=value`.
pub(super) const KEY_DEFAULTS: Table = &[("core.v1", &[("ContainerPort ServicePort", "protocol=TCP")])];
