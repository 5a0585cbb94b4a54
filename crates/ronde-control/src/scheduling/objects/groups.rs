//! Groups of pods and the queues that they wait in.

use k8s_openapi::{
    Resource as _,
    api::{core::v1::Pod as K8sPod, scheduling::v1::PriorityClass},
};
use kube::ResourceExt as _;
use ronde_api::{
    DequeueStrategy, NetworkTopology, PodGroup, PodGroupCondition, PodGroupConditionType, PodGroupPhase,
    Queue as QueueObject, QueueState as State, SubGroupPolicy, TopologyMode, TrainingJob, names,
};
use ronde_runtime::pods::resources::{limits, quota_requests};
use ronde_runtime::{
    pods::{condition, controller_of},
    podstatus::node_of,
};
use ronde_scheduler::{
    Amounts, CPU, Dequeue, Group, GroupId, LabelSelector, MEMORY, Queue, QueueState, Strictness, SubGroups, Time,
    Topology, Within,
};

use super::{count, milliseconds, moment, pods, selectors::label_selector, time};

/// The queue of pods that know nothing of queues. No object can have this name.
const NO_QUEUE: &str = "(none)";

/// What is known of the cluster beside a group itself.
#[derive(Clone, Copy)]
pub struct GroupContext<'a> {
    pub class: Option<&'a PriorityClass>,
    /// Finds the tier that a name stands for.
    pub tier: &'a dyn Fn(&str) -> Option<i32>,
}

pub fn group(group: &PodGroup, around: GroupContext<'_>) -> Group {
    let spec = &group.spec;
    let created = time(group.metadata.creation_timestamp.as_ref());
    let queue = if spec.queue.is_empty() { names::DEFAULT_QUEUE } else { &spec.queue };
    let id = GroupId::new(&group.namespace().unwrap_or_default(), &group.name_any());
    let minimums = spec.min_task_member.iter().map(|(task, least)| (task.as_str().into(), count(*least)));
    Group {
        priority: around.class.map_or(0, |class| class.value),
        preempts: around.class.and_then(|class| class.preemption_policy.as_deref()) != Some("Never"),
        created,
        min_task_member: minimums.collect(),
        min_resources: spec.min_resources.as_ref().map(quota_requests),
        admitted: admitted(group, created),
        started: matches!(
            group.phase(),
            Some(PodGroupPhase::Running | PodGroupPhase::Unknown | PodGroupPhase::Completed)
        ),
        whole_since: condition_of(group, PodGroupConditionType::Scheduled)
            .filter(|found| found.status == "True")
            .map(since),
        waiting_since: unschedulable(group).filter(|found| found.status == "True").map(since),
        elastic: controller_of(&group.metadata).is_some_and(|owner| owner.kind == TrainingJob::KIND),
        topology: by_label(group).or_else(|| spec.network_topology.as_ref().map(|wanted| topology(wanted, around))),
        leaves_whole: note(group, names::DISRUPTION_MODE) == Some(names::DISRUPTION_ALL),
        subgroups: spec.sub_group_policy.iter().map(|policy| subgroups(policy, around)).collect(),
        ..Group::new(id, queue, count(spec.min_member))
    }
}

/// Returns when a group was let into its queue: the condition tells it, if there was a wait before.
fn admitted(group: &PodGroup, created: Time) -> Option<Time> {
    let is_admitted = group.phase().is_some_and(|phase| phase != PodGroupPhase::Pending);
    let told = unschedulable(group).filter(|found| found.status == "False").map(since);
    is_admitted.then(|| told.unwrap_or(created))
}

/// Returns the condition that tells whether a group waits.
pub fn unschedulable(group: &PodGroup) -> Option<&PodGroupCondition> {
    condition_of(group, PodGroupConditionType::Unschedulable)
}

fn condition_of(group: &PodGroup, kind: PodGroupConditionType) -> Option<&PodGroupCondition> {
    let mut conditions = group.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == kind)
}

fn since(condition: &PodGroupCondition) -> Time {
    time(condition.last_transition_time.as_ref())
}

fn topology(wanted: &NetworkTopology, around: GroupContext<'_>) -> Topology {
    let strictness = match wanted.mode() {
        TopologyMode::Hard => Strictness::Hard,
        TopologyMode::Soft => Strictness::Soft,
    };
    let named = Some(wanted.highest_tier_name.as_str()).filter(|name| !name.is_empty());
    // A name that no part of the network has is below all of them.
    let named = named.map(|name| (around.tier)(name).map_or(0, count));
    let highest_tier = wanted.highest_tier_allowed.map(count).or(named).unwrap_or(u32::MAX);
    Topology { strictness, within: Within::Tier(highest_tier) }
}

