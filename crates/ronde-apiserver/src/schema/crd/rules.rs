//! Runs the validation rules (CEL) of a schema on a resource.
//!
//! Rules were compiled with the definition; here they meet values. Each node's rules see its value as `self` and, on
//! an update, the value before as `oldSelf`. All rules of a resource share one budget of cost; when it is spent, the
//! resource is refused.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    cel::{Answer, Expression},
    correlate::{Pair, counterpart},
};
use crate::{
    error::{FieldError, FieldErrorKind},
    schema::{Additional, Id, Node, Rule, Type},
};

/// What all rules of one resource may cost together, as in the real server: about a second.
const BUDGET: u64 = 10_000_000;
/// The longest message that a rule may compute.
const MESSAGE_MAX: usize = 5 * 1024;

/// A rule ready to run.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub rule: Rule,
    /// The message is that of a rule that does not compile, which is reported for every object.
    pub expression: Result<Expression, String>,
    pub message: Option<Expression>,
    /// `fieldPath` in the form of error paths.
    pub field_path: Option<String>,
}

/// The rules of a schema, by node.
pub(super) type Rules = BTreeMap<Id, Vec<CompiledRule>>;

/// The rules that a value breaks, and those it is forgiven for breaking because nothing changed there.
#[derive(Debug, Default)]
pub(super) struct Broken {
    pub errors: Vec<FieldError>,
    pub forgiven: Vec<FieldError>,
}

