//! Checks the types of a parsed expression, and finds the function behind every call.
//!
//! The result is what the cost estimate and the evaluator work on. Mistakes are collected; a node that is wrong gets
//! the type `!error!`, which fits everywhere, so that it is reported once.

use std::sync::Arc;

use super::{
    ast::{Call, Comprehension, Element, Entry, Expr, ExprId, Kind, Literal, Select},
    functions::{Overload, overloads, type_named},
    parse::Parsed,
    source::Issue,
    types::{Substitutions, Type},
};

/// More parts than a type in use has. The type of a larger one is not checked.
const TYPE_PARTS_MAX: usize = 200;

/// A checked expression.
#[derive(Debug)]
pub(super) struct Checked {
    pub root: Expr,
    pub offsets: Vec<u32>,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    /// The variables from outside that the expression reads.
    pub variables: Vec<Arc<str>>,
}

impl Checked {
    pub fn type_of(&self, expr: &Expr) -> &Type {
        &self.types[expr.id as usize]
    }

    /// The ids of the overloads that a call may run.
    pub fn overloads_of(&self, expr: &Expr) -> &[&'static str] {
        &self.overloads[expr.id as usize]
    }
}

/// Checks an expression in which `variables` are declared.
pub(super) fn check(parsed: Parsed, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    let Parsed { mut root, offsets } = parsed;
    let mut checker = Checker {
        scope: variables.iter().map(|(name, of)| (Arc::from(*name), of.clone())).collect(),
        outside: variables.len(),
        read: Vec::new(),
        substitutions: Substitutions::default(),
        types: vec![Type::Dyn; offsets.len()],
        overloads: vec![Vec::new(); offsets.len()],
        issues: Vec::new(),
        offsets,
    };
    checker.check(&mut root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|of| checker.substitutions.apply(of, true)).collect();
    let Checker { offsets, overloads, read, .. } = checker;
    Ok(Checked { root, offsets, types, overloads, variables: read })
}

struct Checker {
    /// Variables from outside first, then those of the comprehensions around the current node.
    scope: Vec<(Arc<str>, Type)>,
    outside: usize,
    read: Vec<Arc<str>>,
    substitutions: Substitutions,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    issues: Vec<Issue>,
    offsets: Vec<u32>,
}

impl Checker {
    fn report(&mut self, id: ExprId, message: String) {
        self.issues.push(Issue::new(self.offsets[id as usize], message));
    }

    fn set(&mut self, id: ExprId, of: Type) {
        self.types[id as usize] = of;
    }

    fn get(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn known(&self, expr: &Expr) -> Type {
        self.substitutions.apply(&self.types[expr.id as usize], false)
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let of = match &mut expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => {
                let name = name.strip_prefix('.').map_or_else(|| Arc::clone(name), Arc::from);
                self.ident(id, &name)
            }
            Kind::Select(select) => {
                if let Some(of) = qualified_type(select) {
                    let name = format!("{}.{}", select.operand.qualified_name().unwrap_or_default(), select.field);
                    expr.kind = Kind::Ident(Arc::from(name));
                    of
                } else {
                    self.select(id, select)
                }
            }
            Kind::Call(call) => self.call(id, call),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct(name) => self.structure(id, &Arc::clone(name)),
            Kind::Comprehension(fold) => self.comprehension(fold),
        };
        self.set(id, of);
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        if let Some(at) = self.scope.iter().rposition(|(declared, _)| **declared == *name) {
            let (name, of) = self.scope[at].clone();
            if at < self.outside && !self.read.contains(&name) {
                self.read.push(name);
            }
            return Some(of);
        }
        type_named(name).map(|of| Type::Type(Arc::new(of)))
    }

    fn ident(&mut self, id: ExprId, name: &str) -> Type {
        self.lookup(name).unwrap_or_else(|| {
            self.report(id, format!("undeclared reference to '{name}' (in container '')"));
            Type::Error
        })
    }

    fn select(&mut self, id: ExprId, select: &mut Select) -> Type {
        let of = self.field(id, &mut select.operand, &Arc::clone(&select.field), false);
        if select.test_only { Type::Bool } else { self.substitutions.apply(&of, false) }
    }

