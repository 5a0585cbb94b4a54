//! `'%s has %d'.format([...])`.
//!
//! The clauses are read by [`clauses`], which the check of literals at compile time shares. Numbers come out as in
//! the real server, which writes them for English readers: `%f` groups thousands, `%e` has raised exponents.

use std::fmt::Write as _;

use super::super::{
    containers::{List, Map},
    meter::Meter,
    value::{Eval, Fault, Val, fault},
};
use super::standard;
use crate::text::number;

const PRECISION: usize = 6;
/// No double has more digits behind the point.
const FRACTION_DIGITS_MAX: usize = 1100;
const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// One piece of a template.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Piece<'t> {
    Text(&'t str),
    Clause(Clause),
}

/// What a `%` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific,
    Binary,
    Hex { upper: bool },
    Octal,
}

/// Splits a template; a mistake ends the list.
pub(in super::super) fn clauses(template: &str) -> Vec<Result<Piece<'_>, String>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            pieces.push(Ok(Piece::Text(&rest[..at])));
        }
        let after = &rest[at + 1..];
        if let Some(behind) = after.strip_prefix('%') {
            pieces.push(Ok(Piece::Text("%")));
            rest = behind;
            continue;
        }
        match clause(after) {
            Ok((clause, length)) => {
                pieces.push(Ok(Piece::Clause(clause)));
                rest = &after[length..];
            }
            Err(message) => {
                pieces.push(Err(message));
                return pieces;
            }
        }
    }
    if !rest.is_empty() {
        pieces.push(Ok(Piece::Text(rest)));
    }
    pieces
}

