//! The few numbers that an administrator may want to change.

/// How the scheduler decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// A gang that has waited this long gets room held for it, so that smaller ones cannot overtake it for ever.
    pub reserve_after_ms: i64,
    /// What an admitted group will take is kept for it this long while its pods do not come.
    pub admission_ms: i64,
    /// A gang that has lost pods and finds no room for new ones keeps the rest this long.
    pub incomplete_ms: i64,
    /// Whether more important gangs push out less important ones of their queue.
    pub preempts: bool,
    /// Whether queues take back what others use above their part.
    pub reclaims: bool,
    /// Fills nodes one after the other also for pods without devices; devices are always packed.
    pub packs: bool,
    /// Namespaces whose pods are never evicted.
    pub protected_namespaces: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            reserve_after_ms: 300_000,
            admission_ms: 60_000,
            incomplete_ms: 600_000,
            preempts: true,
            reclaims: true,
            packs: false,
            protected_namespaces: vec!["kube-system".to_owned()],
        }
    }
}
