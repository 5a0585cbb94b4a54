//! What a YAML scalar means: the real server goes by YAML 1.1, where `yes` is true and `010` is eight.

use serde_json::Value;
use serde_saphyr::granit_parser::{ScalarStyle, Tag};

use super::super::json::{float, unsigned};

/// Floats that are whole become integers up to here, since the real server writes them out as JSON in between.
const WHOLE_MAX: f64 = 1e21;

/// Resolves a scalar by its tag, or by its looks if it has none.
pub(super) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain(text) } else { Ok(text.into()) };
    };
    let Some(kind) = tag.suffix_in_namespace("tag:yaml.org,2002:") else { return Ok(text.into()) };
    let found = plain(text)?;
    let fits = match kind.as_ref() {
        "null" => found.is_null(),
        "bool" => found.is_boolean(),
        "int" => found.is_i64(),
        "float" => found.is_number(),
        "binary" => return binary(text),
        _ => return Ok(text.into()),
    };
    if fits { Ok(found) } else { Err(format!("yaml: cannot decode `{text}` as a !!{kind}")) }
}

fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Ok(true.into()),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => return Ok(false.into()),
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        _ => {}
    }
    Ok(match text.as_bytes() {
        [b'.' | b'0'..=b'9' | b'+' | b'-', ..] => number(text).unwrap_or_else(|| text.into()),
        _ => text.into(),
    })
}

fn number(text: &str) -> Option<Value> {
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| {
        let value: f64 = digits.parse().ok().filter(|_| looks_like_float(&digits))?;
        value.is_finite().then(|| whole(value))
    })
}

/// Reads an integer in base 2, 8, 10 or 16; beyond 64 bits there is none.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.bytes().next()?.is_ascii_hexdigit() {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (negative, i64::try_from(magnitude)) {
        (true, Ok(value)) => Some((-value).into()),
        (true, Err(_)) => (magnitude == i64::MIN.unsigned_abs()).then(|| i64::MIN.into()),
        (false, _) => Some(unsigned(magnitude)),
    }
}

/// Whether a text is a decimal number, which Rust's parser takes more for (`inf`, `1.e`).
fn looks_like_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

fn whole(value: f64) -> Value {
    if value.fract() != 0.0 || value.abs() >= WHOLE_MAX {
        return float(value);
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole, and the limit is below that of 128 bits")]
    i64::try_from(value as i128).map_or_else(|_| float(value), Value::from)
}

/// The text that is written in base 64.
fn binary(text: &str) -> Result<Value, String> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let packed: String = text.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(packed).map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned().into())
}
