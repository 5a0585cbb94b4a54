//! Validates values against a schema, with the messages, order and quirks of the real server.
//!
//! Every check yields [`Findings`]: mistakes, plus how many checks passed, by which the best of several failing
//! alternatives (`anyOf`, `oneOf`) is told. On updates, mistakes in parts that did not change are dropped. Rules
//! (CEL) are not here but in [`super::rules`].

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use regex::Regex;
use ronde_cel::formats;
use ronde_cel::text::number::shortest;
use serde_json::{Map, Value};

use super::{build::checked_format, correlate::Pair, scalars};
use crate::{
    error::{FieldError, FieldErrorKind},
    schema::{Additional, Checks, Id, Node, Type},
};

/// What validation needs beside the nodes.
pub(super) type Patterns = BTreeMap<Id, Regex>;

/// Returns the mistakes in a resource.
pub(super) fn validate(
    value: &Value,
    (id, node): (Id, Node<'_>),
    old: Option<Pair<'_>>,
    patterns: &Patterns,
) -> Vec<FieldError> {
    validate_below("", value, (id, node), old, patterns)
}

/// The same for a value whose mistakes are reported below `prefix`: a default, or the status of a resource.
pub(super) fn validate_below(
    prefix: &str,
    value: &Value,
    (id, node): (Id, Node<'_>),
    old: Option<Pair<'_>>,
    patterns: &Patterns,
) -> Vec<FieldError> {
    let findings = Validator { patterns }.ratcheted(value, Spot { id, node, old, path: "" });
    findings.mistakes.into_iter().map(|mistake| mistake.below(prefix)).collect()
}

/// A mistake, with the words by which two are the same one.
#[derive(Debug)]
pub(super) struct Mistake {
    message: Rc<str>,
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
        Self { message: message.into(), error }
    }

    pub fn invalid(path: &str, value: Value, message: String) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, message.clone(), message)
    }

    /// A mistake about alternatives, which the real server reports without a path.
    fn composite(message: String) -> Self {
        let error = FieldError::invalid("<nil>", "".into(), message.clone());
        Self { message: message.into(), error }
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
    messages: BTreeSet<Rc<str>>,
    passed: usize,
}

impl Findings {
    pub fn add(&mut self, mistake: Mistake) {
        if self.messages.insert(Rc::clone(&mistake.message)) {
            self.mistakes.push(mistake);
        }
    }

    fn extend(&mut self, mistakes: impl IntoIterator<Item = Mistake>) {
        for mistake in mistakes {
            self.add(mistake);
        }
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        if self.is_valid() {
            (self.mistakes, self.messages) = (other.mistakes, other.messages);
        } else {
            self.extend(other.mistakes);
        }
    }

    fn is_valid(&self) -> bool {
        self.mistakes.is_empty()
    }
}

/// A place in a schema and in a resource.
#[derive(Clone, Copy)]
struct Spot<'a> {
    id: Id,
    node: Node<'a>,
    /// The value here and before the update, if they can be told to be the same one's.
    old: Option<Pair<'a>>,
    path: &'a str,
}

impl<'a> Spot<'a> {
    /// The spot of a schema next to or below this one's.
    fn at(self, id: Id, old: Option<Pair<'a>>, path: &'a str) -> Self {
        Self { id, node: self.node.at(id), old, path }
    }
}

struct Validator<'p> {
    patterns: &'p Patterns,
}

