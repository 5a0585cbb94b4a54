//! Validates values against a schema, with the messages, order and quirks of the real server.
//!
//! Every check yields [`Findings`]: mistakes, plus how many checks passed, by which the best of several failing
//! alternatives (`anyOf`, `oneOf`) is told. On updates, mistakes in parts that did not change are dropped. Rules
//! (CEL) are not here but in [`super::rules`].

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::{build::checked_format, correlate::Pair, formats, scalars, text::number::shortest};
use crate::{
    error::{FieldError, FieldErrorKind},
    schema::{Additional, Checks, Id, Node, Type},
};

/// What validation needs beside the nodes.
pub(super) type Patterns = BTreeMap<Id, Regex>;

/// Returns the mistakes in `value`. `path` is where it is in the resource, empty for the resource itself.
pub(super) fn validate(
    value: &Value,
    node: (Id, Node<'_>),
    old: Option<Pair<'_>>,
    patterns: &Patterns,
) -> Vec<FieldError> {
    validate_at(value, node, old, patterns, "")
}

/// The same for a value whose mistakes are reported below `prefix`: a default, or the status of a resource.
pub(super) fn validate_at(
    value: &Value,
    (id, node): (Id, Node<'_>),
    old: Option<Pair<'_>>,
    patterns: &Patterns,
    prefix: &str,
) -> Vec<FieldError> {
    let findings = Validator { patterns }.ratcheted(value, id, node, old, "");
    findings.mistakes.into_iter().map(|mistake| mistake.below(prefix)).collect()
}

/// A mistake, with the words by which two are the same one.
#[derive(Debug)]
pub(super) struct Mistake {
    message: String,
    error: FieldError,
}

impl Mistake {
    /// `path` may start with a dot, as the real server builds it.
    pub fn new(kind: FieldErrorKind, path: &str, value: Value, message: String, detail: String) -> Self {
        let path = path.strip_prefix('.').unwrap_or(path);
        let error = match value.as_f64() {
            Some(float) if value.is_f64() => {
                FieldError::new(kind, path, Value::String(shortest(float)), detail).verbatim()
            }
            _ => FieldError::new(kind, path, value, detail),
        };
        Self { message, error }
    }

    pub fn invalid(path: &str, value: Value, message: String) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, message.clone(), message)
    }

    /// A mistake about alternatives, which the real server reports without a path.
    fn composite(message: String) -> Self {
        let error = FieldError::invalid("<nil>", "".into(), message.clone());
        Self { message, error }
    }

    fn below(self, prefix: &str) -> FieldError {
        if prefix.is_empty() && self.error.path.is_empty() {
            return FieldError { path: "<nil>".to_owned(), ..self.error };
        }
        if prefix.is_empty() {
            return self.error;
        }
        let path = match self.error.path.as_str() {
            "" | "<nil>" => prefix.to_owned(),
            path => format!("{prefix}.{path}"),
        };
        FieldError { path, ..self.error }
    }
}

/// The outcome of checks.
#[derive(Debug, Default)]
pub(super) struct Findings {
    mistakes: Vec<Mistake>,
    passed: usize,
}

impl Findings {
    pub fn add(&mut self, mistake: Mistake) {
        if !self.mistakes.iter().any(|known| known.message == mistake.message) {
            self.mistakes.push(mistake);
        }
    }

    fn merge(&mut self, other: Self) {
        other.mistakes.into_iter().for_each(|mistake| self.add(mistake));
        self.passed += other.passed;
    }

    fn is_valid(&self) -> bool {
        self.mistakes.is_empty()
    }
}

struct Validator<'p> {
    patterns: &'p Patterns,
}

