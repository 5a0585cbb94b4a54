//! Custom resources: the rules that a CRD sets up for its objects.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Registry, Resource, Shape};
use crate::{
    discovery::{ResourceInfo, SubresourceInfo, priority},
    kinds::{errors::Errors, meta as kinds_meta},
    names,
    schema::{
        Node, builtin,
        crd::{self, Compiled, Verdict},
        strict,
    },
    store::Revision,
    verbs::meta,
};

/// One served version of a custom resource.
pub struct Custom {
    pub is_storage: bool,
    /// The CRD was last written at this revision; older objects may lack defaults, or have fields that went.
    pub since: Revision,
    pub printer_columns: Vec<Value>,
    /// `openAPIV3Schema` as it stands in the CRD.
    pub openapi: Option<Value>,
    pub scale: Option<ScalePaths>,
    /// What clients of this version are told, if it is deprecated.
    pub deprecation: Option<String>,
    /// The CRD is being deleted: nothing new is created.
    pub is_terminating: bool,
    has_status: bool,
    schema: Arc<Compiled>,
    /// The schema of the version that objects are stored in, if that is another one.
    storage: Option<Compiled>,
}

/// Where the scale of a custom resource is in its objects.
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Nothing new comes while the CRD is being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const CHANGE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Returns the resources that a CRD defines: one for each served version. What `previous` has of them is taken over: a
/// CRD that was not written since, or the compiled schema if that is the same.
pub fn resources(crd: &Value, revision: Revision, previous: &Registry) -> Vec<Arc<Resource>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
    let versions = items(&crd["spec"]["versions"]).filter(|version| version["served"] == true);
    let one = |version: &Value| {
        let known = previous.find(&group, &text(&version["name"]), &plural);
        match known.filter(|known| known.custom().is_some_and(|custom| custom.since == revision)) {
            Some(known) => known.clone(),
            None => Arc::new(resource(crd, version, revision, known.and_then(|known| known.custom()))),
        }
    };
    versions.map(one).collect()
}

fn resource(crd: &Value, version: &Value, revision: Revision, known: Option<&Custom>) -> Resource {
    let openapi = version["schema"]["openAPIV3Schema"].clone();
    let same = known.filter(|known| known.openapi.as_ref() == Some(&openapi));
    let schema = same.map_or_else(|| Arc::new(crd::load(&openapi)), |same| same.schema.clone());
    let scale = scale_paths(&version["subresources"]["scale"]);
    let has_status = version["subresources"].get("status").is_some_and(Value::is_object);
    let is_storage = version["storage"] == true;
    let storage = items(&crd["spec"]["versions"]).find(|version| version["storage"] == true);
    let custom = Custom {
        deprecation: deprecation(crd, version),
        is_terminating: meta::is_deleting(crd),
        storage: storage.filter(|_| !is_storage).map(|version| crd::load(&version["schema"]["openAPIV3Schema"])),
        is_storage,
        since: revision,
        printer_columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        openapi: Some(openapi),
        scale,
        has_status,
        schema,
    };
    let selectable = items(&version["selectableFields"]);
    let selectable =
        selectable.filter_map(|field| Some(field["jsonPath"].as_str()?.trim_start_matches('.').to_owned()));
    let info = info(crd, version, &custom);
    Resource::new(info, Shape::Custom(Box::new(custom)), selectable.collect())
}

