//! Delete: at once, after a grace period, after finalizers, with or without dependents.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Call, Done, Shown, WriteOutcome,
    meta::{self, FOREGROUND, ORPHAN},
    write::TRIES_MAX,
};
use crate::{
    admission::Operation,
    api::CRDS,
    clock_and_ids::rfc3339,
    crds,
    error::{ApiError, FieldError, Subject},
    kinds, namespaces,
    store::Object,
};

/// How a delete is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

/// What becomes of the objects that the deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    /// Reads the options from an object of the kind `DeleteOptions`.
    ///
    /// # Errors
    /// If a value is not known, or two options contradict each other.
    pub fn parse(source: &Value) -> Result<Self, ApiError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let options = Self {
            grace_period_seconds: source["gracePeriodSeconds"].as_i64(),
            propagation: propagation(source)?,
            uid: text(&source["preconditions"]["uid"]),
            resource_version: text(&source["preconditions"]["resourceVersion"]),
            dry_run: dry_run(source)?,
        };
        Ok(options)
    }
}

fn invalid(errors: &[FieldError]) -> ApiError {
    ApiError::invalid(Subject { group: "meta.k8s.io", what: "DeleteOptions", name: "" }, errors)
}

fn propagation(source: &Value) -> Result<Option<Propagation>, ApiError> {
    let orphan = source["orphanDependents"].as_bool();
    match (source["propagationPolicy"].as_str(), orphan) {
        (Some(_), Some(_)) => {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            Err(invalid(&[FieldError::invalid("propagationPolicy", source["propagationPolicy"].clone(), why)]))
        }
        (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (None, Some(false)) => Ok(Some(Propagation::Background)),
        (None, None) => Ok(None),
        (Some("Background"), None) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), None) => Ok(Some(Propagation::Foreground)),
        (Some("Orphan"), None) => Ok(Some(Propagation::Orphan)),
        (Some(other), None) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            Err(invalid(&[FieldError::not_supported("propagationPolicy", other.into(), &supported)]))
        }
    }
}

fn dry_run(source: &Value) -> Result<bool, ApiError> {
    let values: Vec<&Value> = match &source["dryRun"] {
        Value::Array(list) => list.iter().collect(),
        Value::Null => Vec::new(),
        other => vec![other],
    };
    match values.iter().find(|value| **value != "All") {
        Some(_) => Err(invalid(&[FieldError::not_supported("dryRun", source["dryRun"].clone(), &["All"])])),
        None => Ok(!values.is_empty()),
    }
}

impl Call {
    /// Deletes the object, or starts its deletion.
    ///
    /// # Errors
    /// If it does not exist, may not be deleted, or is not the one the client means.
    pub async fn delete(&mut self, options: &DeleteOptions) -> Result<Done, ApiError> {
        self.options.dry_run |= options.dry_run;
        let warnings = self.deletion_warnings(options);
        for tries in 1.. {
            let current = self.find()?;
            let old = self.resource.show(&current);
            self.check_deletable(&old, options, &current)?;
            match self.delete_once(&old, &current, options).await {
                Err(error) if error.is_race() && tries < TRIES_MAX => {}
                Err(error) => return Err(error),
                Ok(outcome) => return Ok(Done { outcome, warnings }),
            }
        }
        unreachable!("the loop ends with an answer")
    }

