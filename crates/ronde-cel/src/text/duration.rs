//! Durations: `1h30m` as rules write them, and the looser form that the schema format `duration` takes.

use std::sync::LazyLock;

use regex::Regex;

/// Reads `-1.5h`, `1h30m`, `300ms`: a signed sequence of numbers with units. The result is in nanoseconds.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (amount, after) = step(rest)?;
        total = total.checked_add(amount)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// One number with its unit, in nanoseconds, and what follows.
fn step(text: &str) -> Option<(i128, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    // Digits beyond what a nanosecond of an hour needs cannot change the result.
    let digits = &fraction[..fraction.len().min(18)];
    let numerator: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let denominator = 10_i128.pow(u32::try_from(digits.len()).ok()?);
    let amount = whole.checked_mul(unit)?.checked_add(numerator * unit / denominator)?;
    i64::try_from(amount).ok()?;
    Some((amount, rest))
}

/// Reads what the schema format takes: [`parse`], or words as in `3 days 2 hr`. The result is in nanoseconds.
pub fn parse_format(text: &str) -> Option<i64> {
    static PART: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").expect("the pattern is valid"));
    if let Some(duration) = parse(text) {
        return Some(duration);
    }
    let mut total: i64 = 0;
    let mut found = false;
    for part in PART.captures_iter(text) {
        let amount: i64 = part[1].parse().ok()?;
        if let Some(unit) = unit_word(&part[2].to_lowercase()) {
            found = true;
            total = total.wrapping_add(amount.wrapping_mul(unit));
        }
    }
    found.then_some(total)
}

/// The last word of each row also matches as a prefix: `minutes` starts with `min`.
fn unit_word(word: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    let row = UNITS
        .iter()
        .find(|(words, _)| words.contains(&word) || words.last().is_some_and(|last| word.starts_with(last)));
    row.map(|(_, nanoseconds)| *nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(parse(text), expected, "{text}");
        check("1h30m", Some(5_400_000_000_000));
        check("-1.5h", Some(-5_400_000_000_000));
        check("300ms", Some(300_000_000));
        check("1us1ns", Some(1001));
        check(".5s", Some(500_000_000));
        check("0", Some(0));
        for bad in ["", "-", "1", "1x", "h", "1..5s", ".s", "1d", "9999999999h", "1 h"] {
            check(bad, None);
        }
    }

    #[test]
    fn the_schema_format_takes_words_too() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(parse_format(text), expected, "{text}");
        check("1h", Some(3_600_000_000_000));
        check("2 days", Some(172_800_000_000_000));
        check("1 week 1 hour", Some(608_400_000_000_000));
        check("5 minutes", Some(300_000_000_000));
        check("abc", None);
        check("5", None);
    }
}
