//! An expression prepared to run: which implementation each call has, what is constant, patterns compiled once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regex::Regex;

use super::{
    ast::{ACCUMULATOR, Call, Expr, ExprId, Kind, Literal},
    check::Checked,
    eval::Machine,
    library::{Builtin, Search, implementation},
    meter::{CallCost, Meter, WorkLeft},
    value::{Eval, Fault, Val},
};
use crate::text::regex as patterns;

/// An expression ready to run.
#[derive(Debug)]
pub(super) struct Program {
    checked: Checked,
    /// How to run each call, by node.
    pub forms: BTreeMap<ExprId, Form>,
    /// Patterns that stand in the text, compiled once.
    pub patterns: BTreeMap<ExprId, Regex>,
    /// Literals, and lists, maps and conversions of nothing but literals: they cost nothing.
    pub constants: BTreeSet<ExprId>,
}

/// How a call runs.
#[derive(Clone, Copy)]
pub(super) enum Form {
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
            let Some(mut form) = Form::of_call(call, checked.overloads_of(expr)) else {
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
                let mut machine =
                    Machine { program: self, meter: &mut Meter::new(&WorkLeft::default()), scope: Vec::new() };
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

/// The pattern of `text.matches('pattern')` or `matches(text, 'pattern')`, if it is a literal.
fn literal_pattern(call: &Call) -> Option<&str> {
    let pattern = if call.target.is_some() { call.args.first() } else { call.args.get(1) }?;
    match &pattern.kind {
        Kind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

impl Form {
    fn of_call(call: &Call, overloads: &[&str]) -> Option<Self> {
        let cost = CallCost::of_call(&call.function, overloads);
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