/// Returns the rules that a resource breaks.
pub(super) fn check(value: &Value, old: Option<&Value>, node: (Id, Node<'_>), rules: &Rules) -> Broken {
    let pair = old.map(|old| Pair::root(value, old, node.1));
    run(value, old, node, pair, "", rules)
}

/// The same for a default, whose mistakes are reported at `path`.
pub(super) fn check_default(
    value: &Value,
    old: Option<&Value>,
    node: (Id, Node<'_>),
    path: &str,
    rules: &Rules,
) -> Vec<FieldError> {
    run(value, old, node, None, path, rules).errors
}

fn run(
    value: &Value,
    old: Option<&Value>,
    node: (Id, Node<'_>),
    pair: Option<Pair<'_>>,
    path: &str,
    rules: &Rules,
) -> Broken {
    let mut runner = Runner { rules, budget: Some(BUDGET), broken: Broken::default() };
    runner.value(value, old, node, Ratchet { pair, parent: None }, path);
    runner.broken
}

/// What decides whether a broken rule is forgiven: the pair at hand, else the nearest one above.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    pair: Option<Pair<'a>>,
    parent: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn forgives(self) -> bool {
        self.pair.or(self.parent).is_some_and(Pair::is_unchanged)
    }

    fn step(self, next: impl FnOnce(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.pair {
            None => self,
            Some(pair) => Self { pair: next(pair), parent: Some(pair) },
        }
    }
}

struct Runner<'r> {
    rules: &'r Rules,
    /// None once it is spent.
    budget: Option<u64>,
    broken: Broken,
}

impl Runner<'_> {
    fn value(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        (id, node): (Id, Node<'_>),
        ratchet: Ratchet<'_>,
        path: &str,
    ) {
        // Rules are about values; whether null is allowed is the schema's business.
        if value.is_null() || self.budget.is_none() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        if let Some(rules) = self.rules.get(&id) {
            for rule in rules {
                if self.budget.is_some() {
                    self.rule(rule, value, old, node, ratchet, path);
                }
            }
        }
        match value {
            Value::Object(fields) => self.fields(fields, old, node, ratchet, path),
            Value::Array(items) => {
                let (Some(inner), Some(inner_id)) = (node.items(), node.data().items) else { return };
                let old = old.and_then(Value::as_array);
                for (at, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| counterpart(item, old, &node.data().list));
                    let ratchet = ratchet.step(|pair| pair.index(at));
                    self.value(item, old, (inner_id, inner), ratchet, &format!("{path}[{at}]"));
                }
            }
            _ => {}
        }
    }

    fn fields(
        &mut self,
        fields: &serde_json::Map<String, Value>,
        old: Option<&Value>,
        node: Node<'_>,
        ratchet: Ratchet<'_>,
        path: &str,
    ) {
        let at_root = ratchet.parent.is_none();
        for (name, value) in fields {
            let (id, path) = match (node.data().properties.get(name), node.data().additional) {
                (Some(&id), _) if path.is_empty() => (id, name.clone()),
                (Some(&id), _) => (id, format!("{path}.{name}")),
                (None, Additional::Values(id)) => (id, format!("{path}[{name}]")),
                _ => continue,
            };
            // A change of the type of a resource cannot be seen here, so it is never forgiven.
            let ratchet = if at_root && matches!(name.as_str(), "apiVersion" | "kind") {
                Ratchet { pair: None, parent: None }
            } else {
                ratchet.step(|pair| pair.key(name))
            };
            self.value(value, old.and_then(|old| old.get(name)), (id, node.at(id)), ratchet, &path);
        }
    }

    fn rule(
        &mut self,
        compiled: &CompiledRule,
        value: &Value,
        old: Option<&Value>,
        node: Node<'_>,
        ratchet: Ratchet<'_>,
        path: &str,
    ) {
        let kind = type_name(node);
        let fail = |detail: String| FieldError::invalid(shown_path(path), kind.into(), detail);
        let expression = match &compiled.expression {
            Ok(expression) => expression,
            Err(detail) => return self.broken.errors.push(fail(format!("rule compile error: {detail}"))),
        };
        // Transition rules run only where there is something to compare with, unless they say otherwise.
        if expression.uses_old_self && old.is_none() && !compiled.rule.optional_old_self {
            return;
        }
        let (cost, answer) = expression.evaluate(value, old, node);
        let shown = shown_rule(&compiled.rule);
        if answer == Answer::TooExpensive {
            let detail = format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
            );
            self.broken.errors.push(fail(detail));
            self.budget = None;
            return;
        }
        if !self.spend(cost) {
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.broken.errors.push(fail(detail.to_owned()));
            return;
        }
        match answer {
            Answer::Bool(true) => {}
            Answer::Error(message) if message.starts_with("no such overload") => self.broken.errors.push(fail(format!(
                "'{message}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            ))),
            Answer::Error(message) => self.broken.errors.push(fail(format!("{message} evaluating rule: {shown}"))),
            _ => {
                let error = self.failure(compiled, value, old, node, path);
                if expression.uses_old_self || !ratchet.forgives() {
                    self.broken.errors.push(error);
                } else {
                    self.broken.forgiven.push(error);
                }
            }
        }
    }

    /// Takes from the budget; false if it does not suffice.
    fn spend(&mut self, cost: u64) -> bool {
        self.budget = self.budget.and_then(|budget| budget.checked_sub(cost));
        self.budget.is_some()
    }

    /// The error for a rule that does not hold.
    fn failure(
        &mut self,
        compiled: &CompiledRule,
        value: &Value,
        old: Option<&Value>,
        node: Node<'_>,
        path: &str,
    ) -> FieldError {
        let rule = &compiled.rule;
        let at = match &compiled.field_path {
            None => shown_path(path),
            Some(field) if path.is_empty() => field.clone(),
            Some(field) => format!("{path}.{field}"),
        };
        let kind = type_name(node);
        let mut message = rule
            .message
            .as_deref()
            .map_or_else(|| format!("failed rule: {}", shown_rule(rule)), |message| message.trim().to_owned());
        if let Some(expression) = &compiled.message {
            let (cost, answer) = expression.evaluate(value, old, node);
            if answer == Answer::TooExpensive {
                self.budget = None;
                let shown = rule.message_expression.as_deref().unwrap_or_default();
                let detail = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {shown:?}"
                );
                return FieldError::invalid(at, kind.into(), detail);
            }
            if !self.spend(cost) {
                let detail = "messageExpression evaluation failed due to running out of cost budget, no further \
                              validation rules will be run";
                return FieldError::invalid(at, kind.into(), detail);
            }
            if let Answer::Text(text) = answer {
                let text = text.trim();
                if !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n') {
                    text.clone_into(&mut message);
                }
            }
        }
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(at, message),
            Some("FieldValueRequired") => FieldError::required(at, message),
            Some("FieldValueDuplicate") => FieldError::new(FieldErrorKind::Duplicate, at, kind.into(), ""),
            _ => FieldError::invalid(at, kind.into(), message),
        }
    }
}

fn shown_path(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// A rule in messages about it: its own message if it has one.
fn shown_rule(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
}

/// The value in messages of rules is the type of the field.
fn type_name(node: Node<'_>) -> &'static str {
    match node.kind {
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::IntOrString | Type::Any => "",
    }
}
