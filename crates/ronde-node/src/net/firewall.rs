//! Lets pods reach the world: packets that leave the machine get the machine's address (masquerading).
//!
//! One table of our own, made and removed as a whole by the program `nft`. Without it, or where the machine's own
//! rules drop forwarded packets, pods still reach each other and the machine; what is missing is said, and how to
//! mend it. Rules of others are never touched.

use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

use ipnet::Ipv4Net;
use tokio::time::timeout;

use super::{Missing, netns::Netns};

const NFT: &str = "nft";
/// It takes some 20 ms; a table of thousands of rules, a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// Whether packets within a bridge pass the firewall, too; not there unless the kernel's module is loaded.
const BRIDGE_FILTER: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// Makes the table; says what is missing.
pub async fn ensure_masquerade(netns: &Netns, table: &str, bridge: &str, pods: Ipv4Net) -> Option<Missing> {
    let rules = ruleset(table, bridge, pods);
    let cause = match load(netns, rules).await {
        Ok(_) => return None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "the program `nft` is not installed".to_owned(),
        Err(error) => format!("`nft` refused: {error}"),
    };
    Some(Missing { what: cause, consequence: "pods cannot reach addresses outside this machine".to_owned() })
}

/// Says what is missing if the machine's own rules drop what pods send.
pub async fn probe_forwarding(netns: &Netns, bridge: &str) -> Option<Missing> {
    let look = || Ok((nft(&["list", "chains"], "")?, fs_err::read_to_string(BRIDGE_FILTER).unwrap_or_default()));
    let (chains, bridge_filter) = timeout(PATIENCE, netns.run(look)).await.ok()?.ok()?;
    let whom = if bridge_filter.trim() == "1" { "each other and the world" } else { "the world" };
    drops_forwarded(&chains).then(|| Missing {
        what: "the machine's firewall drops forwarded packets (policy of a `forward` chain)".to_owned(),
        consequence: format!(
            "pods may not reach {whom}, unless a rule accepts packets from and to `{bridge}`: \
             `iptables -I FORWARD -i {bridge} -j ACCEPT; iptables -I FORWARD -o {bridge} -j ACCEPT`"
        ),
    })
}

/// Lists the names of all tables; none where there is no `nft`.
pub async fn tables(netns: &Netns) -> Vec<String> {
    let listed = timeout(PATIENCE, netns.run(|| nft(&["list", "tables", "ip"], ""))).await;
    let Ok(Ok(listed)) = listed else { return Vec::new() };
    listed.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

/// Removes the table; a machine without it, or without `nft`, is as wanted.
pub async fn remove(netns: &Netns, table: &str) {
    // Made first, for removing what is not there is an error.
    let rules = format!("add table ip {table}\ndelete table ip {table}\n");
    if let Err(error) = load(netns, rules).await {
        tracing::debug!(table, %error, "cannot remove the firewall table");
    }
}

async fn load(netns: &Netns, rules: String) -> io::Result<String> {
    let run = netns.run(move || nft(&["-f", "-"], &rules));
    timeout(PATIENCE, run).await.map_err(|_| io::ErrorKind::TimedOut)?
}

fn ruleset(table: &str, bridge: &str, pods: Ipv4Net) -> String {
    format!(
        "add table ip {table}\n\
         delete table ip {table}\n\
         table ip {table} {{\n\
         \tchain postrouting {{\n\
         \t\ttype nat hook postrouting priority 100; policy accept;\n\
         \t\tip saddr {pods} ip daddr != {pods} oifname != \"{bridge}\" masquerade\n\
         \t}}\n\
         }}\n"
    )
}

/// Reads a list of chains of `nft`.
fn drops_forwarded(chains: &str) -> bool {
    chains.lines().any(|line| line.contains("hook forward") && line.contains("policy drop"))
}

/// Runs the program in the namespace of this thread; returns what it prints.
fn nft(arguments: &[&str], input: &str) -> io::Result<String> {
    let mut command = Command::new(NFT);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it does not read, it says why in the end.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.lines().next().unwrap_or("it failed without a word").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_replaced_as_a_whole() {
        let expected = "add table ip t
delete table ip t
table ip t {
\tchain postrouting {
\t\ttype nat hook postrouting priority 100; policy accept;
\t\tip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 oifname != \"ronde-1\" masquerade
\t}
}
";
        assert_eq!(ruleset("t", "ronde-1", "10.244.0.0/16".parse().unwrap()), expected);
    }

    #[test]
    fn dropping_chains_are_recognised() {
        let check = |what: &str, chains: &str, expected: bool| assert_eq!(drops_forwarded(chains), expected, "{what}");
        check("no chain at all", "", false);
        check("a chain that accepts", "type filter hook forward priority filter; policy accept;", false);
        check("a chain that drops", "type filter hook forward priority filter; policy drop;", true);
        check("a chain that drops what comes in", "type filter hook input priority filter; policy drop;", false);
    }
}
