//! Resource quantities (`500m`, `1.5Gi`, `12e6`): parsing, the canonical text, comparison.
//!
//! Called by strict decoding (every quantity of a built-in kind is written back in canonical form), the tables and
//! the checks of quotas. Exact for every quantity up to 38 significant digits; longer ones are refused. Rounds up to
//! nano units as the real server does, and shares its quirk of leaving some unusual but unambiguous texts as they
//! are (`1.500`, `+1`).

use std::{borrow::Cow, cmp::Ordering, fmt};

/// The finest unit that is kept.
const NANO: i32 = -9;
/// The texts up to this many digits pass through unchanged where [`Parts::stays_as_written`].
const SHORT_DIGITS_MAX: usize = 18;
/// A longer text is not read at a glance: `1536Mi` is.
const ROUGH_LENGTH_MAX: usize = 6;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// An amount of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// The amount is `mantissa * 10^scale`.
    mantissa: i128,
    scale: i32,
    style: Style,
}

/// The family of suffixes a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `k`, `M`, `m`.
    Decimal,
    /// `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// Why a text is no quantity. The texts are those of the real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Returns the canonical text of a quantity: borrowed where it is canonical already.
///
/// # Errors
/// If the text is no quantity.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    if is_plain_integer(text) {
        return Ok(Cow::Borrowed(text));
    }
    let parts = split(text)?;
    let suffix = Suffix::parse(parts.suffix)?;
    if parts.stays_as_written(suffix) {
        return Ok(Cow::Borrowed(text));
    }
    let written = Quantity::from_parts(&parts, suffix)?.to_string();
    Ok(if written == text { Cow::Borrowed(text) } else { Cow::Owned(written) })
}

/// Returns an amount of bytes as people write it: exactly, in the units that make it shorter, as in `2Gi` or `100G`.
pub fn bytes(amount: i64) -> String {
    let written = |style| Quantity { style, ..Quantity::whole(amount) }.to_string();
    let (binary, decimal) = (written(Style::Binary), written(Style::Decimal));
    if decimal.len() < binary.len() { decimal } else { binary }
}

