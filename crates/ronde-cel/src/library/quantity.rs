//! Resource quantities such as `1500m` or `2Gi`, and the comparisons that versions share with them.

use std::cmp::Ordering;

use ronde_text::quantity::{self, QuantityError};

use super::{
    super::value::{Eval, Val, fault, no_such_overload},
    Builtin,
};

const NANO: i128 = 1_000_000_000;

/// An amount in billionths; nothing smaller can be written.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Quantity {
    nanos: i128,
    /// Whether it was written without digits behind the point or a small suffix: `1000m` is no integer.
    is_whole: bool,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "quantity" => |_, args| match args {
            [Val::String(text)] => match Quantity::parse(text) {
                Ok(quantity) => Ok(Val::Quantity(quantity)),
                Err(error) => fault(error.to_string()),
            },
            _ => no_such_overload(),
        },
        "isQuantity" => |_, args| match args {
            [Val::String(text)] => Ok(Val::Bool(Quantity::parse(text).is_ok())),
            _ => no_such_overload(),
        },
        "sign" => |_, args| match args {
            [Val::Quantity(quantity)] => Ok(Val::Int(quantity.nanos.signum() as i64)),
            _ => no_such_overload(),
        },
        "isInteger" => |_, args| match args {
            [Val::Quantity(quantity)] => Ok(Val::Bool(quantity.integer().is_some())),
            _ => no_such_overload(),
        },
        "asInteger" => |_, args| match args {
            [Val::Quantity(quantity)] => {
                quantity.integer().map_or_else(|| fault("cannot convert value to integer"), |value| Ok(Val::Int(value)))
            }
            _ => no_such_overload(),
        },
        "asApproximateFloat" => |_, args| match args {
            #[expect(clippy::cast_precision_loss, reason = "an approximation is asked for")]
            [Val::Quantity(quantity)] => Ok(Val::Double(quantity.nanos as f64 / NANO as f64)),
            _ => no_such_overload(),
        },
        "add" => |_, args| combine(args, i128::saturating_add),
        "sub" => |_, args| combine(args, i128::saturating_sub),
        "isGreaterThan" => |_, args| compare(args).map(|order| Val::Bool(order == Ordering::Greater)),
        "isLessThan" => |_, args| compare(args).map(|order| Val::Bool(order == Ordering::Less)),
        "compareTo" => |_, args| compare(args).map(|order| Val::Int(order as i64)),
        _ => return None,
    })
}

fn compare(args: &[Val<'_>]) -> Eval<Ordering> {
    match args {
        [Val::Quantity(left), Val::Quantity(right)] => Ok(left.nanos.cmp(&right.nanos)),
        [Val::Semver(left), Val::Semver(right)] => Ok(left.compare(right)),
        _ => no_such_overload(),
    }
}

fn combine<'a>(args: &[Val<'a>], with: fn(i128, i128) -> i128) -> Eval<Val<'a>> {
    let (left, right) = match args {
        [Val::Quantity(left), Val::Quantity(right)] => (*left, *right),
        [Val::Quantity(left), Val::Int(right)] => {
            (*left, Quantity { nanos: i128::from(*right) * NANO, is_whole: true })
        }
        _ => return no_such_overload(),
    };
    let is_whole = (left.is_whole || left.nanos == 0) && (right.is_whole || right.nanos == 0);
    Ok(Val::Quantity(Quantity { nanos: with(left.nanos, right.nanos), is_whole }))
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, QuantityError> {
        let nanos = quantity::Quantity::parse(text)?.nano();
        let small_unit = text.ends_with(['n', 'u', 'm']) || text.contains("e-") || text.contains("E-");
        let fraction = text.split_once('.').is_some_and(|(_, after)| after.starts_with(|c: char| c.is_ascii_digit()));
        Ok(Self { nanos, is_whole: !small_unit && !fraction })
    }

    fn integer(self) -> Option<i64> {
        if !self.is_whole && self.nanos != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANO).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_whole_is_an_integer() {
        let check = |text: &str, nanos: i128, integer: Option<i64>| {
            let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((quantity.nanos, quantity.integer()), (nanos, integer), "{text}");
        };
        check("1", NANO, Some(1));
        check("0", 0, Some(0));
        check("1.5", NANO * 3 / 2, None);
        check("-1500m", -NANO * 3 / 2, None);
        check("1000m", NANO, None);
        check("2Ki", NANO * 2048, Some(2048));
        check("1.5Gi", NANO * 1_610_612_736, None);
        check("1e3", NANO * 1000, Some(1000));
        check("1E", NANO * 1_000_000_000_000_000_000, Some(1_000_000_000_000_000_000));
        check("0.1n", 1, None);
    }
}
