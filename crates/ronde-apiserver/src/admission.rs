//! In-process admission: rules of our own kinds, asked on every write of an object that a client wants.
//!
//! On a real cluster the same rules are CEL in the CRDs plus the controller's own check; here they run inside the
//! server, so nothing can be down. Whoever embeds the server hands them to it; the server knows none of the kinds. The
//! order is that of a real server: defaults come before the schema has been checked, and faults are told together
//! with those that the schema finds.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    auth::User,
    discovery::ResourceInfo,
    error::FieldError,
    kinds,
    schema::crd::{UNCHECKED, Verdict},
    store::{Key, Object, Range, Store},
};

/// What is being done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// The circumstances of a write.
pub struct Review<'a> {
    pub operation: Operation,
    pub resource: &'a ResourceInfo,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub user: &'a User,
    pub stored: Stored<'a>,
}

/// The objects that are stored, for rules that look at others.
#[derive(Clone, Copy)]
pub struct Stored<'a>(pub(crate) &'a Store);

impl Stored<'_> {
    /// Returns an object of a collection (`plural.group`, or `plural` for the core group).
    pub fn get(self, collection: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(&Key::new(&collection.into(), namespace, name)).map(|object| object.value())
    }

    /// Returns all objects of a collection; none are parsed yet.
    pub fn list(self, collection: &str) -> Vec<Arc<Object>> {
        self.0.list(collection, &Range::default()).map(|page| page.objects).unwrap_or_default()
    }
}

/// Defaults and checks for some kinds. Every method has nothing to say about all others.
pub trait Admission: Send + Sync {
    /// Sets what the object leaves open. It may still be wrong in every way.
    fn default(&self, review: &Review<'_>, new: &mut Value, old: Option<&Value>);

    /// Returns what is wrong with an object and what its writer should know; none if there are no rules for its kind or
    /// it is not even of its form. Rules of the schema need not be told again: where both name a field, these here
    /// stand for both.
    fn check(&self, review: &Review<'_>, new: &Value, old: Option<&Value>) -> Option<Verdict>;

    /// Returns the pod templates in an object, which its controller makes pods from; they are held to the level of
    /// security that its writer's pods are held to.
    fn pod_templates(&self, resource: &ResourceInfo, object: &Value) -> Vec<Value>;

    /// Returns why an object may not be deleted.
    fn check_delete(&self, review: &Review<'_>, old: &Value) -> Option<String>;
}

/// Returns what is wrong with a pod template that stands at `path`, as in the workloads of the cluster.
pub fn check_pod_template(template: &Value, path: &str) -> Vec<FieldError> {
    kinds::check_template(template, path)
}

/// Joins what rules in process say with what the schema says: a fault of the schema goes if the rules name the same
/// field or one inside it.
pub(crate) fn join(schema: Verdict, ruled: Vec<Verdict>) -> Verdict {
    if ruled.is_empty() {
        return schema;
    }
    let mut joined = schema;
    let is_told = |fault: &FieldError| ruled.iter().flat_map(|verdict| &verdict.errors).any(|told| covers(told, fault));
    joined.errors.retain(|fault| fault.detail != UNCHECKED && !is_told(fault));
    for verdict in ruled {
        joined.errors.extend(verdict.errors);
        joined.warnings.extend(verdict.warnings);
    }
    joined
}

fn covers(told: &FieldError, fault: &FieldError) -> bool {
    told.path.strip_prefix(&fault.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_for_what_the_schema_says_of_the_same_field() {
        let faults = |paths: &[&str]| Verdict {
            errors: paths.iter().map(|path| FieldError::invalid(*path, Value::Null, "")).collect(),
            warnings: Vec::new(),
        };
        let paths = |verdict: Verdict| verdict.errors.into_iter().map(|fault| fault.path).collect::<Vec<_>>();
        let mut schema = faults(&["spec.tasks", "spec.min", "spec.queue", "metadata"]);
        schema.errors.push(FieldError::invalid("<nil>", Value::Null, UNCHECKED));
        let told = || faults(&["spec.tasks[1].name", "spec.queue", "spec.minimum"]);
        let joined = join(schema.clone(), vec![told()]);
        assert_eq!(paths(joined), ["spec.min", "metadata", "spec.tasks[1].name", "spec.queue", "spec.minimum"]);
        assert_eq!(join(schema.clone(), vec![]), schema, "without rules nothing is left out");
    }
}
