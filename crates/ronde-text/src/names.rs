//! The rules for names in the Kubernetes API, with the words the real server uses when one is broken.
//!
//! Every rule takes the text and returns what is wrong with it: nothing means valid. Callers put the messages into a
//! field error with their own path. The rules only look at the text: whether a field is required,
//! and what a name refers to, is the caller's business. Lengths are in bytes, as in the real server.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

const QUALIFIED_NAME_MAX: usize = 63;
const LABEL_VALUE_MAX: usize = 63;
const DNS_LABEL_MAX: usize = 63;
const DNS_SUBDOMAIN_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

const QUALIFIED_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
     must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1123_SUBDOMAIN_WITH_UNDERSCORE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
     used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const WILDCARD_DNS1123_SUBDOMAIN: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
     subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
     character (e.g. '*.example.com', regex used for validation is \
     '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
     alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
     '[A-Za-z_][A-Za-z0-9_]*')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
     regex used for validation is '[0-9]+%')";
const HTTP_HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
     'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const ENV_VAR_NAME: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', \
     or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for \
     validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')";
const RELAXED_ENV_VAR_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const CONFIG_MAP_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
     'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const HTTP_PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Checks the name of most resources, host names and prefixes of qualified names.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    check(value, DNS_SUBDOMAIN_MAX, dns_subdomain_fits(value), DNS1123_SUBDOMAIN)
}

/// Checks a subdomain whose parts may also hold underscores (search domains of pods).
pub fn is_dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let part_fits = |part: &str| {
        let rest = part.strip_prefix('_').unwrap_or(part);
        framed(rest, is_lower_alnum, |b| is_lower_alnum(b) || b == b'-' || b == b'_', is_lower_alnum)
    };
    check(value, DNS_SUBDOMAIN_MAX, value.split('.').all(part_fits), DNS1123_SUBDOMAIN_WITH_UNDERSCORE)
}

/// Checks a host of an ingress rule like `*.example.com`.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let fits = value.strip_prefix("*.").is_some_and(dns_subdomain_fits);
    check(value, DNS_SUBDOMAIN_MAX, fits, WILDCARD_DNS1123_SUBDOMAIN)
}

/// Checks the names of namespaces, containers, volumes.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    let only_dots_are_wrong = dns_subdomain_fits(value);
    let message = if only_dots_are_wrong { "must not contain dots" } else { DNS1123_LABEL };
    check(value, DNS_LABEL_MAX, dns_label_fits(value), message)
}

/// Checks the names of services.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let fits = framed(value, |b| b.is_ascii_lowercase(), |b| is_lower_alnum(b) || b == b'-', is_lower_alnum);
    check(value, DNS_LABEL_MAX, fits, DNS1035_LABEL)
}

/// Checks keys of labels and annotations, resource names, condition types: `name` or `prefix/name`.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name {QUALIFIED_NAME} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            messages.extend(is_dns1123_subdomain(prefix).into_iter().map(|m| format!("prefix part {m}")));
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > QUALIFIED_NAME_MAX {
        messages.push(format!("name part {}", too_long(QUALIFIED_NAME_MAX)));
    }
    if !qualified_part_fits(name) {
        messages.push(format!("name part {QUALIFIED_NAME}"));
    }
    messages
}

/// Checks the value of a label.
pub fn is_valid_label_value(value: &str) -> Vec<String> {
    check(value, LABEL_VALUE_MAX, value.is_empty() || qualified_part_fits(value), LABEL_VALUE)
}

/// Checks a key in the data of a config map or secret.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let fits = !value.is_empty() && value.bytes().all(is_key_byte);
    let mut messages = check(value, DNS_SUBDOMAIN_MAX, fits, CONFIG_MAP_KEY);
    messages.extend(leads_upwards(value));
    messages
}

/// Checks the name of an environment variable, as required before the relaxed rule.
pub fn is_env_var_name(value: &str) -> Vec<String> {
    let fits = framed(value, |b| is_key_byte(b) && !b.is_ascii_digit(), is_key_byte, is_key_byte);
    let mut messages = check(value, usize::MAX, fits, ENV_VAR_NAME);
    messages.extend(leads_upwards(value));
    messages
}

/// Checks the name of an environment variable in a pod, by the rule of current servers.
pub fn is_relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let fits = value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    check(value, usize::MAX, fits, RELAXED_ENV_VAR_NAME)
}

/// Checks the name of a header of an HTTP probe.
pub fn is_http_header_name(value: &str) -> Vec<String> {
    let fits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    check(value, usize::MAX, fits, HTTP_HEADER_NAME)
}

/// Checks an identifier of the C language.
pub fn is_c_identifier(value: &str) -> Vec<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let fits = framed(value, |b| b.is_ascii_alphabetic() || b == b'_', inner, inner);
    check(value, usize::MAX, fits, C_IDENTIFIER)
}

