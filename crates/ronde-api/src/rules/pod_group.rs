//! PodGroups: defaults and rules.

use std::collections::BTreeSet;

use super::{Fault, Queues, Stage, fault::Faults, queue_in_namespace, topology};
use crate::PodGroup;

/// Sets what the group leaves open. `queue` is what the namespace has for groups that name none.
pub fn default(group: &mut PodGroup, stage: Stage, queue: Option<&str>) {
    if stage == Stage::Create {
        group.spec.queue = queue_in_namespace(&group.spec.queue, queue).to_owned();
    }
}

/// Returns what is wrong with a new group, after [`default`].
pub fn validate(group: &PodGroup, queues: &Queues) -> Vec<Fault> {
    let mut faults = Faults::default();
    queues.check_open("PodGroup", &group.spec.queue, "spec.queue", &mut faults);
    faults.extend(validate_alone(group));
    faults.into_vec()
}

/// Returns what is wrong with a change of a group.
pub fn validate_update(old: &PodGroup, new: &PodGroup, queues: &Queues) -> Vec<Fault> {
    let mut faults = Faults::default();
    if old.spec.queue != new.spec.queue {
        queues.check_open("PodGroup", &new.spec.queue, "spec.queue", &mut faults);
    }
    let before = validate_alone(old);
    faults.extend(validate_alone(new).into_iter().filter(|fault| !before.contains(fault)));
    faults.into_vec()
}

fn validate_alone(group: &PodGroup) -> Vec<Fault> {
    let mut faults = Faults::default();
    let spec = &group.spec;
    faults.at_least("spec.minMember", spec.min_member, 0);
    for (task, least) in &spec.min_task_member {
        faults.at_least(format!("spec.minTaskMember.{task}"), *least, 0);
    }
    topology::check(spec.network_topology.as_ref(), "spec.networkTopology", &mut faults);
    let mut seen = BTreeSet::new();
    for (at, policy) in spec.sub_group_policy.iter().enumerate() {
        let path = format!("spec.subGroupPolicy[{at}]");
        if !seen.insert(policy.name.as_str()) {
            faults.duplicate(format!("{path}.name"), format!("another policy is named {:?}", policy.name));
        }
        faults.at_least(format!("{path}.subGroupSize"), policy.sub_group_size(), 1);
        faults.at_least(format!("{path}.minSubGroups"), policy.min_sub_groups(), 0);
        topology::check(policy.network_topology.as_ref(), &format!("{path}.networkTopology"), &mut faults);
    }
    faults.into_vec()
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures::*, *};
    use crate::{NetworkTopology, SubGroupPolicy};

    fn group(change: impl FnOnce(&mut PodGroup)) -> PodGroup {
        let mut group = PodGroup::default();
        group.spec.min_member = 2;
        change(&mut group);
        default(&mut group, Stage::Create, Some("team-a"));
        group
    }

    #[test]
    fn the_queue_comes_from_the_group_or_its_namespace() {
        let queue = |named: &str| group(|group| named.clone_into(&mut group.spec.queue)).spec.queue;
        assert_eq!((&*queue(""), &*queue("default"), &*queue("other")), ("team-a", "team-a", "other"));
    }

    #[test]
    fn all_faults_of_a_group_are_told() {
        let wrong = group(|group| {
            group.spec.queue = "shut".to_owned();
            group.spec.min_member = -1;
            group.spec.min_task_member = [("ps".to_owned(), -2)].into();
            let tiers = NetworkTopology { mode: "firm".to_owned(), ..NetworkTopology::default() };
            group.spec.network_topology = Some(tiers);
            let policy = SubGroupPolicy { sub_group_size: Some(0), min_sub_groups: Some(-1), ..Default::default() };
            group.spec.sub_group_policy = vec![policy.clone(), policy];
        });
        check(
            "everything wrong",
            &validate(&wrong, &some_queues()),
            &[
                "spec.queue: can only submit PodGroup to queue with state `Open`: \"shut\" is Closed",
                "spec.minMember: -1 should be greater than or equal to 0",
                "spec.minTaskMember.ps: -2 should be greater than or equal to 0",
                "spec.networkTopology.mode: \"firm\" is not one of hard, soft",
                "spec.subGroupPolicy[0].subGroupSize: 0 should be greater than or equal to 1",
                "spec.subGroupPolicy[0].minSubGroups: -1 should be greater than or equal to 0",
                "spec.subGroupPolicy[1].name: another policy is named \"\"",
                "spec.subGroupPolicy[1].subGroupSize: 0 should be greater than or equal to 1",
                "spec.subGroupPolicy[1].minSubGroups: -1 should be greater than or equal to 0",
            ],
        );
        check("nothing wrong", &validate(&group(|_| {}), &some_queues()), &[]);
        check("unchanged faults may stay", &validate_update(&wrong, &wrong, &some_queues()), &[]);
        let moved = group(|group| group.spec.queue = "nowhere".to_owned());
        check(
            "moved",
            &validate_update(&wrong, &moved, &some_queues()),
            &["spec.queue: there is no queue \"nowhere\""],
        );
    }
}
