//! What the real server demands of every schema in a definition beyond being structural, rules included.
//!
//! Walks the definition's JSON once; schema mistakes come first, then those in rules. The cost of rules is estimated
//! on the way and summed up over the schema.

use serde_json::{Value, json};

use ronde_cel::{Decl, Expression, Wanted};

use super::{build::rule, fieldpath::resolve, props::Props};
use crate::{
    error::{FieldError, FieldErrorKind},
    schema::Rule,
};

/// The most that one rule may be estimated to cost.
const RULE_COST_MAX: u64 = 10_000_000;
/// The most that all rules of a schema may be estimated to cost.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// How many of the most expensive rules are named when a schema is too expensive.
const EXPENSIVE_SHOWN: usize = 4;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What to check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Rules are compiled too: only if the schema is structural and its defaults are fine.
    pub with_rules: bool,
    /// The schema was accepted before: its rules may cost what they cost.
    pub accepts_cost: bool,
}

/// Returns what is wrong with a resource's schema at `path`.
pub(super) fn check(schema: Props<'_>, path: &str, options: Options) -> Vec<FieldError> {
    let mut checker = Checker { options, total: 0, expensive: Vec::new() };
    let scope = Scope { forbids_default: None, inside_metadata: false, uncorrelated: None };
    let context = options.with_rules.then_some(Context { cardinality: Some(1), is_resource: true });
    let found = checker.schema(SchemaPlace { schema, path, scope: &scope, context }, true);
    let mut errors = found.schema;
    errors.extend(found.rules);
    if checker.total > SCHEMA_COST_MAX {
        for (path, _) in checker.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, too_expensive(what, checker.total, SCHEMA_COST_MAX)));
    }
    errors
}

/// What surrounds a schema.
#[derive(Clone)]
struct Scope {
    /// Why no default may stand here.
    forbids_default: Option<String>,
    inside_metadata: bool,
    /// The nearest list above whose items cannot be told apart over an update.
    uncorrelated: Option<String>,
}

/// What rules at a schema can count on.
#[derive(Clone, Copy)]
struct Context {
    /// How many values the schema can have in one resource; none if nothing bounds them.
    cardinality: Option<u64>,
    is_resource: bool,
}

/// A schema in its surroundings.
#[derive(Clone, Copy)]
struct SchemaPlace<'a> {
    schema: Props<'a>,
    path: &'a str,
    scope: &'a Scope,
    /// None where rules are not looked at.
    context: Option<Context>,
}

impl<'a> SchemaPlace<'a> {
    /// The place of a schema inside this one.
    fn inner(self, schema: Props<'a>, path: &'a str, scope: &'a Scope) -> Self {
        Self { schema, path, scope, context: inner_context(self.schema, schema, self.context) }
    }

    /// The place of an alternative, which has no rules.
    fn branch(self, schema: Props<'a>, path: &'a str) -> Self {
        Self { schema, path, context: None, ..self }
    }
}

#[derive(Default)]
struct Found {
    schema: Vec<FieldError>,
    rules: Vec<FieldError>,
}

impl Found {
    fn append(&mut self, mut other: Self) {
        self.schema.append(&mut other.schema);
        self.rules.append(&mut other.rules);
    }

    fn forbid(&mut self, path: String, detail: impl Into<String>) {
        self.schema.push(FieldError::forbidden(path, detail));
    }

    fn require(&mut self, path: String, detail: &str) {
        self.schema.push(FieldError::required(path, detail));
    }

    fn invalid(&mut self, path: String, value: impl Into<Value>, detail: impl Into<String>) {
        self.schema.push(FieldError::invalid(path, value.into(), detail));
    }
}

/// A rule that is looked at.
struct Target<'a> {
    entry: &'a Value,
    rule: Rule,
    decl: &'a Decl,
    path: String,
}

impl Target<'_> {
    fn compile(&self, text: &str, wanted: Wanted) -> Result<Expression, String> {
        Expression::compile(text, self.decl, self.rule.optional_old_self, wanted)
    }
}

struct Checker {
    options: Options,
    total: u64,
    expensive: Vec<(String, u64)>,
}