impl Validator<'_> {
    /// Validates a value and forgives everything if it did not change.
    fn ratcheted(&self, value: &Value, id: Id, node: Node<'_>, old: Option<Pair<'_>>, path: &str) -> Findings {
        let mut findings = self.value(value, id, node, old, path);
        if !findings.is_valid() && old.is_some_and(Pair::is_unchanged) {
            findings.mistakes.clear();
        }
        findings
    }

    fn value(&self, value: &Value, id: Id, node: Node<'_>, old: Option<Pair<'_>>, path: &str) -> Findings {
        let mut findings = Findings::default();
        let checks = node.data().checks.as_deref();
        let format = checks.and_then(checked_format);
        if node.kind != Type::Any || format.is_some() {
            match type_mistake(value, node, format, path) {
                Some(mistake) => findings.add(mistake),
                None => findings.passed += 1,
            }
            findings.passed += usize::from(!value.is_null());
        } else if value.is_null() {
            findings.passed += 1;
        }
        if value.is_null() {
            if let Some(mistake) = checks.and_then(|checks| scalars::enumeration(value, checks, path)) {
                findings.add(mistake);
            }
            return findings;
        }
        // 1. alternatives
        if let Some(checks) = checks {
            self.alternatives(value, node, checks, old, path, &mut findings);
        }
        findings.passed += 2;
        // 2. what the value itself must be
        if let Some(checks) = checks {
            scalars::check(value, checks, self.patterns.get(&id), path, &mut findings);
            if let (Value::String(text), Some(format)) = (value, format) {
                if !formats::matches(format, text) {
                    let message = format!("{path} in body must be of type {format}: {text:?}");
                    findings.add(type_invalid(path, value.clone(), message));
                }
                findings.passed += 1;
            }
        }
        findings.passed += match value {
            Value::Number(_) => 2,
            Value::String(_) => 1,
            _ => 0,
        };
        // 3. what is inside
        if let Value::Array(items) = value {
            self.items(items, node, checks, old, path, &mut findings);
        }
        if let Some(mistake) = checks.and_then(|checks| scalars::enumeration(value, checks, path)) {
            findings.add(mistake);
        }
        findings.passed += 1;
        if let Value::Object(fields) = value {
            self.fields(fields, node, checks, old, path, &mut findings);
            findings.passed += 1;
        }
        findings.passed += 1;
        findings
    }

    fn items(
        &self,
        items: &[Value],
        node: Node<'_>,
        checks: Option<&Checks>,
        old: Option<Pair<'_>>,
        path: &str,
        findings: &mut Findings,
    ) {
        if let (Some(inner), Some(id)) = (node.items(), node.data().items) {
            for (at, item) in items.iter().enumerate() {
                let old = old.and_then(|old| old.index(at));
                findings.merge(self.ratcheted(item, id, inner, old, &format!("{path}[{at}]")));
            }
        }
        if let Some(checks) = checks {
            scalars::count_items(items, checks, path, findings);
        }
        findings.passed += 2;
    }

    fn fields(
        &self,
        fields: &serde_json::Map<String, Value>,
        node: Node<'_>,
        checks: Option<&Checks>,
        old: Option<Pair<'_>>,
        path: &str,
        findings: &mut Findings,
    ) {
        let data = node.data();
        if let Some(checks) = checks {
            scalars::count_fields(fields, checks, path, findings);
        }
        if checks.is_some_and(|checks| checks.closed) {
            for name in fields.keys().filter(|name| !data.properties.contains_key(*name)) {
                let message = format!("{path}.{name} in body is a forbidden property");
                findings.add(Mistake::invalid(path, name.as_str().into(), message));
            }
        } else if let Additional::Values(id) = data.additional {
            for (name, value) in fields.iter().filter(|(name, _)| !data.properties.contains_key(*name)) {
                let old = old.and_then(|old| old.key(name));
                findings.merge(self.ratcheted(value, id, node.at(id), old, &format!("{path}.{name}")));
            }
        }
        for (name, &id) in &data.properties {
            let Some(value) = fields.get(name) else { continue };
            // A change of the type of a resource cannot be seen here, so it is never forgiven.
            let is_type = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !is_type).and_then(|old| old.key(name));
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            findings.merge(self.ratcheted(value, id, node.at(id), old, &path));
        }
        for name in data.required.iter().filter(|name| !fields.contains_key(*name)) {
            let path = format!("{path}.{name}");
            let message = format!("{path} in body is required");
            findings.add(Mistake::new(FieldErrorKind::Required, &path, Value::Null, message, String::new()));
        }
    }

    /// `anyOf`, `oneOf`, `allOf`, `not`. Fields inside the branches are forgiven like others, branches are not.
    fn alternatives(
        &self,
        value: &Value,
        node: Node<'_>,
        checks: &Checks,
        old: Option<Pair<'_>>,
        path: &str,
        findings: &mut Findings,
    ) {
        let branch = |id: Id| self.value(value, id, node.at(id), old, path);
        if !checks.any_of.is_empty() {
            findings.merge(any_of(&checks.any_of, &branch, path));
        }
        if !checks.one_of.is_empty() {
            findings.merge(one_of(&checks.one_of, &branch, path));
        }
        let mut valid = 0;
        for &id in &checks.all_of {
            let result = branch(id);
            valid += usize::from(result.is_valid());
            findings.merge(result);
        }
        if valid != checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            findings.add(Mistake::composite(format!("{path:?} must validate all the schemas (allOf){none}")));
        }
        if checks.not.is_some_and(|id| branch(id).is_valid()) {
            findings.add(Mistake::composite(format!("{path:?} must not validate the schema (not)")));
        }
    }
}

