//! Update: a whole object in place of another, through the main resource or its status.
//!
//! Patches, scale and bindings end here too: they are ways to say what the new object is.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Call, Done, Shown, WriteOutcome,
    body::Body,
    meta,
    write::{MODIFIED, TRIES_MAX},
};
use crate::{
    error::{ApiError, FieldError},
    kinds::{self, pod_admission},
    patch::apply,
    store::{Object, Revision},
};

/// Fields of `metadata` that an update cannot change: they are taken from the stored object.
const KEPT: [&str; 5] = ["generation", "selfLink", "uid", "creationTimestamp", "deletionTimestamp"];

/// What a write is to become, given the object as it is.
pub struct Next {
    pub value: Value,
    pub warnings: Vec<String>,
    pub origin: Origin,
}

/// Where the new content of an object comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Client,
    /// From a client, by server-side apply: the owners of fields are settled already.
    Applied,
    /// From one of our loops, which in a cluster would be a client: owned, but not prepared or checked.
    Loop,
    /// From the server itself: nothing is to be prepared, checked or owned.
    Server,
}

impl Next {
    /// A change that the server makes by itself.
    pub fn own(value: Value) -> Self {
        Self { value, warnings: Vec::new(), origin: Origin::Server }
    }

    /// A change that one of our loops makes.
    pub fn of_loop(value: Value) -> Self {
        Self { value, warnings: Vec::new(), origin: Origin::Loop }
    }
}

impl Call {
    /// Replaces the object by the one in `body`.
    ///
    /// # Errors
    /// If the body is not valid, or another write came first.
    pub async fn update(&mut self, body: Body) -> Result<Done, ApiError> {
        let Body { mut value, problems } = body;
        let warnings = self.conform(&mut value, problems)?;
        self.check_named(&value)?;
        if self.resource.creates_on_update() && self.target.subresource.is_empty() && self.find().is_err() {
            self.authorize("create")?;
            meta::remove(&mut value, "resourceVersion");
            return self.create_conforming(value, warnings).await;
        }
        self.change(|old| {
            self.check_uid(&value, old)?;
            Ok(Next { value: value.clone(), warnings: warnings.clone(), origin: Origin::Client })
        })
        .await
    }

    /// Changes the object to what `next` makes of it, again and again while others write in between.
    ///
    /// # Errors
    /// If the object does not exist, or what `next` gives cannot be stored.
    pub async fn change(&self, next: impl Fn(&Value) -> Result<Next, ApiError>) -> Result<Done, ApiError> {
        for tries in 1.. {
            let current = self.find()?;
            let old = self.resource.show(&current);
            let Next { mut value, mut warnings, origin } = next(&old)?;
            self.check_version(&value, &current)?;
            if matches!(origin, Origin::Client | Origin::Loop) {
                self.track(Some(&old), &mut value);
            }
            let _choosing = self.choosing_addresses().await;
            if matches!(origin, Origin::Client | Origin::Applied) {
                warnings.extend(self.prepare_change(&mut value, &old)?);
            }
            apply::keep_times_if_unchanged(&old, &mut value);
            match self.finish(value, &old, &current).await {
                // Who named a version hears of the conflict in the next round.
                Err(error) if error.is_race() && tries < TRIES_MAX => {}
                Err(error) => return Err(error),
                Ok(shown) => return Ok(Done { outcome: WriteOutcome::Updated(shown), warnings }),
            }
        }
        unreachable!("the loop ends with an answer")
    }

    /// Everything between the new content and the store.
    fn prepare_change(&self, value: &mut Value, old: &Value) -> Result<Vec<String>, ApiError> {
        self.place(value)?;
        for field in KEPT {
            // A uid that the client names is for validation to compare.
            if field != "uid" || meta::text(value, field).is_empty() {
                meta::keep_field(value, old, field);
            }
        }
        if value["metadata"]["deletionGracePeriodSeconds"].is_null() {
            meta::keep_field(value, old, "deletionGracePeriodSeconds");
        }
        if meta::text(value, "resourceVersion").is_empty() && self.allows_unconditional() {
            meta::keep_field(value, old, "resourceVersion");
        }
        // Before the generation is settled: what defaults bring back to what it was is no change.
        self.admit(value, Some(old));
        match self.target.subresource.as_str() {
            "status" => self.resource.prepare_status(value, old, &self.api.clock_and_ids().now_text()),
            _ => self.resource.prepare_update(value, old),
        }
        if self.target.subresource != "status" && self.resource.bumps_generation(value, old) {
            meta::set(value, "generation", meta::next_generation(old));
        }
        if self.resource.is_core("Pod") {
            pod_admission::admit_pod_update(value, old);
        }
        let mut warnings = Vec::from_iter(kinds::meta::remove_duplicate_owners(value));
        self.give_addresses(value, Some(old))?;
        warnings.extend(self.validate(value, Some(old))?);
        self.check_escalation(value, Some(old))?;
        warnings.extend(self.check_pod_security(value, Some(old))?);
        Ok(warnings)
    }

