//! The hosts of a job and how many ranks each takes: what `-H`, a hostfile and a discovery script say. Pure.

use std::{collections::BTreeSet, net::Ipv6Addr};

/// More ranks on one host than any machine has processors: surely a slip of the finger.
const SLOTS_MAX: usize = 65_536;

/// A host and its slots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// As it was given; an IPv6 address without its brackets.
    pub name: String,
    pub slots: usize,
}

/// What is wrong with a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    #[error("`{text}` is not a valid host entry{origin}")]
    Syntax { text: String, origin: Origin },
    #[error("host `{name}` has no slots{origin}")]
    NoSlots { name: String, origin: Origin },
    #[error("host `{name}` is listed twice{origin}")]
    Twice { name: String, origin: Origin },
    #[error("no hosts{origin}")]
    Empty { origin: Origin },
}

/// Where a text stood: a line of a file, or the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Arguments,
    File,
    Line(usize),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Arguments => Ok(()),
            Self::File => f.write_str(" in the hostfile"),
            Self::Line(number) => write!(f, " (line {number} of the hostfile)"),
        }
    }
}

impl HostsError {
    /// Says how it is done right.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Syntax { origin: Origin::Arguments, .. } | Self::Empty { origin: Origin::Arguments } => {
                "give hosts as in `-H node1:4,node2:4`, an IPv6 address in brackets: `[fd00::1]:4`; the user and other \
                 settings of ssh belong in ~/.ssh/config"
            }
            Self::Syntax { .. } | Self::Empty { .. } => "a line of a hostfile is `node1 slots=4`",
            Self::NoSlots { .. } => "leave the host out, or give it at least one slot",
            Self::Twice { .. } => "add up its slots in one place",
        }
    }
}

/// Reads the list after `-H`: `a:2,b:4`; a host without a number has one slot.
pub fn parse_list(text: &str) -> Result<Vec<Host>, HostsError> {
    let origin = Origin::Arguments;
    let hosts = text.split(',').map(|item| parse_host(item, 1, origin)).collect::<Result<Vec<Host>, HostsError>>()?;
    checked(hosts.into_iter().map(|host| (host, origin)).collect(), origin)
}

/// Reads a hostfile: `node1 slots=4` in each line; also `node1:4` and `node1`, empty lines and comments after `#`.
pub fn parse_file(text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let origin = Origin::Line(index + 1);
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            hosts.push((parse_line(line, origin)?, origin));
        }
    }
    checked(hosts, Origin::File)
}

fn parse_line(line: &str, origin: Origin) -> Result<Host, HostsError> {
    let Some((name, rest)) = line.split_once(char::is_whitespace) else { return parse_host(line, 1, origin) };
    let wrong = || HostsError::Syntax { text: line.to_owned(), origin };
    let value = rest.trim().strip_prefix("slots").ok_or_else(wrong)?;
    let slots = value.trim_start().strip_prefix('=').ok_or_else(wrong)?;
    build(name, slots.trim()).ok_or_else(wrong)?.with_slots(origin)
}

/// Reads `host`, `host:slots`, `[address]` or `[address]:slots`.
pub fn parse_host(text: &str, slots_default: usize, origin: Origin) -> Result<Host, HostsError> {
    let text = text.trim();
    let (name, slots) = match text.rsplit_once(':') {
        // Colons of an address that stands alone.
        Some(_) if text.ends_with(']') || text.parse::<Ipv6Addr>().is_ok() => (text, None),
        Some((name, slots)) => (name, Some(slots)),
        None => (text, None),
    };
    let slots = slots.map_or_else(|| slots_default.to_string(), str::to_owned);
    build(name, &slots).ok_or_else(|| HostsError::Syntax { text: text.to_owned(), origin })?.with_slots(origin)
}

impl Host {
    fn with_slots(self, origin: Origin) -> Result<Self, HostsError> {
        if self.slots == 0 { Err(HostsError::NoSlots { name: self.name, origin }) } else { Ok(self) }
    }
}