/// Checks a percentage like `25%`.
pub fn is_valid_percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    let fits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    check(value, usize::MAX, fits, PERCENT)
}

/// Checks the number of a port.
pub fn is_valid_port_num(port: i64) -> Vec<String> {
    is_in_range(port, 1, 65535)
}

/// Checks the id of a user or group.
pub fn is_valid_user_or_group_id(id: i64) -> Vec<String> {
    is_in_range(id, 0, i64::from(i32::MAX))
}

/// Checks that a number is from `low` to `high`.
pub fn is_in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// Checks the name of a container port.
pub fn is_valid_port_name(value: &str) -> Vec<String> {
    let allowed = |b: u8| is_lower_alnum(b) || b == b'-';
    let mut messages = Vec::new();
    let mut demand = |holds: bool, message: &str| {
        if !holds {
            messages.push(message.to_owned());
        }
    };
    demand(value.len() <= PORT_NAME_MAX, &too_long(PORT_NAME_MAX));
    demand(
        !value.is_empty() && value.bytes().all(allowed),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    demand(value.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    demand(!value.contains("--"), "must not contain consecutive hyphens");
    demand(!value.starts_with('-') && !value.ends_with('-'), "must not begin or end with a hyphen");
    messages
}

/// Checks that a name can stand in a request path (names of roles and bindings, which are otherwise free).
pub fn is_path_segment_name(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    is_path_segment_prefix(value)
}

/// Checks a `generateName` that is otherwise free.
pub fn is_path_segment_prefix(value: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|part| value.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Checks a name like `example.com/controller`.
///
/// Returns the part that is wrong with each message, because the real server shows only that part as the value.
pub fn is_domain_prefixed_path(value: &str) -> Vec<(&str, String)> {
    let (host, path) = match value.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ => return vec![(value, "must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned())],
    };
    let mut messages: Vec<(&str, String)> = is_dns1123_subdomain(host).into_iter().map(|m| (host, m)).collect();
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        messages.push((path, HTTP_PATH.to_owned()));
    }
    messages
}

/// Whether a namespace can never be deleted.
pub fn is_immortal_namespace(name: &str) -> bool {
    matches!(name, "default" | "kube-system" | "kube-public")
}

/// Checks an IP address, as in fields that are older than the strict rules: `010.0.0.1` and `::ffff:1.2.3.4` pass.
pub fn is_valid_ip(value: &str) -> Vec<String> {
    check(value, usize::MAX, parse_ip(value).is_some(), IP)
}

/// Checks a network like `10.0.0.0/8`, with the same leniency as [`is_valid_ip`].
pub fn is_valid_cidr(value: &str) -> Vec<String> {
    check(value, usize::MAX, parse_cidr(value).is_some(), CIDR)
}

/// Reads an IP address; leading zeros in IPv4 parts are ignored.
pub fn parse_ip(value: &str) -> Option<IpAddr> {
    if !value.contains(':') {
        return parse_ipv4(value).map(IpAddr::V4);
    }
    match value.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            format!("{head}:{}", parse_ipv4(tail)?).parse::<Ipv6Addr>().ok().map(IpAddr::V6)
        }
        _ => value.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
    }
}

/// Reads an address and its prefix length.
pub fn parse_cidr(value: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = value.split_once('/')?;
    let address = parse_ip(address)?;
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (length <= longest).then_some((address, length))
}

/// Returns `prefix` such that a rule for whole names can check it as a `generateName`: a final dash is fine there.
pub fn as_prefix(prefix: &str) -> Cow<'_, str> {
    // The real server drops the character before the dash too, so `A-` passes. Names made from it fail later.
    match prefix.char_indices().rev().nth(1) {
        Some((before_dash, _)) if prefix.ends_with('-') => Cow::Owned(format!("{}a", &prefix[..before_dash])),
        _ => Cow::Borrowed(prefix),
    }
}

