//! Custom resources: what a definition's schema means for the objects of its kind.
//!
//! [`compile`] turns the `openAPIV3Schema` of one version into [`Compiled`], once, or says what is wrong with it;
//! [`prune`], [`default`] and [`validate`] then work on objects. The registry calls them on every write, and `prune`
//! and `default` on reads of objects that were stored under another schema. Definitions themselves are
//! [`crate::kinds::crd`]'s. Nothing here does I/O; messages are those of the real server 1.34.

mod build;
mod correlate;
mod default;
mod defaults;
mod embedded;
mod fieldpath;
mod lists;
mod openapi;
mod props;
mod prune;
mod rules;
mod scalars;
mod structural;

mod validate;

#[cfg(test)]
mod cel_hostile_tests;
#[cfg(test)]
mod cel_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use ronde_cel::{Decl, Expression, Wanted, formats};

use self::{
    build::{Built, build},
    correlate::Pair,
    props::Props,
    rules::{CompiledRule, Rules},
    validate::{Patterns, validate_below},
};
pub use self::{default::default, prune::prune};
use crate::{
    error::{FieldError, FieldErrorKind},
    schema::{Id, Node, Rule, Set},
};

/// The schema of one version of a custom resource, ready for use. Shared between requests.
#[derive(Debug)]
pub struct Compiled {
    pub set: Set,
    pub root: Id,
    patterns: Patterns,
    rules: Rules,
}

/// What validation came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    pub errors: Vec<FieldError>,
    /// Rules that are broken where nothing changed: the client is told, the write goes through.
    pub warnings: Vec<String>,
}

/// Said when rules were left out because of faults that they cannot bear.
pub const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                             errors to complete validation";

/// How to check a schema.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The kind has a status subresource, which restricts what may be said at the root.
    pub status: bool,
    /// The schema is the one that was accepted before: its rules may cost what they cost.
    pub is_unchanged: bool,
}

/// Compiles the schema of a version, which stands at `path` in its definition (`spec.validation`, or
/// `spec.versions[1].schema`).
///
/// # Errors
/// All that is wrong with the schema.
pub fn compile(schema: &Value, path: &str, options: Options) -> Result<Compiled, Vec<FieldError>> {
    let props = Props(schema);
    let at = format!("{path}.openAPIV3Schema");
    let mut errors = root_errors(props, path, options.status);
    let unsupported = structural::unsupported(props);
    let mut with_rules = false;
    let mut compiled = None;
    if unsupported.is_none() {
        let mut more = structural::check(props, &at);
        if more.is_empty() {
            let loaded = load(schema);
            more = defaults::check(&loaded, &at);
            compiled = Some(loaded);
        }
        with_rules = more.is_empty();
        errors.extend(more);
    }
    let accepts_cost = options.is_unchanged;
    errors.extend(openapi::check(props, &at, openapi::Options { with_rules, accepts_cost }));
    if let Some(detail) = unsupported.filter(|_| errors.is_empty()) {
        errors.push(FieldError::invalid(at, "".into(), detail));
    }
    match compiled {
        Some(compiled) if errors.is_empty() => Ok(compiled),
        _ => Err(errors),
    }
}

/// Prepares a schema that was accepted before.
pub fn load(schema: &Value) -> Compiled {
    let props = Props(schema);
    let Built { set, root, patterns } = build(props);
    let mut rules = BTreeMap::new();
    load_rules(props, set.node(root), root, true, &mut rules);
    Compiled { set, root, patterns, rules }
}

/// Compiles the rules of a schema and of all schemas in it.
fn load_rules(schema: Props<'_>, node: Node<'_>, id: Id, is_resource: bool, rules: &mut Rules) {
    let entries = schema.list("x-kubernetes-validations");
    if let Some(decl) = Some(schema.0).filter(|_| !entries.is_empty()).and_then(|s| Decl::from_schema(s, is_resource)) {
        let compiled = entries.iter().map(build::rule).map(|rule| load_rule(schema, rule, &decl));
        rules.insert(id, compiled.collect());
    }
    for (name, property) in schema.schemas("properties") {
        if let Some(&id) = node.data().properties.get(name) {
            load_rules(property, node.at(id), id, property.is_embedded_resource(), rules);
        }
    }
    if let (Some(items), Some(id)) = (schema.schema("items"), node.data().items) {
        load_rules(items, node.at(id), id, items.is_embedded_resource(), rules);
    }
    if let (Some(values), crate::schema::Additional::Values(id)) =
        (schema.schema("additionalProperties"), node.data().additional)
    {
        load_rules(values, node.at(id), id, values.is_embedded_resource(), rules);
    }
}

