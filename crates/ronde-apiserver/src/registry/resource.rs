//! One served resource, and what differs between built-in kinds and custom resources.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{custom::Custom, events};
use crate::{
    discovery::ResourceInfo,
    error::ApiError,
    kinds::{self, Rules},
    patch::apply,
    schema::{Node, builtin, crd::Verdict, strict},
    store::Object,
    table::{self, Columns},
};

/// A resource that clients can name in a path.
pub struct Resource {
    pub info: ResourceInfo,
    /// Where its objects are in the store: `plural.group`, or `plural` for the core group.
    pub collection: Arc<str>,
    /// `{"apiVersion":"…","kind":"…",`: what an object starts with when it is served.
    pub head: String,
    pub shape: Shape,
    /// Fields that can be selected by, besides name and namespace.
    pub selectable: Vec<String>,
    /// The columns of its table.
    pub columns: Columns,
    /// What an object of this kind is before anything is set; made when first asked for.
    empty: OnceLock<Value>,
}

const ENDPOINTS_DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Where the rules of a resource come from.
pub enum Shape {
    Builtin(&'static Rules),
    /// The second face of core events; stored as those.
    Event(&'static Rules),
    Custom(Box<Custom>),
}

impl Resource {
    pub fn new(info: ResourceInfo, shape: Shape, selectable: Vec<String>) -> Self {
        let columns = match &shape {
            Shape::Custom(custom) => Columns::custom(&custom.printer_columns),
            Shape::Builtin(_) | Shape::Event(_) => table::columns(&info.group, &info.kind),
        };
        let collection = match &shape {
            Shape::Event(_) => "events".to_owned(),
            _ if info.group.is_empty() => info.plural.clone(),
            _ => format!("{}.{}", info.plural, info.group),
        };
        let head = format!(r#"{{"apiVersion":"{}","kind":"{}","#, info.api_version(), info.kind);
        Self { info, collection: collection.into(), head, shape, selectable, columns, empty: OnceLock::new() }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.shape, Shape::Custom(_))
    }

    pub fn custom(&self) -> Option<&Custom> {
        match &self.shape {
            Shape::Custom(custom) => Some(custom),
            Shape::Builtin(_) | Shape::Event(_) => None,
        }
    }

    /// What clients are told that use this resource, if it is on its way out.
    pub fn deprecation(&self) -> Option<&str> {
        match &self.shape {
            Shape::Custom(custom) => custom.deprecation.as_deref(),
            Shape::Builtin(_) | Shape::Event(_) => self.is_core("Endpoints").then_some(ENDPOINTS_DEPRECATED),
        }
    }

    pub fn is_core(&self, kind: &str) -> bool {
        self.info.group.is_empty() && self.info.kind == kind
    }

    /// Whether objects are stored as this version has them.
    pub fn is_storage(&self) -> bool {
        match &self.shape {
            Shape::Builtin(_) => true,
            Shape::Event(_) => false,
            Shape::Custom(custom) => custom.is_storage,
        }
    }

    pub fn schema(&self) -> Node<'_> {
        match &self.shape {
            Shape::Custom(custom) => custom.schema(),
            Shape::Builtin(_) | Shape::Event(_) => builtin::root(&self.info.group, &self.info.version, &self.info.kind)
                .expect("every built-in resource has a schema (tested)"),
        }
    }

    /// Whether an object can be served as its stored bytes with the head in front.
    pub fn serves_raw(&self, object: &Object) -> bool {
        match &self.shape {
            Shape::Builtin(_) => true,
            Shape::Event(_) => false,
            Shape::Custom(custom) => custom.is_storage && object.revision >= custom.since,
        }
    }

    /// Returns an object as this resource shows it, `apiVersion` and `kind` included.
    pub fn show(&self, object: &Object) -> Value {
        let mut value = object.value();
        if matches!(self.shape, Shape::Event(_)) {
            value = events::from_core(value);
        }
        value["apiVersion"] = self.info.api_version().into();
        value["kind"] = self.info.kind.as_str().into();
        if let Shape::Custom(custom) = &self.shape
            && !self.serves_raw(object)
        {
            custom.adapt(&mut value);
        }
        value
    }

    /// Returns an object of this resource as it is stored.
    pub fn to_stored(&self, value: Value) -> Value {
        let value = self.filled(value);
        match &self.shape {
            Shape::Builtin(_) => value,
            Shape::Event(_) => events::to_core(value),
            Shape::Custom(custom) => custom.to_stored(value),
        }
    }

    /// Adds the empty fields that the real server always shows.
    pub fn filled(&self, mut value: Value) -> Value {
        if !self.is_custom() {
            strict::fill(&mut value, self.schema());
        }
        value
    }

    /// Returns what server-side apply has to know about writes here.
    pub fn apply_target<'a>(&'a self, api_version: &'a str, subresource: &'a str) -> apply::Target<'a> {
        let reset_fields = self.reset_fields(subresource);
        let empty = self.empty.get_or_init(|| self.filled(json!({})));
        apply::Target { schema: self.schema(), api_version, kind: &self.info.kind, subresource, reset_fields, empty }
    }

    /// Fields that a write through the object or one of its subresources cannot change.
    fn reset_fields(&self, subresource: &str) -> &'static [&'static str] {
        match (self.info.subresource("status").is_some(), subresource) {
            (true, "status") if self.info.kind == "Deployment" => &["spec", "metadata.labels"],
            (true, "status") if self.info.kind == "CustomResourceDefinition" => &["spec", "metadata"],
            (true, "status") if self.info.kind == "Pod" => {
                &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
            }
            (true, "status") => &["spec"],
            (true, _) => &["status"],
            (false, _) => &[],
        }
    }

    /// Checks types, drops fields that the schema does not know, and returns what was dropped.
    ///
    /// # Errors
    /// If a field has the wrong type.
    pub fn conform(&self, value: &mut Value) -> Result<Vec<String>, ApiError> {
        match &self.shape {
            Shape::Custom(custom) => custom
                .conform(value)
                .map_err(|why| strict::Undecodable(why).bad_request(&self.info.version, &self.info.kind)),
            Shape::Builtin(_) | Shape::Event(_) => {
                value["apiVersion"] = self.info.api_version().into();
                value["kind"] = self.info.kind.as_str().into();
                strict::conform(value, self.schema(), &self.info.kind, &self.info.version)
            }
        }
    }

    /// Sets the defaults of an object that conforms.
    pub fn default(&self, value: &mut Value) {
        match &self.shape {
            Shape::Custom(custom) => custom.default(value),
            Shape::Builtin(rules) | Shape::Event(rules) => {
                strict::complete(value, self.schema());
                (rules.default)(value);
            }
        }
    }

    pub fn prepare_create(&self, value: &mut Value, now: &str) {
        match &self.shape {
            Shape::Custom(custom) => custom.prepare_create(value),
            Shape::Builtin(rules) | Shape::Event(rules) => (rules.prepare_create)(value, now),
        }
    }

    pub fn prepare_update(&self, new: &mut Value, old: &Value) {
        match &self.shape {
            Shape::Custom(custom) => custom.prepare_update(new, old),
            Shape::Builtin(rules) | Shape::Event(rules) => (rules.prepare_update)(new, old),
        }
    }

    pub fn prepare_status(&self, new: &mut Value, old: &Value, now: &str) {
        match &self.shape {
            Shape::Custom(_) => Custom::prepare_status(new, old),
            Shape::Builtin(rules) | Shape::Event(rules) => (rules.prepare_status)(new, old, now),
        }
    }

    /// Checks a new object, or a change of one.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Verdict {
        match &self.shape {
            Shape::Custom(custom) => custom.validate(new, old, self.info.namespaced),
            Shape::Builtin(rules) | Shape::Event(rules) => Verdict {
                errors: kinds::validate(rules, new, old),
                warnings: kinds::warnings::warnings(&self.info.group, &self.info.kind, new, old),
            },
        }
    }

    /// Checks a write to the status alone.
    pub fn validate_status(&self, new: &Value, old: &Value) -> Verdict {
        match &self.shape {
            Shape::Custom(custom) => custom.validate_status(new, old),
            Shape::Builtin(rules) | Shape::Event(rules) => {
                Verdict { errors: kinds::validate_status(rules, new, old), warnings: Vec::new() }
            }
        }
    }

    pub fn has_generation(&self) -> bool {
        match &self.shape {
            Shape::Custom(_) => true,
            Shape::Builtin(rules) | Shape::Event(rules) => rules.has_generation(),
        }
    }

    /// Whether an update changes what the object asks for, rather than what is known about it.
    pub fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        match &self.shape {
            Shape::Custom(custom) => custom.bumps_generation(new, old),
            Shape::Builtin(rules) | Shape::Event(rules) => rules.increases_generation(new, old),
        }
    }

    fn rules(&self) -> Option<&'static Rules> {
        match &self.shape {
            Shape::Custom(_) => None,
            Shape::Builtin(rules) | Shape::Event(rules) => Some(rules),
        }
    }

    /// Whether an update may leave out the version it is based on; custom resources must name it.
    pub fn allows_unconditional_update(&self) -> bool {
        self.rules().is_some_and(|rules| rules.unconditional_update)
    }

    /// Whether an update of an object that does not exist creates it.
    pub fn creates_on_update(&self) -> bool {
        self.rules().is_some_and(|rules| rules.create_on_update)
    }

    /// Whether dependents stay when a delete does not say what is to become of them.
    pub fn orphans_dependents(&self) -> bool {
        self.rules().is_some_and(|rules| rules.orphans_dependents)
    }

    /// Whether a finished delete answers with the object instead of a `Status`.
    pub fn returns_deleted(&self) -> bool {
        const CORE: [&str; 6] =
            ["PersistentVolume", "PersistentVolumeClaim", "Pod", "ResourceQuota", "Service", "ServiceAccount"];
        match &*self.info.group {
            "" => CORE.contains(&&*self.info.kind),
            "storage.k8s.io" => self.info.kind == "StorageClass",
            _ => false,
        }
    }

    /// # Errors
    /// If objects of this resource cannot be selected by that field.
    pub fn check_selectable(&self, path: &str) -> Result<(), ApiError> {
        let known = path == "metadata.name"
            || (path == "metadata.namespace" && self.info.namespaced)
            || self.selectable.iter().any(|field| field == path);
        if known {
            return Ok(());
        }
        let why = if self.selectable.is_empty() && !self.is_custom() {
            format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {path}")
        };
        Err(ApiError::bad_request(why))
    }
}
