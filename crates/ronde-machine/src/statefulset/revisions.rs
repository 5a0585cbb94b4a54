//! The history of a set's template: which revision it is at, and which are forgotten.
//!
//! Pure. A revision holds the patch that brings its template back, as `kubectl rollout undo` applies it.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use kube::ResourceExt as _;
use serde_json::json;

use ronde_runtime::pods::{controller_ref, hash};

const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// What is left of a name of 253 characters after a dash and the hash, as Kubernetes counts it.
const PREFIX_MAX: usize = 223;

/// What has to be done to have a revision of the current template.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// The newest one is it.
    Use(Arc<ControllerRevision>),
    /// An old one is it, and becomes the newest.
    Renumber(Box<ControllerRevision>),
    Create(Box<ControllerRevision>),
}

/// Sorts revisions, oldest first.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by_cached_key(|one| (one.revision, one.metadata.creation_timestamp.clone(), one.name_any()));
}

/// Finds the revision of a set's template among its revisions, oldest first.
pub fn choose(set: &StatefulSet, revisions: &[Arc<ControllerRevision>], collisions: i32) -> Choice {
    let wanted = set.spec.as_ref().map(|spec| &spec.template);
    let is_equal = |revision: &Arc<ControllerRevision>| template(revision).as_ref() == wanted;
    let next = revisions.last().map_or(0, |newest| newest.revision) + 1;
    match revisions.iter().rposition(is_equal) {
        Some(index) if index + 1 == revisions.len() => Choice::Use(revisions[index].clone()),
        Some(index) => {
            let old = ControllerRevision::clone(&revisions[index]);
            Choice::Renumber(Box::new(ControllerRevision { revision: next, ..old }))
        }
        None => Choice::Create(Box::new(build(set, next, collisions))),
    }
}

/// Builds a revision of a set's template.
pub fn build(set: &StatefulSet, revision: i64, collisions: i32) -> ControllerRevision {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    let mut data = json!(template);
    data["$patch"] = json!("replace");
    let data = json!({"spec": {"template": data}});
    let hash = hash::name(&data, Some(collisions));
    let set_name = set.name_any();
    let mut revision = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", &set_name[..set_name.floor_char_boundary(PREFIX_MAX)])),
            namespace: set.namespace(),
            labels,
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![controller_ref(set)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision,
    };
    revision.labels_mut().insert(HASH_LABEL.to_owned(), hash);
    revision
}

/// Returns the template that a revision holds.
pub fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Returns the revisions that are neither in use nor kept to go back to; they are sorted, oldest first.
pub fn surplus(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    used: &BTreeSet<String>,
) -> Vec<Arc<ControllerRevision>> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let mut unused: Vec<_> = revisions.iter().filter(|one| !used.contains(&one.name_any())).cloned().collect();
    let kept = usize::try_from(limit).unwrap_or(usize::MAX);
    unused.truncate(unused.len().saturating_sub(kept));
    unused
}
