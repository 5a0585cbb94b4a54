//! The identity of a stateful pod: its ordinal, and what follows from it.
//!
//! Pure. Names and labels are those of Kubernetes.

use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetSpec},
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use kube::ResourceExt as _;
use ronde_runtime::pods;

use super::claims;

pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// Returns the ordinal of a pod by its name, if it is one of the set's names.
pub fn ordinal(set: &StatefulSet, pod: &str) -> Option<i32> {
    let digits = pod.strip_prefix(&set.name_any())?.strip_prefix('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the name of the pod of an ordinal.
pub fn name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name_any())
}

/// Returns the ordinals that a set wants.
pub fn ordinals(spec: &StatefulSetSpec) -> std::ops::Range<i32> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(spec.replicas.unwrap_or(1))
}

/// Returns the revision that a pod was made from.
pub fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION_LABEL).map(String::as_str).unwrap_or_default()
}

/// Builds the pod of an ordinal from the template of a revision.
pub fn build(set: &StatefulSet, ordinal: i32, template: &PodTemplateSpec, revision: &str) -> Pod {
    let mut pod = pods::build(template, set);
    let name = name(set, ordinal);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    identify(&mut pod, ordinal);
    pod.labels_mut().insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone());
    let mut volumes: Vec<Volume> =
        templates(set).map(|claim| volume(claim.name_any(), claims::name(set, claim, ordinal))).collect();
    let own: Vec<String> = volumes.iter().map(|volume| volume.name.clone()).collect();
    volumes.extend(spec.volumes.take().into_iter().flatten().filter(|volume| !own.contains(&volume.name)));
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
    pod
}

/// Gives a pod the labels of its identity.
pub fn identify(pod: &mut Pod, ordinal: i32) {
    let name = pod.name_any();
    let labels = pod.labels_mut();
    labels.insert(POD_NAME_LABEL.to_owned(), name);
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
}

/// Tells whether a pod has the label of its identity.
pub fn is_identified(pod: &Pod) -> bool {
    pod.labels().get(POD_NAME_LABEL) == Some(&pod.name_any())
}

/// Returns the templates of the claims of each pod.
pub fn templates(set: &StatefulSet) -> impl Iterator<Item = &PersistentVolumeClaim> {
    set.spec.iter().flat_map(|spec| spec.volume_claim_templates.iter().flatten())
}

fn volume(name: String, claim_name: String) -> Volume {
    let claim = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
    Volume { name, persistent_volume_claim: Some(claim), ..Volume::default() }
}
