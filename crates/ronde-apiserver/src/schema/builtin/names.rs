//! Names of the real server's types (`v1.PullPolicy`), by which the values of enums are found for OpenAPI.
//!
//! Only what a schema does not tell: named strings and maps. Rows name one or more types, then `field=Type` pairs;
//! `[]` or `map[…]` in front of the type, and the package where it is not `v1`.

use super::Table;

pub(super) const NAMES: Table = &[
    (
        "apiextensions.v1",
        &[
            ("CustomResourceConversion", "strategy=ConversionStrategyType"),
            ("CustomResourceDefinitionCondition", "status=ConditionStatus type=CustomResourceDefinitionConditionType"),
            ("CustomResourceDefinitionSpec", "scope=ResourceScope"),
            (
                "JSONSchemaProps",
                "$schema=JSONSchemaURL definitions=JSONSchemaDefinitions dependencies=JSONSchemaDependencies \
                 x-kubernetes-validations=ValidationRules",
            ),
            ("ValidationRule", "reason=FieldValueErrorReason"),
        ],
    ),
    (
        "apps.v1",
        &[
            ("DeploymentCondition", "status=ConditionStatus type=DeploymentConditionType"),
            ("DeploymentStrategy", "type=DeploymentStrategyType"),
            ("ReplicaSetCondition", "status=ConditionStatus type=ReplicaSetConditionType"),
            ("StatefulSetCondition", "status=ConditionStatus type=StatefulSetConditionType"),
            (
                "StatefulSetPersistentVolumeClaimRetentionPolicy",
                "whenDeleted=PersistentVolumeClaimRetentionPolicyType \
                 whenScaled=PersistentVolumeClaimRetentionPolicyType",
            ),
            ("StatefulSetSpec", "podManagementPolicy=PodManagementPolicyType"),
            ("StatefulSetUpdateStrategy", "type=StatefulSetUpdateStrategyType"),
        ],
    ),
    ("authentication.v1", &[("BoundObjectReference", "uid=types.UID"), ("UserInfo", "extra=map[string]ExtraValue")]),
    ("authorization.v1", &[("SubjectAccessReviewSpec", "extra=map[string]ExtraValue")]),
    (
        "batch.v1",
        &[
            ("JobCondition", "status=ConditionStatus type=JobConditionType"),
            ("JobSpec", "completionMode=CompletionMode podReplacementPolicy=PodReplacementPolicy"),
            ("PodFailurePolicyOnExitCodesRequirement", "operator=PodFailurePolicyOnExitCodesOperator"),
            ("PodFailurePolicyOnPodConditionsPattern", "status=ConditionStatus type=PodConditionType"),
            ("PodFailurePolicyRule", "action=PodFailurePolicyAction"),
            ("UncountedTerminatedPods", "failed=[]types.UID succeeded=[]types.UID"),
        ],
    ),
    ("coordination.v1", &[("LeaseSpec", "strategy=CoordinatedLeaseStrategy")]),
    (
        "core.v1",
        &[
            ("AppArmorProfile", "type=AppArmorProfileType"),
            ("AttachedVolume", "name=UniqueVolumeName"),
            ("AzureDiskVolumeSource", "cachingMode=AzureDataDiskCachingMode kind=AzureDataDiskKind"),
            ("Capabilities", "add=[]Capability drop=[]Capability"),
            ("ConfigMapNodeConfigSource ObjectReference", "uid=types.UID"),
            (
                "Container EphemeralContainer",
                "imagePullPolicy=PullPolicy restartPolicy=ContainerRestartPolicy \
                 terminationMessagePolicy=TerminationMessagePolicy",
            ),
            ("ContainerPort EndpointPort PortStatus ServicePort", "protocol=Protocol"),
            ("ContainerResizePolicy", "resourceName=ResourceName restartPolicy=ResourceResizeRestartPolicy"),
            ("ContainerRestartRule", "action=ContainerRestartRuleAction"),
            ("ContainerRestartRuleOnExitCodes", "operator=ContainerRestartRuleOnExitCodesOperator"),
            ("ContainerStatus", "allocatedResources=ResourceList stopSignal=Signal"),
            ("EmptyDirVolumeSource", "medium=StorageMedium"),
            ("HTTPGetAction", "scheme=URIScheme"),
            ("HostPathVolumeSource", "type=HostPathType"),
            ("ImageVolumeSource", "pullPolicy=PullPolicy"),
            ("Lifecycle", "stopSignal=Signal"),
            ("LoadBalancerIngress", "ipMode=LoadBalancerIPMode"),
            ("ModifyVolumeStatus", "status=PersistentVolumeClaimModifyVolumeStatus"),
            ("NamespaceCondition", "status=ConditionStatus type=NamespaceConditionType"),
            ("NamespaceSpec", "finalizers=[]FinalizerName"),
            ("NamespaceStatus", "phase=NamespacePhase"),
            ("NodeAddress", "type=NodeAddressType"),
            ("NodeCondition", "status=ConditionStatus type=NodeConditionType"),
            ("NodeSelectorRequirement", "operator=NodeSelectorOperator"),
            (
                "NodeStatus",
                "allocatable=ResourceList capacity=ResourceList phase=NodePhase volumesInUse=[]UniqueVolumeName",
            ),
            ("PersistentVolumeClaimCondition", "status=ConditionStatus type=PersistentVolumeClaimConditionType"),
            ("PersistentVolumeClaimSpec", "accessModes=[]PersistentVolumeAccessMode volumeMode=PersistentVolumeMode"),
            (
                "PersistentVolumeClaimStatus",
                "accessModes=[]PersistentVolumeAccessMode \
                 allocatedResourceStatuses=map[ResourceName]ClaimResourceStatus allocatedResources=ResourceList \
                 capacity=ResourceList phase=PersistentVolumeClaimPhase",
            ),
            (
                "PersistentVolumeSpec",
                "accessModes=[]PersistentVolumeAccessMode capacity=ResourceList \
                 persistentVolumeReclaimPolicy=PersistentVolumeReclaimPolicy volumeMode=PersistentVolumeMode",
            ),
            ("PersistentVolumeStatus", "phase=PersistentVolumePhase"),
            ("PodCondition", "status=ConditionStatus type=PodConditionType"),
            ("PodOS", "name=OSName"),
            ("PodReadinessGate", "conditionType=PodConditionType"),
            (
                "PodSecurityContext",
                "fsGroupChangePolicy=PodFSGroupChangePolicy seLinuxChangePolicy=PodSELinuxChangePolicy \
                 supplementalGroupsPolicy=SupplementalGroupsPolicy",
            ),
            (
                "PodSpec",
                "dnsPolicy=DNSPolicy overhead=ResourceList preemptionPolicy=PreemptionPolicy \
                 restartPolicy=RestartPolicy",
            ),
            ("PodStatus", "phase=PodPhase qosClass=PodQOSClass resize=PodResizeStatus"),
            ("ResourceHealth", "health=ResourceHealthStatus resourceID=ResourceID"),
            ("ResourceQuotaSpec", "hard=ResourceList scopes=[]ResourceQuotaScope"),
            ("ResourceQuotaStatus", "hard=ResourceList used=ResourceList"),
            ("ResourceRequirements VolumeResourceRequirements", "limits=ResourceList requests=ResourceList"),
            ("ResourceStatus", "name=ResourceName"),
            ("ScopedResourceSelectorRequirement", "operator=ScopeSelectorOperator scopeName=ResourceQuotaScope"),
            ("SeccompProfile", "type=SeccompProfileType"),
            ("Secret", "type=SecretType"),
            ("SecurityContext", "procMount=ProcMountType"),
            (
                "ServiceSpec",
                "externalTrafficPolicy=ServiceExternalTrafficPolicy \
                 internalTrafficPolicy=ServiceInternalTrafficPolicy ipFamilies=[]IPFamily \
                 ipFamilyPolicy=IPFamilyPolicy sessionAffinity=ServiceAffinity type=ServiceType",
            ),
            ("Taint", "effect=TaintEffect"),
            ("Toleration", "effect=TaintEffect operator=TolerationOperator"),
            (
                "TopologySpreadConstraint",
                "nodeAffinityPolicy=NodeInclusionPolicy nodeTaintsPolicy=NodeInclusionPolicy \
                 whenUnsatisfiable=UnsatisfiableConstraintAction",
            ),
            ("VolumeMount", "mountPropagation=MountPropagationMode recursiveReadOnly=RecursiveReadOnlyMode"),
            ("VolumeMountStatus", "recursiveReadOnly=RecursiveReadOnlyMode"),
        ],
    ),
    ("discovery.v1", &[("EndpointPort", "protocol=Protocol"), ("EndpointSlice", "addressType=AddressType")]),
    (
        "meta.v1",
        &[
            ("Condition", "status=ConditionStatus"),
            ("DeleteOptions", "propagationPolicy=DeletionPropagation"),
            ("FieldSelectorRequirement", "operator=FieldSelectorOperator"),
            ("LabelSelectorRequirement", "operator=LabelSelectorOperator"),
            ("ManagedFieldsEntry", "operation=ManagedFieldsOperationType"),
            ("ObjectMeta OwnerReference Preconditions StatusDetails", "uid=types.UID"),
            ("Status", "reason=StatusReason"),
            ("StatusCause", "reason=CauseType"),
        ],
    ),
    (
        "networking.v1",
        &[
            ("HTTPIngressPath", "pathType=PathType"),
            ("IngressPortStatus NetworkPolicyPort", "protocol=Protocol"),
            ("NetworkPolicySpec", "policyTypes=[]PolicyType"),
        ],
    ),
    ("policy.v1", &[("PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy=UnhealthyPodEvictionPolicyType")]),
    ("scheduling.v1", &[("PriorityClass", "preemptionPolicy=PreemptionPolicy")]),
    (
        "storage.v1",
        &[("StorageClass", "reclaimPolicy=PersistentVolumeReclaimPolicy volumeBindingMode=VolumeBindingMode")],
    ),
];
