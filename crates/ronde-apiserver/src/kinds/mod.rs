//! What is particular about built-in kinds between decoding and storing: defaults, strategies, validation.
//!
//! One table of small pure functions ([`Rules`]) per kind, found with [`rules`]; when each is called is said in
//! `verbs/write.rs`. Everything generic (names, uid, times, generation, managed fields, finalizers, deletion) is the
//! caller's. What is refused, and for which field, is what the
//! real server 1.34 refuses with its default feature gates.

pub mod cluster;
pub mod crd;
pub mod errors;
pub mod eviction;
pub mod meta;
pub mod path;
pub mod pod;
pub mod pod_admission;
pub mod read;
pub mod selector;
pub mod service;
pub mod warnings;

mod addresses;
mod batch;
mod batch_policy;
mod batch_status;
mod claim;
mod config;
mod containers;
mod crd_rules;
mod endpoints;
mod env;
mod event;
mod network;
mod persistent_volume;
mod pod_defaults;
mod pod_resources;
mod pod_status;
mod pod_update;
mod pod_warnings;
mod podspec;
mod policy;
mod probes;
mod projection;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod service_rules;
mod stateful_set;
mod storage_class;
mod volumes;
mod workload;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::{errors::Errors, read::keep_field};
use crate::{
    error::{ApiError, FieldError, Subject},
    names::is_path_segment_name,
    schema::{builtin, strict},
};

/// A type with a pod template in it.
const DEPLOYMENT_SPEC: &str = "io.k8s.api.apps.v1.DeploymentSpec";

/// What is particular about a kind.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about a kind, not a state")]
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub namespaced: bool,
    /// A `PUT` of a name that does not exist creates the object.
    pub create_on_update: bool,
    /// A `PUT` without a resource version overwrites.
    pub unconditional_update: bool,
    /// A `DELETE` without a propagation policy leaves dependents alone.
    pub orphans_dependents: bool,
    pub generation: Generation,
    /// Sets the defaults of an object in the form of its schema; doing it twice changes nothing.
    pub default: fn(&mut Value),
    /// Clears and initialises what a client may not set on creation. Names, uid and times are set already.
    pub prepare_create: fn(&mut Value, now: &str),
    /// Takes from the old object what the main resource may not change.
    pub prepare_update: fn(new: &mut Value, old: &Value),
    /// Takes from the old object what the status subresource may not change.
    pub prepare_status: fn(new: &mut Value, old: &Value, now: &str),
    /// Checks a new object, or a change of one. Called by [`validate`].
    pub validate: fn(new: &Value, old: Option<&Value>, &mut Errors),
    /// Checks a change of the status. Called by [`validate_status`].
    pub validate_status: fn(new: &Value, old: &Value, &mut Errors),
}

/// Whether objects of a kind count their changes in `metadata.generation`.
#[derive(Debug, Clone, Copy)]
pub enum Generation {
    /// There is no generation.
    None,
    /// It stays 1.
    Fixed,
    /// It starts with 1 and grows with changes for which this is true.
    OnChange(fn(new: &Value, old: &Value) -> bool),
}

impl Rules {
    /// A kind in namespaces without status.
    const PLAIN: Self = Self {
        namespaced: true,
        create_on_update: false,
        unconditional_update: true,
        orphans_dependents: false,
        generation: Generation::None,
        default: |_| {},
        prepare_create: |_, _| {},
        prepare_update: |_, _| {},
        prepare_status: |_, _, _| {},
        validate: |_, _, _| {},
        validate_status: |_, _, _| {},
    };

    /// A kind in namespaces whose status has its own subresource.
    const WITH_STATUS: Self = Self {
        prepare_update: |new, old| keep_field(new, old, "status"),
        prepare_status: |new, old, _| keep_field(new, old, "spec"),
        validate_status: |new, old, errors| {
            meta::updated(new, old, errors);
            meta::standard_finalizers(new, errors);
        },
        ..Self::PLAIN
    };

    /// Tells whether a change makes `metadata.generation` grow.
    pub fn increases_generation(&self, new: &Value, old: &Value) -> bool {
        matches!(self.generation, Generation::OnChange(is_change) if is_change(new, old))
    }

