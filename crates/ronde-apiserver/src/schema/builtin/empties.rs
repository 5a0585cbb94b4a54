//! What becomes of empty fields of built-in kinds: the exceptions to the rules in [`super`].
//!
//! The real server decodes into structs and encodes them again. Which zero values survive that depends on pointers and
//! `omitempty`, which no schema tells. Rules cover most fields: required fields, and `spec` and `status` of a kind,
//! are always written; optional objects are kept as given; other optional fields are dropped when empty.
//! Rows name one or more types, then the fields that differ.

use super::Table;

/// Optional scalars whose explicit zero differs from absence (`replicas: 0`).
pub(super) const KEPT: Table = &[
    (
        "apiextensions.v1",
        &[
            ("CustomResourceDefinitionVersion", "deprecationWarning"),
            ("CustomResourceSubresourceScale", "labelSelectorPath"),
            (
                "JSONSchemaProps",
                "$ref maxItems maxLength maxProperties maximum minItems minLength minProperties minimum \
                 multipleOf x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-preserve-unknown-fields",
            ),
            ("ServiceReference", "path port"),
            ("ValidationRule", "optionalOldSelf reason"),
            ("WebhookClientConfig", "url"),
        ],
    ),
    (
        "apps.v1",
        &[
            ("DeploymentSpec", "progressDeadlineSeconds replicas revisionHistoryLimit"),
            ("DeploymentStatus", "collisionCount terminatingReplicas"),
            ("ReplicaSetSpec", "replicas"),
            ("ReplicaSetStatus", "terminatingReplicas"),
            ("RollingUpdateStatefulSetStrategy", "partition"),
            ("StatefulSetSpec", "replicas revisionHistoryLimit"),
            ("StatefulSetStatus", "collisionCount"),
        ],
    ),
    (
        "batch.v1",
        &[
            (
                "JobSpec",
                "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy \
                 manualSelector maxFailedIndexes parallelism podReplacementPolicy suspend \
                 ttlSecondsAfterFinished",
            ),
            ("JobStatus", "failedIndexes ready terminating"),
            ("PodFailurePolicyOnExitCodesRequirement", "containerName"),
            ("SuccessPolicyRule", "succeededCount succeededIndexes"),
        ],
    ),
    (
        "coordination.v1",
        &[("LeaseSpec", "holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy")],
    ),
    (
        "core.v1",
        &[
            ("AppArmorProfile SeccompProfile", "localhostProfile"),
            ("AzureDiskVolumeSource", "cachingMode fsType kind readOnly"),
            ("CSIVolumeSource", "fsType readOnly"),
            ("ClientIPConfig", "timeoutSeconds"),
            ("ClusterTrustBundleProjection", "name optional signerName"),
            ("ConfigMap Secret", "immutable"),
            (
                "ConfigMapEnvSource ConfigMapKeySelector ConfigMapProjection FileKeySelector SecretEnvSource \
                 SecretKeySelector SecretProjection",
                "optional",
            ),
            ("ConfigMapVolumeSource SecretVolumeSource", "defaultMode optional"),
            ("Container EphemeralContainer", "restartPolicy"),
            ("ContainerStatus", "started stopSignal"),
            ("DownwardAPIVolumeFile KeyToPath", "mode"),
            ("DownwardAPIVolumeSource ProjectedVolumeSource", "defaultMode"),
            ("EndpointAddress", "nodeName"),
            ("EndpointPort ServicePort", "appProtocol"),
            ("FCVolumeSource", "lun"),
            ("GlusterfsPersistentVolumeSource", "endpointsNamespace"),
            ("HostPathVolumeSource", "type"),
            ("ISCSIPersistentVolumeSource ISCSIVolumeSource", "initiatorName"),
            ("Lifecycle", "stopSignal"),
            ("LoadBalancerIngress", "ipMode"),
            ("LocalVolumeSource", "fsType"),
            ("NodeFeatures", "supplementalGroupsPolicy"),
            ("NodeRuntimeHandlerFeatures", "recursiveReadOnlyMounts userNamespaces"),
            ("NodeSwapStatus", "capacity"),
            ("PersistentVolumeClaimSpec", "storageClassName volumeAttributesClassName volumeMode"),
            ("PersistentVolumeClaimStatus", "currentVolumeAttributesClassName"),
            ("PersistentVolumeSpec", "volumeAttributesClassName volumeMode"),
            ("PodCertificateProjection", "maxExpirationSeconds"),
            ("PodDNSConfigOption", "value"),
            ("PodResourceClaim", "resourceClaimName resourceClaimTemplateName"),
            ("PodResourceClaimStatus", "resourceClaimName"),
            (
                "PodSecurityContext",
                "fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy \
                 supplementalGroupsPolicy",
            ),
            (
                "PodSpec",
                "activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers \
                 hostnameOverride preemptionPolicy priority runtimeClassName setHostnameAsFQDN \
                 shareProcessNamespace terminationGracePeriodSeconds",
            ),
            ("PortStatus", "error"),
            ("Probe", "terminationGracePeriodSeconds"),
            (
                "SecurityContext",
                "allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot \
                 runAsUser",
            ),
            ("ServiceAccount", "automountServiceAccountToken"),
            ("ServiceAccountTokenProjection", "expirationSeconds"),
            (
                "ServiceSpec",
                "allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass \
                 trafficDistribution",
            ),
            ("Toleration", "tolerationSeconds"),
            ("TopologySpreadConstraint", "minDomains nodeAffinityPolicy nodeTaintsPolicy"),
            ("TypedObjectReference", "namespace"),
            ("VolumeMount", "mountPropagation recursiveReadOnly"),
            ("VolumeMountStatus", "recursiveReadOnly"),
            ("WindowsSecurityContextOptions", "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName"),
        ],
    ),
    (
        "discovery.v1",
        &[
            ("Endpoint", "hostname nodeName zone"),
            ("EndpointConditions", "ready serving terminating"),
            ("EndpointPort", "appProtocol name port protocol"),
        ],
    ),
    (
        "meta.v1",
        &[
            (
                "DeleteOptions",
                "gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents \
                 propagationPolicy",
            ),
            ("ListMeta", "remainingItemCount"),
            ("ObjectMeta", "deletionGracePeriodSeconds"),
            ("OwnerReference", "blockOwnerDeletion controller"),
            ("Preconditions", "resourceVersion uid"),
        ],
    ),
    (
        "networking.v1",
        &[
            ("IngressClassParametersReference", "apiGroup namespace"),
            ("IngressPortStatus", "error"),
            ("IngressSpec", "ingressClassName"),
            ("NetworkPolicyPort", "endPort protocol"),
        ],
    ),
    ("policy.v1", &[("PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy")]),
    ("scheduling.v1", &[("PriorityClass", "preemptionPolicy")]),
    ("storage.v1", &[("StorageClass", "allowVolumeExpansion reclaimPolicy volumeBindingMode")]),
];

