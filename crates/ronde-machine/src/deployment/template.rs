//! The replica set of a deployment's template: finding it, building it, and the annotations that tie the two together.
//!
//! Pure. The annotations are those that `kubectl rollout history` and `undo` read.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::ResourceExt as _;

use ronde_runtime::pods::{controller_ref, hash};

/// The label that keeps the pods of two replica sets of one deployment apart.
pub const TEMPLATE_HASH: &str = "pod-template-hash";
/// Which rollout a replica set, or the deployment, is at.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Which rollouts a replica set has served before.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many replicas the deployment wanted when it last scaled a replica set.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// How many replicas it would have had at most.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const DEPRECATED_ROLLBACK: &str = "deprecated.deployment.rollback.to";
/// Annotations of a deployment that its replica sets have of their own or not at all.
const NOT_COPIED: [&str; 6] =
    [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, DEPRECATED_ROLLBACK];
/// About a hundred revisions.
const HISTORY_CHARS_MAX: usize = 2000;
const NAME_MAX: usize = 253;

/// Splits the replica sets of a deployment, oldest first, into the one of its template and the others.
pub fn split(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> (Option<ReplicaSet>, Vec<ReplicaSet>) {
    let mut sets: Vec<ReplicaSet> = sets.iter().map(|set| ReplicaSet::clone(set)).collect();
    sets.sort_by_cached_key(|set| (set.metadata.creation_timestamp.clone(), set.name_any()));
    let new = sets.iter().position(|set| has_template(deployment, set)).map(|index| sets.remove(index));
    (new, sets)
}

/// Tells whether a replica set makes the pods that a deployment now asks for.
pub fn has_template(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let wanted = deployment.spec.as_ref().map(|spec| &spec.template);
    let has = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    matches!((wanted, has), (Some(wanted), Some(has)) if without_hash(wanted) == without_hash(has))
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    template
}

/// Builds the replica set of a deployment's template, without replicas.
pub fn build(deployment: &Deployment) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = hash::name(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(TEMPLATE_HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(set_name(&deployment.name_any(), &hash)),
            namespace: deployment.namespace(),
            owner_references: Some(vec![controller_ref(deployment)]),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: spec.min_ready_seconds,
            selector: with_label(spec.selector, TEMPLATE_HASH, &hash),
            template: Some(template),
        }),
        status: None,
    }
}

fn set_name(deployment: &str, hash: &str) -> String {
    let room = NAME_MAX - 1 - hash.len();
    format!("{}-{hash}", &deployment[..deployment.floor_char_boundary(room)])
}

fn with_label(mut selector: LabelSelector, key: &str, value: &str) -> LabelSelector {
    selector.match_labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    selector
}

/// Returns the revision of a replica set; zero if it has none.
pub fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Brings the annotations of the replica set of the current template up to date; `revision` is the next one.
pub fn annotate(deployment: &Deployment, set: &mut ReplicaSet, revision: i64) {
    let copied = deployment.annotations().iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    let copied: BTreeMap<String, String> = copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    let annotations = set.annotations_mut();
    annotations.extend(copied);
    let old = annotations.get(REVISION).cloned();
    let old_number: Option<i64> = old.as_deref().map_or(Some(0), |text| text.parse().ok());
    // After old sets are gone the next revision may be smaller than the one that the set has already.
    if old_number.is_none_or(|old| old >= revision) {
        return;
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    if let Some(old) = old {
        let history = annotations.get(REVISION_HISTORY).map(String::as_str).unwrap_or_default();
        let history = with_history(history, &old);
        annotations.insert(REVISION_HISTORY.to_owned(), history);
    }
}

/// Adds a revision to a history, which loses its oldest ones when it gets too long.
fn with_history(history: &str, revision: &str) -> String {
    let mut history = if history.is_empty() { revision.to_owned() } else { format!("{history},{revision}") };
    while history.len() > HISTORY_CHARS_MAX
        && let Some((_, rest)) = history.split_once(',')
    {
        history = rest.to_owned();
    }
    history
}

/// Returns a count that was left in an annotation.
pub fn annotated(set: &ReplicaSet, key: &str) -> Option<i32> {
    set.annotations().get(key)?.parse().ok().filter(|number| *number >= 0)
}
