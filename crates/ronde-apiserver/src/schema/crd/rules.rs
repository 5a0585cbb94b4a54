//! Runs the validation rules (CEL) of a schema on a resource.
//!
//! Rules were compiled with the definition; here they meet values. Each node's rules see its value as `self` and, on
//! an update, the value before as `oldSelf`. All rules of a resource share one budget of cost; when it is spent, the
//! resource is refused.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use ronde_cel::{Evaluation, Expression, WorkLeft};

use super::correlate::{OldItems, Pair, Remembered};
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
pub(super) fn check(value: &Value, old: Option<&Value>, (id, node): (Id, Node<'_>), rules: &Rules) -> Broken {
    let pair = old.map(|old| Pair::root(value, old, node));
    run(Spot { value, old, id, node, ratchet: Ratchet { pair, parent: None }, path: "" }, rules)
}

/// The same for a default, whose mistakes are reported at `path`.
pub(super) fn check_default(
    value: &Value,
    old: Option<&Value>,
    (id, node): (Id, Node<'_>),
    path: &str,
    rules: &Rules,
) -> Vec<FieldError> {
    run(Spot { value, old, id, node, ratchet: Ratchet { pair: None, parent: None }, path }, rules).errors
}

fn run(spot: Spot<'_>, rules: &Rules) -> Broken {
    let mut runner = Runner { rules, budget: Some(BUDGET), work: WorkLeft::default(), broken: Broken::default() };
    runner.value(spot);
    runner.broken
}

/// A value with everything its rules need.
#[derive(Clone, Copy)]
struct Spot<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    id: Id,
    node: Node<'a>,
    ratchet: Ratchet<'a>,
    path: &'a str,
}

/// What decides whether a broken rule is forgiven: the pair at hand, else the nearest one above.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    pair: Option<Pair<'a>>,
    parent: Option<&'a Remembered<'a>>,
}

impl<'a> Ratchet<'a> {
    fn forgives(self) -> bool {
        match self.pair {
            Some(pair) => pair.is_unchanged(),
            None => self.parent.is_some_and(Remembered::is_unchanged),
        }
    }

    /// The ratchet of a part; `here` is this one's pair, if it has one.
    fn step(self, here: Option<&'a Remembered<'a>>, pair: Option<Pair<'a>>) -> Self {
        if here.is_some() { Self { pair, parent: here } } else { self }
    }
}

struct Runner<'r> {
    rules: &'r Rules,
    /// None once it is spent.
    budget: Option<u64>,
    work: WorkLeft,
    broken: Broken,
}

