//! The values of named strings in built-in kinds, for `kubectl explain`. Validation has its own lists.

/// Type (of package `v1`), values; `_` stands for the empty one.
const VALUES: &[(&str, &str)] = &[
    ("AddressType", "FQDN IPv4 IPv6"),
    ("AppArmorProfileType", "Localhost RuntimeDefault Unconfined"),
    ("AzureDataDiskCachingMode", "None ReadOnly ReadWrite"),
    ("AzureDataDiskKind", "Dedicated Managed Shared"),
    ("CompletionMode", "Indexed NonIndexed"),
    ("DNSPolicy", "ClusterFirst ClusterFirstWithHostNet Default None"),
    ("DeploymentStrategyType", "Recreate RollingUpdate"),
    ("FieldValueErrorReason", "FieldValueDuplicate FieldValueForbidden FieldValueInvalid FieldValueRequired"),
    ("HostPathType", "_ BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket"),
    ("IPFamily", "_ IPv4 IPv6"),
    ("IPFamilyPolicy", "PreferDualStack RequireDualStack SingleStack"),
    ("MountPropagationMode", "Bidirectional HostToContainer None"),
    ("NamespacePhase", "Active Terminating"),
    ("NodeInclusionPolicy", "Honor Ignore"),
    ("NodePhase", "Pending Running Terminated"),
    ("NodeSelectorOperator", "DoesNotExist Exists Gt In Lt NotIn"),
    ("PathType", "Exact ImplementationSpecific Prefix"),
    ("PersistentVolumeAccessMode", "ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod"),
    ("PersistentVolumeClaimModifyVolumeStatus", "InProgress Infeasible Pending"),
    ("PersistentVolumeClaimPhase", "Bound Lost Pending"),
    ("PersistentVolumeMode", "Block Filesystem"),
    ("PersistentVolumePhase", "Available Bound Failed Pending Released"),
    ("PersistentVolumeReclaimPolicy", "Delete Recycle Retain"),
    ("PodFSGroupChangePolicy", "Always OnRootMismatch"),
    ("PodFailurePolicyAction", "Count FailIndex FailJob Ignore"),
    ("PodFailurePolicyOnExitCodesOperator", "In NotIn"),
    ("PodManagementPolicyType", "OrderedReady Parallel"),
    ("PodPhase", "Failed Pending Running Succeeded Unknown"),
    ("PodQOSClass", "BestEffort Burstable Guaranteed"),
    ("PodReplacementPolicy", "Failed TerminatingOrFailed"),
    ("PolicyType", "Egress Ingress"),
    ("PreemptionPolicy", "Never PreemptLowerPriority"),
    ("ProcMountType", "Default Unmasked"),
    ("Protocol", "SCTP TCP UDP"),
    ("PullPolicy", "Always IfNotPresent Never"),
    (
        "ResourceQuotaScope",
        "BestEffort CrossNamespacePodAffinity NotBestEffort NotTerminating PriorityClass Terminating \
         VolumeAttributesClass",
    ),
    ("RestartPolicy", "Always Never OnFailure"),
    ("ScopeSelectorOperator", "DoesNotExist Exists In NotIn"),
    ("SeccompProfileType", "Localhost RuntimeDefault Unconfined"),
    ("ServiceAffinity", "ClientIP None"),
    ("ServiceExternalTrafficPolicy", "Cluster Local"),
    ("ServiceInternalTrafficPolicy", "Cluster Local"),
    ("ServiceType", "ClusterIP ExternalName LoadBalancer NodePort"),
    (
        "Signal",
        "SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE \
         SIGPOLL SIGPROF SIGPWR SIGQUIT SIGRTMAX SIGRTMAX-1 SIGRTMAX-10 SIGRTMAX-11 SIGRTMAX-12 SIGRTMAX-13 \
         SIGRTMAX-14 SIGRTMAX-2 SIGRTMAX-3 SIGRTMAX-4 SIGRTMAX-5 SIGRTMAX-6 SIGRTMAX-7 SIGRTMAX-8 SIGRTMAX-9 \
         SIGRTMIN SIGRTMIN+1 SIGRTMIN+10 SIGRTMIN+11 SIGRTMIN+12 SIGRTMIN+13 SIGRTMIN+14 SIGRTMIN+15 SIGRTMIN+2 \
         SIGRTMIN+3 SIGRTMIN+4 SIGRTMIN+5 SIGRTMIN+6 SIGRTMIN+7 SIGRTMIN+8 SIGRTMIN+9 SIGSEGV SIGSTKFLT SIGSTOP \
         SIGSYS SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ",
    ),
    ("StatefulSetUpdateStrategyType", "OnDelete RollingUpdate"),
    ("SupplementalGroupsPolicy", "Merge Strict"),
    ("TaintEffect", "NoExecute NoSchedule PreferNoSchedule"),
    ("TerminationMessagePolicy", "FallbackToLogsOnError File"),
    ("TolerationOperator", "Equal Exists"),
    ("URIScheme", "HTTP HTTPS"),
    ("UnhealthyPodEvictionPolicyType", "AlwaysAllow IfHealthyBudget"),
    ("UnsatisfiableConstraintAction", "DoNotSchedule ScheduleAnyway"),
    ("VolumeBindingMode", "Immediate WaitForFirstConsumer"),
];

/// The values of a named string, if they are listed.
pub(super) fn values(type_name: &str) -> Option<Vec<&'static str>> {
    let name = type_name.strip_prefix("v1.")?;
    let at = VALUES.binary_search_by_key(&name, |(name, _)| *name).ok()?;
    Some(VALUES[at].1.split_whitespace().map(|value| if value == "_" { "" } else { value }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found() {
        assert!(VALUES.is_sorted_by_key(|(name, _)| *name));
        assert_eq!(values("v1.Protocol"), Some(vec!["SCTP", "TCP", "UDP"]));
        assert_eq!(values("v1.IPFamily"), Some(vec!["", "IPv4", "IPv6"]));
        assert_eq!(values("v1.PodSpec"), None);
    }
}