    async fn delete_once(
        &self,
        old: &Value,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<WriteOutcome, ApiError> {
        let mut new = old.clone();
        self.set_deletion_finalizers(&mut new, options);
        let grace = self.grace(old, options);
        if grace == 0 && meta::finalizers(&new).is_empty() && !self.resource.is_core("Namespace") {
            let last = if self.resource.is_core("Pod") { self.ended(new) } else { old.clone() };
            let shown = self.remove(last, current).await?;
            return Ok(self.deleted(old, shown));
        }
        self.mark_deleted(&mut new, old, grace);
        if new == *old {
            return Ok(WriteOutcome::Deleting(Shown::Stored(current.clone())));
        }
        Ok(WriteOutcome::Deleting(self.store(new, Some(current)).await?))
    }

    /// A pod that goes at once is shown with the time of its end.
    fn ended(&self, mut pod: Value) -> Value {
        if !meta::is_deleting(&pod) {
            meta::set(&mut pod, "deletionTimestamp", self.api.clock_and_ids().now_text());
        }
        meta::set(&mut pod, "deletionGracePeriodSeconds", 0);
        pod
    }

    /// Sets the time of the end. A second delete may bring it nearer, never further away.
    fn mark_deleted(&self, new: &mut Value, old: &Value, grace: i64) {
        let was = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if meta::is_deleting(old) && was.is_none_or(|was| was <= grace) {
            return;
        }
        let end = self.api.clock_and_ids().now().saturating_add(jiff::SignedDuration::from_secs(grace));
        meta::set(new, "deletionTimestamp", end.map_or_else(|_| self.api.clock_and_ids().now_text(), rfc3339));
        if !self.resource.is_core("Namespace") {
            meta::set(new, "deletionGracePeriodSeconds", grace);
        }
        if meta::generation(old) > 0 && !meta::is_deleting(old) {
            meta::set(new, "generation", meta::next_generation(old));
        }
        if self.resource.is_core("Namespace") {
            new["status"]["phase"] = "Terminating".into();
        }
        if *self.resource.collection == *CRDS
            && let Some(conditions) = new["status"]["conditions"].as_array_mut()
        {
            conditions.push(crds::terminating(&self.api.clock_and_ids().now_text()));
        }
    }

    fn grace(&self, old: &Value, options: &DeleteOptions) -> i64 {
        if self.resource.is_core("Pod") { kinds::pod::deletion_grace(old, options.grace_period_seconds) } else { 0 }
    }

    fn set_deletion_finalizers(&self, new: &mut Value, options: &DeleteOptions) {
        let finalizers: Vec<String> = meta::finalizers(new).into_iter().map(str::to_owned).collect();
        let mut kept: Vec<&str> = finalizers.iter().map(String::as_str).collect();
        let policy = options.propagation.unwrap_or_else(|| self.default_propagation(&kept));
        if options.propagation.is_some() {
            kept.retain(|finalizer| *finalizer != FOREGROUND && *finalizer != ORPHAN);
        }
        if *self.resource.collection == *CRDS && !kept.contains(&crds::CLEANUP) {
            kept.push(crds::CLEANUP);
        }
        match policy {
            Propagation::Background => {}
            Propagation::Foreground if kept.contains(&FOREGROUND) => {}
            Propagation::Foreground => kept.push(FOREGROUND),
            Propagation::Orphan if kept.contains(&ORPHAN) => {}
            Propagation::Orphan => kept.push(ORPHAN),
        }
        meta::set_finalizers(new, &kept);
    }

    fn default_propagation(&self, finalizers: &[&str]) -> Propagation {
        if finalizers.contains(&ORPHAN) || self.resource.orphans_dependents() {
            Propagation::Orphan
        } else if finalizers.contains(&FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        }
    }

    fn deletion_warnings(&self, options: &DeleteOptions) -> Vec<String> {
        let orphans = self.resource.orphans_dependents() && options.propagation.is_none();
        let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                       remove them or set propagationPolicy=Orphan to suppress this warning";
        orphans.then(|| warning.to_owned()).into_iter().collect()
    }

    fn check_deletable(&self, old: &Value, options: &DeleteOptions, current: &Object) -> Result<(), ApiError> {
        let (uid, version) = (meta::text(old, "uid"), current.revision.to_string());
        let subject = Subject { what: &self.resource.info.kind, ..self.subject() };
        if let Some(wanted) = options.uid.as_ref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might \
                 have been deleted and then recreated"
            );
            return Err(ApiError::conflict(subject, why));
        }
        if let Some(wanted) = options.resource_version.as_ref().filter(|wanted| **wanted != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            );
            return Err(ApiError::conflict(subject, why));
        }
        if self.resource.is_core("Namespace") && namespaces::IMMORTAL.contains(&self.target.name.as_str()) {
            return Err(ApiError::forbidden(self.subject(), "this namespace may not be deleted"));
        }
        self.check_ruled_deletable(old)
    }

    /// Asks the rules of kinds that the server does not know. With its kind, every object goes.
    fn check_ruled_deletable(&self, old: &Value) -> Result<(), ApiError> {
        if self.resource.custom().is_some_and(|custom| custom.is_terminating) {
            return Ok(());
        }
        let review = self.review(Operation::Delete);
        match self.api.admission().iter().find_map(|admission| admission.check_delete(&review, old)) {
            Some(why) => Err(ApiError::forbidden(self.subject(), why)),
            None => Ok(()),
        }
    }

    /// The answer to a delete that is done: pods come back whole, of the rest only what they were called.
    fn deleted(&self, old: &Value, shown: Shown) -> WriteOutcome {
        if self.resource.returns_deleted() {
            return WriteOutcome::Deleting(shown);
        }
        let info = &self.resource.info;
        let mut details = json!({"name": self.target.name, "kind": info.plural, "uid": meta::text(old, "uid")});
        if !info.group.is_empty() {
            details["group"] = info.group.as_str().into();
        }
        WriteOutcome::Deleted(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        }))
    }
}
