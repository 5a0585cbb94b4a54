//! The `scale` subresource: the number of replicas of a workload, whatever else it is.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Call, Shown, WriteOutcome,
    body::decode_as,
    meta,
    update::{Next, Origin},
};
use crate::{
    error::{ApiError, FieldError, Subject},
    patch::{self, Patch, apply},
    schema::builtin,
    selector::LabelSelector,
};

impl Call {
    /// Reads or changes the scale of the object; `verb` is get, update or patch.
    ///
    /// # Errors
    /// If the object does not exist, or the new scale is not valid.
    pub async fn scale(&mut self, verb: &str, content_type: &str, body: &Bytes) -> Result<Value, ApiError> {
        if verb == "get" {
            return Ok(self.scale_of(&self.resource.show(&*self.find()?)));
        }
        let patch = if verb == "patch" {
            Some(Patch::parse(content_type, body, self.options.field_validation)?.patch)
        } else {
            None
        };
        let whole = match &patch {
            None => Some(decode_as(content_type, body, "Scale")?.value),
            Some(_) => None,
        };
        let done = self.change(|old| self.rescaled(old, patch.as_ref(), whole.as_ref())).await?;
        let value = match done.outcome {
            WriteOutcome::Updated(Shown::Stored(object)) => self.resource.show(&object),
            WriteOutcome::Updated(Shown::Value(value)) => value,
            _ => Value::Null,
        };
        Ok(self.scale_of(&value))
    }

    fn rescaled(&self, old: &Value, patch: Option<&Patch>, whole: Option<&Value>) -> Result<Next, ApiError> {
        let paths = self.scale_paths();
        let mut current = self.scale_of(old);
        if let Some(owners) = apply::to_scale(old, &paths.replicas.join(".")) {
            meta::set(&mut current, "managedFields", owners);
        }
        let now = self.api.clock_and_ids().now_text();
        let target = scale_target()?;
        let wanted = match (patch, whole) {
            (Some(Patch::Apply(applied)), _) => apply::apply(&target, &self.writer(&now), Some(&current), applied)?,
            (patch, whole) => {
                let mut wanted = match (patch, whole) {
                    (Some(patch), _) => patch::apply_patch(patch, &current, target.schema)?,
                    (None, whole) => whole.cloned().unwrap_or_default(),
                };
                apply::track_update(&target, &self.writer(&now), Some(&current), &mut wanted);
                wanted
            }
        };
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let wrong = FieldError::invalid("spec.replicas", replicas.into(), "must be greater than or equal to 0");
            let name = self.target.name.as_str();
            return Err(ApiError::invalid(Subject { group: "autoscaling", what: "Scale", name }, &[wrong]));
        }
        let mut value = old.clone();
        set_path(&mut value, &paths.replicas, replicas.into());
        let owners = apply::from_scale(old, &wanted, &paths.replicas.join("."), &self.resource.info.api_version());
        match owners {
            Some(owners) => meta::set(&mut value, "managedFields", owners),
            None => meta::remove(&mut value, "managedFields"),
        }
        meta::set(&mut value, "resourceVersion", meta::text(&wanted, "resourceVersion"));
        Ok(Next { value, warnings: Vec::new(), origin: Origin::Applied })
    }

    fn scale_of(&self, object: &Value) -> Value {
        let paths = self.scale_paths();
        let mut metadata = json!({});
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(field) {
                metadata[field] = value.clone();
            }
        }
        let number = |path: &[String]| get_path(object, path).as_i64().unwrap_or_default();
        let mut spec = json!({});
        if number(&paths.replicas) != 0 || self.resource.is_custom() {
            spec["replicas"] = number(&paths.replicas).into();
        }
        let mut status = json!({"replicas": number(&paths.status)});
        let selector = match &paths.selector {
            None => LabelSelector::from_value(&object["spec"]["selector"]).map(|s| s.to_string()).unwrap_or_default(),
            Some(path) => get_path(object, path).as_str().unwrap_or_default().to_owned(),
        };
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status})
    }

    fn scale_paths(&self) -> Paths {
        match self.resource.custom().and_then(|custom| custom.scale.as_ref()) {
            Some(scale) => Paths {
                replicas: parts(&scale.spec_replicas),
                status: parts(&scale.status_replicas),
                selector: Some(scale.label_selector.as_deref().map(parts).unwrap_or_default()),
            },
            None => Paths { replicas: parts(".spec.replicas"), status: parts(".status.replicas"), selector: None },
        }
    }
}

static EMPTY_SCALE: LazyLock<Value> = LazyLock::new(|| json!({"spec": {}, "status": {"replicas": 0}}));

fn scale_target() -> Result<apply::Target<'static>, ApiError> {
    let schema =
        builtin::root("autoscaling", "v1", "Scale").ok_or_else(|| ApiError::internal("no schema for scales"))?;
    let (api_version, kind, subresource) = ("autoscaling/v1", "Scale", "scale");
    Ok(apply::Target { schema, api_version, kind, subresource, reset_fields: &["status"], empty: &EMPTY_SCALE })
}

/// Where the numbers of a scale are in the object.
struct Paths {
    replicas: Vec<String>,
    status: Vec<String>,
    /// None: made from `spec.selector`, as in built-in workloads.
    selector: Option<Vec<String>>,
}

fn parts(path: &str) -> Vec<String> {
    path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn get_path<'a>(value: &'a Value, path: &[String]) -> &'a Value {
    if path.is_empty() { &Value::Null } else { path.iter().fold(value, |value, part| &value[part.as_str()]) }
}

fn set_path(value: &mut Value, path: &[String], new: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = value;
    for part in parents {
        if !at[part.as_str()].is_object() {
            at[part.as_str()] = json!({});
        }
        at = &mut at[part.as_str()];
    }
    at[last.as_str()] = new;
}
