//! Estimates how much evaluating a rule can cost at most, from the sizes that the schema allows.
//!
//! A definition whose rules could cost too much is refused when it is made, so that no object can make them run long.
//! The account is the real server's, bound by bound, because it decides which definitions are taken.

mod bounds;
mod calls;

use std::{collections::BTreeMap, sync::Arc};

use self::{
    bounds::{Bounds, ONE, UNKNOWN},
    calls::by_overload,
};
use super::{
    ast::{Call, Comprehension, Expr, ExprId, Kind, Literal},
    check::Checked,
    decl::Decl,
    types::Type,
};

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// The most an expression over `root` can cost.
pub(super) fn estimate(checked: &Checked, root: &Decl) -> u64 {
    Estimator::new(checked, root).cost(&checked.root).max
}

/// Sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: Bounds,
    value: Bounds,
}

impl EntrySize {
    fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

/// A step of a path from a variable into the schema.
type Path = Vec<Arc<str>>;

#[derive(Debug, Clone)]
struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<Bounds>,
    entries: Option<EntrySize>,
}

struct Estimator<'c> {
    checked: &'c Checked,
    root: &'c Decl,
    paths: BTreeMap<ExprId, Path>,
    sizes: BTreeMap<ExprId, Bounds>,
    entries: BTreeMap<ExprId, EntrySize>,
    locals: Vec<Local>,
}

/// An argument of a call.
struct Arg<'e> {
    expr: &'e Expr,
    cost: Bounds,
    size: Option<Bounds>,
}

impl Arg<'_> {
    fn size(&self) -> Bounds {
        self.size.unwrap_or(UNKNOWN)
    }
}

/// A call with its arguments estimated.
struct CallSite<'e> {
    expr: &'e Expr,
    function: &'e str,
    target: Option<Arg<'e>>,
    args: Vec<Arg<'e>>,
}

/// What a call costs, and how large its result is if that is known.
struct Estimate {
    cost: Bounds,
    size: Option<Bounds>,
}

impl Estimate {
    fn cost(cost: Bounds) -> Self {
        Self { cost, size: None }
    }

    fn sized(cost: Bounds, size: Bounds) -> Self {
        Self { cost, size: Some(size) }
    }
}

impl<'c> Estimator<'c> {
    fn new(checked: &'c Checked, root: &'c Decl) -> Self {
        let (paths, sizes, entries) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { checked, root, paths, sizes, entries, locals: Vec::new() }
    }