impl Runner<'_> {
    fn value(&mut self, spot: Spot<'_>) {
        // Rules are about values; whether null is allowed is the schema's business.
        if spot.value.is_null() || self.budget.is_none() {
            return;
        }
        let spot = Spot { old: spot.old.filter(|old| !old.is_null()), ..spot };
        for rule in self.rules.get(&spot.id).into_iter().flatten() {
            if self.budget.is_some() {
                self.rule(rule, spot);
            }
        }
        match spot.value {
            Value::Object(fields) => self.fields(fields, spot),
            Value::Array(items) => self.items(items, spot),
            _ => {}
        }
    }

    fn items(&mut self, items: &[Value], spot: Spot<'_>) {
        let Some(id) = spot.node.data().items else { return };
        let old = spot.old.and_then(Value::as_array).map(|old| OldItems::new(old, &spot.node.data().list));
        let here = spot.ratchet.pair.map(Remembered::new);
        let mut pairs = spot.ratchet.pair.map(Pair::items);
        for (at, value) in items.iter().enumerate() {
            let pair = pairs.as_mut().and_then(Iterator::next).flatten();
            self.value(Spot {
                value,
                old: old.as_ref().and_then(|old| old.counterpart(value)),
                id,
                node: spot.node.at(id),
                ratchet: spot.ratchet.step(here.as_ref(), pair),
                path: &format!("{}[{at}]", spot.path),
            });
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, spot: Spot<'_>) {
        let at_root = spot.ratchet.parent.is_none();
        let (data, path) = (spot.node.data(), spot.path);
        let here = spot.ratchet.pair.map(Remembered::new);
        for (name, value) in fields {
            let (id, path) = match (data.properties.get(name), data.additional) {
                (Some(&id), _) if path.is_empty() => (id, name.clone()),
                (Some(&id), _) => (id, format!("{path}.{name}")),
                (None, Additional::Values(id)) => (id, format!("{path}[{name}]")),
                _ => continue,
            };
            // A change of the type of a resource cannot be seen here, so it is never forgiven.
            let ratchet = if at_root && matches!(name.as_str(), "apiVersion" | "kind") {
                Ratchet { pair: None, parent: None }
            } else {
                spot.ratchet.step(here.as_ref(), spot.ratchet.pair.and_then(|pair| pair.key(name)))
            };
            let old = spot.old.and_then(|old| old.get(name));
            self.value(Spot { value, old, id, node: spot.node.at(id), ratchet, path: &path });
        }
    }

    fn rule(&mut self, compiled: &CompiledRule, spot: Spot<'_>) {
        let fail = |detail: String| FieldError::invalid(shown_path(spot.path), type_name(spot.node).into(), detail);
        let expression = match &compiled.expression {
            Ok(expression) => expression,
            Err(detail) => return self.broken.errors.push(fail(format!("rule compile error: {detail}"))),
        };
        // Transition rules run only where there is something to compare with, unless they say otherwise.
        if expression.uses_old_self && spot.old.is_none() && !compiled.rule.optional_old_self {
            return;
        }
        let (cost, answer) = expression.evaluate(spot.value, spot.old, spot.node, &mut self.work);
        let shown = shown_rule(&compiled.rule);
        if answer == Evaluation::TooExpensive {
            let what = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                        call cost exceeds limit for rule";
            self.broken.errors.push(fail(format!("{what}: {shown}")));
            self.budget = None;
            return;
        }
        if !self.spend(cost) {
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.broken.errors.push(fail(detail.to_owned()));
            return;
        }
        match answer {
            Evaluation::Bool(true) => {}
            Evaluation::Error(message) => self.broken.errors.push(fail(format!("{message} evaluating rule: {shown}"))),
            _ => {
                let error = self.failure(compiled, spot);
                if expression.uses_old_self || !spot.ratchet.forgives() {
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
    fn failure(&mut self, compiled: &CompiledRule, spot: Spot<'_>) -> FieldError {
        let (rule, kind) = (&compiled.rule, type_name(spot.node));
        let at = match &compiled.field_path {
            None => shown_path(spot.path),
            Some(field) if spot.path.is_empty() => field.clone(),
            Some(field) => format!("{}.{field}", spot.path),
        };
        let message = match compiled.message.as_ref().map(|expression| self.message(expression, rule, spot)) {
            Some(Err(stopped)) => return FieldError::invalid(at, kind.into(), stopped),
            Some(Ok(Some(message))) => message,
            _ => match rule.message.as_deref() {
                Some(message) => message.trim().to_owned(),
                None => format!("failed rule: {}", shown_rule(rule)),
            },
        };
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(at, message),
            Some("FieldValueRequired") => FieldError::required(at, message),
            Some("FieldValueDuplicate") => FieldError::new(FieldErrorKind::Duplicate, at, kind.into(), ""),
            _ => FieldError::invalid(at, kind.into(), message),
        }
    }

    /// The message that a rule computes, if it is fit to be shown; `Err` if computing it spent the budget.
    fn message(&mut self, expression: &Expression, rule: &Rule, spot: Spot<'_>) -> Result<Option<String>, String> {
        let (cost, answer) = expression.evaluate(spot.value, spot.old, spot.node, &mut self.work);
        if answer == Evaluation::TooExpensive {
            self.budget = None;
            let shown = rule.message_expression.as_deref().unwrap_or_default();
            let what = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
            return Err(format!("{what}: {shown:?}"));
        }
        if !self.spend(cost) {
            let stopped = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                           rules will be run";
            return Err(stopped.to_owned());
        }
        let Evaluation::Text(text) = answer else { return Ok(None) };
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
        Ok(fits.then(|| text.to_owned()))
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
