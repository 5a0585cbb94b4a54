//! Bounds what an evaluation may do.
//!
//! Two counters. `cost` is the real server's unit of account: it decides which rules are refused and when an
//! evaluation is cancelled. `work` counts what that account leaves out and a hostile rule could live on: items copied
//! when lists are joined, everything inside compared values, text made by `replace`, patterns compiled. Either one
//! running out cancels the evaluation.

use super::{
    containers::{List, Map},
    value::{Eval, Fault, Val},
};

/// The cost a single evaluation may have, as in the real server: about a tenth of a second.
pub const COST_PER_CALL_MAX: u64 = 1_000_000;
/// Two million items of a list are about 80 MB, two million characters of text 2 MB.
const WORK_PER_CALL_MAX: u64 = 2_000_000;
/// The work of all evaluations for one object.
const WORK_MAX: u64 = 20_000_000;
/// Passing over text is so fast that many bytes are one unit of work.
const BYTES_PER_WORK: usize = 256;
/// Compiling a pattern at run time takes up to a few milliseconds; two hundred of them are under a second.
const WORK_PER_PATTERN: u64 = 10_000;

/// What is left of the work that all evaluations for one object may do.
#[derive(Debug)]
pub struct WorkLeft(u64);

impl Default for WorkLeft {
    fn default() -> Self {
        Self(WORK_MAX)
    }
}

impl WorkLeft {
    /// Allows this much; tests allow less than the default.
    pub fn new(work: u64) -> Self {
        Self(work)
    }
}

/// Counts cost and work of one evaluation.
#[derive(Debug)]
pub(super) struct Meter {
    cost: u64,
    work: u64,
    work_max: u64,
}

impl Meter {
    pub fn new(left: &WorkLeft) -> Self {
        Self { cost: 0, work: 0, work_max: left.0.min(WORK_PER_CALL_MAX) }
    }

    /// Ends the count; returns the cost.
    pub fn stop(self, left: &mut WorkLeft) -> u64 {
        left.0 = left.0.saturating_sub(self.work);
        self.cost
    }

    pub fn cost(&self) -> u64 {
        self.cost
    }

    pub fn charge(&mut self, cost: u64) -> Eval<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > COST_PER_CALL_MAX { Err(Fault::Cancelled) } else { Ok(()) }
    }

    /// Takes back what was charged for something that the real server does not count.
    pub fn refund(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    /// Counts items copied or characters made.
    pub fn work(&mut self, amount: usize) -> Eval<()> {
        self.work = self.work.saturating_add(amount as u64);
        if self.work > self.work_max { Err(Fault::Cancelled) } else { Ok(()) }
    }

    /// Counts the passes over texts that even cheap functions make.
    pub fn pass_over(&mut self, values: &[Val<'_>]) -> Eval<()> {
        let bytes: usize = values
            .iter()
            .map(|value| match value {
                Val::String(text) => text.len(),
                Val::Bytes(bytes) => bytes.len(),
                _ => 0,
            })
            .sum();
        self.work(bytes / BYTES_PER_WORK)
    }

    pub fn compile_pattern(&mut self) -> Eval<()> {
        self.work = self.work.saturating_add(WORK_PER_PATTERN);
        self.work(0)
    }
}

/// How the cost of a call follows from its arguments and result; the constants are the real server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallCost {
    /// Looking something up in a list of literals.
    Free,
    One,
    /// Reading the first argument once: a tenth per character.
    Traverse,
    /// Reading it and writing a result of the same length.
    TraverseTwice,
    WriteResult,
    /// A pattern on a text.
    Regex,
    /// Looking through the second argument.
    Search,
    /// The shorter of two texts.
    Compare,
    /// Both texts.
    Concat,
    /// Text times part.
    Contains,
    /// Everything in a list, at all depths.
    Deep,
    /// Every item with every item, this many times.
    Sets(u8),
    ContainsIp {
        parses: bool,
    },
    ContainsCidr {
        parses: bool,
    },
    Format,
}

