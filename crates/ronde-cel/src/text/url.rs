//! URLs as the real server's standard library splits them.
//!
//! Only what rules and the schema format `uri` ask for: scheme, host, port, path, query. Paths and queries stay as
//! they were written unless decoded on request.

use std::{collections::BTreeMap, fmt::Write as _};

/// The parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Url {
    pub scheme: String,
    /// With the port, brackets kept.
    pub host: String,
    pub path: String,
    pub query: String,
    text: String,
}

impl Url {
    /// Splits an absolute URL or path, the only forms that requests and the format `uri` allow.
    ///
    /// # Errors
    /// `parse "…": …`, as the real server writes it.
    pub fn parse_request(text: &str) -> Result<Self, String> {
        Self::split(text).map_err(|what| format!("parse {text:?}: {what}"))
    }

    fn split(text: &str) -> Result<Self, String> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let mut url = Self { text: text.to_owned(), ..Self::default() };
        if text == "*" {
            return Ok(Self { path: text.to_owned(), ..url });
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_lowercase();
        // Requests have no fragment; for the parts of a URL it is cut off first.
        let without_fragment = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (before_query, query) = without_fragment.split_once('?').unwrap_or((without_fragment, ""));
        query.clone_into(&mut url.query);
        if !before_query.starts_with('/') {
            if url.scheme.is_empty() {
                return Err("invalid URI for request".to_owned());
            }
            // An opaque URL such as `mailto:a@b`.
            return Ok(url);
        }
        let mut path = before_query;
        if let Some(authority_and_path) = before_query.strip_prefix("//")
            && (!url.scheme.is_empty() || !before_query.starts_with("///"))
        {
            let at = authority_and_path.find('/').unwrap_or(authority_and_path.len());
            let (authority, rest) = authority_and_path.split_at(at);
            url.host = host(authority)?;
            path = rest;
        }
        check_escapes(path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> &str {
        let (host, _) = self.split_port();
        host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
    }

    pub fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') && port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The path with everything escaped that has to be.
    pub fn escaped_path(&self) -> String {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b);
        if self.path.bytes().all(|b| is_plain(b) || b"!'()*[]%".contains(&b)) {
            return self.path.clone();
        }
        let mut out = String::new();
        for byte in decode(&self.path, false).unwrap_or_default() {
            if is_plain(byte) {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }

    /// The query's keys with all their values, decoded. Pairs that do not decode are left out.
    pub fn query_values(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (decode_query(key), decode_query(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host(authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(|c: char| !(c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c))) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let port = if let Some(inner) = host.strip_prefix('[') {
        let Some((_, after)) = inner.rsplit_once(']') else { return Err("missing ']' in host".to_owned()) };
        after
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !port_fits {
        return Err(format!("invalid port {port:?} after host"));
    }
    if let Some(bad) = host.chars().find(|c| " \"<>\\^`{|}".contains(*c)) {
        return Err(format!("invalid character {:?} in host name", bad.to_string()));
    }
    if let Some(at) = host.find('%') {
        return Err(format!("invalid URL escape {:?}", host[at..].chars().take(3).collect::<String>()));
    }
    Ok(host.to_owned())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if digits.is_none() {
            let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

fn decode_query(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    decode(text, true).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn decode(text: &str, plus_is_space: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'+' if plus_is_space => out.push(b' '),
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_split() {
        let check = |text: &str, scheme: &str, host: &str, path: &str, query: &str| {
            let url = Url::parse_request(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let parts = (url.scheme.as_str(), url.host.as_str(), url.path.as_str(), url.query.as_str());
            assert_eq!(parts, (scheme, host, path, query), "{text}");
        };
        check("https://example.com:8080/a/b?x=1#f", "https", "example.com:8080", "/a/b", "x=1");
        check("/just/a/path", "", "", "/just/a/path", "");
        check("HTTP://user:pw@[::1]:80/", "http", "[::1]:80", "/", "");
        check("mailto:a@b", "mailto", "", "", "");
        check("http://h", "http", "h", "", "");
        check("http://h:80:90/", "http", "h:80:90", "/", "");
        assert_eq!(Url::parse_request("http://h/a b!").map(|url| url.escaped_path()).as_deref(), Ok("/a%20b%21"));
        assert_eq!(Url::parse_request("http://h/a%20b!").map(|url| url.escaped_path()).as_deref(), Ok("/a%20b!"));
        let url = Url::parse_request("http://[::1]:80/?a=1&a=2&b=%20x+y").expect("valid");
        assert_eq!((url.hostname(), url.port()), ("::1", "80"));
        let values: Vec<_> = url.query_values().into_iter().collect();
        let expected = [("a".into(), vec!["1".into(), "2".into()]), ("b".into(), vec![" x y".into()])];
        assert_eq!(values, expected);
    }

    #[test]
    fn mistakes() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Url::parse_request(text), Err(format!("parse {text:?}: {expected}")), "{text}");
        };
        check("", "empty url");
        check("abc", "invalid URI for request");
        check("a b", "invalid URI for request");
        check("../x", "invalid URI for request");
        check(":x", "missing protocol scheme");
        check("1a:b", "invalid URI for request");
        check("http://%41/", "invalid URL escape \"%41\"");
        check("http://u:p w@h/", "net/url: invalid userinfo");
        check("http://h:x/", "invalid port \":x\" after host");
        check("http://[::1", "missing ']' in host");
        check("http://a b/", "invalid character \" \" in host name");
        check("/%zz", "invalid URL escape \"%zz\"");
        check("a\nb", "net/url: invalid control character in URL");
    }
}
