//! What a PodGroup of Kubernetes asks for, as a group of ours, and what is said of it there. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time},
};
use kube::{Resource as _, ResourceExt as _};
use ronde_api::{
    PodGroup, PodGroupCondition, PodGroupConditionType as Kind, PodGroupPhase, PodGroupSpec, PodGroupStatus, names,
};
use ronde_runtime::pods::{
    controller_of,
    disruption::{self, Disruption},
    quota::{texts, times, usage_of},
};
use ronde_scheduler::Reason;

use crate::native::{NativeGroup, Version};

/// The words that Kubernetes' own scheduler writes.
const SCHEDULED: &str = "Scheduled";
const UNSCHEDULABLE: &str = "Unschedulable";

/// Tells whether a group is the one that was made for a PodGroup of Kubernetes.
pub fn is_of<V: Version>(group: &PodGroup, native: &NativeGroup<V>) -> bool {
    controller_of(&group.metadata).map(|owner| &owner.uid) == native.metadata.uid.as_ref()
}

/// Builds the group for a PodGroup of Kubernetes and one of its pods.
pub fn build<V: Version>(native: &NativeGroup<V>, pod: &Pod) -> PodGroup {
    let note = |key: &str| {
        let of_group = native.annotations().get(key).filter(|text| !text.is_empty());
        of_group.or(pod.annotations().get(key)).filter(|text| !text.is_empty())
    };
    let min_member = native.spec.min_member();
    let of_pod = || pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    let class = Some(native.spec.priority_class_name.clone()).filter(|class| !class.is_empty());
    let spec = PodGroupSpec {
        min_member,
        queue: note(names::GROUP_QUEUE).map_or(names::DEFAULT_QUEUE, String::as_str).to_owned(),
        priority_class_name: class.or_else(of_pod).unwrap_or_default(),
        min_resources: Some(texts(times(&usage_of(pod), min_member))),
        ..PodGroupSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(native.name_any()),
        namespace: native.namespace(),
        annotations: Some(wishes(native)).filter(|wishes| !wishes.is_empty()),
        owner_references: Some(vec![owner(native)]),
        ..ObjectMeta::default()
    };
    let status = PodGroupStatus { phase: Some(PodGroupPhase::Pending), ..PodGroupStatus::default() };
    PodGroup { metadata, spec, status: Some(status) }
}

/// Returns what our groups have no field for.
fn wishes<V: Version>(native: &NativeGroup<V>) -> BTreeMap<String, String> {
    let within = native.spec.topology_key().map(|key| (names::TOPOLOGY_KEY, key));
    let whole = native.spec.leaves_whole().then_some((names::DISRUPTION_MODE, names::DISRUPTION_ALL));
    within.into_iter().chain(whole).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The group goes with the PodGroup, which does not wait for it: that would take one more right.
fn owner<V: Version>(native: &NativeGroup<V>) -> OwnerReference {
    OwnerReference {
        api_version: NativeGroup::<V>::api_version(&()).into_owned(),
        kind: NativeGroup::<V>::kind(&()).into_owned(),
        name: native.name_any(),
        uid: native.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Returns the conditions that a PodGroup of Kubernetes should have; those of others are kept.
pub fn next_conditions<V: Version>(
    native: &NativeGroup<V>,
    group: &PodGroup,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions =
        Conditions { list: native.status.conditions.clone(), generation: native.metadata.generation, now };
    let is_scheduled = condition(group, Kind::Scheduled).is_some_and(|found| found.status == "True");
    let waits = condition(group, Kind::Unschedulable).filter(|found| found.status == "True");
    // What was once scheduled stays so, whatever becomes of its pods: others wait for this moment.
    if is_scheduled {
        conditions.set(V::SCHEDULED, true, SCHEDULED, "all pods of the minimum have nodes");
    } else if let Some(waits) = waits.filter(|_| !conditions.is_true(V::SCHEDULED)) {
        conditions.set(V::SCHEDULED, false, reason(waits), &waits.message);
    }
    let evicted = pods.iter().find(|pod| is_evicted(pod)).filter(|_| native.spec.leaves_whole());
    if let Some(why) = evicted.and_then(|pod| Disruption::of_pod(pod)) {
        conditions.set(disruption::CONDITION, true, disruption::BY_SCHEDULER, &why.why);
    } else if is_scheduled && conditions.is_true(disruption::CONDITION) {
        conditions.set(disruption::CONDITION, false, SCHEDULED, "it is on nodes again");
    }
    conditions.list
}

fn condition(group: &PodGroup, kind: Kind) -> Option<&PodGroupCondition> {
    group.status.iter().flat_map(|status| &status.conditions).find(|condition| condition.type_ == kind)
}

/// As with pods, the word that others know is for groups that nodes would help.
fn reason(waits: &PodGroupCondition) -> &str {
    let known = Reason::ALL.into_iter().find(|reason| reason.as_str() == waits.reason);
    if known.is_some_and(Reason::is_of_nodes) { UNSCHEDULABLE } else { &waits.reason }
}

/// Tells whether the scheduler has evicted a pod.
pub fn is_evicted(pod: &Pod) -> bool {
    ronde_runtime::pods::condition(pod, disruption::CONDITION)
        .is_some_and(|mark| mark.status == "True" && mark.reason.as_deref() == Some(disruption::BY_SCHEDULER))
}

struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    fn is_true(&self, kind: &str) -> bool {
        self.list.iter().any(|condition| condition.type_ == kind && condition.status == "True")
    }

    /// Sets a condition; its time changes only with its status.
    fn set(&mut self, kind: &str, is_true: bool, reason: &str, message: &str) {
        let status = if is_true { "True" } else { "False" };
        let before = self.list.iter().find(|condition| condition.type_ == kind && condition.status == status);
        let condition = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: before.map_or(Time(self.now), |before| before.last_transition_time.clone()),
            observed_generation: self.generation,
        };
        match self.list.iter_mut().find(|condition| condition.type_ == kind) {
            Some(old) => *old = condition,
            None => self.list.push(condition),
        }
    }
}