fn info(crd: &Value, version: &Value, custom: &Custom) -> ResourceInfo {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
    let names = &spec["names"];
    let (group, version, kind) = (text(&spec["group"]), text(&version["name"]), text(&names["kind"]));
    let sub = |name: &str, group: &str, version: &str, kind: &str| SubresourceInfo {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: CHANGE_VERBS.to_vec(),
    };
    let mut subresources = Vec::new();
    if custom.has_status {
        subresources.push(sub("status", &group, &version, &kind));
    }
    if custom.scale.is_some() {
        subresources.push(sub("scale", "autoscaling", "v1", "Scale"));
    }
    let singular = text(&names["singular"]);
    ResourceInfo {
        singular: if singular.is_empty() { kind.to_lowercase() } else { singular },
        plural: text(&names["plural"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: if custom.is_terminating { TERMINATING_VERBS.to_vec() } else { VERBS.to_vec() },
        subresources,
        group,
        version,
        kind,
    }
}

/// The warning that a deprecated version gives: its own words, or which version to use instead.
fn deprecation(crd: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    let (group, kind) = (&crd["spec"]["group"], &crd["spec"]["names"]["kind"]);
    let (group, kind) = (group.as_str().unwrap_or_default(), kind.as_str().unwrap_or_default());
    let mut better: Vec<String> = items(&crd["spec"]["versions"])
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(name)
        .filter(|other| priority(other) > priority(&name(version)))
        .collect();
    better.sort_by(|a, b| priority(b).cmp(&priority(a)));
    let instead = better.first().map_or_else(String::new, |best| format!("; use {group}/{best} {kind}"));
    Some(format!("{group}/{} {kind} is deprecated{instead}", name(version)))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn scale_paths(scale: &Value) -> Option<ScalePaths> {
    let text = |field: &str| scale[field].as_str().map(str::to_owned);
    Some(ScalePaths {
        spec_replicas: text("specReplicasPath")?,
        status_replicas: text("statusReplicasPath")?,
        label_selector: text("labelSelectorPath"),
    })
}

impl Custom {
    pub fn schema(&self) -> Node<'_> {
        self.schema.node()
    }

    /// Returns an object as its storage version has it: what that version does not know goes, its defaults come.
    pub fn to_stored(&self, mut value: Value) -> Value {
        if let Some(storage) = &self.storage {
            crd::prune(&mut value, storage.node());
            crd::default(&mut value, storage.node());
        }
        value
    }

    /// Brings a stored object into the form of this version. Defaults are those of the storage version alone: a
    /// client that reads does not see what another version would have added to a write.
    pub fn adapt(&self, value: &mut Value) {
        let storage = self.storage.as_ref().unwrap_or(&self.schema).node();
        crd::prune(value, storage);
        crd::default(value, storage);
        if self.storage.is_some() {
            crd::prune(value, self.schema());
        }
    }

    /// Drops what the schema does not know and returns it, for warnings.
    ///
    /// # Errors
    /// If the metadata is not of its type: why.
    pub fn conform(&self, value: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = conform_metadata(value)?;
        unknown.extend(crd::prune(value, self.schema()).iter().map(|path| format!("unknown field \"{path}\"")));
        Ok(unknown)
    }

    pub fn default(&self, value: &mut Value) {
        crd::default(value, self.schema());
    }

    pub fn prepare_create(&self, value: &mut Value) {
        if self.has_status {
            remove(value, "status");
        }
    }

    pub fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status {
            take(new, old, "status");
        }
    }

    /// A write to the status changes nothing else, apart from who owns its fields.
    pub fn prepare_status(new: &mut Value, old: &Value) {
        let status = new.get("status").cloned();
        let managed = new["metadata"].get("managedFields").cloned();
        let version = new["metadata"].get("resourceVersion").cloned();
        *new = old.clone();
        match status {
            Some(status) => new["status"] = status,
            None => remove(new, "status"),
        }
        for (field, value) in [("managedFields", managed), ("resourceVersion", version)] {
            match value {
                Some(value) => meta::set(new, field, value),
                None => meta::remove(new, field),
            }
        }
    }

    pub fn validate(&self, new: &Value, old: Option<&Value>, namespaced: bool) -> Verdict {
        let mut errors = Errors::new();
        match old {
            None => kinds_meta::created(new, namespaced, names::is_dns1123_subdomain, &mut errors),
            Some(old) => kinds_meta::updated(new, old, &mut errors),
        }
        with_errors(errors, crd::validate(new, old, &self.schema))
    }

    pub fn validate_status(&self, new: &Value, old: &Value) -> Verdict {
        let mut errors = Errors::new();
        kinds_meta::updated(new, old, &mut errors);
        with_errors(errors, crd::validate_status(new, old, &self.schema))
    }

    pub fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        content(new, self.has_status) != content(old, self.has_status)
    }
}

/// The metadata of a custom resource is that of any other object.
fn conform_metadata(value: &mut Value) -> Result<Vec<String>, String> {
    let node = builtin::root("", "v1", "ConfigMap").and_then(|node| node.field("metadata"));
    let (Some(metadata), Some(node)) = (value.get_mut("metadata"), node) else { return Ok(Vec::new()) };
    let unknown = strict::decode(metadata, node).map_err(|strict::Undecodable(why)| why)?;
    Ok(unknown.iter().map(|text| text.replacen("unknown field \"", "unknown field \"metadata.", 1)).collect())
}

fn with_errors(errors: Errors, mut verdict: Verdict) -> Verdict {
    verdict.errors.splice(0..0, errors.into_vec());
    verdict
}

/// The fields that ask for something: all but the metadata and, if it is kept apart, the status.
fn content(object: &Value, has_status: bool) -> Map<String, Value> {
    let mut fields = object.as_object().cloned().unwrap_or_default();
    fields.remove("metadata");
    if has_status {
        fields.remove("status");
    }
    fields
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn take(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => remove(new, field),
    }
}
