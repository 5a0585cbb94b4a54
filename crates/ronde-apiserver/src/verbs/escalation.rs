//! Nobody gives away rights that they do not have: checked when roles and bindings are written.
//!
//! The verbs `escalate` on a role and `bind` on the role that a binding names are the ways around, for who may be
//! trusted with them.

use serde_json::Value;

use super::{Call, meta};
use crate::{
    error::ApiError,
    rbac::{Attributes, GROUP, Kind, PolicyRule, Requested, ResourceAttributes, RoleRef, missing, quoted, rules_of},
};

/// Fields of `metadata` that the garbage collector needs to write.
const COLLECTED: [&str; 3] = ["ownerReferences", "finalizers", "managedFields"];

impl Call {
    /// # Errors
    /// If the object gives rights that its writer does not have.
    pub fn check_escalation(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let Some(kind) = Kind::of_collection(&self.resource.collection) else { return Ok(()) };
        if self.user.is_admin() || old.is_some_and(|old| is_collection_only(new, old)) {
            return Ok(());
        }
        match kind {
            Kind::Role | Kind::ClusterRole => self.check_role(new),
            Kind::RoleBinding | Kind::ClusterRoleBinding => self.check_binding(new),
        }
    }

    fn check_role(&self, role: &Value) -> Result<(), ApiError> {
        if self.authorize("escalate").is_ok() {
            return Ok(());
        }
        if !role["aggregationRule"].is_null() {
            let everything: Vec<PolicyRule> = rules_of(&serde_json::json!({"rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]}));
            let cannot = "must have cluster-admin privileges to use an aggregationRule";
            self.check_covered(&everything).map_err(|_| ApiError::forbidden(self.subject(), cannot))?;
        }
        self.check_covered(&rules_of(role))
    }

    fn check_binding(&self, binding: &Value) -> Result<(), ApiError> {
        let role = RoleRef::of_binding(binding);
        let namespace = self.target.namespace.as_str();
        let requested = ResourceAttributes {
            group: GROUP,
            resource: role.plural(),
            namespace,
            name: &role.name,
            ..ResourceAttributes::default()
        };
        let bind = Attributes { verb: "bind", requested: Requested::Resource(requested) };
        if self.api.decide(&self.user, &bind).allowed {
            return Ok(());
        }
        let rules = self.api.ask_policy(|policy| policy.rules_of_role(&role, namespace).map(<[_]>::to_vec))?;
        self.check_covered(&rules)
    }

    fn check_covered(&self, wanted: &[PolicyRule]) -> Result<(), ApiError> {
        let held = self.api.ask_policy(|policy| policy.rules_for(&self.user, &self.target.namespace));
        let missing = missing(&held, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let (name, groups) = (&self.user.name, quoted(&self.user.groups));
        let why = format!(
            "user {name:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
            missing.join("\n")
        );
        Err(ApiError::forbidden(self.subject(), why))
    }
}

/// Whether nothing changes but what the garbage collector writes.
fn is_collection_only(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in COLLECTED.iter().chain(&["resourceVersion"]) {
            meta::remove(&mut object, field);
        }
        object
    };
    without(new) == without(old)
}
