//! The paths of a resource and what can be done there.

use serde_json::{Map, Value, json};

use super::{
    Described, base_path,
    components::{META, definition, definition_of},
    parameters, reference,
};
use crate::discovery::{ResourceInfo, SubresourceInfo};

const PATCH_TYPES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// Returns the paths of a resource.
pub(super) fn of_resource(resource: &Described<'_>) -> Vec<(String, Value)> {
    let info = resource.info;
    let base = base_path(&info.group, &info.version);
    let everywhere = format!("{base}/{}", info.plural);
    let collection =
        if info.namespaced { format!("{base}/namespaces/{{namespace}}/{}", info.plural) } else { everywhere.clone() };
    let item = format!("{collection}/{{name}}");
    let own = Operations::of_kind(resource);
    let mut paths = vec![
        own.path(&collection, &[("list", "get"), ("create", "post"), ("deletecollection", "delete")]),
        own.path(&item, &[("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete")]),
    ];
    if info.namespaced {
        let all = Operations { covers_all_namespaces: true, ..own };
        paths.push(all.path(&everywhere, &[("list", "get")]));
    }
    for sub in &info.subresources {
        let methods = [("get", "get"), ("create", "post"), ("update", "put"), ("patch", "patch")];
        paths.push(Operations::of_subresource(resource, sub).path(&format!("{item}/{}", sub.name), &methods));
    }
    paths.retain(|(_, path)| path.as_object().is_some_and(|methods| methods.len() > 1));
    paths
}

/// What the operations on a resource or subresource have in common.
struct Operations<'a> {
    info: &'a ResourceInfo,
    verbs: &'a [&'static str],
    subresource: Option<&'a SubresourceInfo>,
    covers_all_namespaces: bool,
    is_custom: bool,
    /// The kind of the object that is sent and returned.
    kind: Value,
    definition: Option<String>,
}

impl<'a> Operations<'a> {
    fn of_kind(resource: &Described<'a>) -> Self {
        let info = resource.info;
        Self {
            info,
            verbs: &info.verbs,
            subresource: None,
            covers_all_namespaces: false,
            is_custom: resource.schema.is_some(),
            kind: json!({"group": info.group, "version": info.version, "kind": info.kind}),
            definition: Some(definition_of(info)),
        }
    }

    fn of_subresource(resource: &Described<'a>, sub: &'a SubresourceInfo) -> Self {
        let own = Self::of_kind(resource);
        let is_own_kind = sub.kind == own.info.kind && sub.group == own.info.group;
        let definition = if is_own_kind {
            own.definition.clone()
        } else {
            definition(&sub.group, &sub.version, &sub.kind).map(str::to_owned)
        };
        // A custom resource's operations all carry its own kind, as in the real server.
        let kind = if own.is_custom {
            own.kind.clone()
        } else {
            json!({"group": sub.group, "version": sub.version, "kind": sub.kind})
        };
        Self { verbs: &sub.verbs, subresource: Some(sub), kind, definition, ..own }
    }

    /// A path with those of the verbs (and their HTTP methods) that the resource has.
    fn path(&self, path: &str, verbs: &[(&str, &str)]) -> (String, Value) {
        let present = verbs.iter().filter(|(verb, _)| self.verbs.contains(verb));
        let mut methods: Map<String, Value> =
            present.map(|(verb, method)| ((*method).to_owned(), self.operation(verb, method))).collect();
        methods.insert("parameters".into(), parameters::of_path(path).into());
        (path.to_owned(), Value::Object(methods))
    }

