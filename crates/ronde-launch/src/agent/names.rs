//! From the name of a host to its addresses: `/etc/hosts`, then the name servers of `/etc/resolv.conf`.
//!
//! Not the C library's way: in a program that is linked statically it loads modules of the image that it runs in, which
//! were made for another C library. What it reads is the same, search list and `ndots` too.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use fs_err as fs;
use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{net::UdpSocket, time::timeout};

const PORT: u16 = 53;
/// As the C library has it.
const SERVERS_MAX: usize = 3;
/// For one server and one question.
const PATIENCE: Duration = Duration::from_secs(2);
const ATTEMPTS: usize = 2;
/// What a server may send in one datagram to who promises nothing about bigger ones; many send more.
const ANSWER_BYTES_MAX: usize = 4096;

/// Finds the addresses of names.
#[derive(Debug, Clone)]
pub struct Names {
    pub hosts: PathBuf,
    pub resolv_conf: PathBuf,
}

impl Default for Names {
    fn default() -> Self {
        Self { hosts: PathBuf::from("/etc/hosts"), resolv_conf: PathBuf::from("/etc/resolv.conf") }
    }
}

impl Names {
    /// Returns the addresses of a host, at least one.
    pub async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let found = in_hosts(&fs::read_to_string(&self.hosts).unwrap_or_default(), host);
        if !found.is_empty() {
            return Ok(found);
        }
        if host.eq_ignore_ascii_case("localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let settings = Settings::parse(&fs::read_to_string(&self.resolv_conf).unwrap_or_default());
        settings.ask(host).await
    }
}

fn in_hosts(text: &str, host: &str) -> Vec<IpAddr> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
    });
    entries.collect()
}

/// What `/etc/resolv.conf` says.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    ndots: usize,
}

impl Settings {
    fn parse(text: &str) -> Self {
        let mut settings = Self { servers: Vec::new(), search: Vec::new(), ndots: 1 };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => settings.servers.extend(words.next().and_then(server)),
                Some("search" | "domain") => settings.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let ndots = words.filter_map(|word| word.strip_prefix("ndots:")?.parse().ok()).next_back();
                    settings.ndots = ndots.unwrap_or(settings.ndots);
                }
                _ => {}
            }
        }
        settings.servers.truncate(SERVERS_MAX);
        settings
    }

    /// The full names that a name may mean, the likeliest first.
    fn candidates(&self, host: &str) -> Vec<String> {
        if host.ends_with('.') {
            return vec![host.to_owned()];
        }
        let mut names: Vec<String> = self.search.iter().map(|domain| format!("{host}.{domain}.")).collect();
        let is_full_already = host.matches('.').count() >= self.ndots;
        names.insert(if is_full_already { 0 } else { names.len() }, format!("{host}."));
        names
    }

    async fn ask(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if self.servers.is_empty() {
            return Err(not_found("it is not in /etc/hosts, and there is no name server"));
        }
        let mut failure = None;
        for name in self.candidates(host) {
            let (four, six) = tokio::join!(self.query(&name, RecordType::A), self.query(&name, RecordType::AAAA));
            match (four, six) {
                (Ok(four), six) => {
                    let all: Vec<IpAddr> = four.into_iter().chain(six.unwrap_or_default()).collect();
                    if !all.is_empty() {
                        return Ok(all);
                    }
                }
                (Err(_), Ok(six)) if !six.is_empty() => return Ok(six),
                (Err(error), _) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| not_found("no such name")))
    }

    async fn query(&self, name: &str, kind: RecordType) -> io::Result<Vec<IpAddr>> {
        let name = Name::from_ascii(name).map_err(|_| not_found("it cannot be a name"))?;
        let mut failure = not_found("no name server answers");
        for server in self.servers.iter().cycle().take(self.servers.len() * ATTEMPTS) {
            match timeout(PATIENCE, query_one(*server, &name, kind)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }
}

fn server(text: &str) -> Option<SocketAddr> {
    Some(SocketAddr::new(text.parse().ok()?, PORT))
}

fn not_found(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, words)
}

async fn query_one(server: SocketAddr, name: &Name, kind: RecordType) -> io::Result<Vec<IpAddr>> {
    let question = question(name, kind)?;
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question.to_vec().map_err(io::Error::other)?).await?;
    let mut bytes = vec![0; ANSWER_BYTES_MAX];
    loop {
        let length = socket.recv(&mut bytes).await?;
        // Whatever else comes to this port is nobody's answer.
        let Ok(answer) = Message::from_vec(&bytes[..length]) else { continue };
        if answer.metadata.id == question.metadata.id && answer.queries == question.queries {
            if matches!(answer.metadata.response_code, ResponseCode::ServFail | ResponseCode::Refused) {
                return Err(io::Error::other("the name server did not answer"));
            }
            return Ok(answer.answers.iter().filter_map(|record| address(&record.data)).collect());
        }
    }
}

fn question(name: &Name, kind: RecordType) -> io::Result<Message> {
    let mut id = [0; 2];
    SystemRandom::new().fill(&mut id).map_err(|_| io::Error::other("cannot get random bytes"))?;
    let mut message = Message::new(u16::from_be_bytes(id), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    Ok(message)
}

fn address(data: &RData) -> Option<IpAddr> {
    match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_is_read_as_everybody_reads_it() {
        let text = "127.0.0.1 localhost # 10.0.0.9 b\n10.0.0.1\ta.example a\n10.0.0.2 A\nfd00::1 a\nnonsense a\n";
        let check = |host: &str, expected: &[&str]| {
            let found: Vec<String> = in_hosts(text, host).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{host}");
        };
        check("a", &["10.0.0.1", "10.0.0.2", "fd00::1"]);
        check("a.example", &["10.0.0.1"]);
        check("b", &[]);
    }

    #[test]
    fn names_are_completed_as_in_a_pod() {
        let text = "search team.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
        let settings = Settings::parse(text);
        assert_eq!(settings.servers, ["10.96.0.10:53".parse().unwrap()]);
        let expected = ["w-0.team.svc.cluster.local.", "w-0.svc.cluster.local.", "w-0."];
        assert_eq!(settings.candidates("w-0"), expected);
        assert_eq!(settings.candidates("w-0."), ["w-0."]);
        let plain = Settings::parse("domain example.org\nnameserver x\n");
        assert_eq!(plain.candidates("a.b"), ["a.b.", "a.b.example.org."]);
        assert_eq!(plain.servers, []);
    }

    #[tokio::test]
    async fn a_name_that_nobody_knows_is_said_to_be_unknown() {
        let names = Names { hosts: PathBuf::from("/nowhere"), resolv_conf: PathBuf::from("/nowhere") };
        let error = names.addresses("a").await.unwrap_err();
        assert_eq!(error.to_string(), "it is not in /etc/hosts, and there is no name server");
        assert_eq!(names.addresses("::1").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(names.addresses("localhost").await.unwrap().len(), 2);
    }
}
