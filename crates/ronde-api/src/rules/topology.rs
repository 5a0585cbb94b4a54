//! Wishes for closeness in the network, of jobs, partitions and subgroups.

use super::fault::Faults;
use crate::{NetworkTopology, TopologyMode};

const TIER_NAME_MAX: usize = 253;

/// Checks a wish that stands at `path`.
pub(super) fn check(topology: Option<&NetworkTopology>, path: &str, faults: &mut Faults) {
    let Some(topology) = topology else { return };
    faults.one_of(format!("{path}.mode"), &topology.mode, TopologyMode::ALL.iter().map(|word| word.as_str()));
    if let Some(tier) = topology.highest_tier_allowed {
        faults.at_least(format!("{path}.highestTierAllowed"), tier, 0);
        if !topology.highest_tier_name.is_empty() {
            faults.invalid(
                format!("{path}.highestTierName"),
                "cannot be combined with highestTierAllowed: set one of them",
            );
        }
    }
    if topology.highest_tier_name.len() > TIER_NAME_MAX {
        faults.invalid(format!("{path}.highestTierName"), format!("has more than {TIER_NAME_MAX} characters"));
    }
}
