//! Makes the nodes of a tree, in bounded number.

use std::sync::Arc;

use super::{
    ast::{Call, Expr, ExprId, Kind, Literal},
    source::Issue,
};

/// `optMap` copies its target, so a chain of them doubles the tree at each link. This is far more than any rule
/// in use has, and checking as many takes milliseconds.
const NODES_MAX: usize = 50_000;

/// A syntax error: nothing behind it is read.
pub(super) struct Halt(pub Issue);

pub(super) type Parse<T> = Result<T, Halt>;

/// Makes nodes, remembers their places and collects mistakes that do not stop the parse.
#[derive(Default)]
pub(super) struct Nodes {
    pub offsets: Vec<u32>,
    pub issues: Vec<Issue>,
}

impl Nodes {
    pub fn make(&mut self, offset: u32, kind: Kind) -> Parse<Expr> {
        if self.offsets.len() >= NODES_MAX {
            return Err(Halt(Issue::nowhere("expression is too large once its macros are expanded")));
        }
        let id = ExprId::try_from(self.offsets.len()).unwrap_or(ExprId::MAX);
        self.offsets.push(offset);
        Ok(Expr { id, kind })
    }

    pub fn offset(&self, expr: &Expr) -> u32 {
        self.offsets[expr.id as usize]
    }

    /// Notes a mistake and returns a stand-in for the broken node.
    pub fn broken(&mut self, offset: u32, message: impl Into<String>) -> Parse<Expr> {
        self.issues.push(Issue::new(offset, message));
        self.make(offset, Kind::Literal(Literal::Null))
    }

    pub fn call(&mut self, offset: u32, function: &str, args: Vec<Expr>) -> Parse<Expr> {
        let call = Call { function: Arc::from(function), target: None, args };
        self.make(offset, Kind::Call(Box::new(call)))
    }
}