/// Optional fields that are always written, with the zero value of their type if need be (`resources: {}`).
pub(super) const WRITTEN: Table = &[
    (
        "apiextensions.v1",
        &[
            ("CustomResourceDefinitionCondition", "lastTransitionTime"),
            ("CustomResourceDefinitionStatus", "acceptedNames conditions storedVersions"),
        ],
    ),
    (
        "apps.v1",
        &[
            ("ControllerRevision", "data"),
            ("DeploymentCondition", "lastTransitionTime lastUpdateTime"),
            ("DeploymentSpec", "strategy"),
            ("ReplicaSetCondition StatefulSetCondition", "lastTransitionTime"),
            ("ReplicaSetSpec", "template"),
            ("StatefulSetOrdinals", "start"),
            ("StatefulSetSpec", "serviceName updateStrategy"),
            ("StatefulSetStatus", "availableReplicas"),
        ],
    ),
    ("authentication.v1", &[("SelfSubjectReviewStatus", "userInfo"), ("TokenReviewStatus", "user")]),
    ("batch.v1", &[("JobCondition", "lastProbeTime lastTransitionTime")]),
    (
        "core.v1",
        &[
            ("Container EphemeralContainer PersistentVolumeClaimSpec", "resources"),
            ("ContainerImage", "names"),
            ("ContainerStateRunning", "startedAt"),
            ("ContainerStateTerminated", "finishedAt startedAt"),
            ("ContainerStatus", "lastState state"),
            ("Event", "eventTime firstTimestamp lastTimestamp reportingComponent reportingInstance source"),
            ("EventSeries", "lastObservedTime"),
            ("NamespaceCondition", "lastTransitionTime"),
            ("NodeCondition", "lastHeartbeatTime lastTransitionTime"),
            ("NodeDaemonEndpoints", "kubeletEndpoint"),
            ("NodeRuntimeHandler", "name"),
            ("NodeStatus", "daemonEndpoints nodeInfo"),
            ("PersistentVolumeClaimCondition PodCondition", "lastProbeTime lastTransitionTime"),
            ("PersistentVolumeClaimTemplate PodTemplateSpec", "metadata"),
            ("ProjectedVolumeSource", "sources"),
            ("ResourceFieldSelector", "divisor"),
            ("ServicePort", "targetPort"),
            ("ServiceStatus", "loadBalancer"),
        ],
    ),
    ("discovery.v1", &[("Endpoint", "conditions"), ("EndpointSlice", "ports")]),
    (
        "events.v1",
        &[("Event", "deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource eventTime regarding")],
    ),
    (
        "networking.v1",
        &[("IngressServiceBackend", "port"), ("IngressStatus", "loadBalancer"), ("NetworkPolicySpec", "podSelector")],
    ),
    ("rbac.v1", &[("ClusterRole Role", "rules")]),
];

/// Fields that would be written or kept by the rules but are dropped when empty.
pub(super) const DROPPED: Table = &[
    (
        "core.v1",
        &[
            (
                "ConfigMapEnvSource ConfigMapKeySelector ConfigMapProjection ConfigMapVolumeSource \
                 LocalObjectReference SecretEnvSource SecretKeySelector SecretProjection",
                "name",
            ),
            ("ContainerRestartRule", "action"),
            ("ContainerRestartRuleOnExitCodes", "operator"),
            ("PodCertificateProjection", "keyType signerName"),
        ],
    ),
    ("meta.v1", &[("ObjectMeta", "creationTimestamp")]),
    ("policy.v1", &[("PodDisruptionBudgetStatus", "disruptedPods")]),
];

/// Fields that are written as `null` when absent.
pub(super) const NULL: Table = &[
    ("apps.v1", &[("DeploymentSpec ReplicaSetSpec StatefulSetSpec", "selector")]),
    ("authentication.v1", &[("TokenRequestSpec", "boundObjectRef expirationSeconds")]),
    (
        "core.v1",
        &[
            ("AzureFilePersistentVolumeSource", "secretNamespace"),
            ("GRPCAction", "service"),
            ("ScaleIOPersistentVolumeSource ScaleIOVolumeSource", "secretRef"),
            ("TypedLocalObjectReference TypedObjectReference", "apiGroup"),
        ],
    ),
    ("networking.v1", &[("HTTPIngressPath", "pathType"), ("IngressClassParametersReference", "scope")]),
];