    /// Writes the new state, unless it is the old one; an object whose last finalizer goes is removed.
    async fn finish(&self, value: Value, old: &Value, current: &Arc<Object>) -> Result<Shown, ApiError> {
        if ends_life(&value) {
            self.remove(value.clone(), current).await?;
            return Ok(Shown::Value(self.resource.filled(value)));
        }
        if is_same(&value, old) {
            return Ok(Shown::Stored(current.clone()));
        }
        self.store(value, Some(current)).await
    }

    /// Checks the version that the client saw, if it named one.
    fn check_version(&self, value: &Value, current: &Object) -> Result<(), ApiError> {
        let version = meta::text(value, "resourceVersion");
        if version.is_empty() && !self.allows_unconditional() {
            let missing = FieldError::invalid("metadata.resourceVersion", 0.into(), "must be specified for an update");
            return Err(ApiError::invalid(self.subject(), &[missing]));
        }
        if version.is_empty() {
            return Ok(());
        }
        match version.parse::<Revision>() {
            Ok(version) if version == current.revision => Ok(()),
            Ok(_) => Err(ApiError::conflict(self.subject(), MODIFIED)),
            Err(_) => Err(ApiError::new(
                500,
                "",
                format!("metadata.resourceVersion: Invalid value: {version:?}: must be a number"),
            )),
        }
    }

    fn allows_unconditional(&self) -> bool {
        self.resource.allows_unconditional_update() || self.target.subresource == "scale"
    }

    /// Checks that a whole new object is meant for the one that exists.
    fn check_uid(&self, value: &Value, old: &Value) -> Result<(), ApiError> {
        let (wanted, uid) = (meta::text(value, "uid"), meta::text(old, "uid"));
        if wanted.is_empty() || wanted == uid {
            return Ok(());
        }
        Err(self.another_object(wanted, uid))
    }

    /// The answer to a write that is meant for an object with another uid.
    pub fn another_object(&self, wanted: &str, uid: &str) -> ApiError {
        let why = format!(
            "the UID in the request ({wanted}) is not that of the object ({uid}), which may have been recreated"
        );
        ApiError::conflict(self.subject(), why)
    }

    /// # Errors
    /// If the object is not the one in the path.
    pub fn check_named(&self, value: &Value) -> Result<(), ApiError> {
        let name = meta::text(value, "name");
        if name.is_empty() {
            let url = &self.target.name;
            let why = format!("the name of the object ({url} based on URL) was undeterminable: name must be provided");
            return Err(ApiError::bad_request(why));
        }
        if name != self.target.name {
            let url = &self.target.name;
            let why = format!("the name of the object ({name}) does not match the name on the URL ({url})");
            return Err(ApiError::bad_request(why));
        }
        Ok(())
    }
}

/// Whether nothing holds the object back any more once it has been deleted.
fn ends_life(value: &Value) -> bool {
    let grace = value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    meta::is_deleting(value) && grace == 0 && meta::finalizers(value).is_empty() && !holds_contents(value)
}

/// A namespace stays until its own finalizers are gone too.
fn holds_contents(value: &Value) -> bool {
    value["kind"] == "Namespace" && value["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Whether a write changes nothing but perhaps the version it was based on.
fn is_same(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    let content = |key: &str| !matches!(key, "metadata" | "apiVersion" | "kind");
    let same = |a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>| {
        a.iter().filter(|(key, _)| content(key)).all(|(key, value)| b.get(key) == Some(value))
    };
    let metadata = |object: &serde_json::Map<String, Value>| object.get("metadata").and_then(Value::as_object).cloned();
    let (mut a, mut b) = (metadata(new).unwrap_or_default(), metadata(old).unwrap_or_default());
    a.remove("resourceVersion");
    b.remove("resourceVersion");
    same(new, old) && same(old, new) && a == b
}
