//! What calls of operators and functions cost at most.

use std::sync::Arc;

use super::{
    super::{
        ast::{Kind, Literal},
        types::{Library, Type},
    },
    Arg, CallSite, Estimate, Estimator,
    bounds::{Bounds, ONE, UNKNOWN},
};

/// The pattern behind a named format, as far as estimates go.
const FORMAT_PATTERN_SIZE: f64 = 128.0;

impl Estimator<'_> {
    /// A size for estimates of library functions, which may ask the schema once more.
    fn library_size(&self, arg: &Arg<'_>) -> Bounds {
        arg.size.or_else(|| self.schema_size(&self.schema_path(arg.expr))).unwrap_or(UNKNOWN)
    }

    pub fn sets(&self, id: &str, args: &[Arg<'_>]) -> Option<Estimate> {
        let factor = match id {
            "list_sets_contains_list" | "list_sets_intersects_list" => 1.0,
            "list_sets_equivalent_list" => 2.0,
            _ => return None,
        };
        let [left, right] = args else { return None };
        let pairs = self.library_size(left).times(self.library_size(right));
        Some(Estimate::cost(pairs.scaled(factor).add(ONE)))
    }

    /// Functions of the Kubernetes and strings libraries.
    pub fn by_function(&self, at: &CallSite<'_>, id: &str) -> Option<Estimate> {
        let args = at.args.as_slice();
        let first = args.first().map(|arg| self.library_size(arg));
        Some(match (at.function, at.target.as_ref(), first) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                self.list_function(target)
            }
            ("url", _, Some(size)) => Estimate::sized(size.scaled(0.1), size),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                let size = self.library_size(target);
                Estimate::sized(size.scaled(0.1), size)
            }
            ("replace", Some(target), Some(from)) if args.len() >= 2 => {
                let (size, to) = (self.library_size(target), self.library_size(&args[1]));
                Estimate::sized(size.scaled(0.2), replaced_size(size, from, to))
            }
            ("split", Some(target), _) => {
                let size = self.library_size(target);
                let limit = match args.get(1).map(|arg| &arg.expr.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => u64::try_from(*limit).unwrap_or(u64::MAX),
                    _ => size.max,
                };
                Estimate::sized(size.scaled(0.2), Bounds { min: 0, max: limit })
            }
            ("join", Some(target), _) => self.join(target, first),
            ("find" | "findAll", Some(target), Some(pattern)) => {
                let size = self.library_size(target);
                let cost = size.add(ONE).scaled(0.1).times(pattern.scaled(0.25));
                Estimate::sized(cost, Bounds { min: 0, max: size.max })
            }
            ("ip", ..) if id == "cidr_ip" => Estimate::cost(ONE),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, Some(size)) => {
                Estimate::cost(size.scaled(0.1))
            }
            ("ip.isCanonical", _, Some(size)) => Estimate::cost(size.scaled(0.2)),
            ("containsIP" | "containsCIDR", _, Some(size)) => Estimate::cost(address_cost(at.function, id, size)),
            ("validate", _, Some(size)) => Estimate::cost(size.scaled(0.1).scaled(FORMAT_PATTERN_SIZE * 0.25)),
            ("_==_", ..) => return self.library_equality(args),
            _ => return None,
        })
    }

    fn list_function(&self, target: &Arg<'_>) -> Estimate {
        let size = self.library_size(target);
        let Type::List(item) = self.checked.type_of(target.expr) else {
            return Estimate::cost(size.scaled(0.1));
        };
        let mut item_cost = ONE;
        if matches!(**item, Type::String | Type::Bytes) {
            item_cost = item_cost.add(self.item_size(target).scaled(0.1));
        }
        Estimate::cost(size.times(item_cost))
    }

    /// The size of a list's items, if the schema bounds them.
    fn item_size(&self, list: &Arg<'_>) -> Bounds {
        let mut path = self.schema_path(list.expr);
        if !path.is_empty() {
            path.push(Arc::from("@items"));
        }
        self.schema_size(&path).unwrap_or(UNKNOWN)
    }

    fn join(&self, target: &Arg<'_>, separator: Option<Bounds>) -> Estimate {
        let count = self.library_size(target);
        let mut size = Bounds::default();
        if matches!(self.checked.type_of(target.expr), Type::List(_)) {
            size = count.times(self.item_size(target));
        }
        if let Some(separator) = separator {
            let between = Bounds { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.add(separator.times(between));
        }
        Estimate::sized(size.scaled(0.1), size)
    }

    fn library_equality(&self, args: &[Arg<'_>]) -> Option<Estimate> {
        let [left, right] = args else { return None };
        let (Type::Library(l), Type::Library(r)) = (self.checked.type_of(left.expr), self.checked.type_of(right.expr))
        else {
            return None;
        };
        if l != r {
            return None;
        }
        let max = match l {
            Library::Format => 64,
            Library::Url => right.size.map_or(1, |size| size.max),
            _ => return Some(Estimate::cost(ONE)),
        };
        Some(Estimate::cost(Bounds { min: 1, max }.scaled(0.1)))
    }
}

/// Operators and functions of the language itself.
pub(super) fn by_overload(id: &str, target: Option<&Arg<'_>>, args: &[Arg<'_>]) -> Option<Estimate> {
    Some(match (id, target, args) {
        ("string_format", Some(target), _) => Estimate::cost(target.size().scaled(0.1)),
        ("string_to_bytes", _, [arg]) => {
            let size = arg.size();
            Estimate::sized(size.scaled(0.1), Bounds { min: size.min, max: size.max.saturating_mul(4) })
        }
        ("bytes_to_string", _, [arg]) => {
            let size = arg.size();
            Estimate::sized(size.scaled(0.1), Bounds { min: size.min / 4, max: size.max })
        }
        ("strings_quote", _, [arg]) => {
            let size = arg.size();
            let quoted = Bounds { min: size.min.saturating_add(2), max: size.max.saturating_mul(2).saturating_add(2) };
            Estimate::sized(size.scaled(0.1), quoted)
        }
        ("starts_with_string" | "ends_with_string", _, [arg]) => Estimate::cost(arg.size().scaled(0.1)),
        ("in_list", _, [_, list]) => Estimate::cost(list.size()),
        ("matches_string", Some(text), [pattern]) => {
            Estimate::cost(text.size().add(ONE).scaled(0.1).times(pattern.size().scaled(0.25)))
        }
        ("contains_string", Some(text), [part]) => {
            Estimate::cost(text.size().scaled(0.1).times(part.size().scaled(0.1)))
        }
        (
            "less_string"
            | "less_equals_string"
            | "greater_string"
            | "greater_equals_string"
            | "less_bytes"
            | "equals"
            | "not_equals",
            _,
            [left, right],
        ) => {
            let max = left.size().max.min(right.size().max);
            Estimate::cost(Bounds { min: u64::from(max > 0), max }.scaled(0.1))
        }
        _ => return None,
    })
}

/// The size of a text after `replace`.
fn replaced_size(size: Bounds, from: Bounds, to: Bounds) -> Bounds {
    let (mut count, mut kept) = (Bounds::default(), Bounds::default());
    if from.min == 0 {
        // Replacing nothing puts the replacement around every character.
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if to.max <= from.min {
        kept.max = size.max;
    } else {
        count.max = size.max.div_ceil(from.min);
    }
    if from.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if from.max <= to.min {
        kept.min = size.min;
    } else {
        count.min = size.min.div_ceil(from.max);
    }
    count.times(to).add(kept)
}

fn address_cost(function: &str, id: &str, text: Bounds) -> Bounds {
    let address = Bounds { min: 4, max: 16 };
    let mut cost = address.add(address).scaled(0.1);
    if function == "containsCIDR" {
        cost = cost.add(address.scaled(0.1)).add(ONE);
    }
    if id.ends_with("_string") { cost.add(text.scaled(0.1)) } else { cost }
}
