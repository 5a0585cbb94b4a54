//! Pods: whose they are, and what they ask of a node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity as K8sNodeAffinity, Pod as K8sPod, PodAffinityTerm as K8sPodAffinityTerm,
    PodSpec as K8sPodSpec, Toleration as K8sToleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use kube::ResourceExt as _;
use ronde_api::names;
use ronde_runtime::pods::resources::{is_sidecar, requests};
use ronde_runtime::{
    pods::{condition, is_deleted, phase},
    podstatus::node_of,
};
use ronde_scheduler::{
    GroupId, HostPort, Labels, NodeAffinity, Phase, Pod, PodAffinityTerm, PodId, PodSpec, Spread, Time, Toleration,
    Volumes, Weighted,
};

use super::{
    count, milliseconds,
    nodes::effect,
    selectors::{label_selector, labels, node_selector, node_selector_term, with_own_labels},
    time,
};
use crate::{membership::Membership, scheduling::status::pods::SCHEDULED};

/// Pods of this priority and above keep the cluster itself running.
const CRITICAL: i32 = 2_000_000_000;
/// The annotation of a pod that a node has by itself.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns the name of a pod for the scheduler.
pub fn id(pod: &K8sPod) -> PodId {
    PodId::new(&pod.namespace().unwrap_or_default(), &pod.name_any())
}

/// Returns the group of a pod that has none; no PodGroup can have this name.
pub fn alone(pod: &K8sPod) -> GroupId {
    GroupId::new(&pod.namespace().unwrap_or_default(), &format!("pod/{}", pod.name_any()))
}

/// Returns a pod as the scheduler sees it.
pub fn pod(pod: &K8sPod, membership: &Membership, volumes: Volumes) -> Pod {
    let empty = K8sPodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let is_gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let is_ours = matches!(membership, Membership::Of(_) | Membership::Alone);
    let group = if let Membership::Of(group) = membership { group.clone() } else { alone(pod) };
    let priority = spec.priority.unwrap_or_default();
    let some_node = |name: &str| Some(name).filter(|name| !name.is_empty()).map(Into::into);
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    Pod {
        id: id(pod),
        group,
        task: note(pod, names::TASK_SPEC).unwrap_or_default().into(),
        index: index(pod),
        labels: pod.labels().clone(),
        spec: Arc::new(pod_spec(spec, pod.labels(), volumes)),
        priority,
        created: time(pod.metadata.creation_timestamp.as_ref()),
        phase: match phase(pod) {
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Running" => Phase::Running,
            _ => Phase::Pending,
        },
        node: some_node(node_of(pod)),
        bound_since: bound_since(pod),
        min_run_ms: note(pod, names::COOLDOWN_TIME).and_then(|text| text.parse().ok()).map(milliseconds),
        nominated: some_node(nominated.unwrap_or_default()),
        leaving: is_deleted(pod),
        preemptable: is_ours && priority < CRITICAL && is_preemptable(pod),
        held: is_gated || !is_ours,
    }
}

/// Returns since when a pod is bound to its node.
pub fn bound_since(pod: &K8sPod) -> Option<Time> {
    let told = condition(pod, SCHEDULED).filter(|told| told.status == "True");
    told.map(|told| time(told.last_transition_time.as_ref()))
}

/// Returns an annotation, or the label of the same name.
fn note<'a>(pod: &'a K8sPod, name: &str) -> Option<&'a str> {
    pod.annotations().get(name).or_else(|| pod.labels().get(name)).map(String::as_str)
}

