//! Budgets of disruption: how many pods may be gone at a time because somebody wanted it.

use super::selector::{LabelSelector, Labels};

/// A budget for pods of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    pub namespace: String,
    pub name: String,
    /// None selects no pod.
    pub selector: Option<LabelSelector>,
    /// How many of them may go now.
    pub allowed: u32,
}

impl Budget {
    pub fn covers(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.selects(labels))
    }
}
