//! Evaluates a program: walks the checked tree, counting its cost.
//!
//! Errors are values as far as `&&`, `||` and the macros made of them go: `false && error` is false. Everything else
//! passes the first error on. When the meter runs out, the evaluation ends at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use regex::Regex;

use super::{
    ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprId, Kind, Literal, Select},
    check::Checked,
    library::{Builtin, Search, add, implementation, search},
    meter::{CallCost, Meter},
    value::{Eval, Fault, Key, List, Map, Text, Val, fault, no_such_overload},
};
use crate::schema::crd::text::regex as patterns;

const IDENT_COST: u64 = 1;
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

/// An expression ready to run.
#[derive(Debug)]
pub(super) struct Program {
    checked: Checked,
    /// How to run each call, by node.
    forms: BTreeMap<ExprId, Form>,
    /// Patterns that stand in the text, compiled once.
    patterns: BTreeMap<ExprId, Regex>,
    /// Literals, and lists, maps and conversions of nothing but literals: they cost nothing.
    constants: BTreeSet<ExprId>,
}

/// How a call runs.
#[derive(Clone, Copy)]
enum Form {
    And,
    Or,
    Conditional,
    NotStrictlyFalse,
    OptionalSelect,
    Index,
    OptionalIndex,
    OptionalOr,
    OptionalOrValue,
    /// `accumulator + …`: grows the accumulator in place.
    Accumulate(Option<Builtin>, CallCost),
    Search(Search, CallCost),
    Function(Builtin, CallCost),
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Form")
    }
}

