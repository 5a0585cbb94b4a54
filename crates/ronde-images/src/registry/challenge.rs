//! What a registry wants to see before it answers: the header `WWW-Authenticate`.
//!
//! A list of schemes, each with parameters, as in `Bearer realm="https://auth",service="s",scope="repository:a:pull"`.
//! The header comes from anybody, so nothing here panics, and what cannot be read is passed over.

/// Longer headers are not read: real ones have about 200 bytes.
const LENGTH_MAX: usize = 8 << 10;

/// One way to prove who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    /// A token, to be had at `realm`.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads a header, and leaves out schemes that we do not know.
    pub(super) fn parse(header: &str) -> Vec<Self> {
        if header.len() > LENGTH_MAX {
            return Vec::new();
        }
        let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
        let mut rest = header;
        while let Some(item) = next_item(&mut rest) {
            match (item, found.last_mut()) {
                (Item::Scheme(scheme), _) => found.push((scheme.to_ascii_lowercase(), Vec::new())),
                (Item::Parameter(name, value), Some((_, parameters))) => {
                    parameters.push((name.to_ascii_lowercase(), value));
                }
                (Item::Parameter(..), None) => {}
            }
        }
        found.into_iter().filter_map(|(scheme, parameters)| Self::of_parts(&scheme, parameters)).collect()
    }

    fn of_parts(scheme: &str, parameters: Vec<(String, String)>) -> Option<Self> {
        let values = |wanted: &str| {
            let found = parameters.iter().filter(|(name, value)| name == wanted && !value.is_empty());
            found.map(|(_, value)| value.clone()).reduce(|all, next| format!("{all} {next}"))
        };
        match scheme {
            "basic" => Some(Self::Basic),
            "bearer" => {
                Some(Self::Bearer { realm: values("realm")?, service: values("service"), scope: values("scope") })
            }
            _ => None,
        }
    }
}

enum Item {
    Scheme(String),
    Parameter(String, String),
}

/// Takes the next scheme or parameter from the front.
fn next_item(rest: &mut &str) -> Option<Item> {
    *rest = rest.trim_start_matches([' ', '\t', ',']);
    let name = take_while(rest, |letter| !matches!(letter, ' ' | '\t' | ',' | '=' | '"'));
    let after = rest.trim_start_matches([' ', '\t']);
    match after.strip_prefix('=') {
        Some(value) if !name.is_empty() => {
            *rest = value.trim_start_matches([' ', '\t']);
            Some(Item::Parameter(name.to_owned(), take_value(rest)))
        }
        // A lone sign: pass over it, so that every turn makes the rest shorter.
        _ if name.is_empty() => {
            let mut letters = rest.chars();
            letters.next()?;
            *rest = letters.as_str();
            next_item_or_end(rest)
        }
        _ => Some(Item::Scheme(name.to_owned())),
    }
}

/// Signs in a row are passed over in a loop, not by recursion: a header may have thousands.
fn next_item_or_end(rest: &mut &str) -> Option<Item> {
    *rest = rest.trim_start_matches([' ', '\t', ',', '=', '"']);
    if rest.is_empty() { None } else { next_item(rest) }
}

fn take_value(rest: &mut &str) -> String {
    let Some(quoted) = rest.strip_prefix('"') else {
        return take_while(rest, |letter| !matches!(letter, ' ' | '\t' | ',')).to_owned();
    };
    let (mut value, mut letters) = (String::new(), quoted.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => value.extend(letters.next()),
            _ => value.push(letter),
        }
    }
    *rest = letters.as_str();
    value
}

fn take_while<'a>(rest: &mut &'a str, is_part: impl Fn(char) -> bool) -> &'a str {
    let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
    let (taken, after) = rest.split_at(end);
    *rest = after;
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_of_real_registries_are_read() {
        let check = |header: &str, expected: &[Challenge]| assert_eq!(Challenge::parse(header), expected, "{header}");
        check(
            r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull""#,
            &[bearer("https://auth.docker.io/token", Some("registry.docker.io"), Some("repository:a/b:pull"))],
        );
        check(r#"Basic realm="Registry""#, &[Challenge::Basic]);
        check("basic", &[Challenge::Basic]);
        check(r#"BEARER Realm=https://h/t , scope="a,b""#, &[bearer("https://h/t", None, Some("a,b"))]);
        check(r#"Bearer realm="https://h/\"t""#, &[bearer("https://h/\"t", None, None)]);
        check(r#"Basic realm="x", Bearer realm="https://h""#, &[Challenge::Basic, bearer("https://h", None, None)]);
        check(r#"Negotiate, Digest realm="x", Basic realm="y""#, &[Challenge::Basic]);
        check(r#"Bearer realm="h",scope="a",scope="b""#, &[bearer("h", None, Some("a b"))]);
    }

    #[test]
    fn what_cannot_be_read_is_no_challenge() {
        for header in ["", ",,,", "Bearer", r#"Bearer service="s""#, r#"realm="x""#, "=\"=\"", "Bearer realm="] {
            assert_eq!(Challenge::parse(header), [], "{header}");
        }
        assert_eq!(Challenge::parse(&"Basic,".repeat(LENGTH_MAX)), []);
        assert_eq!(Challenge::parse(&"=".repeat(LENGTH_MAX)), []);
    }

    proptest! {
        #[test]
        fn no_header_panics(header: String) {
            Challenge::parse(&header);
        }

        #[test]
        fn no_header_of_the_right_letters_panics(header in "([Bb]earer|Basic|realm|scope|[ ,=\"\\\\\tä]|https://h){0,40}") {
            Challenge::parse(&header);
        }

        #[test]
        fn what_is_written_is_read(realm in "[a-z:/.]{1,30}", scope in "[a-z:/, ]{1,30}") {
            let written = format!("Bearer realm=\"{realm}\", scope=\"{scope}\"");
            prop_assert_eq!(Challenge::parse(&written), [bearer(&realm, None, Some(&scope))]);
        }
    }
}