impl Checker {
    fn schema(&mut self, place: SchemaPlace<'_>, is_root: bool) -> Found {
        let SchemaPlace { schema, path, scope, .. } = place;
        let mut found = Found::default();
        keywords(schema, path, scope, &mut found);
        if schema.flag("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            found.forbid(format!("{path}.uniqueItems"), detail);
        }
        self.additional(place, &mut found);
        for (name, property) in schema.schemas("properties") {
            let mut scope = scope.clone();
            if (is_root || schema.is_embedded_resource()) && matches!(name, "metadata" | "kind" | "apiVersion") {
                scope.inside_metadata = true;
                if is_root {
                    scope.forbids_default = Some(format!("in top-level {name}"));
                }
            }
            let path = format!("{path}.properties[{name}]");
            found.append(self.schema(place.inner(property, &path, &scope), false));
        }
        if let Some(not) = schema.schema("not") {
            found.append(self.schema(place.branch(not, &format!("{path}.not")), false));
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            for (at, branch) in schema.list(key).iter().enumerate() {
                found.append(self.schema(place.branch(Props(branch), &format!("{path}.{key}[{at}]")), false));
            }
        }
        if let Some(items) = schema.schema("items") {
            let mut scope = scope.clone();
            if schema.text("x-kubernetes-list-type") != "map" && scope.uncorrelated.is_none() {
                scope.uncorrelated = Some(path.to_owned());
            }
            found.append(self.schema(place.inner(items, &format!("{path}.items"), &scope), false));
        }
        extensions(schema, path, &mut found);
        list_map_keys(schema, path, &mut found);
        self.rules(place, &mut found);
        found
    }