fn clause(text: &str) -> Result<(Clause, usize), String> {
    let could_not = "could not parse formatting clause";
    let mut length = 0;
    let mut precision = PRECISION;
    if let Some(digits) = text.strip_prefix('.') {
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let end = end.ok_or_else(|| {
            format!("{could_not}: error while parsing precision: could not find end of precision specifier")
        })?;
        precision = digits[..end].parse().map_err(|_| {
            let what = "error while parsing precision: error while converting precision to integer";
            format!("{could_not}: {what}: strconv.Atoi: parsing {:?}: invalid syntax", &digits[..end])
        })?;
        length = end + 1;
    }
    let verb = text[length..].chars().next().ok_or("unexpected end of string")?;
    let clause = match verb {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific,
        'b' => Clause::Binary,
        'x' | 'X' => Clause::Hex { upper: verb == 'X' },
        'o' => Clause::Octal,
        other => return Err(format!("{could_not}: unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, length + verb.len_utf8()))
}

impl Clause {
    /// Whether a value of the type called `name` can be shown this way.
    pub fn takes(self, name: &str) -> bool {
        match self {
            Self::String => matches!(
                name,
                "list"
                    | "map"
                    | "int"
                    | "uint"
                    | "double"
                    | "bool"
                    | "string"
                    | "google.protobuf.Timestamp"
                    | "bytes"
                    | "google.protobuf.Duration"
                    | "type"
                    | "null_type"
            ),
            Self::Decimal | Self::Octal => matches!(name, "int" | "uint"),
            Self::Fixed(_) | Self::Scientific => matches!(name, "double" | "string"),
            Self::Binary => matches!(name, "int" | "uint" | "bool"),
            Self::Hex { .. } => matches!(name, "int" | "uint" | "string" | "bytes"),
        }
    }

    /// The words for a value of a type that cannot.
    pub fn complaint(self, name: &str) -> String {
        let what = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {what}, was given {name}")
    }
}

/// Fills a template.
pub(super) fn print(meter: &mut Meter, template: &str, args: &List<'_>) -> Eval<String> {
    let mut out = String::new();
    let mut next = 0;
    for piece in clauses(template) {
        match piece {
            Err(message) => return fault(message),
            Ok(Piece::Text(text)) => out.push_str(text),
            Ok(Piece::Clause(clause)) => {
                let Some(value) = args.get(next) else { return fault(format!("index {next} out of range")) };
                if let Clause::Fixed(precision) = clause {
                    meter.work(precision)?;
                }
                let shown = show(meter, clause, &value?)?;
                meter.work(shown.len())?;
                out.push_str(&shown);
                next += 1;
            }
        }
    }
    Ok(out)
}

fn show(meter: &mut Meter, clause: Clause, value: &Val<'_>) -> Eval<String> {
    let refused = || Err(Fault::Error(clause.complaint(value.type_name()).into()));
    match (clause, value) {
        (Clause::String, _) if !clause.takes(value.type_name()) => refused(),
        (Clause::String, value) => text_of(meter, value),
        (Clause::Decimal, Val::Int(value)) => Ok(value.to_string()),
        (Clause::Decimal, Val::Uint(value)) => Ok(value.to_string()),
        (Clause::Fixed(precision), Val::Double(value)) => Ok(fixed(*value, precision)),
        (Clause::Scientific, Val::Double(value)) => Ok(scientific(*value)),
        (Clause::Fixed(_) | Clause::Scientific, Val::String(text)) => match &**text {
            "NaN" => Ok("NaN".to_owned()),
            "Infinity" => Ok("∞".to_owned()),
            "-Infinity" => Ok("-∞".to_owned()),
            _ => refused(),
        },
        (Clause::Binary, Val::Bool(value)) => Ok(u8::from(*value).to_string()),
        (Clause::Binary, Val::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:b}"))),
        (Clause::Binary, Val::Uint(value)) => Ok(format!("{value:b}")),
        (Clause::Octal, Val::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:o}"))),
        (Clause::Octal, Val::Uint(value)) => Ok(format!("{value:o}")),
        (Clause::Hex { upper }, value) => {
            let shown = match value {
                Val::Int(value) => signed(*value, |magnitude| format!("{magnitude:x}")),
                Val::Uint(value) => format!("{value:x}"),
                Val::String(text) => hexadecimal(text.as_bytes()),
                Val::Bytes(bytes) => hexadecimal(bytes),
                _ => return refused(),
            };
            Ok(if upper { shown.to_uppercase() } else { shown })
        }
        _ => refused(),
    }
}

fn signed(value: i64, show: fn(u64) -> String) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, show(value.unsigned_abs()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Decimals after the point, commas between thousands before it.
fn fixed(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "∞"
        } else {
            "-∞"
        }
        .to_owned();
    }
    let digits = precision.min(FRACTION_DIGITS_MAX);
    let mut plain = format!("{:.digits$}", value.abs());
    plain.extend(std::iter::repeat_n('0', precision - digits));
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{fraction}") }
}

/// Always six decimals: the real server takes a precision here for a width.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return fixed(value, 0);
    }
    let plain = format!("{value:.6e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised: String =
        format!("{digits:0>2}").chars().filter_map(|c| c.to_digit(10)).map(|d| SUPERSCRIPTS[d as usize]).collect();
    format!("{mantissa}×10{sign}{raised}")
}

/// The text of a value as `%s` shows it.
pub(super) fn text_of(meter: &mut Meter, value: &Val<'_>) -> Eval<String> {
    match value {
        Val::Null => Ok("null".to_owned()),
        Val::List(list) => {
            let items: Vec<String> = list.iter().map(|item| inner(meter, &item?)).collect::<Eval<_>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        Val::Map(map) => map_text(meter, map),
        other => match standard::to_string(other)? {
            Val::String(text) => Ok(text.to_string()),
            _ => fault("no such overload"),
        },
    }
}

fn map_text(meter: &mut Meter, map: &Map<'_>) -> Eval<String> {
    let mut entries = Vec::new();
    for key in map.keys() {
        // Null fields of an object are absent, but their names are still listed.
        let Some(value) = map.find(&key)? else { continue };
        entries.push(format!("{}:{}", inner(meter, &key.val())?, inner(meter, &value)?));
    }
    entries.sort();
    Ok(format!("{{{}}}", entries.join(", ")))
}

/// The text of a value inside a list or map: as a rule would write it.
fn inner(meter: &mut Meter, value: &Val<'_>) -> Eval<String> {
    let text = match value {
        Val::String(text) => format!("{:?}", &**text),
        Val::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Val::Double(value) => format!("{value:.PRECISION$}"),
        Val::Timestamp(time) => format!("timestamp(\"{time}\")"),
        Val::Duration(nanoseconds) => format!("duration(\"{}\")", number::seconds(*nanoseconds)),
        Val::Optional(_) | Val::Ip(_) | Val::Cidr(..) | Val::Quantity(_) | Val::Url(_) => {
            return fault(format!("no formatting function for {}", value.type_name()));
        }
        other => text_of(meter, other)?,
    };
    // Before the texts are joined: the same list nested in itself over and over grows without end.
    meter.work(1 + text.len())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_english_readers() {
        assert_eq!(fixed(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(fixed(-1234.5, 6), "-1,234.500000");
        assert_eq!(fixed(2.5, 0), "2");
        assert_eq!(fixed(1.0, 70_000).len(), 70_002);
        assert_eq!(scientific(12345.678), "1.234568×10⁰⁴");
        assert_eq!(scientific(0.00015), "1.500000×10⁻⁰⁴");
    }

    #[test]
    fn templates_split() {
        let check = |template: &str, expected: &[Result<Piece<'_>, String>]| {
            assert_eq!(clauses(template), expected, "{template}");
        };
        check(
            "a%sb%%",
            &[Ok(Piece::Text("a")), Ok(Piece::Clause(Clause::String)), Ok(Piece::Text("b")), Ok(Piece::Text("%"))],
        );
        check("%.2f", &[Ok(Piece::Clause(Clause::Fixed(2)))]);
        check("%", &[Err("unexpected end of string".to_owned())]);
        check("%q", &[Err("could not parse formatting clause: unrecognized formatting clause \"q\"".to_owned())]);
    }
}
