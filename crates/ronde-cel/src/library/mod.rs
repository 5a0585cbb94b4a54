//! What the functions of rules do, one module per library.
//!
//! Every function takes evaluated arguments, the receiver first, and picks its overload by what they are. Functions
//! that see their arguments unevaluated (`&&`, `?:`, macros, optional chains) are part of [`super::eval`].

mod lists;
mod net;
mod optional;
mod printf;
mod standard;
mod strings;
mod times;

pub(super) mod format;
pub(super) mod quantity;
pub(super) mod semver;

pub(super) use printf::{Clause, Piece, clauses};
pub(super) use standard::{add, parse_timestamp};
pub(super) use strings::{Search, search};

use super::{
    meter::Meter,
    value::{Eval, Val},
};

/// A function: arguments in, value or error out.
pub(super) type Builtin = for<'a> fn(&mut Meter, &[Val<'a>]) -> Eval<Val<'a>>;

/// The implementation of a function, for a call that can run these overloads.
pub(super) fn implementation(function: &str, overloads: &[&str]) -> Option<Builtin> {
    if function == "sum" {
        return Some(lists::sum_for(overloads));
    }
    let found = standard::implementation(function)
        .or_else(|| times::implementation(function))
        .or_else(|| strings::implementation(function))
        .or_else(|| lists::implementation(function))
        .or_else(|| optional::implementation(function))
        .or_else(|| net::implementation(function))
        .or_else(|| quantity::implementation(function))
        .or_else(|| semver::implementation(function));
    found.or_else(|| format::implementation(function))
}