/// Returns an amount of bytes for people to read: exactly if that is short, else a little less, as in `15.6Gi`.
pub fn rough_bytes(amount: i64) -> String {
    let exact = bytes(amount);
    let unit = BINARY_SUFFIXES.iter().rfind(|(_, exponent)| amount.unsigned_abs() >> exponent > 0);
    match unit {
        Some((suffix, exponent)) if exact.len() > ROUGH_LENGTH_MAX => {
            let tenths = (i128::from(amount) * 10) >> exponent;
            let fraction = if tenths % 10 == 0 { String::new() } else { format!(".{}", tenths.abs() % 10) };
            format!("{}{fraction}{suffix}", tenths / 10)
        }
        _ => exact,
    }
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { mantissa: 0, scale: 0, style: Style::Decimal };

    /// # Errors
    /// If the text is no quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = split(text)?;
        Self::from_parts(&parts, Suffix::parse(parts.suffix)?)
    }

    pub fn whole(value: i64) -> Self {
        Self { mantissa: value.into(), scale: 0, style: Style::Decimal }
    }

    pub fn from_nano(nano: i128, style: Style) -> Self {
        Self { mantissa: nano, scale: NANO, style }
    }

    pub fn style(self) -> Style {
        self.style
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(self) -> i128 {
        self.scaled(0)
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli(self) -> i128 {
        self.scaled(-3)
    }

    /// The amount in billionths; saturates.
    pub fn nano(self) -> i128 {
        self.scaled(NANO)
    }

    pub fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The sum, in the style of the left side, or of the right one if the left is zero.
    pub fn plus(self, other: Self) -> Self {
        let style = if self.is_zero() { other.style } else { self.style };
        Self::from_nano(self.nano().saturating_add(other.nano()), style)
    }

    /// The amount in units of `10^scale`, rounded away from zero; saturates.
    fn scaled(self, scale: i32) -> i128 {
        rescale(self.mantissa, self.scale.saturating_sub(scale))
    }

    fn from_parts(parts: &Parts<'_>, suffix: Suffix) -> Result<Self, QuantityError> {
        let mut mantissa = parts.digits()?;
        let mut scale = -i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Number)?;
        let mut style = suffix.style;
        match suffix.style {
            Style::Binary => {
                let product = mantissa.checked_mul(1 << suffix.exponent).map(|product| (product, scale));
                (mantissa, scale) = product.unwrap_or((i64::MAX.into(), 0));
            }
            Style::Decimal | Style::Exponent => scale = scale.saturating_add(suffix.exponent),
        }
        if scale < NANO {
            mantissa = rescale(mantissa, scale.saturating_sub(NANO));
            scale = NANO;
        }
        if style == Style::Binary {
            let size = Self { mantissa, scale, style };
            if size > Self::whole(i64::MAX) {
                (mantissa, scale) = (i64::MAX.into(), 0);
            } else if size < Self::whole(1) {
                style = Style::Decimal;
            }
        }
        Ok(Self { mantissa: if parts.negative { -mantissa } else { mantissa }, scale, style })
    }

    /// Writes the number with as large a binary suffix as divides it, if it is a whole one of 1024 or more.
    fn binary_text(self) -> Option<String> {
        let whole = self.value();
        let is_exact = Self { mantissa: whole, scale: 0, style: self.style } == self;
        if !is_exact || whole.unsigned_abs() < 1024 {
            return None;
        }
        let (number, power) = without_factors(whole, 1024);
        let suffix = BINARY_SUFFIXES.iter().find(|(_, exponent)| *exponent == power * 10).map_or("", |(s, _)| s);
        Some(format!("{number}{suffix}"))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        if let (Style::Binary, Some(text)) = (self.style, self.binary_text()) {
            return f.write_str(&text);
        }
        let (mut number, times) = without_factors(self.mantissa, 10);
        let mut exponent = self.scale.saturating_add(times);
        while exponent % 3 != 0 {
            number = number.saturating_mul(10);
            exponent -= 1;
        }
        if self.style == Style::Exponent && exponent != 0 {
            return write!(f, "{number}e{exponent}");
        }
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
        write!(f, "{number}{suffix}")
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    /// Compares amounts; the style does not count.
    fn cmp(&self, other: &Self) -> Ordering {
        if self.mantissa.signum() != other.mantissa.signum() || self.mantissa == 0 {
            return self.mantissa.signum().cmp(&other.mantissa.signum());
        }
        let shift = self.scale.saturating_sub(other.scale);
        if shift >= 0 {
            raise(self.mantissa, shift).cmp(&other.mantissa)
        } else {
            self.mantissa.cmp(&raise(other.mantissa, -shift))
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Suffix {
    style: Style,
    exponent: i32,
}

impl Suffix {
    fn parse(text: &str) -> Result<Self, QuantityError> {
        let find = |table: &[(&str, i32)]| table.iter().find(|(s, _)| *s == text).map(|(_, exponent)| *exponent);
        if let Some(exponent) = find(&DECIMAL_SUFFIXES) {
            return Ok(Self { style: Style::Decimal, exponent });
        }
        if let Some(exponent) = find(&BINARY_SUFFIXES) {
            return Ok(Self { style: Style::Binary, exponent });
        }
        let digits = text.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
        let exponent = digits.parse().map_err(|_| QuantityError::Suffix)?;
        Ok(Self { style: Style::Exponent, exponent })
    }
}

/// A quantity taken apart; nothing of it is checked but the characters.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros; empty stands for zero.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl Parts<'_> {
    fn digits(&self) -> Result<i128, QuantityError> {
        let mut digits = self.whole.bytes().chain(self.fraction.bytes());
        digits
            .try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(i128::from(digit - b'0')))
            .ok_or(QuantityError::Number)
    }

    /// Whether the real server keeps the text itself: short numbers that are canonical in all that it looks at.
    fn stays_as_written(&self, suffix: Suffix) -> bool {
        let Ok(digits) = self.digits() else { return false };
        let whole_digits = self.whole.len().max(1);
        if suffix.style == Style::Binary {
            let suffix_digits = usize::try_from(suffix.exponent * 3 / 10 + 1).unwrap_or(usize::MAX);
            return self.fraction.is_empty() && whole_digits + suffix_digits <= 15 && digits & 7 != 0;
        }
        let scale = suffix.exponent.saturating_sub(i32::try_from(self.fraction.len()).unwrap_or(i32::MAX));
        let ends_in_thousands = match self.fraction.len() {
            0 => self.whole.ends_with("000"),
            1 | 2 => digits % 1000 == 0 && whole_digits + self.fraction.len() >= 3,
            _ => self.fraction.ends_with("000"),
        };
        whole_digits + self.fraction.len() <= SHORT_DIGITS_MAX
            && scale >= NANO
            && scale % 3 == 0
            && !self.whole.is_empty()
            && !ends_in_thousands
    }
}

/// The commonest case (`1`, `250`), which needs no arithmetic.
fn is_plain_integer(text: &str) -> bool {
    let is_short = text.len() <= SHORT_DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    text == "0" || (is_short && text.starts_with(|first| matches!(first, '1'..='9')) && !text.ends_with("000"))
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = unsigned.trim_start_matches('0');
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let (whole, rest) = number.split_at(end);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("", rest),
    };
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, whole, fraction, suffix })
}

