//! The tree of a CEL expression, as the parser makes it, the checker annotates it and the evaluator walks it.
//!
//! Every node has an [`ExprId`]; what later stages learn about a node (place in the text, type, overloads) is kept in
//! tables indexed by it. Macros are already expanded: `all`, `map` and their kin are [`Comprehension`]s.

use std::sync::Arc;

/// Identifies a node within its expression.
pub(super) type ExprId = u32;

/// The name of the accumulator of macros. Users cannot write it: `@` is no letter.
pub(super) const ACCUMULATOR: &str = "@result";

/// One node.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub id: ExprId,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Literal),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// `Name{field: value}`; no type that rules can see may be made this way, so the fields are dropped.
    Struct(Arc<str>),
    Comprehension(Box<Comprehension>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// `operand.field`, or `has(operand.field)`.
#[derive(Debug, Clone)]
pub(super) struct Select {
    pub operand: Expr,
    pub field: Arc<str>,
    pub test_only: bool,
}

/// A function, operator or method call. Operators have names like `_+_`.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub function: Arc<str>,
    pub target: Option<Expr>,
    pub args: Vec<Expr>,
}

/// An item of a list literal; `[?x]` is optional.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub value: Expr,
    pub optional: bool,
}

/// An entry of a map literal; `{?k: v}` is optional.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// A fold over a list or the keys of a map.
#[derive(Debug, Clone)]
pub(super) struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    /// The value beside the index or key in two-variable macros.
    pub second: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Expr {
    pub fn ident(&self) -> Option<&Arc<str>> {
        match &self.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// `a.b.c` as text, if the node is nothing but names.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select(select) if !select.test_only => {
                Some(format!("{}.{}", select.operand.qualified_name()?, select.field))
            }
            _ => None,
        }
    }

    /// Calls `visit` for this node and all below it.
    pub fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        visit(self);
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Struct(_) => {}
            Kind::Select(select) => select.operand.walk(visit),
            Kind::Call(call) => call.target.iter().chain(&call.args).for_each(|arg| arg.walk(visit)),
            Kind::List(elements) => elements.iter().for_each(|element| element.value.walk(visit)),
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key.walk(visit);
                    entry.value.walk(visit);
                }
            }
            Kind::Comprehension(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    part.walk(visit);
                }
            }
        }
    }
}