fn check(value: &str, max: usize, fits: bool, message: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > max {
        messages.push(too_long(max));
    }
    if !fits {
        messages.push(message.to_owned());
    }
    messages
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn leads_upwards(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn is_lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn dns_label_fits(value: &str) -> bool {
    framed(value, is_lower_alnum, |b| is_lower_alnum(b) || b == b'-', is_lower_alnum)
}

fn dns_subdomain_fits(value: &str) -> bool {
    value.split('.').all(dns_label_fits)
}

fn qualified_part_fits(value: &str) -> bool {
    framed(value, |b| b.is_ascii_alphanumeric(), is_key_byte, |b| b.is_ascii_alphanumeric())
}

/// Whether `value` is not empty and its first, inner and last bytes each pass their own test.
fn framed(value: &str, first: fn(u8) -> bool, inner: fn(u8) -> bool, last: fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => first(*only),
        [head, middle @ .., tail] => first(*head) && middle.iter().all(|b| inner(*b)) && last(*tail),
    }
}

fn parse_ipv4(value: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = value.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that exactly the texts of the first list are valid.
    fn check(rule: fn(&str) -> Vec<String>, valid: &[&str], invalid: &[&str]) {
        for text in valid {
            assert_eq!(rule(text), Vec::<String>::new(), "{text}");
        }
        for text in invalid {
            assert_ne!(rule(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn the_rules_tell_right_from_wrong() {
        let (long, longer) = ("a".repeat(63), "a".repeat(64));
        check(
            is_dns1123_label,
            &["a", "0", "a-b", "a--b", &long],
            &["", "-", "a-", "-a", "A", "a.b", "a_b", "é", &longer],
        );
        check(
            is_dns1123_subdomain,
            &["a", "a.b", "0.1", &longer],
            &["", ".", "a.", "a..b", "a.-b", "A", &"a".repeat(254)],
        );
        check(is_dns1123_subdomain_with_underscore, &["_a.b_c", "a"], &["_", "a_", "a._", "A"]);
        check(is_wildcard_dns1123_subdomain, &["*.a", "*.a.b"], &["*", "*.", "a", "*a", "*.*.a"]);
        check(is_dns1035_label, &["a", "a-0"], &["", "0", "0a", "a-", "A", &longer]);
        check(
            is_qualified_name,
            &["a", "A_.-9", "x.y/a", &long],
            &["", "/", "a/", "/a", "a/b/c", "X/a", "-a", "a b", &longer],
        );
        check(is_valid_label_value, &["", "a", "A_.-9", &long], &["-", "a-", "a b", "é", &longer]);
        check(
            is_config_map_key,
            &["a", "a.b", ".a", "-", "_"],
            &["", ".", "..", "..a", "a/b", "a b", &"a".repeat(254)],
        );
        check(is_env_var_name, &["a", "A.B-C_9", "_", "-"], &["", "9", ".", "..", "..a", "a=b", "é"]);
        check(is_relaxed_env_var_name, &["a", "9", "a b", "..", "~"], &["", "a=b", "\n", "é", "\u{7f}"]);
        check(is_http_header_name, &["X-Header"], &["", "X_Header", "é"]);
        check(is_c_identifier, &["a", "_", "A9"], &["", "9", "a-b"]);
        check(is_valid_percent, &["0%", "100%"], &["", "%", "1", "-1%", "1.5%"]);
        check(is_valid_port_name, &["a", "0a", "a-b"], &["", "0", "-a", "a-", "a--b", "A", "abcdefghijklmnop"]);
        check(is_path_segment_name, &["", "a", "...", "a:b"], &[".", "..", "a/b", "a%b"]);
        check(is_path_segment_prefix, &["", ".", ".."], &["a/b", "a%b"]);
        check(
            is_valid_ip,
            &["1.2.3.4", "010.0.0.1", "::", "::ffff:1.2.3.4"],
            &["", "1.2.3", "256.0.0.1", "::g", "::1%eth0"],
        );
        check(
            is_valid_cidr,
            &["0.0.0.0/0", "10.1.2.3/08", "::/128"],
            &["", "1.2.3.4", "1.2.3.4/33", "::/129", "1.2.3.4/+8"],
        );
    }

    #[test]
    fn the_messages_are_those_of_the_real_server() {
        let check = |messages: Vec<String>, expected: &[&str]| assert_eq!(messages, expected);
        let long = "A".repeat(64);
        check(
            is_dns1123_label(&long),
            &[
                "must be no more than 63 characters",
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        );
        check(is_dns1123_label("a.b"), &["must not contain dots"]);
        check(
            is_dns1123_subdomain("A"),
            &[
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
               start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
               '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        );
        check(is_config_map_key(".."), &["must not be '..'"]);
        check(is_config_map_key("..a"), &["must not start with '..'"]);
        check(is_valid_port_num(0), &["must be between 1 and 65535, inclusive"]);
        check(
            is_valid_port_name("A--"),
            &[
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        );
        check(is_path_segment_name("a/%"), &["may not contain '/'", "may not contain '%'"]);
        check(is_path_segment_name(".."), &["may not be '..'"]);
        check(is_valid_ip("x"), &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]);
    }

    #[test]
    fn a_part_of_a_path_is_blamed() {
        assert_eq!(is_domain_prefixed_path("acme.io/foo"), []);
        let bad = is_domain_prefixed_path("Acme/a b");
        assert_eq!(bad.iter().map(|(part, _)| *part).collect::<Vec<_>>(), ["Acme", "a b"]);
        assert_eq!(is_domain_prefixed_path("acme").len(), 1);
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        let check = |prefix: &str, expected: &str| assert_eq!(as_prefix(prefix), expected, "{prefix}");
        check("web", "web");
        check("web-", "wea");
        check("-", "-");
        check("é-", "a");
        check("", "");
    }
}