    fn operation(&self, verb: &str, method: &str) -> Value {
        let action = self.action(verb, method);
        let mut operation = json!({
            "tags": [format!("{}_{}", lower_first(&group_words(&self.info.group)), self.info.version)],
            "description": self.description(verb),
            "operationId": self.id(verb, method),
            "parameters": parameters::of_action(action),
            "responses": self.responses(verb),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.kind,
        });
        if let Some(body) = self.body(verb) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn is_connection(&self) -> bool {
        matches!(self.subresource, Some(sub) if matches!(&*sub.name, "exec" | "attach" | "portforward" | "proxy"))
    }

    fn action<'b>(&self, verb: &'b str, method: &'b str) -> &'b str {
        match verb {
            _ if self.is_connection() => "connect",
            "list" | "deletecollection" => verb,
            _ => method,
        }
    }

    /// `listCoreV1NamespacedPod`, `replaceAppsV1NamespacedDeploymentScale`.
    fn id(&self, verb: &str, method: &str) -> String {
        let prefix = match verb {
            _ if self.is_connection() => "connect",
            "get" => "read",
            "update" => "replace",
            "deletecollection" => "delete",
            other => other,
        };
        let api = group_words(&self.info.group) + &upper_first(&self.info.version);
        let what = match verb {
            _ if self.is_connection() => upper_first(method),
            "deletecollection" => "Collection".to_owned(),
            _ => String::new(),
        };
        let (scope, suffix) = match (self.info.namespaced, self.covers_all_namespaces) {
            (true, false) => ("Namespaced", ""),
            (true, true) => ("", "ForAllNamespaces"),
            (false, _) => ("", ""),
        };
        let sub = self.subresource.map(|sub| upper_first(&sub.name)).unwrap_or_default();
        format!("{prefix}{api}{what}{scope}{}{sub}{suffix}", self.info.kind)
    }

    fn description(&self, verb: &str) -> String {
        let kind = &self.info.kind;
        let what = self.subresource.map(|sub| format!("{} of ", sub.name)).unwrap_or_default();
        match verb {
            "list" => format!("list or watch objects of kind {kind}"),
            "create" if self.subresource.is_some() => format!("create {what}a {kind}"),
            "create" => format!("create a {kind}"),
            "get" => format!("read {what}the specified {kind}"),
            "update" => format!("replace {what}the specified {kind}"),
            "patch" => format!("partially update {what}the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            _ => format!("delete a {kind}"),
        }
    }

    fn body(&self, verb: &str) -> Option<Value> {
        let definition = match verb {
            _ if self.is_connection() => return None,
            "create" | "update" => self.definition.clone()?,
            "patch" => format!("{META}.Patch"),
            "delete" | "deletecollection" => format!("{META}.DeleteOptions"),
            _ => return None,
        };
        let types: Vec<&str> = match verb {
            "patch" if self.is_custom => PATCH_TYPES.to_vec(),
            "patch" => PATCH_TYPES.into_iter().chain([STRATEGIC_MERGE]).collect(),
            _ => vec!["*/*"],
        };
        let is_required = !verb.starts_with("delete");
        let mut body = json!({"content": content(&types, &definition)});
        if is_required {
            body["required"] = true.into();
        }
        Some(body)
    }

    fn responses(&self, verb: &str) -> Value {
        let definition = match verb {
            "list" => self.definition.as_ref().map(|name| format!("{name}List")),
            "delete" | "deletecollection" => Some(format!("{META}.Status")),
            _ => self.definition.clone(),
        };
        let types: &[&str] = match verb {
            "list" => &["application/json", "application/json;stream=watch", "application/yaml"],
            _ => &["application/json", "application/yaml"],
        };
        let answer = |description: &str| match &definition {
            Some(name) => json!({"description": description, "content": content(types, name)}),
            None => json!({"description": description}),
        };
        let mut responses = json!({"200": answer("OK"), "401": {"description": "Unauthorized"}});
        match verb {
            "create" | "update" | "patch" => responses["201"] = answer("Created"),
            "delete" => responses["202"] = answer("Accepted"),
            _ => {}
        }
        responses
    }
}

fn content(types: &[&str], definition: &str) -> Map<String, Value> {
    types.iter().map(|media| ((*media).to_owned(), json!({"schema": reference(definition)}))).collect()
}

/// `Core`, `Apps`, `RbacAuthorization`, `SchemaExampleCom`.
fn group_words(group: &str) -> String {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => "Core".to_owned(),
        name => name.split(['.', '-']).map(upper_first).collect(),
    }
}

fn upper_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn lower_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
}