fn by_label(group: &PodGroup) -> Option<Topology> {
    let label = note(group, names::TOPOLOGY_KEY).filter(|label| !label.is_empty())?;
    Some(Topology { strictness: Strictness::Hard, within: Within::Label(label.into()) })
}

fn note<'a>(group: &'a PodGroup, name: &str) -> Option<&'a str> {
    group.annotations().get(name).map(String::as_str)
}

fn subgroups(policy: &SubGroupPolicy, around: GroupContext<'_>) -> SubGroups {
    // Without a selector it is about all pods of the group.
    let selector = policy.label_selector.as_ref().map_or_else(LabelSelector::default, label_selector);
    SubGroups {
        name: policy.name.as_str().into(),
        selector,
        match_label_keys: policy.match_label_keys.clone(),
        size: count(policy.sub_group_size()).max(1),
        min_subgroups: count(policy.min_sub_groups()),
        topology: policy.network_topology.as_ref().map(|wanted| topology(wanted, around)),
    }
}

/// Returns the group that a pod without one is by itself.
pub fn alone(pod: &K8sPod) -> Group {
    let spec = pod.spec.as_ref();
    let priority = spec.and_then(|spec| spec.priority).unwrap_or_default();
    let created = time(pod.metadata.creation_timestamp.as_ref());
    let waits = condition(pod, "PodScheduled").filter(|found| found.status == "False");
    Group {
        priority,
        // What nobody has called important pushes nobody out.
        preempts: priority > 0 && spec.and_then(|spec| spec.preemption_policy.as_deref()) != Some("Never"),
        created,
        admitted: Some(created),
        started: !node_of(pod).is_empty(),
        whole_since: pods::bound_since(pod),
        waiting_since: waits.map(|found| time(found.last_transition_time.as_ref())),
        ..Group::new(pods::alone(pod), NO_QUEUE, 1)
    }
}

/// Returns the queue of pods that know nothing of queues: before all others, but with a claim to nobody's part.
pub fn no_queue() -> Queue {
    Queue {
        priority: i32::MAX,
        reclaimable: false,
        deserved: Amounts::of([(CPU, 0), (MEMORY, 0)]),
        ..Queue::new(NO_QUEUE)
    }
}

pub fn queue(queue: &QueueObject) -> Queue {
    let spec = &queue.spec;
    let state = match queue.status.as_ref().and_then(|status| status.state) {
        None | Some(State::Open) => QueueState::Open,
        Some(State::Closing) => QueueState::Closing,
        Some(State::Closed | State::Unknown) => QueueState::Closed,
    };
    let dequeue = match spec.dequeue_strategy() {
        DequeueStrategy::Fifo => Dequeue::Fifo,
        DequeueStrategy::Traverse => Dequeue::Traverse,
    };
    Queue {
        parent: Some(spec.parent.as_str()).filter(|parent| !parent.is_empty()).map(Into::into),
        weight: count(spec.weight()),
        priority: spec.priority.unwrap_or_default(),
        state,
        reclaimable: spec.is_reclaimable(),
        dequeue,
        jobs_max: spec.max_running_jobs.map(count),
        min_run_ms: spec.min_runtime.map(milliseconds),
        reclaim_delay_ms: spec.reclaim_delay.map(milliseconds),
        defragments_until: queue
            .annotations()
            .get(names::DEFRAGMENT_UNTIL)
            .and_then(|text| text.parse().ok())
            .map(moment),
        capability: limits(spec.capability.as_ref()),
        deserved: limits(spec.deserved.as_ref()),
        guarantee: limits(spec.guarantee.as_ref().and_then(|guarantee| guarantee.resource.as_ref())),
        ..Queue::new(&queue.name_any())
    }
}

/// Returns the priority class of a group: the one that it names, or the one for all that name none.
pub fn class_of<'a>(
    group: &PodGroup,
    classes: impl IntoIterator<Item = &'a PriorityClass>,
) -> Option<&'a PriorityClass> {
    let named = &group.spec.priority_class_name;
    let is_meant = |class: &&PriorityClass| {
        if named.is_empty() { class.global_default == Some(true) } else { class.metadata.name.as_ref() == Some(named) }
    };
    classes.into_iter().find(is_meant)
}