    fn cost(&mut self, expr: &Expr) -> Bounds {
        match &expr.kind {
            Kind::Literal(_) => Bounds::default(),
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![Arc::clone(name)], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                ONE
            }
            Kind::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test_only {
                    return operand;
                }
                let mut path = self.path(&select.operand);
                path.push(Arc::clone(&select.field));
                self.paths.insert(expr.id, path);
                match self.checked.type_of(&select.operand) {
                    Type::Map(..) | Type::Object(_) | Type::Param(_) => operand.add(ONE),
                    _ => operand,
                }
            }
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => {
                let parts: Vec<&Expr> = elements.iter().map(|element| &element.value).collect();
                let (cost, value) = self.parts(&parts);
                self.entries.insert(expr.id, EntrySize { is_list: true, key: ONE, value });
                cost.add(Bounds::exactly(LIST_COST))
            }
            Kind::Map(entries) => {
                let keys: Vec<&Expr> = entries.iter().map(|entry| &entry.key).collect();
                let values: Vec<&Expr> = entries.iter().map(|entry| &entry.value).collect();
                let ((key_cost, key), (value_cost, value)) = (self.parts(&keys), self.parts(&values));
                self.entries.insert(expr.id, EntrySize { is_list: false, key, value });
                key_cost.add(value_cost).add(Bounds::exactly(MAP_COST))
            }
            Kind::Struct(_) => Bounds::exactly(STRUCT_COST),
            Kind::Comprehension(fold) => self.fold(expr, fold),
        }
    }

    /// The cost of all parts, and the sizes they are between.
    fn parts(&mut self, parts: &[&Expr]) -> (Bounds, Bounds) {
        let mut size = Bounds { min: if parts.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let mut cost = Bounds::default();
        for part in parts {
            cost = cost.add(self.cost(part));
            size = size.union(self.size(part).unwrap_or(UNKNOWN));
        }
        (cost, size)
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Some(local) = expr.ident().and_then(|name| self.local(name)) {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// The path as far as the schema knows it: nothing leads there from an accumulator.
    fn schema_path(&self, expr: &Expr) -> Path {
        let path = self.path(expr);
        if path.first().is_some_and(|first| **first == *super::ast::ACCUMULATOR) { Path::new() } else { path }
    }

    fn size(&mut self, expr: &Expr) -> Option<Bounds> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let literal = match &expr.kind {
            Kind::Literal(Literal::String(text)) => Some(text.chars().count() as u64),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len() as u64),
            Kind::Literal(_) => Some(1),
            Kind::List(elements) => Some(elements.len() as u64),
            Kind::Map(entries) => Some(entries.len() as u64),
            _ => None,
        };
        if let Some(size) = literal {
            return Some(Bounds::exactly(size));
        }
        if let Some(size) = self.schema_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(ONE);
        }
        expr.ident().and_then(|name| self.local(name)).and_then(|local| local.size)
    }

    /// The size of what a path leads to. Every path starts at `self`, whatever its first step is called.
    fn schema_size(&self, path: &[Arc<str>]) -> Option<Bounds> {
        let (_, steps) = path.split_first()?;
        let mut decl = self.root;
        for (at, step) in steps.iter().enumerate() {
            if **step == *"@keys" && decl.is_map() {
                // Keys are strings without a bound of their own, and nothing is below them.
                return (at + 1 == steps.len()).then_some(Bounds::default());
            }
            decl = decl.step(step)?;
        }
        Some(Bounds { min: 0, max: decl.max_elements })
    }

    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        let known = self.entries.get(&expr.id).copied();
        known.or_else(|| expr.ident().and_then(|name| self.local(name)).and_then(|local| local.entries))
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Bounds {
        if *call.function == *"dyn" {
            let arg = &call.args[0];
            let cost = self.cost(arg);
            if let Some(size) = self.size(arg) {
                self.sizes.insert(expr.id, size);
            }
            if let Some(entries) = self.entry_size(arg) {
                self.entries.insert(expr.id, entries);
            }
            return cost.add(ONE);
        }
        let args = call.args.iter().map(|arg| self.arg(arg)).collect();
        let target = call.target.as_ref().map(|target| self.arg(target));
        let at = CallSite { expr, function: &call.function, target, args };
        let mut cost = Bounds { min: u64::MAX, max: 0 };
        let mut size: Option<Bounds> = None;
        for overload in self.checked.overloads_of(expr).to_vec() {
            let estimate = self.overload(&at, overload);
            cost = cost.union(estimate.cost);
            size = match (size, estimate.size) {
                (Some(before), Some(now)) => Some(before.union(now)),
                (before, now) => before.or(now),
            };
            let step = match overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(first)) = (step, call.args.first()) {
                size = self.entry_size(first).map(|entries| entries.value);
                let mut path = self.path(first);
                path.push(Arc::from(step));
                self.paths.insert(expr.id, path);
            }
            size = size.or_else(|| self.size(expr));
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        at.target.map_or(cost, |target| cost.add(target.cost))
    }

    fn arg<'e>(&mut self, expr: &'e Expr) -> Arg<'e> {
        let cost = self.cost(expr);
        Arg { expr, cost, size: self.size(expr) }
    }

    fn overload(&mut self, at: &CallSite<'_>, id: &str) -> Estimate {
        let (expr, args) = (at.expr, at.args.as_slice());
        let args_cost = args.iter().fold(Bounds::default(), |sum, arg| sum.add(arg.cost));
        match (id, args) {
            ("logical_and" | "logical_or", [left, right]) => {
                let cost = Bounds { min: left.cost.min, max: left.cost.add(right.cost).max };
                return Estimate { cost, size: None };
            }
            ("conditional", [condition, yes, no]) => {
                let entries = self.entry_size(yes.expr).zip(self.entry_size(no.expr));
                if let Some((yes, no)) = entries {
                    self.entries.insert(expr.id, yes.union(no));
                }
                let cost = condition.cost.add(yes.cost.union(no.cost));
                return Estimate { cost, size: Some(yes.size().union(no.size())) };
            }
            ("add_string" | "add_bytes" | "add_list", [left, right]) => {
                let size = left.size().add(right.size());
                if let Some((left, right)) = self.entry_size(left.expr).zip(self.entry_size(right.expr)) {
                    self.entries.insert(expr.id, left.union(right));
                }
                let cost = if id == "add_list" { ONE } else { size.scaled(0.1) };
                return Estimate { cost: cost.add(args_cost), size: Some(size) };
            }
            _ => {}
        }
        let estimate = self
            .sets(id, args)
            .or_else(|| self.by_function(at, id))
            .or_else(|| by_overload(id, at.target.as_ref(), args))
            .unwrap_or(Estimate { cost: ONE, size: None });
        Estimate { cost: estimate.cost.add(args_cost), ..estimate }
    }

    fn fold(&mut self, expr: &Expr, fold: &Comprehension) -> Bounds {
        let range = self.cost(&fold.range);
        let init = self.cost(&fold.init);
        let depth = self.locals.len();
        let accumulator = Local {
            name: Arc::clone(&fold.accumulator),
            path: self.path(&fold.init),
            size: self.size(&fold.init),
            entries: self.entry_size(&fold.init),
        };
        self.locals.push(accumulator);
        if is_bind(fold) {
            let result = self.cost(&fold.result);
            self.locals.truncate(depth);
            if let Some(size) = self.size(&fold.result) {
                self.sizes.insert(expr.id, size);
            }
            if let Some(entries) = self.entry_size(&fold.result) {
                self.entries.insert(expr.id, entries);
            }
            return range.add(init).add(result);
        }
        self.push_loop_variables(fold);
        let each = self.cost(&fold.condition).add(self.cost(&fold.step));
        self.locals.truncate(depth + 1);
        let result = self.cost(&fold.result);
        self.locals.truncate(depth);
        let count = self.size(&fold.range).unwrap_or(UNKNOWN);
        match fold.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entry_size(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        range.add(init).add(result).add(count.times(each))
    }

    fn push_loop_variables(&mut self, fold: &Comprehension) {
        let entries = self.entry_size(&fold.range);
        let is_list = entries
            .map_or_else(|| matches!(self.checked.type_of(&fold.range), Type::List(_)), |entries| entries.is_list);
        let path = self.path(&fold.range);
        let mut push = |name: &Arc<str>, step: &str, size: Option<Bounds>| {
            let mut path = path.clone();
            path.push(Arc::from(step));
            self.locals.push(Local { name: Arc::clone(name), path, size, entries: None });
        };
        let (key, value) = (entries.map(|e| e.key), entries.map(|e| e.value));
        match &fold.second {
            Some(second) => {
                push(&fold.variable, if is_list { "@indices" } else { "@keys" }, key);
                push(second, if is_list { "@items" } else { "@values" }, value);
            }
            None if is_list => push(&fold.variable, "@items", value),
            None => push(&fold.variable, "@keys", key),
        }
    }
}

/// `optMap` and its kin bind a name without a loop.
fn is_bind(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty())
        && matches!(fold.condition.kind, Kind::Literal(Literal::Bool(false)))
        && *fold.accumulator != *"__result__"
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