/// `value * 10^shift`, rounded away from zero for negative shifts; saturates.
fn rescale(value: i128, shift: i32) -> i128 {
    if shift >= 0 {
        return raise(value, shift);
    }
    let Some(divisor) = 10_i128.checked_pow(shift.unsigned_abs()) else { return value.signum() };
    value / divisor + (value % divisor).signum()
}

/// `value * 10^shift`; saturates.
fn raise(value: i128, shift: i32) -> i128 {
    let factor = 10_i128.checked_pow(shift.unsigned_abs()).unwrap_or(i128::MAX);
    value.saturating_mul(factor)
}

fn without_factors(mut value: i128, factor: i128) -> (i128, i32) {
    let mut times = 0;
    while value != 0 && value % factor == 0 {
        value /= factor;
        times += 1;
    }
    (value, times)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_written_as_people_write_them() {
        let rows = [
            (0, "0", "0"),
            (1000, "1k", "1k"),
            (1536, "1536", "1536"),
            (2 << 30, "2Gi", "2Gi"),
            (1536 << 20, "1536Mi", "1536Mi"),
            (100_000_000_000, "100G", "100G"),
            (1_500_000_000, "1500M", "1500M"),
            (16_767_328_256, "16374344Ki", "15.6Gi"),
            (16_767_328_257, "16767328257", "15.6Gi"),
            (-100_000_000_000, "-100G", "-100G"),
            (i64::MAX, "9223372036854775807", "7.9Ei"),
        ];
        for (amount, exact, rough) in rows {
            assert_eq!((bytes(amount).as_str(), rough_bytes(amount).as_str()), (exact, rough), "{amount}");
        }
    }

    #[test]
    fn quantities_are_written_as_the_real_server_writes_them() {
        let rows = [
            ("1", "1"),
            ("0", "0"),
            ("0m", "0"),
            ("0Gi", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1."),
            ("100000", "100k"),
            ("1000000", "1M"),
            ("1024", "1024"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("1Ki", "1Ki"),
            ("1023Ki", "1023Ki"),
            ("8Ki", "8Ki"),
            ("0.0001Ki", "102400u"),
            ("1000Ki", "1000Ki"),
            ("1.500", "1.500"),
            ("+1", "+1"),
            ("01", "01"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("1000e3", "1e6"),
            ("12e6", "12e6"),
            ("1e4", "10e3"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("-1000m", "-1"),
            ("-0.5", "-500m"),
            ("9223372036854775807", "9223372036854775807"),
            ("16Ei", "9223372036854775807"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ];
        for (given, expected) in rows {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn wrong_texts_say_which_part_is_wrong() {
        let rows = [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1Zi", QuantityError::Format),
            ("1ii", QuantityError::Suffix),
            ("1Gi2", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1.2.3", QuantityError::Format),
            ("é", QuantityError::Format),
        ];
        for (given, expected) in rows {
            assert_eq!(canonical(given), Err(expected), "{given}");
        }
    }

    #[test]
    fn amounts_compare_and_round_up() {
        let q = |text: &str| Quantity::parse(text).expect("a quantity");
        assert!(q("1Gi") > q("1G"));
        assert_eq!(q("1"), q("1000m"));
        assert!(q("-1") < q("1n"));
        assert!(q("1e300") > q("1e299"));
        assert_eq!((q("1.1").value(), q("100u").milli(), q("-1.1").value()), (2, 1, -2));
        assert_eq!(q("500m").plus(q("1.5")).to_string(), "2");
        assert_eq!(q("1Gi").plus(q("1024Mi")).to_string(), "2Gi");
        assert_eq!(Quantity::ZERO.plus(q("1Gi")).to_string(), "1Gi");
    }

    proptest! {
        #[test]
        fn the_canonical_text_is_the_same_amount_and_stable(
            text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,6})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|e[0-9]|e-[0-9])?"
        ) {
            let once = canonical(&text).expect("matches the grammar").into_owned();
            prop_assume!(!once.is_empty() && Quantity::parse(&text).expect("parses").value().unsigned_abs() < 1 << 60);
            prop_assert_eq!(canonical(&once).expect("canonical parses"), once.as_str());
            prop_assert_eq!(Quantity::parse(&once).expect("parses"), Quantity::parse(&text).expect("parses"));
        }

        #[test]
        fn any_text_is_a_quantity_or_an_error(text in ".{0,12}") {
            let _ = canonical(&text);
        }
    }
}
