//! The machine's own name resolution: what `/etc/resolv.conf` says. Parsing is pure; lines that mean nothing are skipped.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// More is no such file.
const LENGTH_MAX: usize = 10 * 1024 * 1024;

/// How names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    pub nameservers: Vec<String>,
    pub searches: Vec<String>,
    /// Name and value of each option; most have no value.
    pub options: BTreeMap<String, String>,
}

impl Resolver {
    /// Reads how this machine resolves names; nothing if it does not.
    pub fn of_machine() -> Self {
        Self::read(Path::new(RESOLV_CONF))
    }

    /// Reads a file as [`Resolver::of_machine`] does.
    pub fn read(path: &Path) -> Self {
        let text = fs_err::read_to_string(path).unwrap_or_default();
        if text.len() > LENGTH_MAX { Self::default() } else { Self::parse(&text) }
    }

    /// Understands the text of a `resolv.conf`: name servers add up, of searches the last line counts.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => found.nameservers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let searches = words.filter(|word| *word != ".");
                    found.searches = searches.map(|word| word.strip_suffix('.').unwrap_or(word).to_owned()).collect();
                }
                Some("options") => found.options.extend(words.map(option)),
                _ => {}
            }
        }
        found
    }

    /// Lists the name servers' addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.nameservers.iter().filter_map(|server| server.parse().ok())
    }

    /// Lists the name servers that have an address of version 4.
    pub fn nameservers_v4(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.nameservers.iter().filter_map(|server| server.parse().ok())
    }
}

fn option(word: &str) -> (String, String) {
    let (name, value) = word.split_once(':').unwrap_or((word, ""));
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_as_the_libraries_do() {
        let text = "# comment\n; another\nnameserver 10.0.0.53\nsearch old.example\nnameserver fe80::1%eth0\n\
                    search a.example. b.example .\noptions ndots:2 rotate\noptions ndots:3\nsortlist 1.2.3.4\nnameserver\n";
        let found = Resolver::parse(text);
        assert_eq!(found.nameservers, ["10.0.0.53", "fe80::1%eth0"]);
        assert_eq!(found.searches, ["a.example", "b.example"]);
        let options: Vec<_> = found.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(options, ["ndots=3", "rotate="]);
        assert_eq!(found.nameservers_v4().collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 53)]);
    }
}