impl Program {
    /// Prepares a checked expression.
    ///
    /// # Errors
    /// A literal that cannot be converted or compiled, so that every evaluation would fail.
    pub fn new(checked: Checked) -> Result<Self, String> {
        let mut constants = BTreeSet::new();
        fold_constants(&checked.root, &mut constants);
        let mut forms = BTreeMap::new();
        let mut patterns = BTreeMap::new();
        let mut failed = None;
        checked.root.walk(&mut |expr| {
            let Kind::Call(call) = &expr.kind else { return };
            let Some(mut form) = Form::of(call, checked.overloads_of(expr)) else {
                failed = Some(format!("no implementation of {}", call.function));
                return;
            };
            if let (Form::Function(_, cost @ CallCost::Search), [_, list]) = (&mut form, call.args.as_slice())
                && constants.contains(&list.id)
            {
                *cost = CallCost::Free;
            }
            if let (Form::Search(..), Some(pattern)) = (form, literal_pattern(call)) {
                match patterns::compile(pattern) {
                    Ok(regex) => drop(patterns.insert(expr.id, regex)),
                    Err(error) => failed = Some(error),
                }
            }
            forms.insert(expr.id, form);
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        let program = Self { checked, forms, patterns, constants };
        program.try_conversions()?;
        Ok(program)
    }

    fn try_conversions(&self) -> Result<(), String> {
        let mut failed = None;
        self.checked.root.walk(&mut |expr| {
            if matches!(expr.kind, Kind::Call(_)) && self.constants.contains(&expr.id) {
                let mut machine = Machine { program: self, meter: &mut Meter::new(), scope: Vec::new() };
                if let Err(Fault::Error(message)) = machine.eval(expr) {
                    failed = Some(message.into_owned());
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Whether the expression reads the variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.checked.variables.iter().any(|name| **name == *variable)
    }

    /// Runs the program with `variables`.
    pub fn run<'a>(&'a self, meter: &mut Meter, variables: Vec<(&str, Eval<Val<'a>>)>) -> Eval<Val<'a>> {
        let scope = variables.into_iter().map(|(name, value)| (Arc::from(name), value)).collect();
        Machine { program: self, meter, scope }.eval(&self.checked.root)
    }
}

/// Whether a node is constant, noting all that are.
fn fold_constants(expr: &Expr, constants: &mut BTreeSet<ExprId>) -> bool {
    // Every part is visited, also behind one that is not constant.
    let mut all = |parts: &mut dyn Iterator<Item = &Expr>| {
        let mut all = true;
        for part in parts {
            all &= fold_constants(part, constants);
        }
        all
    };
    let is_constant = match &expr.kind {
        Kind::Literal(_) => true,
        Kind::Ident(_) | Kind::Struct(_) => false,
        Kind::Select(select) => {
            all(&mut std::iter::once(&select.operand));
            false
        }
        Kind::Call(call) => {
            let converts = ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
            let all = all(&mut call.target.iter().chain(&call.args));
            all && call.target.is_none() && converts.contains(&&*call.function)
        }
        Kind::List(elements) => {
            all(&mut elements.iter().map(|element| &element.value)) && !elements.iter().any(|element| element.optional)
        }
        Kind::Map(entries) => {
            let all = all(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value]));
            all && !entries.iter().any(|entry| entry.optional)
        }
        Kind::Comprehension(fold) => {
            all(&mut [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter());
            false
        }
    };
    if is_constant {
        constants.insert(expr.id);
    }
    is_constant
}

/// Whether a node names a place in the data. The real server counts such a path as a whole.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Ident(_) => true,
        Kind::Select(select) => !select.test_only,
        Kind::Call(call) => matches!(&*call.function, "_[_]" | "_[?_]" | "_?._"),
        _ => false,
    }
}

/// The pattern of `text.matches('pattern')` or `matches(text, 'pattern')`, if it is a literal.
fn literal_pattern(call: &Call) -> Option<&str> {
    let pattern = if call.target.is_some() { call.args.first() } else { call.args.get(1) }?;
    match &pattern.kind {
        Kind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

impl Form {
    fn of(call: &Call, overloads: &[&str]) -> Option<Self> {
        let cost = CallCost::of(&call.function, overloads);
        let accumulates = call.args.first().and_then(Expr::ident).is_some_and(|name| **name == *ACCUMULATOR);
        Some(match &*call.function {
            "_&&_" => Self::And,
            "_||_" => Self::Or,
            "_?_:_" => Self::Conditional,
            "@not_strictly_false" => Self::NotStrictlyFalse,
            "_?._" => Self::OptionalSelect,
            "_[_]" => Self::Index,
            "_[?_]" => Self::OptionalIndex,
            "or" => Self::OptionalOr,
            "orValue" => Self::OptionalOrValue,
            "_+_" if accumulates => Self::Accumulate(None, cost),
            "cel.@mapInsert" if accumulates => Self::Accumulate(implementation(&call.function, overloads), cost),
            "matches" => Self::Search(Search::Matches, cost),
            "find" => Self::Search(Search::Find, cost),
            "findAll" => Self::Search(Search::FindAll, cost),
            function => Self::Function(implementation(function, overloads)?, cost),
        })
    }
}

struct Machine<'m, 'a> {
    program: &'a Program,
    meter: &'m mut Meter,
    /// Variables, innermost last. An accumulator may hold an error for a later step to absorb.
    scope: Vec<(Arc<str>, Eval<Val<'a>>)>,
}

impl<'a> Machine<'_, 'a> {
    fn eval(&mut self, expr: &'a Expr) -> Eval<Val<'a>> {
        if let Kind::Literal(literal) = &expr.kind {
            return Ok(literal_val(literal));
        }
        if !self.program.constants.contains(&expr.id) {
            return self.eval_kind(expr);
        }
        let before = self.meter.cost();
        let value = self.eval_kind(expr);
        self.meter.refund(self.meter.cost() - before);
        value
    }

    /// Evaluates a path whose own cost is part of something else's.
    fn eval_part(&mut self, expr: &'a Expr) -> Eval<Val<'a>> {
        let value = self.eval(expr)?;
        if is_path(expr) {
            self.meter.refund(IDENT_COST);
        }
        Ok(value)
    }

    /// Evaluates what a path starts from or goes on from.
    fn eval_operand(&mut self, expr: &'a Expr) -> Eval<Val<'a>> {
        let value = self.eval(expr)?;
        if !is_path(expr) {
            self.meter.charge(IDENT_COST)?;
        }
        Ok(value)
    }

    fn eval_kind(&mut self, expr: &'a Expr) -> Eval<Val<'a>> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(literal_val(literal)),
            Kind::Ident(name) => self.variable(name),
            Kind::Select(select) => self.select(select),
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for element in elements {
                    let value = self.eval(&element.value)?;
                    match (element.optional, value) {
                        (false, value) => items.push(value),
                        (true, Val::Optional(value)) => items.extend(value.map(|value| (*value).clone())),
                        (true, _) => return fault("cannot initialize optional list element from non-optional value"),
                    }
                }
                self.meter.charge(LIST_COST)?;
                Ok(Val::list(items))
            }
            Kind::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = self.eval(&entry.key)?;
                    let Some(key) = key.key() else { return fault("unsupported key type") };
                    let value = self.eval(&entry.value)?;
                    match (entry.optional, value) {
                        (false, value) => drop(map.insert(key, value)),
                        (true, Val::Optional(Some(value))) => drop(map.insert(key, (*value).clone())),
                        (true, Val::Optional(None)) => drop(map.remove(&key)),
                        (true, _) => return fault("cannot initialize optional entry from non-optional value"),
                    }
                }
                self.meter.charge(MAP_COST)?;
                Ok(Val::Map(Map::Made(Rc::new(map))))
            }
            Kind::Struct(_) => no_such_overload(),
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn variable(&mut self, name: &str) -> Eval<Val<'a>> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let Some(at) = self.scope.iter().rposition(|(known, _)| **known == *name) else {
            // What is no variable passed the check as the name of a type.
            return Ok(Val::Type(Arc::from(name)));
        };
        self.meter.charge(IDENT_COST)?;
        self.scope[at].1.clone()
    }

    fn select(&mut self, select: &'a Select) -> Eval<Val<'a>> {
        let operand = self.eval_operand(&select.operand)?;
        if select.test_only {
            return has(&operand, &select.field).map(Val::Bool);
        }
        self.meter.charge(IDENT_COST)?;
        field(&operand, &select.field)
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) -> Eval<Val<'a>> {
        let form = self.program.forms[&expr.id];
        match form {
            Form::And => self.logical(call, false),
            Form::Or => self.logical(call, true),
            Form::Conditional => match self.eval(&call.args[0])? {
                Val::Bool(true) => self.eval_part(&call.args[1]),
                Val::Bool(false) => self.eval_part(&call.args[2]),
                _ => no_such_overload(),
            },
            Form::NotStrictlyFalse => {
                let value = self.eval(&call.args[0]);
                self.meter.charge(1)?;
                match value {
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    Err(Fault::Cancelled) => Err(Fault::Cancelled),
                    _ => Ok(Val::Bool(true)),
                }
            }
            Form::OptionalSelect => self.optional_select(call),
            Form::Index | Form::OptionalIndex => {
                let (operand, index) = (self.eval_operand(&call.args[0])?, self.eval_part(&call.args[1])?);
                let value =
                    if matches!(form, Form::Index) { at(&operand, &index) } else { optional_at(&operand, &index) }?;
                self.meter.charge(u64::from(!matches!(value, Val::Optional(None))))?;
                Ok(value)
            }
            Form::OptionalOr | Form::OptionalOrValue => self.optional_or(call, matches!(form, Form::OptionalOrValue)),
            Form::Accumulate(insert, cost) => self.accumulate(call, insert, cost),
            Form::Search(what, cost) => {
                let args = self.args(call)?;
                let compiled = self.program.patterns.get(&expr.id);
                let result = search(self.meter, what, compiled, &args)?;
                self.meter.charge(cost.actual(&args, &result))?;
                Ok(result)
            }
            Form::Function(function, cost) => {
                let args = self.args(call)?;
                let result = function(self.meter, &args)?;
                self.meter.charge(cost.actual(&args, &result))?;
                Ok(result)
            }
        }
    }

    fn args(&mut self, call: &'a Call) -> Eval<Vec<Val<'a>>> {
        call.target.iter().chain(&call.args).map(|arg| self.eval(arg)).collect()
    }

    /// `&&` and `||`: the side that decides wins over an error on the other.
    fn logical(&mut self, call: &'a Call, decisive: bool) -> Eval<Val<'a>> {
        let mut error = None;
        for arg in &call.args {
            match self.eval(arg) {
                Ok(Val::Bool(value)) if value == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Err(Fault::Cancelled) => return Err(Fault::Cancelled),
                Err(fault) => error = error.or(Some(fault)),
                Ok(_) => error = error.or(Some(Fault::Error("no such overload".into()))),
            }
        }
        error.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn optional_select(&mut self, call: &'a Call) -> Eval<Val<'a>> {
        let operand = self.eval_operand(&call.args[0])?;
        let Kind::Literal(Literal::String(name)) = &call.args[1].kind else { return no_such_overload() };
        let inner = match &operand {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => &**value,
            other => other,
        };
        match inner {
            Val::Map(map) => match map.find(&Key::String(Arc::clone(name)))? {
                Some(value) => {
                    self.meter.charge(1)?;
                    Ok(Val::some(value))
                }
                None => Ok(Val::Optional(None)),
            },
            _ => no_such_overload(),
        }
    }

    fn optional_or(&mut self, call: &'a Call, unwrap: bool) -> Eval<Val<'a>> {
        let Some(target) = &call.target else { return no_such_overload() };
        let value = self.eval(target)?;
        match value {
            Val::Optional(Some(value)) if unwrap => Ok((*value).clone()),
            Val::Optional(Some(value)) => Ok(Val::Optional(Some(value))),
            Val::Optional(None) => self.eval(&call.args[0]),
            _ => no_such_overload(),
        }
    }

    /// Takes the accumulator out of the scope, so that it can grow without being copied. The step that this call is
    /// part of puts its result back.
    fn accumulate(&mut self, call: &'a Call, insert: Option<Builtin>, cost: CallCost) -> Eval<Val<'a>> {
        let added: Vec<Val<'a>> = call.args[1..].iter().map(|arg| self.eval(arg)).collect::<Eval<_>>()?;
        self.meter.charge(IDENT_COST)?;
        let slot = self.scope.iter_mut().rev().find(|(name, _)| **name == *ACCUMULATOR);
        let accumulator = match slot {
            Some((_, value)) => std::mem::replace(value, Ok(Val::Null))?,
            None => return no_such_overload(),
        };
        self.meter.charge(cost.actual(&[], &accumulator))?;
        match (insert, accumulator, added.as_slice()) {
            (None, Val::List(List::Made { mut items, kind }), [Val::List(more)]) => {
                self.meter.work(more.len())?;
                let grown = Rc::make_mut(&mut items);
                for item in more.iter() {
                    grown.push(item?);
                }
                Ok(Val::List(List::Made { items, kind }))
            }
            (None, accumulator, [more]) => add(self.meter, &accumulator, more),
            (Some(insert), accumulator, _) => {
                let args: Vec<Val<'a>> = std::iter::once(accumulator).chain(added).collect();
                insert(self.meter, &args)
            }
            _ => no_such_overload(),
        }
    }

    fn fold(&mut self, fold: &'a Comprehension) -> Eval<Val<'a>> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        if matches!(init, Err(Fault::Cancelled)) {
            return init;
        }
        let depth = self.scope.len();
        self.scope.push((Arc::clone(&fold.accumulator), init));
        let looped = match &range {
            Val::List(list) => self.each_item(fold, list),
            Val::Map(map) => self.each_key(fold, map),
            _ => no_such_overload(),
        };
        let result = looped.and_then(|()| {
            self.scope.truncate(depth + 1);
            self.eval(&fold.result)
        });
        self.scope.truncate(depth);
        result
    }

    fn each_item(&mut self, fold: &'a Comprehension, list: &List<'a>) -> Eval<()> {
        for (at, item) in list.iter().enumerate() {
            let index = Val::Int(i64::try_from(at).unwrap_or(i64::MAX));
            let (first, second) = if fold.second.is_some() { (Ok(index), Some(item)) } else { (item, None) };
            if !self.step(fold, first, second)? {
                break;
            }
        }
        Ok(())
    }

    fn each_key(&mut self, fold: &'a Comprehension, map: &Map<'a>) -> Eval<()> {
        for key in map.keys() {
            let value = |_: &_| map.find(&key).map(|value| value.unwrap_or(Val::Null));
            let second = fold.second.as_ref().map(value);
            if !self.step(fold, Ok(key.val()), second)? {
                break;
            }
        }
        Ok(())
    }

    /// One round of a loop; false when the condition ends it.
    fn step(&mut self, fold: &'a Comprehension, first: Eval<Val<'a>>, second: Option<Eval<Val<'a>>>) -> Eval<bool> {
        let accumulator = self.scope.len() - 1;
        self.scope.push((Arc::clone(&fold.variable), first));
        if let (Some(name), Some(value)) = (&fold.second, second) {
            self.scope.push((Arc::clone(name), value));
        }
        let condition = self.eval(&fold.condition);
        if matches!(condition, Err(Fault::Cancelled)) {
            return Err(Fault::Cancelled);
        }
        let goes_on = !matches!(condition, Ok(Val::Bool(false)));
        if goes_on {
            let stepped = self.eval(&fold.step);
            if matches!(stepped, Err(Fault::Cancelled)) {
                return Err(Fault::Cancelled);
            }
            self.scope[accumulator].1 = stepped;
        }
        self.scope.truncate(accumulator + 1);
        Ok(goes_on)
    }
}

fn literal_val<'a>(literal: &Literal) -> Val<'a> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::String(text) => Val::String(Text::Made(Arc::clone(text))),
        Literal::Bytes(bytes) => Val::Bytes(Arc::clone(bytes)),
    }
}

/// `has(operand.name)`
fn has(operand: &Val<'_>, name: &Arc<str>) -> Eval<bool> {
    match operand {
        Val::Map(map) => Ok(map.find(&Key::String(Arc::clone(name)))?.is_some()),
        Val::Optional(Some(value)) => has(value, name),
        Val::Optional(None) => Ok(false),
        _ => no_such_overload(),
    }
}

/// `operand.name`; on an optional, what is absent stays absent.
fn field<'a>(operand: &Val<'a>, name: &Arc<str>) -> Eval<Val<'a>> {
    match operand {
        Val::Map(map) => match map.find(&Key::String(Arc::clone(name)))? {
            Some(value) => Ok(value),
            None => fault(format!("no such key: {name}")),
        },
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => match &**value {
            Val::Map(map) => Ok(map.find(&Key::String(Arc::clone(name)))?.map_or(Val::Optional(None), Val::some)),
            _ => no_such_overload(),
        },
        _ => no_such_overload(),
    }
}

/// `operand[index]`
fn at<'a>(operand: &Val<'a>, index: &Val<'a>) -> Eval<Val<'a>> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => optional_at(value, index),
        Val::List(_) | Val::Map(_) => match lookup(operand, index)? {
            Some(value) => Ok(value),
            None => {
                let what = if matches!(operand, Val::List(_)) { "index out of bounds" } else { "no such key" };
                fault(format!("{what}: {}", shown_index(index)))
            }
        },
        _ => no_such_overload(),
    }
}

/// `operand[?index]`
fn optional_at<'a>(operand: &Val<'a>, index: &Val<'a>) -> Eval<Val<'a>> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => optional_at(value, index),
        _ => Ok(lookup(operand, index)?.map_or(Val::Optional(None), Val::some)),
    }
}

fn lookup<'a>(operand: &Val<'a>, index: &Val<'a>) -> Eval<Option<Val<'a>>> {
    match (operand, index.key()) {
        (Val::List(list), Some(Key::Number(at, _))) => usize::try_from(at).ok().and_then(|at| list.get(at)).transpose(),
        (Val::Map(map), Some(key)) => map.find(&key),
        _ => no_such_overload(),
    }
}

fn shown_index(index: &Val<'_>) -> String {
    match index {
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Double(value) => value.to_string(),
        Val::String(text) => text.to_string(),
        other => other.type_name().to_owned(),
    }
}