    fn additional(&mut self, place: SchemaPlace<'_>, found: &mut Found) {
        let schema = place.schema;
        let Some(additional) = schema.value("additionalProperties") else { return };
        let path = format!("{}.additionalProperties", place.path);
        let has_properties = schema.object("properties").is_some_and(|properties| !properties.is_empty());
        if has_properties && *additional != Value::Bool(true) {
            found.forbid(path.clone(), "additionalProperties and properties are mutual exclusive");
        }
        if let Some(values) = schema.schema("additionalProperties") {
            let mut scope = place.scope.clone();
            if scope.inside_metadata {
                scope.forbids_default = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            found.append(self.schema(place.inner(values, &path, &scope), false));
        }
    }

    fn rules(&mut self, place: SchemaPlace<'_>, found: &mut Found) {
        let (schema, path) = (place.schema, format!("{}.x-kubernetes-validations", place.path));
        let entries = schema.list("x-kubernetes-validations");
        for (at, entry) in entries.iter().enumerate() {
            rule_texts(schema, entry, &format!("{path}[{at}]"), found);
        }
        let Some(context) = place.context.filter(|_| !entries.is_empty() && found.schema.is_empty()) else { return };
        let Some(decl) = Decl::from_schema(schema.0, context.is_resource) else {
            let what = "internal error: failed to construct type information for x-kubernetes-validations rules: unable \
                        to convert structural schema to CEL declarations";
            found.rules.push(FieldError::new(FieldErrorKind::Internal, path, Value::Null, what));
            return;
        };
        let times = context.cardinality.unwrap_or_else(|| decl.max_cardinality());
        for (at, entry) in entries.iter().enumerate() {
            let target = Target { entry, rule: rule(entry), decl: &decl, path: format!("{path}[{at}]") };
            self.rule(&target, times, place.scope, found);
            self.message(&target, found);
        }
    }

    fn rule(&mut self, target: &Target<'_>, times: u64, scope: &Scope, found: &mut Found) {
        let Target { entry, rule, path, .. } = target;
        let at = format!("{path}.rule");
        let unused_option = || {
            let optional = entry.get("optionalOldSelf").filter(|value| value.is_boolean())?;
            let detail = "may not be set if oldSelf is not used in rule";
            Some(FieldError::invalid(format!("{path}.optionalOldSelf"), optional.clone(), detail))
        };
        let expression = match target.compile(&rule.rule, Wanted::Bool) {
            Ok(expression) => expression,
            Err(detail) => {
                found.rules.push(about_rule(at, entry, detail));
                found.rules.extend(unused_option());
                return;
            }
        };
        let cost = expression.max_cost.saturating_mul(times);
        if cost > RULE_COST_MAX && !self.options.accepts_cost {
            let detail = too_expensive("estimated rule cost", cost, RULE_COST_MAX);
            found.rules.push(FieldError::forbidden(at.clone(), detail));
        }
        self.observe(&at, cost);
        if !expression.uses_old_self {
            found.rules.extend(unused_option());
        } else if let Some(list) = &scope.uncorrelated {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            found.rules.push(FieldError::invalid(at, rule.rule.as_str().into(), detail));
        }
    }

    fn message(&mut self, target: &Target<'_>, found: &mut Found) {
        // A rule that does not compile is not asked for its message.
        let Some(text) = &target.rule.message_expression else { return };
        if target.compile(&target.rule.rule, Wanted::Bool).is_err() {
            return;
        }
        let at = format!("{}.messageExpression", target.path);
        match target.compile(text, Wanted::String) {
            Err(detail) => found.rules.push(about_rule(at, target.entry, detail)),
            Ok(expression) => {
                if expression.max_cost > RULE_COST_MAX && !self.options.accepts_cost {
                    let detail = too_expensive("estimated messageExpression cost", expression.max_cost, RULE_COST_MAX);
                    found.rules.push(FieldError::forbidden(at.clone(), detail));
                }
                self.observe(&at, expression.max_cost);
            }
        }
    }

    fn observe(&mut self, path: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_MAX / 100 {
            self.expensive.push((path.to_owned(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(EXPENSIVE_SHOWN);
        }
    }
}

/// How many values a schema inside another can have.
fn inner_context(outer: Props<'_>, inner: Props<'_>, context: Option<Context>) -> Option<Context> {
    let times = match outer.text("type") {
        "object" if outer.value("additionalProperties").is_some() => outer.count("maxProperties"),
        "array" => outer.count("maxItems"),
        _ => Some(1),
    };
    let cardinality = context?.cardinality.zip(times).map(|(outer, times)| outer.saturating_mul(times));
    Some(Context { cardinality, is_resource: inner.is_embedded_resource() })
}

/// Words of the schema language that definitions may not use, or not here.
fn keywords(schema: Props<'_>, path: &str, scope: &Scope, found: &mut Found) {
    let kind = schema.text("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        found.schema.push(FieldError::not_supported(format!("{path}.type"), kind.into(), &TYPES));
    }
    if let Some(reason) = scope.forbids_default.as_ref().filter(|_| schema.value("default").is_some()) {
        found.forbid(format!("{path}.default"), format!("must not be set {reason}"));
    }
    if !schema.text("id").is_empty() {
        found.forbid(format!("{path}.id"), "id is not supported");
    }
    if schema.value("additionalItems").is_some() {
        found.forbid(format!("{path}.additionalItems"), "additionalItems is not supported");
    }
    let has_entries = |key: &str| schema.object(key).is_some_and(|map| !map.is_empty());
    for key in ["patternProperties", "definitions"] {
        if has_entries(key) {
            found.forbid(format!("{path}.{key}"), format!("{key} is not supported"));
        }
    }
    for key in ["dependencies", "$ref"] {
        if schema.value(key).is_some() {
            found.forbid(format!("{path}.{key}"), format!("{key} is not supported"));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        found.forbid(format!("{path}.type"), detail);
    }
    if schema.value("items").is_some_and(Value::is_array) {
        found.forbid(format!("{path}.items"), "items must be a schema object and not an array");
    }
    if scope.inside_metadata && schema.is_embedded_resource() {
        let key = "x-kubernetes-embedded-resource";
        found.forbid(format!("{path}.{key}"), "must not be used inside of resource meta");
    }
}

fn extensions(schema: Props<'_>, path: &str, found: &mut Found) {
    let kind = schema.text("type");
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.value(preserve) == Some(&Value::Bool(false)) {
        found.invalid(format!("{path}.{preserve}"), false, "must be true or undefined");
    }
    let typed = |key: &str, wanted: &str, found: &mut Found| {
        if schema.value(key).is_some() && kind != wanted {
            let detail = format!("must be {wanted} if {key} is specified");
            match kind {
                "" => found.require(format!("{path}.type"), &detail),
                kind => found.invalid(format!("{path}.type"), kind, detail),
            }
        }
    };
    let (map_type, list_type) = ("x-kubernetes-map-type", "x-kubernetes-list-type");
    typed(map_type, "object", found);
    one_of(schema, map_type, &["atomic", "granular"], path, found);
    typed(list_type, "array", found);
    if kind == "array" && schema.text(list_type) == "set" {
        atomic_items(schema, path, found);
    }
    one_of(schema, list_type, &["atomic", "set", "map"], path, found);
}

fn one_of(schema: Props<'_>, key: &str, allowed: &[&str], path: &str, found: &mut Found) {
    let value = schema.text(key);
    if schema.value(key).is_some() && !allowed.contains(&value) {
        found.schema.push(FieldError::not_supported(format!("{path}.{key}"), value.into(), allowed));
    }
}

/// The items of a set must be compared as a whole.
fn atomic_items(schema: Props<'_>, path: &str, found: &mut Found) {
    let Some(items) = schema.schema("items") else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.value("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
    match items.text("type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            found.invalid(format!("{path}.items.x-kubernetes-list-type"), list_type, detail);
        }
        "object" if items.text("x-kubernetes-map-type") != "atomic" => {
            found.invalid(format!("{path}.items.x-kubernetes-map-type"), list_type, detail);
        }
        _ => {}
    }
}

fn list_map_keys(schema: Props<'_>, path: &str, found: &mut Found) {
    let (keys_key, type_key) = ("x-kubernetes-list-map-keys", "x-kubernetes-list-type");
    let keys = schema.strings(keys_key);
    let list_type = schema.text(type_key);
    if !keys.is_empty() && list_type != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            "" => found.require(format!("{path}.{type_key}"), detail),
            other => found.invalid(format!("{path}.{type_key}"), other, detail),
        }
    }
    let items = schema.schema("items");
    if list_type == "map" {
        if keys.is_empty() {
            found.require(format!("{path}.{keys_key}"), "must not be empty if x-kubernetes-list-type is map");
        }
        match items {
            None => found.require(format!("{path}.items"), "must have a schema if x-kubernetes-list-type is map"),
            Some(items) if items.text("type") != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                found.invalid(format!("{path}.items.type"), items.text("type"), detail);
            }
            Some(items) => key_properties(items, &keys, path, found),
        }
    }
    if let Some(items) = items.filter(|_| matches!(list_type, "set" | "map")) {
        if items.flag("nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            found.forbid(format!("{path}.items.nullable"), detail);
        }
        if list_type == "map" {
            key_presence(items, &keys, path, found);
        }
    }
}

fn key_properties(items: Props<'_>, keys: &[String], path: &str, found: &mut Found) {
    let at = format!("{path}.x-kubernetes-list-map-keys");
    for (index, key) in keys.iter().enumerate() {
        match items.property(key) {
            None => found.invalid(at.clone(), json!(keys), "entries must all be names of item properties"),
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                found.invalid(format!("{path}.items.properties[{key}].type"), items.text("type"), detail);
            }
            Some(_) => {}
        }
        if keys[..index].contains(key) {
            found.invalid(at.clone(), json!(keys), "must not contain duplicate entries");
        }
    }
}

fn key_presence(items: Props<'_>, keys: &[String], path: &str, found: &mut Found) {
    let required = items.strings("required");
    for key in keys {
        let Some(property) = items.property(key) else { continue };
        let path = format!("{path}.items.properties[{key}]");
        if !required.contains(key) && property.value("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            found.require(format!("{path}.default"), detail);
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            found.forbid(format!("{path}.nullable"), detail);
        }
    }
}

/// The texts of a rule, apart from its expressions.
fn rule_texts(schema: Props<'_>, entry: &Value, path: &str, found: &mut Found) {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let (rule, message, expression) = (text("rule"), text("message"), text("messageExpression"));
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let at = |key: &str| format!("{path}.{key}");
    if rule.trim().is_empty() {
        found.require(at("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        found.invalid(at("message"), message, "must be non-empty if specified");
    } else if breaks(message.trim()) {
        found.invalid(at("message"), message, "must not contain line breaks");
    } else if breaks(rule.trim()) && message.trim().is_empty() {
        found.require(at("message"), "message must be specified if rule contains line breaks");
    }
    if !expression.is_empty() && expression.trim().is_empty() {
        found.require(at("messageExpression"), "messageExpression must be non-empty if specified");
    }
    if let Some(reason) = entry.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason)) {
        found.schema.push(FieldError::not_supported(at("reason"), reason.into(), &REASONS));
    }
    let field = text("fieldPath");
    if !field.is_empty() && field.trim().is_empty() {
        found.invalid(at("fieldPath"), field, "must be non-empty if specified");
    }
    if breaks(field) {
        found.invalid(at("fieldPath"), field, "must not contain line breaks");
    }
    if !field.is_empty() && resolve(field, schema, true).is_err() {
        found.invalid(at("fieldPath"), field, "must be a valid path");
    }
}

fn about_rule(path: String, entry: &Value, detail: String) -> FieldError {
    FieldError::invalid(path, entry.clone(), detail)
}

#[expect(clippy::cast_precision_loss, reason = "the factor is shown with one decimal")]
fn too_expensive(what: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