impl CallCost {
    /// The rule for a function whose call can run these overloads.
    pub fn of_call(function: &str, overloads: &[&str]) -> Self {
        let by_function = match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Some(Self::Deep),
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
            | "isQuantity" | "semver" | "isSemver" => Some(Self::Traverse),
            "ip" if overloads != ["cidr_ip"] => Some(Self::Traverse),
            "replace" | "split" | "ip.isCanonical" => Some(Self::TraverseTwice),
            "join" => Some(Self::WriteResult),
            "find" | "findAll" => Some(Self::Regex),
            "containsIP" => Some(Self::ContainsIp { parses: overloads == ["cidr_contains_ip_string"] }),
            "containsCIDR" => Some(Self::ContainsCidr { parses: overloads == ["cidr_contains_cidr_string"] }),
            "validate" => Some(Self::Format),
            _ => None,
        };
        by_function.unwrap_or(match overloads {
            [
                "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
                | "string_format",
            ] => Self::Traverse,
            ["in_list"] => Self::Search,
            [
                "less_string"
                | "less_equals_string"
                | "greater_string"
                | "greater_equals_string"
                | "less_bytes"
                | "equals"
                | "not_equals",
            ] => Self::Compare,
            ["add_string" | "add_bytes"] => Self::Concat,
            ["matches_string"] => Self::Regex,
            ["contains_string"] => Self::Contains,
            ["list_sets_contains_list" | "list_sets_intersects_list"] => Self::Sets(1),
            ["list_sets_equivalent_list"] => Self::Sets(2),
            _ => Self::One,
        })
    }

    /// The cost of a call that took `args` and made `result`.
    pub fn actual(self, args: &[Val<'_>], result: &Val<'_>) -> u64 {
        let size = |at: usize| args.get(at).map_or(1, Val::size);
        match self {
            Self::Free => 0,
            Self::One => 1,
            Self::Traverse => tenths(size(0)),
            Self::TraverseTwice => tenths(size(0).saturating_mul(2)),
            Self::WriteResult => tenths(result.size().saturating_mul(2)),
            Self::Regex => tenths(size(0).saturating_add(1)).saturating_mul(quarters(size(1))),
            Self::Search => size(1),
            Self::Compare => match &args[0] {
                Val::Quantity(_) | Val::Ip(_) | Val::Cidr(..) | Val::Format(_) | Val::Url(_) | Val::Semver(_) => 1,
                _ => tenths(size(0).min(size(1))),
            },
            Self::Concat => tenths(size(0).saturating_add(size(1))),
            Self::Contains => tenths(size(0)).saturating_mul(tenths(size(1))),
            Self::Deep => deep(&args[0], &mut { DEEP_VALUES_MAX }),
            Self::Sets(times) => 1 + size(0).saturating_mul(size(1)).saturating_mul(u64::from(times)),
            Self::ContainsIp { parses } => tenths(size(0) * 2) + if parses { tenths(size(1)) } else { 0 },
            Self::ContainsCidr { parses } => {
                tenths(size(0) * 2) + tenths(size(0)) + 1 + if parses { tenths(size(1)) } else { 0 }
            }
            Self::Format => match &args[0] {
                Val::Format(format) => tenths(size(1) + 1).saturating_mul(quarters(format.regex_size)),
                _ => 1,
            },
        }
    }
}

/// Ten characters cost one, rounded up.
pub(super) fn tenths(size: u64) -> u64 {
    size.div_ceil(10)
}

/// Four characters of a pattern cost one, rounded up.
fn quarters(size: u64) -> u64 {
    size.div_ceil(4)
}

/// More values than any object has; only a rule that nests the same list in itself over and over makes more.
const DEEP_VALUES_MAX: u32 = 2_000_000;

fn deep(value: &Val<'_>, left: &mut u32) -> u64 {
    let Some(after) = left.checked_sub(1) else { return COST_PER_CALL_MAX + 1 };
    *left = after;
    match value {
        Val::String(text) => text.len() as u64 / 10,
        Val::Bytes(bytes) => bytes.len() as u64 / 10,
        Val::List(list) => deep_items(list, left),
        Val::Map(map) => deep_entries(map, left),
        _ => 1,
    }
}

fn deep_items(list: &List<'_>, left: &mut u32) -> u64 {
    let mut sum: u64 = 0;
    for item in list.iter() {
        sum = sum.saturating_add(item.map_or(1, |item| deep(&item, left)));
        if sum > COST_PER_CALL_MAX {
            break;
        }
    }
    sum
}

fn deep_entries(map: &Map<'_>, left: &mut u32) -> u64 {
    let mut sum: u64 = 0;
    for key in map.keys() {
        let value = map.find(&key).ok().flatten();
        sum = sum.saturating_add(deep(&key.val(), left)).saturating_add(value.map_or(1, |value| deep(&value, left)));
        if sum > COST_PER_CALL_MAX {
            break;
        }
    }
    sum
}
