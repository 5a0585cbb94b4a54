//! The string formats a schema may ask for.
//!
//! Formats the real server does not know are ignored, here as there; [`is_known`] tells which those are, because
//! creating a definition with one gets a warning.

use std::sync::LazyLock;

use regex::Regex;
use ronde_text::names;

use crate::text::{duration, mail, time, url::Url};

const KNOWN: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// Whether strings are checked against `format`.
pub fn is_known(format: &str) -> bool {
    KNOWN.contains(&normalized(format).as_str())
}

/// Whether `text` has the format; unknown formats fit everything.
pub fn matches(format: &str, text: &str) -> bool {
    match normalized(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => Url::parse_request(text).is_ok(),
        "email" => mail::is_address(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && names::parse_ip(text).is_some(),
        "ipv6" => text.contains(':') && names::parse_ip(text).is_some(),
        "cidr" => names::parse_cidr(text).is_some(),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None, false),
        "uuid3" => is_uuid(text, Some(b'3'), false),
        "uuid4" => is_uuid(text, Some(b'4'), true),
        "uuid5" => is_uuid(text, Some(b'5'), true),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => fits(&SSN, text),
        "hexcolor" => fits(&HEX_COLOR, text),
        "rgbcolor" => fits(&RGB_COLOR, text),
        "byte" => fits(&BASE64, text),
        "date" => time::parse_date(text).is_some(),
        "duration" => duration::parse_format(text).is_some(),
        "datetime" => is_date_time(text),
        _ => true,
    }
}

fn normalized(format: &str) -> String {
    format.replace('-', "")
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

fn fits(pattern: &LazyLock<Regex>, text: &str) -> bool {
    pattern.is_match(text)
}

static SSN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    pattern(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static BASE64: LazyLock<Regex> =
    LazyLock::new(|| pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"));
/// One label whose only dash is its second character, or labels with dashes inside and a last one of letters only.
fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let is_run = |run: &str| run.chars().all(is_host_char);
    let inner_fits = |label: &&str| {
        let edges = label.chars().next().into_iter().chain(label.chars().last());
        !label.is_empty() && edges.into_iter().all(is_host_char) && is_run(&label.replace('-', ""))
    };
    let last_fits = |label: &str| label.chars().count() >= 2 && label.chars().all(char::is_alphabetic);
    let fits = match labels.as_slice() {
        [only] => {
            only.chars().next().is_some_and(is_host_char) && {
                let rest: String = only.chars().skip(1).collect();
                is_run(rest.strip_prefix('-').unwrap_or(&rest))
            }
        }
        [inner @ .., last] => inner.iter().all(inner_fits) && last_fits(last),
        [] => false,
    };
    fits && text.len() <= 255 && labels.iter().all(|label| label.len() <= 63)
}

fn is_host_char(c: char) -> bool {
    static SYMBOL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\p{S}$"));
    c.is_ascii_alphanumeric()
        || c.is_alphabetic()
        || (!c.is_ascii() && SYMBOL.is_match(c.encode_utf8(&mut [0; 4])))
        || "$+<=>^`|~".contains(c)
}

fn is_uuid(text: &str, version: Option<u8>, has_variant: bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        // Each dash may be left out, but no other may be there.
        match (byte, digits.len()) {
            (b'-', 8 | 12 | 16 | 20) if digits.last() != Some(&b'-') => digits.push(b'-'),
            (b, _) if b.is_ascii_hexdigit() => {
                if digits.last() == Some(&b'-') {
                    digits.pop();
                }
                digits.push(b.to_ascii_lowercase());
            }
            _ => return false,
        }
    }
    let variant_fits = |digits: &[u8]| matches!(digits[16], b'8' | b'9' | b'a' | b'b');
    digits.len() == 32
        && digits.last() != Some(&b'-')
        && version.is_none_or(|version| digits[12] == version)
        && (!has_variant || variant_fits(&digits))
}

fn is_mac(text: &str) -> bool {
    let separated = |separator: char, digits: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    separated(':', 2, &[6, 8, 20]) || separated('-', 2, &[6, 8, 20]) || separated('.', 4, &[3, 4, 10])
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let value = |(at, c): (usize, char)| match c {
        'X' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.chars().enumerate().map(value).collect();
    values.is_some_and(|values| {
        values.len() == 10 && values.iter().zip(1..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let values: Option<Vec<u32>> = without_separators(text).chars().map(|c| c.to_digit(10)).collect();
    values.is_some_and(|values| {
        values.len() == 13 && values.iter().zip([1, 3].iter().cycle()).map(|(v, w)| v * w).sum::<u32>() % 10 == 0
    })
}

fn is_credit_card(text: &str) -> bool {
    static ISSUERS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|\
             3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
        )
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(at, c): (usize, char)| {
        let digit = c.to_digit(10).unwrap_or_default();
        let digit = if at % 2 == 1 { digit * 2 } else { digit };
        if digit > 9 { digit - 9 } else { digit }
    };
    ISSUERS.is_match(&digits) && digits.chars().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

/// Looser than RFC 3339: any case, any character before the fraction, any offset.
fn is_date_time(text: &str) -> bool {
    static CLOCK: LazyLock<Regex> =
        LazyLock::new(|| pattern("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    time::parse_date(date).is_some()
        && CLOCK.captures(clock).is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_formats() {
        let check = |format: &str, good: &[&str], bad: &[&str]| {
            for text in good {
                assert!(matches(format, text), "{format} {text}");
            }
            for text in bad {
                assert!(!matches(format, text), "{format} {text}");
            }
        };
        check(
            "date-time",
            &["2024-02-29T12:00:00Z", "2024-02-29t12:00:00.5+01:00"],
            &["2024-02-29", "x", "2024-13-01T00:00:00Z"],
        );
        check("date", &["2024-02-29"], &["2023-02-29", "2024-2-9"]);
        check("byte", &["aGk=", "aGVs"], &["", "a", "aGk", "aGk-"]);
        check("email", &["a@b.c"], &["a"]);
        check("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["::1", "1.2.3", "256.1.1.1"]);
        check("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "g::"]);
        check("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]);
        check("uri", &["https://a/b", "/a"], &["a b", ""]);
        check(
            "hostname",
            &["a", "example.com", "a-b.example.com", "1a", "a-b", "é", "ab-c.de"],
            &["", "-a", "a..b", "a_b"],
        );
        check("hostname", &[], &["example.c", "ab-c", "a-.example.com", "example.c0m"]);
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
            &["123e4567-e89b-12d3-a456", "x", "123e45-67e89b12d3a456426614174000"],
        );
        check("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]);
        check("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23:45", "x"]);
        check("duration", &["1h", "3 days"], &["x", "5"]);
        check("isbn", &["0321751043", "978-0321751041"], &["0321751044"]);
        check("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112"]);
        check("ssn", &["111-22-3333"], &["111"]);
        check("hexcolor", &["#fff", "ABCDEF"], &["#ff"]);
        check("rgbcolor", &["rgb(255, 0,10)"], &["rgb(256,0,0)"]);
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]);
        check("password", &["", "x"], &[]);
        check("int32", &["x"], &[]);
        assert!(is_known("date-time") && !is_known("int32") && !is_known("k8s-short-name"));
    }
}
