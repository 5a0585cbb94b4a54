//! The expression language of validation rules (CEL), as Kubernetes 1.34 has it.
//!
//! Text → [`parse`] → [`check`] (types, overloads) → [`lint`] (literals) → [`cost`] (what it may cost at most) →
//! [`program`] → [`eval`]. Written here rather than taken from a crate, because what the real server promises lives in the parts
//! that the crates at hand lack: type errors when a definition is made, an estimate of cost that refuses expensive
//! rules, and a meter that stops a running one. Data is borrowed from the object; nothing here does I/O.

mod access;
mod ast;
mod check;
mod containers;
mod convert;
mod cost;
mod decl;
mod equality;
mod escape;
mod eval;
pub mod formats;
mod functions;
mod lex;
mod library;
mod lint;
mod literal;
mod macros;
mod meter;
mod nodes;
mod parse;
mod program;
pub mod schema;
mod source;
pub mod text;
mod types;
mod value;

pub use decl::Decl;
pub use meter::WorkLeft;

use serde_json::Value;

use self::{
    meter::Meter,
    program::Program,
    source::render,
    types::Type,
    value::{Eval, Fault, Val},
};
use crate::schema::Node;

/// What an expression must yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A rule.
    Bool,
    /// A message.
    String,
}

/// A compiled rule or message.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    /// The most that one evaluation can cost, by the schema.
    pub max_cost: u64,
    pub uses_old_self: bool,
    optional_old_self: bool,
}

/// What an evaluation came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Evaluation {
    Bool(bool),
    Text(String),
    /// The error, in the words of the real server.
    Error(String),
    /// Cancelled for its cost.
    TooExpensive,
}

impl Expression {
    /// Compiles `text` for values declared as `decl`.
    ///
    /// # Errors
    /// What the real server would say, without the words in front that tell rules from messages.
    pub fn compile(text: &str, decl: &Decl, optional_old_self: bool, wanted: Wanted) -> Result<Self, String> {
        let prefix = if wanted == Wanted::Bool { "" } else { "messageExpression " };
        let failed = |issues| format!("{prefix}compilation failed: {}", render(text, issues));
        let current = decl.named_type("selfType");
        let old = if optional_old_self { Type::optional(current.clone()) } else { current.clone() };
        let parsed = parse::parse(text).map_err(failed)?;
        let checked = check::check(parsed, &[("self", current), ("oldSelf", old)]).map_err(failed)?;
        let issues = lint::lint(&checked);
        if !issues.is_empty() {
            return Err(failed(issues));
        }
        let (fits, complaint) = match wanted {
            Wanted::Bool => (Type::Bool, "cel expression must evaluate to a bool"),
            Wanted::String => (Type::String, "messageExpression must evaluate to a string"),
        };
        if *checked.type_of(&checked.root) != fits {
            return Err(complaint.to_owned());
        }
        let max_cost = cost::estimate(&checked, decl);
        let program = Program::new(checked).map_err(|function| format!("program instantiation failed: {function}"))?;
        let uses_old_self = program.reads("oldSelf");
        Ok(Self { program, max_cost, uses_old_self, optional_old_self })
    }

    /// Evaluates the expression on a value and, if there is one, the value before. Returns the cost too.
    pub fn evaluate<'a>(
        &'a self,
        current: &'a Value,
        old: Option<&'a Value>,
        node: Node<'a>,
        left: &mut WorkLeft,
    ) -> (u64, Evaluation) {
        let mut meter = Meter::new(left);
        let mut variables = vec![("self", convert::to_val(current, Some(node)))];
        let old = old.map(|old| convert::to_val(old, Some(node)));
        match old {
            Some(old) if self.optional_old_self => variables.push(("oldSelf", old.map(Val::some))),
            None if self.optional_old_self => variables.push(("oldSelf", Ok(Val::Optional(None)))),
            Some(old) => variables.push(("oldSelf", old)),
            None => {}
        }
        let answer = as_evaluation(self.program.run(&mut meter, variables));
        (meter.stop(left), answer)
    }
}

fn as_evaluation(value: Eval<Val<'_>>) -> Evaluation {
    match value {
        Ok(Val::Bool(value)) => Evaluation::Bool(value),
        Ok(Val::String(text)) => Evaluation::Text(text.to_string()),
        Ok(_) => Evaluation::Error("no such overload".to_owned()),
        Err(Fault::Error(message)) => Evaluation::Error(message.into_owned()),
        Err(Fault::Cancelled) => Evaluation::TooExpensive,
    }
}
