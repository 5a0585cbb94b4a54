//! What the caches of an operator keep of pods and nodes: what its controllers and scheduler read, and nothing more.
//!
//! Pure. Most pods and nodes of a large cluster are of no interest beyond the room that they take and have. What is cached
//! is never written back whole: pods and nodes are patched. On one machine the caches are shared with controllers that read
//! more, and nothing is taken out.

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, PodStatus, ResourceRequirements, Volume};
use ronde_api::{Job, TrainingJob, names};
use ronde_runtime::{pods::controller_of, podstatus::node_of};

use crate::scheduling::objects::pods::MIRROR;

/// The annotation that `kubectl apply` leaves: the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What begins so may be an answer to somebody here.
const PREFIXES: [&str; 3] = ["volcano.sh/", "scheduling.volcano.sh/", "ronde.dev/"];

/// Takes out of a pod what nobody here reads.
pub fn pod(pod: &mut Pod) {
    let is_ours = is_ours(pod);
    if let Some(annotations) = &mut pod.metadata.annotations {
        let is_read = |key: &str| {
            matches!(key, names::GROUP_NAME | MIRROR) || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        };
        annotations.retain(|key, _| if is_ours { key != LAST_APPLIED } else { is_read(key) });
    }
    pod.metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
    if let Some(spec) = &mut pod.spec {
        trim_spec(spec);
    }
    let has_node = !node_of(pod).is_empty();
    if let Some(status) = &mut pod.status {
        trim_status(status);
        if !is_ours {
            keep_progress(status, has_node);
        }
    }
}

/// Tells whether a job of ours may look at more of a pod than the room that it takes.
fn is_ours(pod: &Pod) -> bool {
    use kube::Resource as _;
    let groups = [Job::group(&()), TrainingJob::group(&())];
    let group =
        controller_of(&pod.metadata).and_then(|owner| owner.api_version.split_once('/')).map(|(group, _)| group);
    group.is_some_and(|group| groups.iter().any(|ours| ours == group))
}

fn trim_spec(spec: &mut PodSpec) {
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(trim_container);
    spec.init_containers.iter_mut().for_each(Vec::shrink_to_fit);
    spec.containers.shrink_to_fit();
    let has_claim = |volume: &Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(has_claim);
    }
    spec.volumes = spec.volumes.take().filter(|volumes| !volumes.is_empty());
    spec.tolerations.iter_mut().for_each(Vec::shrink_to_fit);
    spec.topology_spread_constraints.iter_mut().for_each(Vec::shrink_to_fit);
    (spec.dns_config, spec.dns_policy, spec.host_aliases, spec.readiness_gates) = (None, None, None, None);
    (spec.image_pull_secrets, spec.security_context, spec.hostname, spec.subdomain) = (None, None, None, None);
    (spec.service_account, spec.service_account_name) = (None, None);
}

/// A container keeps its name, and what it asks of its node.
fn trim_container(container: &mut Container) {
    let resources = container.resources.take().map(|resources| ResourceRequirements { claims: None, ..resources });
    *container = Container {
        name: std::mem::take(&mut container.name),
        ports: container.ports.take().filter(|ports| ports.iter().any(|port| port.host_port.is_some())),
        resources,
        restart_policy: container.restart_policy.take(),
        ..Container::default()
    };
}

fn trim_status(status: &mut PodStatus) {
    status.conditions.iter_mut().for_each(Vec::shrink_to_fit);
    status.container_statuses.iter_mut().for_each(Vec::shrink_to_fit);
    (status.host_ip, status.host_ips, status.pod_ips, status.qos_class) = (None, None, None, None);
}

/// Of others' pods only how far they are counts; and why they wait, until they have a node.
fn keep_progress(status: &mut PodStatus, has_node: bool) {
    *status = PodStatus {
        phase: status.phase.take(),
        conditions: status.conditions.take().filter(|_| !has_node),
        nominated_node_name: status.nominated_node_name.take(),
        ..PodStatus::default()
    };
}