    /// Tells whether objects have a generation at all; it starts with 1.
    pub fn has_generation(&self) -> bool {
        !matches!(self.generation, Generation::None)
    }
}

/// Returns the rules for a built-in kind.
pub fn rules(group: &str, kind: &str) -> Option<&'static Rules> {
    Some(match (group, kind) {
        ("", "Namespace") => &cluster::NAMESPACE,
        ("", "Node") => &cluster::NODE,
        ("", "Pod") => &pod::RULES,
        ("", "Service") => &service::RULES,
        ("", "Endpoints") => &endpoints::ENDPOINTS,
        ("", "ConfigMap") => &config::CONFIG_MAP,
        ("", "Secret") => &config::SECRET,
        ("", "ServiceAccount") => &config::SERVICE_ACCOUNT,
        ("", "Event") => &event::CORE,
        ("", "PersistentVolumeClaim") => &claim::RULES,
        ("", "PersistentVolume") => &persistent_volume::RULES,
        ("", "ResourceQuota") => &policy::RESOURCE_QUOTA,
        ("apps", "Deployment") => &workload::DEPLOYMENT,
        ("apps", "ReplicaSet") => &workload::REPLICA_SET,
        ("apps", "StatefulSet") => &stateful_set::RULES,
        ("apps", "ControllerRevision") => &workload::CONTROLLER_REVISION,
        ("batch", "Job") => &batch::RULES,
        ("policy", "PodDisruptionBudget") => &policy::POD_DISRUPTION_BUDGET,
        ("scheduling.k8s.io", "PriorityClass") => &policy::PRIORITY_CLASS,
        ("coordination.k8s.io", "Lease") => &cluster::LEASE,
        ("discovery.k8s.io", "EndpointSlice") => &endpoints::ENDPOINT_SLICE,
        ("events.k8s.io", "Event") => &event::EVENTS,
        ("networking.k8s.io", "NetworkPolicy") => &network::NETWORK_POLICY,
        ("networking.k8s.io", "Ingress") => &network::INGRESS,
        ("networking.k8s.io", "IngressClass") => &network::INGRESS_CLASS,
        ("rbac.authorization.k8s.io", "Role") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::ROLE_BINDING,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::CLUSTER_ROLE_BINDING,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &crd_rules::RULES,
        ("storage.k8s.io", "StorageClass") => &storage_class::RULES,
        _ => return None,
    })
}

/// Checks a new object, or a change of one, in the order of the real server.
pub fn validate(rules: &Rules, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::new();
    if let Some(old) = old {
        common_update(rules, new, old, &mut errors);
    }
    (rules.validate)(new, old, &mut errors);
    if old.is_none() && errors.is_empty() {
        meta::created(new, rules.namespaced, is_path_segment_name, &mut errors);
    }
    errors.into_vec()
}

/// Checks a pod template in an object of a kind that is not built in: what the workloads of the cluster do to theirs
/// before it is checked happens to a copy.
pub fn check_template(template: &Value, path: &str) -> Vec<FieldError> {
    let mut spec = Map::from_iter([("template".to_owned(), template.clone())]);
    if let (Some(template), Some(node)) = (spec.get_mut("template"), builtin::property(DEPLOYMENT_SPEC, "template")) {
        // What cannot be decoded is for the schema to tell.
        let _ = strict::decode(template, node);
    }
    workload::default_template(&mut spec);
    let mut errors = Errors::new();
    podspec::template(&spec["template"], &path::Path::new(path), &mut errors);
    errors.into_vec()
}

/// Makes the error of mistakes found by [`validate`]. Events of both groups are of the core group in errors.
pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> ApiError {
    let group = if kind == "Event" && group == "events.k8s.io" { "" } else { group };
    ApiError::invalid(Subject { group, what: kind, name }, errors)
}

/// Checks a change of the status in the order of the real server.
pub fn validate_status(rules: &Rules, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    common_update(rules, new, old, &mut errors);
    (rules.validate_status)(new, old, &mut errors);
    errors.into_vec()
}

fn common_update(rules: &Rules, new: &Value, old: &Value, errors: &mut Errors) {
    meta::created(new, rules.namespaced, is_path_segment_name, errors);
    meta::updated(new, old, errors);
}