    /// The type of `operand.field`.
    fn field(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.known(operand);
        let (target, is_optional) = operand_type.unwrap_optional();
        let of = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => object.fields.get(field).cloned().unwrap_or_else(|| {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }),
            Type::Param(_) => {
                self.substitutions.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if optional || is_optional { Type::optional(of) } else { of }
    }

    fn call(&mut self, id: ExprId, call: &mut Call) -> Type {
        if *call.function == *"_?._" {
            return self.optional_select(id, call);
        }
        call.args.iter_mut().for_each(|arg| self.check(arg));
        let Some(target) = &mut call.target else {
            return self.resolve_named(id, call, false);
        };
        let qualified = target.qualified_name().map(|prefix| format!("{prefix}.{}", call.function));
        if let Some(name) = qualified.filter(|name| overloads(name).is_some()) {
            call.function = Arc::from(name);
            call.target = None;
            return self.resolve_named(id, call, false);
        }
        self.check(target);
        self.resolve_named(id, call, true)
    }

    fn resolve_named(&mut self, id: ExprId, call: &Call, is_member: bool) -> Type {
        let Some(candidates) = overloads(&call.function) else {
            self.report(id, format!("undeclared reference to '{}' (in container '')", call.function));
            return Type::Error;
        };
        match &*call.function {
            "_&&_" | "_||_" => self.resolve_logical(id, call, candidates),
            _ => self.resolve(id, call, candidates, is_member),
        }
    }

    fn resolve_logical(&mut self, id: ExprId, call: &Call, candidates: &'static [Overload]) -> Type {
        let mut of = Type::Bool;
        for arg in &call.args {
            let arg_type = self.get(arg);
            if !self.substitutions.assign(&arg_type, &Type::Bool) {
                self.report(arg.id, format!("expected type 'bool' but found '{arg_type}'"));
                of = Type::Error;
            }
        }
        self.overloads[id as usize] = vec![candidates[0].id];
        of
    }

    /// Tries all overloads; a `dyn` argument may fit several.
    fn resolve(&mut self, id: ExprId, call: &Call, candidates: &'static [Overload], is_member: bool) -> Type {
        let args: Vec<Type> = call.target.iter().chain(&call.args).map(|arg| self.get(arg)).collect();
        let mut result: Option<Type> = None;
        let mut found = Vec::new();
        for overload in candidates.iter().filter(|overload| overload.is_member == is_member) {
            let (wanted, of) = self.instantiate(overload);
            if !self.substitutions.assign_all(&args, &wanted) {
                continue;
            }
            if !found.contains(&overload.id) {
                found.push(overload.id);
            }
            let of = self.substitutions.apply(&of, false);
            result = Some(match result {
                None => of,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if before == of => of,
                Some(_) => Type::Dyn,
            });
        }
        self.overloads[id as usize] = found;
        result.unwrap_or_else(|| {
            let message = self.no_overload(&call.function, &args, is_member);
            self.report(id, message);
            Type::Error
        })
    }

    fn no_overload(&self, function: &str, args: &[Type], is_member: bool) -> String {
        let shown: Vec<String> = args.iter().map(|arg| self.substitutions.apply(arg, true).to_string()).collect();
        let (receiver, args) =
            if is_member { (format!("{}.", shown[0]), &shown[1..]) } else { (String::new(), &shown[..]) };
        format!("found no matching overload for '{function}' applied to '{receiver}({})'", args.join(", "))
    }

    /// The overload's types with fresh variables for its parameters.
    fn instantiate(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let mut fresh: Vec<(Arc<str>, Type)> = Vec::new();
        let substitutions = &mut self.substitutions;
        let mut rename = |name: &Arc<str>| {
            if let Some((_, variable)) = fresh.iter().find(|(known, _)| known == name) {
                return variable.clone();
            }
            let variable = substitutions.fresh();
            fresh.push((Arc::clone(name), variable.clone()));
            variable
        };
        let args = overload.args.iter().map(|arg| arg.with_params(&mut rename)).collect();
        (args, overload.result.with_params(&mut rename))
    }

    fn optional_select(&mut self, id: ExprId, call: &mut Call) -> Type {
        self.overloads[id as usize] = vec!["select_optional_field"];
        let [operand, field] = call.args.as_mut_slice() else { return Type::Error };
        let Kind::Literal(Literal::String(name)) = &field.kind else { return Type::Error };
        let name = Arc::clone(name);
        self.set(field.id, Type::String);
        let of = self.field(id, operand, &name, true);
        self.substitutions.apply(&of, false)
    }

    fn list(&mut self, elements: &mut [Element]) -> Type {
        let mut joined: Option<Type> = None;
        for element in elements {
            self.check(&mut element.value);
            let of = self.get(&element.value);
            let of = self.unwrap_element(&element.value, of, element.optional);
            joined = Some(self.join(joined, of));
        }
        Type::list(joined.unwrap_or_else(|| self.substitutions.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let mut joined: Option<(Type, Type)> = None;
        for entry in entries {
            self.check(&mut entry.key);
            self.check(&mut entry.value);
            let value = self.get(&entry.value);
            let value = self.unwrap_element(&entry.value, value, entry.optional);
            let (keys, values) = joined.map_or((None, None), |(keys, values)| (Some(keys), Some(values)));
            let key = self.get(&entry.key);
            joined = Some((self.join(keys, key), self.join(values, value)));
        }
        let (keys, values) = joined.unwrap_or_else(|| (self.substitutions.fresh(), self.substitutions.fresh()));
        // A map that is key and value of a map, and so on, would double its type each time.
        let bounded = |of: Type| if of.is_larger_than(TYPE_PARTS_MAX) { Type::Dyn } else { of };
        Type::map(bounded(keys), bounded(values))
    }

    /// What `[?x]` or `{?k: x}` adds: the value inside the optional.
    fn unwrap_element(&mut self, value: &Expr, of: Type, optional: bool) -> Type {
        if !optional {
            return of;
        }
        let (inner, is_optional) = of.unwrap_optional();
        if !is_optional && *inner != Type::Dyn {
            self.report(value.id, format!("expected type 'optional_type({inner})' but found '{inner}'"));
        }
        inner.clone()
    }

    /// The type of a literal's items; [`super::lint`] complains if they differ.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.substitutions.assign(&previous, &current) => previous.most_general(current),
            Some(_) => Type::Dyn,
        }
    }

    /// No type that rules can name may be made field by field.
    fn structure(&mut self, id: ExprId, name: &str) -> Type {
        let message = match self.lookup(name.strip_prefix('.').unwrap_or(name)) {
            None => format!("undeclared reference to '{name}' (in container '')"),
            Some(Type::Type(of)) => format!("'{}' is not a message type", of.name()),
            Some(of) => format!("'{}' is not a type", of.name()),
        };
        self.report(id, message);
        Type::Error
    }

    fn comprehension(&mut self, fold: &mut Comprehension) -> Type {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.known(&fold.range);
        let accumulated = self.get(&fold.init);
        let scope = self.scope.len();
        self.scope.push((Arc::clone(&fold.accumulator), accumulated.clone()));
        let (first, second) = self.loop_types(&fold.range, &range, fold.second.is_some());
        self.scope.push((Arc::clone(&fold.variable), first));
        if let Some(name) = &fold.second {
            self.scope.push((Arc::clone(name), second));
        }
        self.check(&mut fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.expect(&fold.step, &accumulated);
        self.scope.truncate(scope + 1);
        self.check(&mut fold.result);
        self.scope.truncate(scope);
        self.known(&fold.result)
    }

    /// The types of the loop variables over `range`.
    fn loop_types(&mut self, range: &Expr, of: &Type, two: bool) -> (Type, Type) {
        match of {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.substitutions.assign(&Type::Dyn, of);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let must = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.report(range.id, format!("expression of type '{other}' {must}"));
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.get(expr);
        if !self.substitutions.assign(wanted, &found) {
            self.report(expr.id, format!("expected type '{wanted}' but found '{found}'"));
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// `google.protobuf.Duration` and the like are one name, not selections.
fn qualified_type(select: &Select) -> Option<Type> {
    if select.test_only {
        return None;
    }
    let name = format!("{}.{}", select.operand.qualified_name()?, select.field);
    type_named(&name).map(|of| Type::Type(Arc::new(of)))
}
