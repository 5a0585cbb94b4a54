//! Create: a new object, named by the client or by us.

use serde_json::Value;

use super::{Call, Done, Shown, WriteOutcome, body::Body, meta};
use crate::{
    error::{ApiError, FieldError},
    kinds::{self, pod_admission},
    namespaces,
    store::Key,
};

/// Fields of `metadata` that only the server sets.
const SERVER_SET: [&str; 4] = ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"];
/// A generated name leaves room for its random end.
const GENERATED_BASE_MAX: usize = 58;
/// How often another name is tried when a generated one is taken.
const NAME_TRIES: usize = 8;

impl Call {
    /// Creates the object in `body`.
    ///
    /// # Errors
    /// If the body is not a valid new object of this kind, or its name is taken.
    pub async fn create(&mut self, body: Body) -> Result<Done, ApiError> {
        let Body { mut value, problems } = body;
        let warnings = self.conform(&mut value, problems)?;
        self.create_conforming(value, warnings).await
    }

    /// The same for an object that conforms to its schema.
    ///
    /// # Errors
    /// If it is not valid, or its name is taken.
    pub async fn create_conforming(&mut self, mut value: Value, mut warnings: Vec<String>) -> Result<Done, ApiError> {
        // Owners are noted first: nobody comes to own what the server itself sets below.
        wipe(&mut value)?;
        self.track(None, &mut value);
        let generated = self.name_new(&mut value)?;
        let _choosing = self.choosing_addresses().await;
        warnings.extend(self.prepare_new(&mut value)?);
        let shown = self.insert(value, generated).await?;
        Ok(Done { outcome: WriteOutcome::Created(shown), warnings })
    }

    /// Everything between a conforming object and the store.
    fn prepare_new(&self, value: &mut Value) -> Result<Vec<String>, ApiError> {
        self.begin_life(value);
        self.check_open()?;
        self.admit(value, None);
        let mut warnings = Vec::from_iter(kinds::meta::remove_duplicate_owners(value));
        self.resource.prepare_create(value, &self.api.clock_and_ids().now_text());
        self.admit_builtin(value)?;
        self.give_addresses(value, None)?;
        warnings.extend(self.validate(value, None)?);
        self.check_escalation(value, None)?;
        warnings.extend(self.check_pod_security(value, None)?);
        Ok(warnings)
    }

    /// Creates an object from a server-side apply, whose field owners are known already.
    ///
    /// # Errors
    /// As [`Call::create`].
    pub async fn create_applied(&mut self, mut value: Value) -> Result<Done, ApiError> {
        meta::remove(&mut value, "resourceVersion");
        wipe(&mut value)?;
        self.name_new(&mut value)?;
        let _choosing = self.choosing_addresses().await;
        let warnings = self.prepare_new(&mut value)?;
        let shown = self.store(value, None).await?;
        Ok(Done { outcome: WriteOutcome::Created(shown), warnings })
    }

    async fn insert(&mut self, mut value: Value, generated: bool) -> Result<Shown, ApiError> {
        let base = meta::text(&value, "generateName").to_owned();
        for _ in 1..NAME_TRIES {
            if !generated {
                break;
            }
            match self.store(value.clone(), None).await {
                Err(error) if error.reason == "AlreadyExists" => self.generate_name(&mut value, &base),
                answer => return answer,
            }
        }
        self.store(value, None).await
    }

    /// Settles the name; returns whether it was generated.
    fn name_new(&mut self, value: &mut Value) -> Result<bool, ApiError> {
        self.place(value)?;
        let (name, base) = (meta::text(value, "name").to_owned(), meta::text(value, "generateName").to_owned());
        let name_is_ours = name.is_empty();
        match (name_is_ours, base.is_empty()) {
            (false, _) => self.target.name = name,
            (true, false) => self.generate_name(value, &base),
            (true, true) => {
                let missing = FieldError::required("metadata.name", "name or generateName is required");
                self.refuse(value, &[missing])?;
            }
        }
        Ok(name_is_ours)
    }

    fn generate_name(&mut self, value: &mut Value, base: &str) {
        let cut = (0..=GENERATED_BASE_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or(0);
        let name = format!("{}{}", &base[..cut], self.api.clock_and_ids().name_suffix());
        meta::set(value, "name", name.as_str());
        self.target.name = name;
    }

    /// Puts the object into the namespace of the request.
    ///
    /// # Errors
    /// If the object names another one.
    pub fn place(&self, value: &mut Value) -> Result<(), ApiError> {
        let named = meta::text(value, "namespace");
        if self.resource.info.namespaced && !named.is_empty() && named != self.target.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(why));
        }
        if self.resource.info.namespaced {
            meta::set(value, "namespace", self.target.namespace.as_str());
        } else {
            meta::remove(value, "namespace");
        }
        Ok(())
    }

    fn begin_life(&self, value: &mut Value) {
        meta::set(value, "uid", self.api.clock_and_ids().uid());
        meta::set(value, "creationTimestamp", self.api.clock_and_ids().now_text());
        if self.resource.has_generation() {
            meta::set(value, "generation", 1);
        }
    }

    /// Nothing is created in a namespace that is missing or on its way out, nor of a kind that is.
    fn check_open(&self) -> Result<(), ApiError> {
        if self.resource.custom().is_some_and(|custom| custom.is_terminating) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(self.subject(), why));
        }
        if !self.resource.info.namespaced {
            return Ok(());
        }
        namespaces::check_open(&self.api, &self.target.namespace, self.subject())
    }

    /// What the real server's built-in admission does to new pods.
    fn admit_builtin(&self, value: &mut Value) -> Result<(), ApiError> {
        if !self.resource.is_core("Pod") {
            return Ok(());
        }
        pod_admission::admit_pod(value, self.api.pod_priority(value)?.as_priority())?;
        let account = value["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let key = Key::new(&"serviceaccounts".into(), &self.target.namespace, account);
        let account = self.api.store().get(&key).map(|object| object.value());
        // The account `default` comes with its namespace; a pod that is quicker need not wait for it.
        if account.is_none() && *key.place.name != *"default" {
            return Err(pod_admission::no_service_account(value, &key.place.name));
        }
        let account = account.unwrap_or_default();
        pod_admission::admit_service_account(value, &self.api.clock_and_ids().name_suffix(), &account);
        Ok(())
    }
}

/// Clears what only the server sets.
fn wipe(value: &mut Value) -> Result<(), ApiError> {
    if !meta::text(value, "resourceVersion").is_empty() {
        return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    for field in SERVER_SET {
        meta::remove(value, field);
    }
    Ok(())
}
