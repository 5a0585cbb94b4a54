//! Patch: JSON patch, merge patch, strategic merge patch and server-side apply.

use bytes::Bytes;
use serde_json::Value;

use super::{
    Call, Done, meta,
    update::{Next, Origin},
};
use crate::{
    decode::media_type,
    error::{ApiError, Cause, FieldError, Subject},
    patch::{self, Parsed, Patch},
};

impl Call {
    /// Changes the object as the patch in `body` says; an apply creates it if it is not there.
    ///
    /// # Errors
    /// If the patch is malformed, does not fit, conflicts, or its result is not valid.
    pub async fn patch(&mut self, content_type: &str, body: &Bytes) -> Result<Done, ApiError> {
        if self.resource.is_custom() && !CUSTOM_TYPES.contains(&&*media_type(content_type)) {
            return Err(ApiError::unsupported_media_type(&CUSTOM_TYPES));
        }
        let is_apply = content_type.starts_with("application/apply-patch");
        if !is_apply {
            self.find()?;
        }
        let Parsed { patch, problems } = Patch::parse(content_type, body, self.options.field_validation)?;
        if self.options.force && !matches!(patch, Patch::Apply(_)) {
            return Err(bad_options(FieldError::forbidden("force", "may not be specified for non-apply patch")));
        }
        match patch {
            Patch::Apply(applied) => self.apply(applied, problems).await,
            patch => self.change(|old| self.patched(&patch, old, &problems)).await,
        }
    }

    fn patched(&self, patch: &Patch, old: &Value, problems: &[String]) -> Result<Next, ApiError> {
        let mut value = patch::apply_patch(patch, old, self.resource.schema())?;
        let result = value.clone();
        self.check_type(&value).map_err(|error| Self::invalid_patch(patch, &result, error))?;
        let warnings =
            self.conform(&mut value, problems.to_vec()).map_err(|error| Self::invalid_patch(patch, &result, error))?;
        self.check_named(&value)?;
        Ok(Next { value, warnings, origin: Origin::Client })
    }

    /// A patch whose result is not an object of the kind is an invalid patch.
    fn invalid_patch(patch: &Patch, result: &Value, error: ApiError) -> ApiError {
        match &error.cause {
            Some(Cause::NotOfKind(why)) => patch.invalid_result(result, why),
            _ => error,
        }
    }

    async fn apply(&mut self, applied: Value, warnings: Vec<String>) -> Result<Done, ApiError> {
        if self.options.field_manager.is_empty() {
            return Err(bad_options(FieldError::required("fieldManager", "is required for apply patch")));
        }
        if self.api.store().get(&self.key()).is_none() && self.target.subresource.is_empty() {
            return self.apply_new(&applied, warnings).await;
        }
        self.change(|old| {
            let mut value = self.apply_to(Some(old), &applied)?;
            let warnings = self.conform(&mut value, warnings.clone())?;
            self.check_named(&value)?;
            Ok(Next { value, warnings, origin: Origin::Applied })
        })
        .await
    }

    async fn apply_new(&mut self, applied: &Value, warnings: Vec<String>) -> Result<Done, ApiError> {
        self.authorize("create")?;
        let mut value = self.apply_to(None, applied)?;
        if meta::text(&value, "name").is_empty() {
            meta::set(&mut value, "name", self.target.name.as_str());
        }
        let warnings = self.conform(&mut value, warnings)?;
        self.check_named(&value)?;
        let mut done = self.create_applied(value).await?;
        done.warnings.splice(0..0, warnings);
        Ok(done)
    }
}

fn bad_options(error: FieldError) -> ApiError {
    ApiError::invalid(Subject { group: "meta.k8s.io", what: "PatchOptions", name: "" }, &[error])
}

const CUSTOM_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
