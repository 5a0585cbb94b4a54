//! `$(VAR)` in commands, arguments and values.

/// Replaces `$(VAR)` by what `find` returns; unknown names stay as they are, and `$$` is a plain `$`.
pub fn expand(text: &str, find: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            expanded.push_str(&find(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_replaced() {
        let rows = [
            ("no reference", "a b", "a b"),
            ("one", "$(A)", "1"),
            ("between other text", "x$(A)y$(B)z", "x1y2z"),
            ("unknown names stay", "$(C)", "$(C)"),
            ("values are not expanded again", "$(R)", "$(A)"),
            ("an escaped reference", "$$(A)", "$(A)"),
            ("an escaped dollar before a reference", "$$$(A)", "$1"),
            ("a lone dollar", "$", "$"),
            ("a dollar before a letter", "$A", "$A"),
            ("an unclosed reference", "$(A", "$(A"),
            ("an empty name", "$()", "$()"),
            ("a reference within one", "$($(A)", "$($(A)"),
            ("not only ASCII", "ä$(A)ö$ü", "ä1ö$ü"),
        ];
        let find = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("2".to_owned()),
            "R" => Some("$(A)".to_owned()),
            _ => None,
        };
        for (name, given, expected) in rows {
            assert_eq!(expand(given, find), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn doubled_dollars_give_the_text_back(text in ".{0,40}") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), |_| None), text);
        }
    }
}
