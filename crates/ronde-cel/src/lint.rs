//! Checks of literals that types alone cannot make: patterns, times, durations, format strings, mixed lists.
//!
//! Runs on a checked expression; what it finds refuses the rule like a type error does.

use super::{
    ast::{Call, Expr, Kind, Literal},
    check::Checked,
    library::{Clause, Piece, clauses, parse_timestamp},
    source::Issue,
    types::Type,
};
use crate::text::{duration, regex};

/// What is wrong with the literals of an expression.
pub(super) fn lint(checked: &Checked) -> Vec<Issue> {
    let mut linter = Linter { checked, issues: Vec::new() };
    checked.root.walk(&mut |expr| linter.call(expr));
    linter.aggregates(&checked.root, false);
    linter.issues
}

struct Linter<'c> {
    checked: &'c Checked,
    issues: Vec<Issue>,
}

impl Linter<'_> {
    fn report(&mut self, expr: &Expr, message: String) {
        self.issues.push(Issue::new(self.checked.offsets[expr.id as usize], message));
    }

    fn call(&mut self, expr: &Expr) {
        let Kind::Call(call) = &expr.kind else { return };
        let Some(literal) = call.args.first() else { return };
        let fits = match (&*call.function, &literal.kind) {
            ("duration", Kind::Literal(Literal::String(text))) => duration::parse(text).is_some(),
            ("timestamp", Kind::Literal(Literal::String(text))) => parse_timestamp(text),
            ("matches", Kind::Literal(Literal::String(text))) => regex::compile(text).is_ok(),
            ("format", Kind::List(_)) => return self.format(expr, call),
            _ => true,
        };
        if !fits {
            self.report(literal, format!("invalid {} argument", call.function));
        }
    }

    fn format(&mut self, expr: &Expr, call: &Call) {
        let Some(Kind::Literal(Literal::String(template))) = call.target.as_ref().map(|target| &target.kind) else {
            return;
        };
        let Kind::List(args) = &call.args[0].kind else { return };
        let mut next = 0;
        for piece in clauses(template) {
            let clause = match piece {
                Ok(Piece::Text(_)) => continue,
                Ok(Piece::Clause(clause)) => clause,
                Err(message) => return self.report(expr, message),
            };
            let Some(arg) = args.get(next) else { return self.report(expr, format!("index {next} out of range")) };
            if let Some(bad) = self.unfit(clause, &arg.value) {
                let name = self.checked.type_of(bad).name().to_owned();
                return self.report(bad, clause.complaint(&name));
            }
            next += 1;
        }
        if args.len() > next {
            let given = args.len();
            let message = format!("too many arguments supplied to string.format (expected {next}, got {given})");
            self.report(expr, message);
        }
    }

    /// The part of an argument that the clause cannot show.
    fn unfit<'e>(&self, clause: Clause, arg: &'e Expr) -> Option<&'e Expr> {
        let of = self.checked.type_of(arg);
        if *of != Type::Dyn && !clause.takes(of.name()) {
            return Some(arg);
        }
        match (&arg.kind, clause) {
            (Kind::List(elements), Clause::String) => {
                elements.iter().find_map(|element| self.unfit(clause, &element.value))
            }
            (Kind::Map(entries), Clause::String) => entries
                .iter()
                .find_map(|entry| self.unfit(clause, &entry.key).or_else(|| self.unfit(clause, &entry.value))),
            _ => None,
        }
    }

    /// Lists and maps must not mix types, except as arguments of `format`.
    fn aggregates(&mut self, expr: &Expr, exempt: bool) {
        let exempt = exempt || matches!(&expr.kind, Kind::Call(call) if *call.function == *"format");
        match &expr.kind {
            Kind::List(elements) if !exempt => {
                let items: Vec<(&Expr, bool)> = elements.iter().map(|e| (&e.value, e.optional)).collect();
                self.same_types(&items, true);
            }
            Kind::Map(entries) if !exempt => {
                let keys: Vec<(&Expr, bool)> = entries.iter().map(|e| (&e.key, false)).collect();
                self.same_types(&keys, false);
                let values: Vec<(&Expr, bool)> = entries.iter().map(|e| (&e.value, e.optional)).collect();
                self.same_types(&values, false);
            }
            _ => {}
        }
        match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Struct(_) => {}
            Kind::Select(select) => self.aggregates(&select.operand, exempt),
            Kind::Call(call) => call.target.iter().chain(&call.args).for_each(|arg| self.aggregates(arg, exempt)),
            Kind::List(elements) => elements.iter().for_each(|element| self.aggregates(&element.value, exempt)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.aggregates(&entry.key, exempt);
                    self.aggregates(&entry.value, exempt);
                }
            }
            Kind::Comprehension(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    self.aggregates(part, exempt);
                }
            }
        }
    }

    fn same_types(&mut self, items: &[(&Expr, bool)], only_first: bool) {
        let of = |linter: &Self, (expr, optional): (&Expr, bool)| {
            let of = linter.checked.type_of(expr);
            if optional { of.unwrap_optional().0.clone() } else { of.clone() }
        };
        let Some((&first, rest)) = items.split_first() else { return };
        let expected = of(self, first);
        for &item in rest {
            let found = of(self, item);
            if found != expected {
                self.report(item.0, format!("expected type '{expected}' but found '{found}'"));
                if only_first {
                    return;
                }
            }
        }
    }
}