fn load_rule(schema: Props<'_>, rule: Rule, decl: &Decl) -> CompiledRule {
    let optional = rule.optional_old_self;
    let field_path = rule.field_path.as_deref().and_then(|path| fieldpath::resolve(path, schema, true).ok());
    let message = rule.message_expression.as_deref();
    CompiledRule {
        expression: Expression::compile(&rule.rule, decl, optional, Wanted::Bool),
        message: message.and_then(|text| Expression::compile(text, decl, optional, Wanted::String).ok()),
        field_path: field_path.map(|(path, _)| path),
        rule,
    }
}

/// What the root of a schema may not say.
fn root_errors(schema: Props<'_>, path: &str, status: bool) -> Vec<FieldError> {
    const ALLOWED: [&str; 23] = [
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "nullable",
    ];
    let mut errors = Vec::new();
    if status {
        let kind = schema.text("type");
        if !kind.is_empty() && kind != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                          enabled";
            errors.push(FieldError::invalid(format!("{path}.openAPIV3Schema.type"), kind.into(), detail));
        }
        let fields = schema.0.as_object().into_iter().flatten();
        let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        if fields.into_iter().any(|(key, value)| is_set(value) && !ALLOWED.contains(&key.as_str())) {
            let allowed = ALLOWED.join(", ");
            let detail = format!("with the status subresource, the root of the schema may have only {allowed}");
            errors.push(FieldError::invalid(format!("{path}.openAPIV3Schema"), schema.0.clone(), detail));
        }
    }
    if schema.flag("nullable") {
        let path = format!("{path}.openAPIV3Schema.nullable");
        errors.push(FieldError::forbidden(path, "nullable cannot be true at the root"));
    }
    errors
}

/// Returns what is wrong with an object, as it is written. On an update, `old` is the object before.
pub fn validate(new: &Value, old: Option<&Value>, compiled: &Compiled) -> Verdict {
    let root = compiled.node();
    let pair = old.map(|old| Pair::root(new, old, root));
    let mut errors = validate::validate(new, (compiled.root, root), pair, &compiled.patterns);
    errors.extend(embedded::check(new, root));
    errors.extend(list_errors(new, old, root));
    finish(new, old, compiled, errors)
}

/// Returns what is wrong with an object whose status is written through its subresource.
pub fn validate_status(new: &Value, old: &Value, compiled: &Compiled) -> Verdict {
    let root = compiled.node();
    let mut errors = Vec::new();
    if let (Some(status), Some(&id)) = (new.get("status"), root.data().properties.get("status")) {
        let pair = Pair::root(new, old, root).key("status");
        errors.extend(validate_below("status", status, (id, root.at(id)), pair, &compiled.patterns));
    }
    errors.extend(list_errors(new, Some(old), root));
    finish(new, Some(old), compiled, errors)
}

/// Lists that broke their type before may go on breaking it.
fn list_errors(new: &Value, old: Option<&Value>, root: Node<'_>) -> Vec<FieldError> {
    let errors = lists::check(new, root);
    if !errors.is_empty() && old.is_some_and(|old| !lists::check(old, root).is_empty()) {
        return Vec::new();
    }
    errors
}

/// Adds what rules say. They run only on an object that is otherwise as they expect it.
fn finish(new: &Value, old: Option<&Value>, compiled: &Compiled, mut errors: Vec<FieldError>) -> Verdict {
    use FieldErrorKind as Kind;
    if compiled.rules.is_empty() {
        return Verdict { errors, warnings: Vec::new() };
    }
    let blocks = |error: &FieldError| {
        matches!(error.kind, Kind::NotSupported | Kind::Required | Kind::TooLong | Kind::TooMany | Kind::TypeInvalid)
    };
    if errors.iter().any(blocks) {
        errors.push(FieldError::invalid("<nil>", Value::Null, UNCHECKED));
        return Verdict { errors, warnings: Vec::new() };
    }
    let broken = rules::check(new, old, (compiled.root, compiled.node()), &compiled.rules);
    errors.extend(broken.errors);
    Verdict { errors, warnings: broken.forgiven.iter().map(ToString::to_string).collect() }
}

/// The schema a path of a definition leads to, for selectable fields: its path in messages and its type.
///
/// # Errors
/// What is wrong with the path.
pub fn field_at<'s>(path: &str, schema: &'s Value) -> Result<(String, &'s str), String> {
    fieldpath::resolve(path, Props(schema), false).map(|(path, schema)| (path, schema.text("type")))
}

/// The formats in a schema that are not checked, because the real server does not know them either.
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    let props = Props(schema);
    let format = Some(props.text("format"))
        .filter(|format| !format.is_empty() && props.text("type") == "string" && !formats::is_known(format));
    let inner = structural::children(props).flat_map(|child| unknown_formats(child.0));
    format.map(str::to_owned).into_iter().chain(inner).collect()
}

impl Compiled {
    /// The schema of the resource itself.
    pub fn node(&self) -> Node<'_> {
        self.set.node(self.root)
    }
}