/// Takes out of a node what nobody here reads: most of it are the images that it has.
pub fn node(node: &mut Node) {
    node.metadata.annotations = None;
    let Some(status) = &mut node.status else { return };
    status.conditions.iter_mut().for_each(Vec::shrink_to_fit);
    (status.images, status.node_info, status.addresses, status.config) = (None, None, None, None);
    (status.volumes_attached, status.volumes_in_use, status.daemon_endpoints) = (None, None, None);
    (status.capacity, status.runtime_handlers, status.features) = (None, None, None);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        membership::{Schedulers, membership},
        scheduling::objects::{nodes, pods},
    };

    /// A pod with everything that the scheduler reads, and much that it does not.
    fn full(owner: &str, scheduler: &str) -> Pod {
        let owner = json!({"apiVersion": owner, "kind": "Owner", "name": "o", "uid": "u", "controller": true});
        let resources = json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}});
        let container = json!({
            "name": "c", "image": "registry/image:tag", "command": ["python", "train.py"], "resources": resources,
            "env": [{"name": "A", "value": "x".repeat(1000)}], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "ports": [{"containerPort": 22, "hostPort": 2222}, {"containerPort": 80}],
        });
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}});
        let spread = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let statuses = json!([{"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0}]);
        serde_json::from_value(json!({
            "metadata": {
                "name": "p-3", "namespace": "n", "uid": "p", "labels": {"app": "a"}, "ownerReferences": [owner],
                "annotations": {
                    names::GROUP_NAME: "g", names::TASK_SPEC: "w", names::PREEMPTABLE: "false", MIRROR: "m",
                    LAST_APPLIED: "{}", "other.example/note": "x",
                },
            },
            "spec": {
                "schedulerName": scheduler, "containers": [container], "initContainers": [sidecar],
                "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "priority": 7, "overhead": {"cpu": "10m"}, "topologySpreadConstraints": [spread],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "tmp", "emptyDir": {}}],
            },
            "status": {"phase": "Pending", "podIP": "10.0.0.1", "conditions": conditions,
                "containerStatuses": statuses, "nominatedNodeName": "n-1"},
        }))
        .expect("a pod")
    }

    fn trimmed(mut of: Pod) -> Pod {
        pod(&mut of);
        of
    }

    #[test]
    fn the_scheduler_sees_the_same_pods() {
        let schedulers: Schedulers = ["volcano".to_owned()].into();
        for (owner, scheduler) in [("batch.volcano.sh/v1alpha1", "volcano"), ("apps/v1", "volcano"), ("apps/v1", "x")] {
            let (before, after) = (full(owner, scheduler), trimmed(full(owner, scheduler)));
            let seen = |pod: &Pod| {
                let claims = crate::scheduling::objects::volumes::claim_names(pod);
                (
                    format!("{:?}", pods::pod(pod, &membership(pod, &schedulers), ronde_scheduler::Volumes::default())),
                    claims,
                )
            };
            assert_eq!(seen(&before), seen(&after), "{owner} {scheduler}");
            let size = |pod: &Pod| serde_json::to_string(pod).unwrap_or_default().len();
            assert!(size(&after) * 3 < size(&before) * 2, "{} of {} bytes are kept", size(&after), size(&before));
        }
    }

    #[test]
    fn jobs_see_how_their_pods_fare() {
        let ours = trimmed(full("batch.volcano.sh/v1alpha1", "volcano"));
        let status = ours.status.expect("a status");
        assert!(status.container_statuses.is_some() && status.pod_ip.is_some() && status.conditions.is_some());
        assert!(ours.metadata.annotations.expect("annotations").contains_key("other.example/note"));
        let stranger = trimmed(full("apps/v1", "x"));
        let status = stranger.status.expect("a status");
        assert!(status.container_statuses.is_none() && status.conditions.is_some(), "it has no node yet");
    }

    #[test]
    fn the_scheduler_sees_the_same_nodes() {
        let images: Vec<Value> = (0..50).map(|number| json!({"names": [format!("image-{number}")]})).collect();
        let room = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let before: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"zone": "a"}, "annotations": {"a": "b"}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {"allocatable": room, "capacity": room, "conditions": conditions, "images": images},
        }))
        .expect("a node");
        let mut after = before.clone();
        node(&mut after);
        assert_eq!(format!("{:?}", nodes::node(&after)), format!("{:?}", nodes::node(&before)));
        assert!(after.status.expect("a status").images.is_none());
    }
}
