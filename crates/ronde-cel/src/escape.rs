//! The names of fields in rules: what is no CEL identifier is escaped (`a-b` is `a__dash__b`).

use std::borrow::Cow;

/// The words that are no identifiers.
pub(super) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in rules, or none if no rule can name it.
pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if name.chars().any(|c| !(c.is_ascii_alphanumeric() || "_.-/".contains(c))) {
        return None;
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 8);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (replacement, length) = match c {
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            _ => (&rest[..1], 1),
        };
        out.push_str(replacement);
        rest = &rest[length..];
    }
    Some(Cow::Owned(out))
}

/// The field behind a name in a rule, or none if the name holds an escape that means nothing.
pub(super) fn unescape(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(start) = rest.find("__") {
        let after = &rest[start + 2..];
        let Some(length) = after.find('_').filter(|&length| length > 0 && after[length..].starts_with("__")) else {
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        };
        out.push_str(&rest[..start]);
        match &after[..length] {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if RESERVED.contains(&word) && word.len() + 4 == name.len() => out.push_str(word),
            _ => return None,
        }
        rest = &after[length + 2..];
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_escape_and_back() {
        let check = |name: &str, escaped: Option<&str>| {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        };
        check("a", Some("a"));
        check("a-b", Some("a__dash__b"));
        check("a.b/c", Some("a__dot__b__slash__c"));
        check("a__b", Some("a__underscores__b"));
        check("namespace", Some("__namespace__"));
        check("_a_", Some("_a_"));
        check("a b", None);
        check("1a", None);
        check("", None);
        check("é", None);
        assert_eq!(unescape("a__nope__b"), None);
        assert_eq!(unescape("a__namespace__"), None);
    }

    proptest::proptest! {
        #[test]
        fn what_escapes_reads_back(name in "[a-c_./-]{1,12}") {
            if let Some(escaped) = escape(&name) {
                let back = unescape(&escaped).map(Cow::into_owned);
                proptest::prop_assert_eq!(back, Some(name));
            }
        }
    }
}