impl Validator<'_> {
    /// Validates a value and forgives everything if it did not change.
    fn ratcheted(&self, value: &Value, spot: Spot<'_>) -> Findings {
        let mut findings = self.value(value, spot);
        if !findings.is_valid() && spot.old.is_some_and(Pair::is_unchanged) {
            findings = Findings { passed: findings.passed, ..Findings::default() };
        }
        findings
    }

    fn value(&self, value: &Value, spot: Spot<'_>) -> Findings {
        let mut findings = Findings::default();
        let checks = spot.node.data().checks.as_deref();
        check_type(value, spot, &mut findings);
        let allowed = checks.and_then(|checks| scalars::enumeration(value, checks, spot.path));
        if value.is_null() {
            findings.extend(allowed);
            return findings;
        }
        if let Some(checks) = checks {
            self.alternatives(value, spot, checks, &mut findings);
            self.check_scalar(value, spot, checks, &mut findings);
        }
        if let Value::Array(items) = value {
            self.items(items, spot, &mut findings);
        }
        findings.extend(allowed);
        if let Value::Object(fields) = value {
            self.fields(fields, spot, &mut findings);
        }
        // By these counts the real server tells the best of several failing alternatives.
        findings.passed += 4 + match value {
            Value::Number(_) => 2,
            Value::String(_) | Value::Object(_) => 1,
            _ => 0,
        };
        findings
    }

    fn check_scalar(&self, value: &Value, spot: Spot<'_>, checks: &Checks, findings: &mut Findings) {
        let path = spot.path;
        scalars::check(value, checks, self.patterns.get(&spot.id), path, findings);
        if let (Value::String(text), Some(format)) = (value, checked_format(checks)) {
            if !formats::matches(format, text) {
                let message = format!("{path} in body must be of type {format}: {text:?}");
                findings.add(type_invalid(path, value.clone(), message));
            }
            findings.passed += 1;
        }
    }

    fn items(&self, items: &[Value], spot: Spot<'_>, findings: &mut Findings) {
        let data = spot.node.data();
        if let Some(id) = data.items {
            let mut pairs = spot.old.map(Pair::items);
            for (at, item) in items.iter().enumerate() {
                let old = pairs.as_mut().and_then(Iterator::next).flatten();
                findings.merge(self.ratcheted(item, spot.at(id, old, &format!("{}[{at}]", spot.path))));
            }
        }
        if let Some(checks) = &data.checks {
            scalars::count_items(items, checks, spot.path, findings);
        }
        findings.passed += 2;
    }

    fn fields(&self, fields: &Map<String, Value>, spot: Spot<'_>, findings: &mut Findings) {
        let (data, path) = (spot.node.data(), spot.path);
        if let Some(checks) = &data.checks {
            scalars::count_fields(fields, checks, path, findings);
        }
        let unknown = fields.iter().filter(|(name, _)| !data.properties.contains_key(*name));
        if data.checks.as_ref().is_some_and(|checks| checks.closed) {
            for (name, _) in unknown {
                let message = format!("{path}.{name} in body is a forbidden property");
                findings.add(Mistake::invalid(path, name.as_str().into(), message));
            }
        } else if let Additional::Values(id) = data.additional {
            for (name, value) in unknown {
                let old = spot.old.and_then(|old| old.key(name));
                findings.merge(self.ratcheted(value, spot.at(id, old, &format!("{path}.{name}"))));
            }
        }
        for (name, &id) in &data.properties {
            let Some(value) = fields.get(name) else { continue };
            // A change of the type of a resource cannot be seen here, so it is never forgiven.
            let is_type = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = spot.old.filter(|_| !is_type).and_then(|old| old.key(name));
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            findings.merge(self.ratcheted(value, spot.at(id, old, &path)));
        }
        for name in data.required.iter().filter(|name| !fields.contains_key(*name)) {
            let path = format!("{path}.{name}");
            let message = format!("{path} in body is required");
            findings.add(Mistake::new(FieldErrorKind::Required, &path, Value::Null, message, String::new()));
        }
    }

    /// `anyOf`, `oneOf`, `allOf`, `not`. Fields inside the branches are forgiven like others, branches are not.
    fn alternatives(&self, value: &Value, spot: Spot<'_>, checks: &Checks, findings: &mut Findings) {
        let path = spot.path;
        let branch = |id: Id| self.value(value, spot.at(id, spot.old, path));
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

fn check_type(value: &Value, spot: Spot<'_>, findings: &mut Findings) {
    let format = spot.node.data().checks.as_deref().and_then(checked_format);
    if spot.node.kind == Type::Any && format.is_none() {
        findings.passed += usize::from(value.is_null());
        return;
    }
    match type_mistake(value, spot.node, format, spot.path) {
        Some(mistake) => findings.add(mistake),
        None => findings.passed += 1,
    }
    findings.passed += usize::from(!value.is_null());
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