fn any_of(branches: &[Id], branch: &dyn Fn(Id) -> Findings, path: &str) -> Findings {
    let mut best: Option<Findings> = None;
    for &id in branches {
        let result = branch(id);
        if result.is_valid() {
            return result;
        }
        if best.as_ref().is_none_or(|best| result.passed > best.passed) {
            best = Some(result);
        }
    }
    let mut findings = Findings::default();
    findings.add(Mistake::composite(format!("{path:?} must validate at least one schema (anyOf)")));
    if let Some(best) = best {
        findings.merge(best);
    }
    findings
}

fn one_of(branches: &[Id], branch: &dyn Fn(Id) -> Findings, path: &str) -> Findings {
    let (mut first, mut best, mut valid) = (None, None::<Findings>, 0);
    for &id in branches {
        let result = branch(id);
        if result.is_valid() {
            valid += 1;
            best = None;
            first = first.or(Some(result));
        } else if valid == 0 && best.as_ref().is_none_or(|best| result.passed > best.passed) {
            best = Some(result);
        }
    }
    if valid == 1 {
        return first.unwrap_or_default();
    }
    let found = if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
    let mut findings = Findings::default();
    findings.add(Mistake::composite(format!("{path:?} must validate one and only one schema (oneOf). {found}")));
    if let Some(best) = best {
        findings.merge(best);
    }
    findings
}

fn type_invalid(path: &str, value: Value, message: String) -> Mistake {
    Mistake::new(FieldErrorKind::TypeInvalid, path, value, message.clone(), message)
}

/// What is wrong with the JSON type of a value. Strings in a wrong format are [`formats`]' business.
fn type_mistake(value: &Value, node: Node<'_>, format: Option<&str>, path: &str) -> Option<Mistake> {
    let wanted = match node.kind {
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::IntOrString => "integer,string",
        Type::Any => "",
    };
    let mistake = |wanted: &str, found: &str| {
        let message = format!("{path} in body must be of type {wanted}: {found:?}");
        Some(type_invalid(path, found.into(), message))
    };
    let (found, number_format) = match value {
        Value::Null if node.nullable || wanted.is_empty() => return None,
        Value::Null => return mistake(wanted, "null"),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let fits = match (node.kind, found) {
        (Type::Integer | Type::IntOrString, "number") => value.as_f64().is_some_and(scalars::is_whole),
        (Type::Number, "integer") | (Type::IntOrString, "integer" | "string") => true,
        _ => wanted == found,
    };
    if let Some(format) = format
        && !matches!(value, Value::String(_) | Value::Array(_))
        && !fits
    {
        return mistake(format, number_format);
    }
    let is_numeric = matches!(node.kind, Type::Number | Type::Integer | Type::IntOrString);
    if fits || (format.is_some() && !is_numeric && matches!(value, Value::String(_) | Value::Array(_))) {
        return None;
    }
    mistake(wanted, found)
}
