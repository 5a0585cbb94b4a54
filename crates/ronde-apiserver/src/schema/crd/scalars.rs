//! The checks of single values: bounds, lengths, patterns, enumerations, sizes.

use regex::Regex;
use serde_json::{Map, Value};

use ronde_cel::text::number::shortest;

use super::validate::{Findings, Mistake};
use crate::{error::FieldErrorKind, schema::Checks};

/// The largest whole number that a JSON number holds exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// Checks a string or number by itself.
pub(super) fn check(value: &Value, checks: &Checks, pattern: Option<&Regex>, path: &str, findings: &mut Findings) {
    match value {
        Value::String(text) => {
            if let Some(mistake) = string(text, checks, pattern, path) {
                findings.add(mistake);
            }
        }
        Value::Number(number) => match number.as_i64() {
            Some(number) => integer(number, checks, path, findings),
            None => float(number.as_f64().unwrap_or_default(), checks, path, findings),
        },
        _ => {}
    }
}

/// Only the first mistake of a string counts.
fn string(text: &str, checks: &Checks, pattern: Option<&Regex>, path: &str) -> Option<Mistake> {
    let length = text.chars().count() as u64;
    if let Some(max) = checks.max_length.filter(|max| length > *max) {
        let message = format!("{path} in body should be at most {max} chars long");
        let noun = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {noun}");
        return Some(Mistake::new(FieldErrorKind::TooLong, path, Value::Null, message, detail));
    }
    if let Some(min) = checks.min_length.filter(|min| length < *min) {
        let message = format!("{path} in body should be at least {min} chars long");
        return Some(Mistake::invalid(path, text.into(), message));
    }
    let shown = checks.pattern.as_deref()?;
    if pattern.is_some_and(|pattern| pattern.is_match(text)) {
        return None;
    }
    Some(Mistake::invalid(path, text.into(), format!("{path} in body should match '{shown}'")))
}

fn integer(number: i64, checks: &Checks, path: &str, findings: &mut Findings) {
    // Bounds are cut to whole numbers, as in the real server.
    #[expect(clippy::cast_possible_truncation, reason = "a bound beyond 64 bits saturates")]
    let whole = |bound: f64| bound as i64;
    let mut complaints = Vec::new();
    match checks.multiple_of.map(whole) {
        Some(factor) if factor <= 0 => findings.add(factor_mistake(path, factor.into())),
        Some(factor) if number % factor != 0 => complaints.push(format!("a multiple of {factor}")),
        _ => {}
    }
    match (checks.minimum.map(whole), checks.exclusive_minimum) {
        (Some(min), true) if number <= min => complaints.push(format!("greater than {min}")),
        (Some(min), false) if number < min => complaints.push(format!("greater than or equal to {min}")),
        _ => {}
    }
    match (checks.maximum.map(whole), checks.exclusive_maximum) {
        (Some(max), true) if number >= max => complaints.push(format!("less than {max}")),
        (Some(max), false) if number > max => complaints.push(format!("less than or equal to {max}")),
        _ => {}
    }
    for complaint in complaints {
        findings.add(Mistake::invalid(path, number.into(), format!("{path} in body should be {complaint}")));
    }
}

fn factor_mistake(path: &str, factor: Value) -> Mistake {
    let shown = factor.as_f64().filter(|_| factor.is_f64()).map_or_else(|| factor.to_string(), shortest);
    Mistake::invalid(path, factor, format!("factor MultipleOf declared for {path} must be positive: {shown}"))
}

fn float(number: f64, checks: &Checks, path: &str, findings: &mut Findings) {
    if let Some(factor) = checks.multiple_of {
        let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
        if factor <= 0.0 {
            findings.add(factor_mistake(path, factor.into()));
        } else if !is_whole(quotient) {
            let message = format!("{path} in body should be a multiple of {}", shortest(factor));
            findings.add(Mistake::invalid(path, number.into(), message));
        }
    }
    let mut complaints = Vec::new();
    match (checks.minimum, checks.exclusive_minimum) {
        (Some(min), true) if number <= min => complaints.push(("greater than", min)),
        (Some(min), false) if number < min => complaints.push(("greater than or equal to", min)),
        _ => {}
    }
    match (checks.maximum, checks.exclusive_maximum) {
        (Some(max), true) if number >= max => complaints.push(("less than", max)),
        (Some(max), false) if number > max => complaints.push(("less than or equal to", max)),
        _ => {}
    }
    for (words, bound) in complaints {
        let message = format!("{path} in body should be {words} {}", shortest(bound));
        findings.add(Mistake::invalid(path, number.into(), message));
    }
}

/// Whether a number is whole, up to what floating point loses.
pub(super) fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > EXACT_MAX {
        return false;
    }
    let difference = (number - number.trunc()).abs();
    difference == 0.0 || (number.trunc() != 0.0 && difference / (number.abs() + number.trunc().abs()) < 1e-9)
}

/// Checks that a value is one of those allowed.
pub(super) fn enumeration(value: &Value, checks: &Checks, path: &str) -> Option<Mistake> {
    let is = |allowed: &Value| match (allowed.as_f64(), value.as_f64()) {
        (Some(allowed), Some(value)) => allowed.total_cmp(&value).is_eq(),
        _ => !allowed.is_null() && allowed == value,
    };
    if checks.enumeration.is_empty() || checks.enumeration.iter().any(is) {
        return None;
    }
    let quoted = |allowed: &Value| match allowed {
        Value::String(text) => format!("{text:?}"),
        other => format!("{:?}", other.to_string()),
    };
    let listed: Vec<String> = checks.enumeration.iter().map(quoted).collect();
    let detail = format!("supported values: {}", listed.join(", "));
    let message = format!("{path} in body should be one of {}", listed.join(" "));
    Some(Mistake::new(FieldErrorKind::NotSupported, path, value.clone(), message, detail))
}

pub(super) fn count_items(items: &[Value], checks: &Checks, path: &str, findings: &mut Findings) {
    let count = items.len() as u64;
    if let Some(min) = checks.min_items.filter(|min| count < *min) {
        findings.add(Mistake::invalid(path, count.into(), format!("{path} in body should have at least {min} items")));
    }
    if let Some(max) = checks.max_items.filter(|max| count > *max) {
        findings.add(too_many(path, count, max, "items"));
    }
    let has_twice = |(at, item): (usize, &Value)| items[..at].contains(item);
    if checks.unique_items && items.iter().enumerate().any(has_twice) {
        findings.add(Mistake::invalid(path, "".into(), format!("{path} in body shouldn't contain duplicates")));
    }
}

pub(super) fn count_fields(fields: &Map<String, Value>, checks: &Checks, path: &str, findings: &mut Findings) {
    let count = fields.len() as u64;
    if let Some(min) = checks.min_properties.filter(|min| count < *min) {
        let message = format!("{path} in body should have at least {min} properties");
        findings.add(Mistake::invalid(path, count.into(), message));
    }
    if let Some(max) = checks.max_properties.filter(|max| count > *max) {
        findings.add(too_many(path, count, max, "properties"));
    }
}

fn too_many(path: &str, count: u64, max: u64, what: &str) -> Mistake {
    let noun = if max == 1 { "item" } else { "items" };
    let message = format!("{path} in body should have at most {max} {what}");
    let detail = format!("must have at most {max} {noun}");
    Mistake::new(FieldErrorKind::TooMany, path, count.into(), message, detail)
}
