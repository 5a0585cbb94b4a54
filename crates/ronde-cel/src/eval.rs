//! Evaluates a program: walks the checked tree, counting its cost.
//!
//! Errors are values as far as `&&`, `||` and the macros made of them go: `false && error` is false. Everything else
//! passes the first error on. When the meter runs out, the evaluation ends at once.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use super::{
    access::{at, field, has, optional_at},
    ast::{ACCUMULATOR, Call, Comprehension, Expr, Kind, Literal, Select},
    containers::{List, Map},
    library::{Builtin, add, search},
    meter::{CallCost, Meter},
    program::{Form, Program},
    value::{Eval, Fault, Key, Text, Val, fault, no_such_overload},
};

const IDENT_COST: u64 = 1;
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

/// A run of a program.
pub(super) struct Machine<'m, 'a> {
    pub program: &'a Program,
    pub meter: &'m mut Meter,
    /// Variables, innermost last. An accumulator may hold an error for a later step to absorb.
    pub scope: Vec<(Arc<str>, Eval<Val<'a>>)>,
}

impl<'a> Machine<'_, 'a> {
    pub fn eval(&mut self, expr: &'a Expr) -> Eval<Val<'a>> {
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
        let value = field(&operand, &select.field)?;
        self.decoded(&value)?;
        Ok(value)
    }

    /// Counts the work behind a value taken from the object: bytes are decoded each time.
    fn decoded(&mut self, value: &Val<'a>) -> Eval<()> {
        if let Val::Bytes(bytes) = value { self.meter.work(bytes.len() / 16) } else { Ok(()) }
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
                self.meter.pass_over(std::slice::from_ref(&index))?;
                let value =
                    if matches!(form, Form::Index) { at(&operand, &index) } else { optional_at(&operand, &index) }?;
                self.meter.charge(u64::from(!matches!(value, Val::Optional(None))))?;
                self.decoded(&value)?;
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
        let args: Vec<Val<'a>> = call.target.iter().chain(&call.args).map(|arg| self.eval(arg)).collect::<Eval<_>>()?;
        self.meter.pass_over(&args)?;
        Ok(args)
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
            if let Ok(item) = &item {
                self.decoded(item)?;
            }
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

/// Whether a node names a place in the data. The real server counts such a path as a whole.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Ident(_) => true,
        Kind::Select(select) => !select.test_only,
        Kind::Call(call) => matches!(&*call.function, "_[_]" | "_[?_]" | "_?._"),
        _ => false,
    }
}
