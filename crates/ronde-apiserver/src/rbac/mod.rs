//! Who may do what: roles and bindings in, yes or no with a reason out. Pure.
//!
//! [`Policy`] holds the roles and bindings of the cluster, kept up one object at a time; [`follow`] feeds it from the
//! store, [`bootstrap`] are the roles that every cluster has, [`aggregate`] fills the roles that are made of others.
//! The rules are those of a real server; its words for reasons and refusals are too.

pub mod aggregate;
pub mod bootstrap;
pub mod follow;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub use self::rules::{Attributes, PolicyRule, Requested, ResourceAttributes, missing, quoted};
use crate::{
    auth::User,
    error::{ApiError, Subject as ErrorSubject},
};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The four kinds of objects that rights are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub struct Policy {
    /// By namespace (empty for cluster roles) and name.
    roles: BTreeMap<(String, String), Vec<PolicyRule>>,
    /// By namespace (empty for bindings of the whole cluster), then by name.
    bindings: BTreeMap<String, BTreeMap<String, Binding>>,
}

/// The answer to a question about access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: bool,
    /// Which binding allows it, or which roles were missing when it was looked for.
    pub reason: String,
}

/// The role that a binding gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RoleRef {
    pub kind: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

/// Whom a binding gives its role to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// A binding that applies to a user, with what it gives.
struct Grant<'a> {
    namespace: &'a str,
    name: &'a str,
    role: &'a RoleRef,
    subject: &'a Subject,
    /// None if the role does not exist.
    rules: Option<&'a [PolicyRule]>,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    /// The collection in the store.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Role => "roles.rbac.authorization.k8s.io",
            Self::ClusterRole => "clusterroles.rbac.authorization.k8s.io",
            Self::RoleBinding => "rolebindings.rbac.authorization.k8s.io",
            Self::ClusterRoleBinding => "clusterrolebindings.rbac.authorization.k8s.io",
        }
    }

    /// Returns the kind of a collection in the store.
    pub fn of_collection(collection: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.collection() == collection)
    }
}

impl Policy {
    /// Takes note of an object as it is now; none if it is gone.
    pub fn set(&mut self, kind: Kind, namespace: &str, name: &str, object: Option<&Value>) {
        match kind {
            Kind::Role | Kind::ClusterRole => {
                let place = (namespace.to_owned(), name.to_owned());
                match object {
                    Some(role) => drop(self.roles.insert(place, rules_of(role))),
                    None => drop(self.roles.remove(&place)),
                }
            }
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                let here = self.bindings.entry(namespace.to_owned()).or_default();
                match object {
                    Some(binding) => {
                        drop(here.insert(name.to_owned(), Binding::deserialize(binding).unwrap_or_default()));
                    }
                    None => drop(here.remove(name)),
                }
                if here.is_empty() {
                    self.bindings.remove(namespace);
                }
            }
        }
    }

    /// Forgets everything of a kind.
    pub fn clear(&mut self, kind: Kind) {
        let is_cluster_wide = matches!(kind, Kind::ClusterRole | Kind::ClusterRoleBinding);
        match kind {
            Kind::Role | Kind::ClusterRole => self.roles.retain(|(at, _), _| at.is_empty() != is_cluster_wide),
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                self.bindings.retain(|at, _| at.is_empty() != is_cluster_wide);
            }
        }
    }

    /// Decides whether a user may do something.
    pub fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        if user.is_admin() {
            return Verdict { allowed: true, reason: String::new() };
        }
        let mut absent = Vec::new();
        for grant in self.grants(user, attributes.namespace()) {
            match grant.rules {
                Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Verdict { allowed: true, reason: format!("RBAC: allowed by {}", grant.describe()) };
                }
                Some(_) => {}
                None => absent.push(grant.role.not_found()),
            }
        }
        let reason = match absent.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
        Verdict { allowed: false, reason }
    }

    /// Returns all rules that hold for a user in a namespace, or at the cluster scope.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        self.grants(user, namespace).filter_map(|grant| grant.rules).flatten().cloned().collect()
    }

    /// Returns the rules of the role that a binding in a namespace names.
    ///
    /// # Errors
    /// If there is no such role.
    pub fn rules_of_role(&self, role: &RoleRef, namespace: &str) -> Result<&[PolicyRule], ApiError> {
        let missing = || ApiError::not_found(ErrorSubject { group: GROUP, what: role.plural(), name: &role.name });
        self.find(role, namespace).ok_or_else(missing)
    }

    fn find(&self, role: &RoleRef, namespace: &str) -> Option<&[PolicyRule]> {
        let at = if role.kind == "ClusterRole" { "" } else { namespace };
        self.roles.get(&(at.to_owned(), role.name.clone())).map(Vec::as_slice)
    }

    /// The bindings that apply to a user: those of the whole cluster, then those of the namespace.
    fn grants<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let places = [Some(""), Some(namespace).filter(|namespace| !namespace.is_empty())];
        places.into_iter().flatten().flat_map(move |namespace| {
            let here = self.bindings.get(namespace).into_iter().flatten();
            here.filter_map(move |(name, binding)| {
                let subject = binding.subjects.iter().flatten().find(|subject| subject.is_user(user, namespace))?;
                let rules = self.find(&binding.role_ref, namespace);
                Some(Grant { namespace, name, role: &binding.role_ref, subject, rules })
            })
        })
    }
}

/// Returns the rules of a role.
pub fn rules_of(role: &Value) -> Vec<PolicyRule> {
    Option::<Vec<PolicyRule>>::deserialize(&role["rules"]).ok().flatten().unwrap_or_default()
}

impl RoleRef {
    pub fn of_binding(binding: &Value) -> Self {
        Self::deserialize(&binding["roleRef"]).unwrap_or_default()
    }

    pub fn plural(&self) -> &'static str {
        if self.kind == "ClusterRole" { "clusterroles" } else { "roles" }
    }

    fn not_found(&self) -> String {
        format!("{}.{GROUP} {:?} not found", self.kind.to_lowercase(), self.name)
    }
}

impl Subject {
    fn is_user(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                let namespace = self.namespace_or(binding_namespace);
                !namespace.is_empty() && account == Some((namespace, &self.name))
            }
            _ => false,
        }
    }

    fn namespace_or<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }
}

impl Grant<'_> {
    fn describe(&self) -> String {
        let (role, subject) = (self.role, self.subject);
        let (binding, name) = match self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_owned()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let to = match subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", subject.name, subject.namespace_or(self.namespace)),
            _ => subject.name.clone(),
        };
        format!("{binding} {name:?} of {} {:?} to {} {to:?}", role.kind, role.name, subject.kind)
    }
}

/// The answer to a request that is not allowed.
pub fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let (who, verb) = (&user.name, attributes.verb);
    let colon = if reason.is_empty() { "" } else { ": " };
    match attributes.requested {
        Requested::Path(path) => {
            let message = format!("forbidden: User {who:?} cannot {verb} path {path:?}{colon}{reason}");
            ApiError::new(403, "Forbidden", message).with_details(serde_json::json!({}))
        }
        Requested::Resource(of) => {
            let slash = if of.subresource.is_empty() { "" } else { "/" };
            let scope = match of.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let subject = ErrorSubject { group: of.group, what: of.resource, name: of.name };
            let why = format!(
                "User {who:?} cannot {verb} resource \"{}{slash}{}\" in API group {:?} {scope}{colon}{reason}",
                of.resource, of.subresource, of.group
            );
            ApiError::forbidden(subject, why)
        }
    }
}
