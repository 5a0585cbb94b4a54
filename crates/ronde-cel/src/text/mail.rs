//! Mail addresses, as far as the schema format `email` needs to tell good from bad.
//!
//! Takes `name@host`, a quoted local part, and a display name in front of `<name@host>`. Comments and groups, which
//! nobody writes into a manifest, are refused.

/// Whether `text` is an address.
pub fn is_address(text: &str) -> bool {
    let text = text.trim();
    match text.split_once('<') {
        None => is_bare(text),
        Some((name, rest)) => rest.strip_suffix('>').is_some_and(is_bare) && is_display_name(name.trim()),
    }
}

fn is_bare(text: &str) -> bool {
    let Some((local, host)) = text.rsplit_once('@') else { return false };
    let local_fits = match local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => is_quoted(quoted),
        None => is_dotted(local),
    };
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    local_fits && literal.map_or_else(|| is_dotted(host), |literal| literal.parse::<std::net::IpAddr>().is_ok())
}

/// Atoms joined by single dots.
fn is_dotted(text: &str) -> bool {
    let is_atom_char = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    !text.is_empty() && text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_quoted(text: &str) -> bool {
    let mut escaped = false;
    let fits = text.chars().all(|c| {
        let bare_quote = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        !bare_quote && !c.is_control()
    });
    fits && !escaped
}

fn is_display_name(name: &str) -> bool {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => is_quoted(quoted),
        None => !name.contains(|c: char| c.is_control() || "<>@,;:\\\"()[]".contains(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in [
            "a@b",
            "a.b+c@example.com",
            "Some One <a@b.c>",
            "J. Doe <a@b>",
            "<a@b>",
            "\"a b\"@c.d",
            "\"Q, R\" <a@b>",
            "a@[::1]",
        ] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "a", "@b", "a@", "a b@c", "a@b..c", ".a@b", "a@b <c@d>", "a,b@c", "Name <a@b", "\"a@b"] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