fn build(name: &str, slots: &str) -> Option<Host> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_name = |name: &str| {
        // A leading dash would be an option of ssh.
        !name.is_empty() && !name.starts_with('-') && name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c))
    };
    let name = match bare {
        Some(address) => Some(address).filter(|address| is_address(address)),
        None => Some(name).filter(|name| is_name(name) || is_address(name)),
    };
    let slots = Some(slots).filter(|slots| slots.bytes().all(|byte| byte.is_ascii_digit()));
    let slots = slots?.parse().ok().filter(|slots| *slots <= SLOTS_MAX)?;
    Some(Host { name: name?.to_owned(), slots })
}

/// An IPv6 address, perhaps with the interface it is reached by.
fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "x"));
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.chars().all(|c| c.is_alphanumeric() || c == '.')
}

fn checked(hosts: Vec<(Host, Origin)>, origin: Origin) -> Result<Vec<Host>, HostsError> {
    if hosts.is_empty() {
        return Err(HostsError::Empty { origin });
    }
    let mut seen = BTreeSet::new();
    for (host, origin) in &hosts {
        if !seen.insert(host.name.as_str()) {
            return Err(HostsError::Twice { name: host.name.clone(), origin: *origin });
        }
    }
    Ok(hosts.into_iter().map(|(host, _)| host).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parsed: Result<Vec<Host>, HostsError>) -> String {
        match parsed {
            Ok(hosts) => hosts.iter().map(|host| format!("{}={}", host.name, host.slots)).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn hosts_of_the_command_line() {
        let check = |text: &str, expected: &str| assert_eq!(shown(parse_list(text)), expected, "{text}");
        check("a:2", "a=2");
        check("node-1.example_x:2, b:4", "node-1.example_x=2 b=4");
        check("a,b:3", "a=1 b=3");
        check("127.0.0.1:2", "127.0.0.1=2");
        check("[fd00::1]:2,[::1]", "fd00::1=2 ::1=1");
        check("fe80::1%eth0,a", "`fe80::1%eth0` is not a valid host entry");
        check("[fe80::1%eth0]:1", "fe80::1%eth0=1");
        check("", "`` is not a valid host entry");
        check("a:2,", "`` is not a valid host entry");
        check("a:2,a:3", "host `a` is listed twice");
        check("a:0", "host `a` has no slots");
        check("a:-1", "`a:-1` is not a valid host entry");
        check("a:two", "`a:two` is not a valid host entry");
        check("a:+2", "`a:+2` is not a valid host entry");
        check("a:99999999999999999999", "`a:99999999999999999999` is not a valid host entry");
        check("-oProxyCommand=x:1", "`-oProxyCommand=x:1` is not a valid host entry");
        check("a b:2", "`a b:2` is not a valid host entry");
        check("user@a:2", "`user@a:2` is not a valid host entry");
        check("[a]:2", "`[a]:2` is not a valid host entry");
    }

    #[test]
    fn hosts_of_a_file() {
        let check = |text: &str, expected: &str| assert_eq!(shown(parse_file(text)), expected, "{text}");
        check("a slots=2\nb slots=4\n", "a=2 b=4");
        check("# two\n\n  a   slots = 2 # first\r\nb\nc:3\n[::1] slots=2\n::2 slots=1", "a=2 b=1 c=3 ::1=2 ::2=1");
        check("", "no hosts in the hostfile");
        check("# nothing\n\n", "no hosts in the hostfile");
        check("a slots=2\nb slot=4\n", "`b slot=4` is not a valid host entry (line 2 of the hostfile)");
        check("a max_slots=2", "`a max_slots=2` is not a valid host entry (line 1 of the hostfile)");
        check("a slots=2 x", "`a slots=2 x` is not a valid host entry (line 1 of the hostfile)");
        check("a\n\na slots=3", "host `a` is listed twice (line 3 of the hostfile)");
        check("a slots=0", "host `a` has no slots (line 1 of the hostfile)");
    }
}
