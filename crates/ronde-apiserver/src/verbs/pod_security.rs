//! Pod Security: pods are held to the level that the labels of their namespace ask for.
//!
//! Where there is no label, the administrator's pods may be anything, and everybody else's are held to `baseline`: a
//! pod beyond that is root on the user's machine. Controllers make pods from templates with the rights of the
//! administrator, so that such templates are held to `baseline` when somebody else writes them.

use std::borrow::Cow;

use serde_json::Value;

use super::Call;
use crate::{
    error::{ApiError, FieldError},
    pod_security::{Labels, Level, PREFIX, Pod, Standard},
    store::Key,
};

const IMPLIED: &str = "the namespace has no label pod-security.kubernetes.io/enforce, and only the administrator's pods \
                       may go beyond \"baseline\" then";

/// Where the pod template of a built-in kind is.
const TEMPLATES: [(&str, &str, &str); 5] = [
    ("apps", "ControllerRevision", "/data/spec/template"),
    ("apps", "Deployment", "/spec/template"),
    ("apps", "ReplicaSet", "/spec/template"),
    ("apps", "StatefulSet", "/spec/template"),
    ("batch", "Job", "/spec/template"),
];

impl Call {
    /// Checks the pods that an object is, or leads to; returns warnings.
    ///
    /// # Errors
    /// Everything in which they go beyond the level that is enforced.
    pub fn check_pod_security(&self, new: &Value, old: Option<&Value>) -> Result<Vec<String>, ApiError> {
        if self.resource.is_core("Namespace") {
            return self.check_level_labels(new).map(|()| Vec::new());
        }
        let is_pod = self.resource.is_core("Pod");
        // Of a pod nothing can be changed that a level is about.
        if !self.target.subresource.is_empty() || (is_pod && old.is_some()) {
            return Ok(Vec::new());
        }
        let pods = if is_pod { vec![Cow::Borrowed(new)] } else { self.templates(new) };
        if pods.is_empty() || old.is_some_and(|old| self.templates(old) == pods) {
            return Ok(Vec::new());
        }
        self.hold_to_levels(&pods, is_pod)
    }

    fn hold_to_levels(&self, pods: &[Cow<'_, Value>], is_pod: bool) -> Result<Vec<String>, ApiError> {
        let key = Key::new(&"namespaces".into(), "", &self.target.namespace);
        let labels = self.api.store().get(&key).map(|found| Labels::read(&found.meta.labels)).unwrap_or_default();
        let complaint = |standard: &Standard| standard.complaint(pods.iter().map(|pod| Pod::of_object(pod)));
        let implied = labels.enforce.is_none() && !self.user.is_admin();
        let enforced = if implied { Some(Standard::latest(Level::Baseline)) } else { labels.enforce };
        // Templates are enforced only where their pods would not be.
        if let Some(told) = enforced.filter(|_| is_pod || implied).and_then(|standard| complaint(&standard)) {
            let told = told.replacen("violate", "violates", 1);
            let why = if implied { format!("{told}; {IMPLIED}") } else { told };
            return Err(ApiError::forbidden(self.subject(), why));
        }
        Ok(labels
            .warn
            .and_then(|standard| complaint(&standard))
            .map(|told| format!("would {told}"))
            .into_iter()
            .collect())
    }

    /// The templates that pods are made from.
    fn templates<'a>(&self, object: &'a Value) -> Vec<Cow<'a, Value>> {
        let info = &self.resource.info;
        let row = TEMPLATES.iter().find(|(group, kind, _)| (*group, *kind) == (&info.group, &info.kind));
        let built_in = row.and_then(|(.., at)| object.pointer(at)).map(Cow::Borrowed);
        let others = self.api.admission().iter().flat_map(|admission| admission.pod_templates(info, object));
        built_in.into_iter().chain(others.map(Cow::Owned)).collect()
    }

    /// A level that does not exist would protect nothing.
    fn check_level_labels(&self, namespace: &Value) -> Result<(), ApiError> {
        let wrong = |mode: &str| {
            let label = format!("{PREFIX}{mode}");
            let level = namespace["metadata"]["labels"][&label].as_str()?;
            let detail = format!("must be one of {}", Level::NAMES.join(", "));
            let fault = || FieldError::invalid(format!("metadata.labels[{label}]"), level.into(), detail);
            Level::parse(level).is_none().then(fault)
        };
        let faults: Vec<FieldError> = ["enforce", "audit", "warn"].into_iter().filter_map(wrong).collect();
        self.refuse(namespace, &faults)
    }
}