/// Returns the number of a pod in its task; its name tells it if nothing else does.
fn index(pod: &K8sPod) -> u32 {
    let name = pod.name_any();
    let tail = name.rsplit_once('-').map(|(_, tail)| tail);
    note(pod, names::TASK_INDEX).or(tail).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn is_preemptable(pod: &K8sPod) -> bool {
    note(pod, names::PREEMPTABLE) != Some("false") && !pod.annotations().contains_key(MIRROR)
}

fn pod_spec(spec: &K8sPodSpec, own: &Labels, volumes: Volumes) -> PodSpec {
    let affinity = spec.affinity.clone().unwrap_or_default();
    let Affinity { node_affinity, pod_affinity, pod_anti_affinity } = affinity;
    let (near, far) = (pod_affinity.unwrap_or_default(), pod_anti_affinity.unwrap_or_default());
    let terms = |terms: Option<Vec<K8sPodAffinityTerm>>| {
        terms.into_iter().flatten().map(|term| affinity_term(&term, own)).collect::<Vec<_>>()
    };
    let weighted = |terms: Option<Vec<WeightedPodAffinityTerm>>| {
        let weigh = |term: WeightedPodAffinityTerm| Weighted {
            weight: term.weight,
            term: affinity_term(&term.pod_affinity_term, own),
        };
        terms.into_iter().flatten().map(weigh).collect::<Vec<_>>()
    };
    PodSpec {
        requests: requests(spec),
        node_selector: labels(spec.node_selector.as_ref()),
        node_affinity: node_affinity.map(node_affinity_of).unwrap_or_default(),
        tolerations: spec.tolerations.iter().flatten().filter_map(toleration).collect(),
        host_ports: host_ports(spec),
        volumes,
        affinity: terms(near.required_during_scheduling_ignored_during_execution),
        preferred_affinity: weighted(near.preferred_during_scheduling_ignored_during_execution),
        anti_affinity: terms(far.required_during_scheduling_ignored_during_execution),
        preferred_anti_affinity: weighted(far.preferred_during_scheduling_ignored_during_execution),
        spread: spec.topology_spread_constraints.iter().flatten().map(|wanted| spread(wanted, own)).collect(),
    }
}

fn node_affinity_of(wanted: K8sNodeAffinity) -> NodeAffinity {
    let preferred = wanted.preferred_during_scheduling_ignored_during_execution.into_iter().flatten();
    NodeAffinity {
        required: wanted.required_during_scheduling_ignored_during_execution.as_ref().map(node_selector),
        preferred: preferred
            .map(|term| Weighted { weight: term.weight, term: node_selector_term(&term.preference) })
            .collect(),
    }
}

fn affinity_term(term: &K8sPodAffinityTerm, own: &Labels) -> PodAffinityTerm {
    let (same, different) = (term.match_label_keys.as_ref(), term.mismatch_label_keys.as_ref());
    PodAffinityTerm {
        topology_key: term.topology_key.clone(),
        selector: with_own_labels(term.label_selector.as_ref(), own, same, different),
        namespaces: term.namespaces.iter().flatten().cloned().collect(),
        namespace_selector: term.namespace_selector.as_ref().map(label_selector),
    }
}

fn spread(wanted: &TopologySpreadConstraint, own: &Labels) -> Spread {
    let honours = |policy: &Option<String>, default| policy.as_deref().unwrap_or(default) == "Honor";
    Spread {
        topology_key: wanted.topology_key.clone(),
        max_skew: count(wanted.max_skew),
        required: wanted.when_unsatisfiable == "DoNotSchedule",
        selector: with_own_labels(wanted.label_selector.as_ref(), own, wanted.match_label_keys.as_ref(), None),
        min_domains: wanted.min_domains.map(count),
        honours_affinity: honours(&wanted.node_affinity_policy, "Honor"),
        honours_taints: honours(&wanted.node_taints_policy, "Ignore"),
    }
}

/// Returns what a toleration tolerates; one that is malformed tolerates nothing.
fn toleration(wanted: &K8sToleration) -> Option<Toleration> {
    let key = wanted.key.clone().unwrap_or_default();
    let value = match wanted.operator.as_deref().unwrap_or_default() {
        "Exists" => None,
        "" | "Equal" if !key.is_empty() => Some(wanted.value.clone().unwrap_or_default()),
        _ => return None,
    };
    let effect = match wanted.effect.as_deref().unwrap_or_default() {
        "" => None,
        word => Some(effect(word)?),
    };
    Some(Toleration { key, value, effect })
}

/// Returns the ports of the node that a pod takes.
pub fn host_ports(spec: &K8sPodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let taken = ports.filter_map(|port| {
        let address = port.host_ip.as_deref().filter(|address| *address != "::").unwrap_or_default();
        Some(HostPort {
            port: port.host_port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0)?,
            protocol: port.protocol.as_deref().unwrap_or("TCP").into(),
            address: address.into(),
        })
    });
    taken.collect()
}
