//! What a pod knows of its own name and of others': its host name, `/etc/hosts` and `/etc/resolv.conf`.
//!
//! Pure: the caller writes the files. Texts, limits and order are those of the kubelet.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use k8s_openapi::api::core::v1::{HostAlias, Pod, PodSpec};

use super::resolver::Resolver;

/// What the kernel takes for a host name.
const HOSTNAME_MAX: usize = 63;
/// With the domain, if the pod wants it: the kernel's 64 bytes have no closing zero.
const FQDN_MAX: usize = 64;
/// What the libraries of pods can bear, as the kubelet sees it.
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LENGTH_MAX: usize = 253;
const SEARCH_LINE_MAX: usize = 2048;

const HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HEADER_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOCAL: &str = "127.0.0.1\tlocalhost\n\
                     ::1\tlocalhost ip6-localhost ip6-loopback\n\
                     fe00::0\tip6-localnet\n\
                     fe00::0\tip6-mcastprefix\n\
                     fe00::1\tip6-allnodes\n\
                     fe00::2\tip6-allrouters\n";

/// The domain name of a pod is longer than the kernel allows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
     ({FQDN_MAX} characters is the max, {length} characters requested)"
)]
pub struct FqdnTooLong {
    fqdn: String,
    length: usize,
}

/// How names are resolved around a pod.
pub struct NameService<'a> {
    /// The cluster's name server.
    pub dns: Ipv4Addr,
    pub cluster_domain: &'a str,
    pub machine: &'a Resolver,
    /// Whether pods can reach the machine's own name servers.
    pub has_outside: bool,
    /// Whether the pod's node is not the machine itself, whose loopback is then another.
    pub is_of_further_node: bool,
}

/// Returns the name that a pod's `hostname` prints.
///
/// # Errors
/// If the pod wants its full name, and it is too long.
pub fn hostname(pod: &Pod, cluster_domain: &str) -> Result<String, FqdnTooLong> {
    let short = short_hostname(pod);
    let wants_fqdn = spec(pod).is_some_and(|spec| spec.set_hostname_as_fqdn == Some(true));
    let Some(domain) = domain(pod, cluster_domain).filter(|_| wants_fqdn) else { return Ok(short) };
    let fqdn = format!("{short}.{domain}");
    if fqdn.len() > FQDN_MAX { Err(FqdnTooLong { length: fqdn.len(), fqdn }) } else { Ok(fqdn) }
}

/// Returns the text of a pod's `/etc/hosts`; `machine` is the machine's own, for pods of the machine's network.
pub fn hosts(pod: &Pod, address: Option<IpAddr>, cluster_domain: &str, machine: &str) -> String {
    let aliases = spec(pod).and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    let mut text =
        if is_host_network(pod) { format!("{HEADER_HOST_NETWORK}{machine}") } else { format!("{HEADER}{LOCAL}") };
    if let Some(address) = address.filter(|_| !is_host_network(pod)) {
        let short = short_hostname(pod);
        text += &match domain(pod, cluster_domain) {
            Some(domain) => format!("{address}\t{short}.{domain}\t{short}\n"),
            None => format!("{address}\t{short}\n"),
        };
    }
    text + &alias_lines(aliases)
}

/// Returns the text of a pod's `/etc/resolv.conf`.
pub fn resolv_conf(pod: &Pod, names: &NameService<'_>) -> String {
    let mut resolver = base_resolver(pod, names);
    if let Some(own) = spec(pod).and_then(|spec| spec.dns_config.as_ref()) {
        resolver.nameservers.extend(own.nameservers.iter().flatten().cloned());
        resolver.searches.extend(own.searches.iter().flatten().cloned());
        let options = own.options.iter().flatten();
        let pairs =
            options.map(|option| (option.name.clone().unwrap_or_default(), option.value.clone().unwrap_or_default()));
        resolver.options.extend(pairs);
    }
    resolver.nameservers = without_repeats(resolver.nameservers);
    resolver.nameservers.truncate(NAMESERVERS_MAX);
    resolver.searches = fitting(without_repeats(resolver.searches));
    render(&resolver)
}

fn base_resolver(pod: &Pod, names: &NameService<'_>) -> Resolver {
    let policy = spec(pod).and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    match policy {
        "None" => Resolver::default(),
        "Default" => of_machine(pod, names),
        "ClusterFirst" if is_host_network(pod) => of_machine(pod, names),
        _ => {
            let (namespace, domain) = (pod.metadata.namespace.as_deref().unwrap_or("default"), names.cluster_domain);
            let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
            Resolver {
                nameservers: vec![names.dns.to_string()],
                searches: own.into_iter().chain(names.machine.searches.iter().cloned()).collect(),
                options: BTreeMap::from([("ndots".to_owned(), "5".to_owned())]),
            }
        }
    }
}

/// A name server that a pod cannot reach is replaced by the cluster's, which asks it on the pod's behalf.
fn of_machine(pod: &Pod, names: &NameService<'_>) -> Resolver {
    let is_on_machine = is_host_network(pod) && !names.is_of_further_node;
    let is_reachable = |server: &String| {
        let is_loopback = server.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_on_machine || (names.has_outside && !is_loopback)
    };
    let servers = names.machine.nameservers.iter();
    let replaced = servers.map(|server| if is_reachable(server) { server.clone() } else { names.dns.to_string() });
    Resolver { nameservers: replaced.collect(), ..names.machine.clone() }
}

/// Drops what the libraries would choke on, from the end.
fn fitting(mut searches: Vec<String>) -> Vec<String> {
    searches.truncate(SEARCHES_MAX);
    searches.retain(|search| search.len() <= SEARCH_LENGTH_MAX);
    while searches.join(" ").len() > SEARCH_LINE_MAX {
        searches.pop();
    }
    searches
}

fn render(resolver: &Resolver) -> String {
    let mut text = String::new();
    if !resolver.searches.is_empty() {
        text += &format!("search {}\n", resolver.searches.join(" "));
    }
    for server in &resolver.nameservers {
        text += &format!("nameserver {server}\n");
    }
    let option =
        |(name, value): (&String, &String)| if value.is_empty() { name.clone() } else { format!("{name}:{value}") };
    if !resolver.options.is_empty() {
        text += &format!("options {}\n", resolver.options.iter().map(option).collect::<Vec<_>>().join(" "));
    }
    text
}

fn alias_lines(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let line = |alias: &HostAlias| {
        format!("{}\t{}\n", alias.ip, alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join("\t"))
    };
    format!("\n# Entries added by HostAliases.\n{}", aliases.iter().map(line).collect::<String>())
}

fn short_hostname(pod: &Pod) -> String {
    let wanted = spec(pod).and_then(|spec| spec.hostname.as_deref()).filter(|name| !name.is_empty());
    let name = wanted.or(pod.metadata.name.as_deref()).unwrap_or_default();
    match name.get(..HOSTNAME_MAX) {
        Some(cut) if name.len() > HOSTNAME_MAX => cut.trim_end_matches(['-', '.']).to_owned(),
        _ => name.to_owned(),
    }
}

fn domain(pod: &Pod, cluster_domain: &str) -> Option<String> {
    let subdomain = spec(pod)?.subdomain.as_deref().filter(|name| !name.is_empty())?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    Some(format!("{subdomain}.{namespace}.svc.{cluster_domain}"))
}

fn is_host_network(pod: &Pod) -> bool {
    spec(pod).is_some_and(|spec| spec.host_network == Some(true))
}

fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

fn without_repeats(list: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(list.len());
    for item in list {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        let object = serde_json::json!({"metadata": {"name": "web-0", "namespace": "team"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn check_hostname(what: &str, spec: &str, expected: Result<&str, &str>) {
        let spec: serde_json::Value = serde_json::from_str(spec).unwrap();
        let found = hostname(&pod(spec), "cluster.local").map_err(|error| error.to_string());
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{what}");
    }

    #[test]
    fn host_names() {
        let long = "x".repeat(63);
        check_hostname("by default the pod's name", r#"{"containers": []}"#, Ok("web-0"));
        check_hostname("the one it asks for", r#"{"containers": [], "hostname": "db"}"#, Ok("db"));
        check_hostname("a subdomain alone", r#"{"containers": [], "subdomain": "web"}"#, Ok("web-0"));
        check_hostname(
            "the full one is asked for",
            r#"{"containers": [], "subdomain": "web", "setHostnameAsFQDN": true}"#,
            Ok("web-0.web.team.svc.cluster.local"),
        );
        check_hostname(
            "the full one without a subdomain",
            r#"{"containers": [], "setHostnameAsFQDN": true}"#,
            Ok("web-0"),
        );
        check_hostname(
            "one of 70 characters is cut",
            &format!(r#"{{"containers": [], "hostname": "{}"}}"#, "y".repeat(70)),
            Ok(&"y".repeat(63)),
        );
        check_hostname(
            "a cut leaves no dash at the end",
            &format!(r#"{{"containers": [], "hostname": "{}--long"}}"#, "y".repeat(61)),
            Ok(&"y".repeat(61)),
        );
        check_hostname(
            "the full one is too long",
            &format!(r#"{{"containers": [], "hostname": "{long}", "subdomain": "web", "setHostnameAsFQDN": true}}"#),
            Err(&format!(
                "Failed to construct FQDN from pod hostname and cluster domain, FQDN {long}.web.team.svc.cluster.local is too long (64 characters is the max, 90 characters requested)"
            )),
        );
    }

    fn check_hosts(what: &str, spec: &str, expected: &str) {
        let pod = pod(serde_json::from_str(spec).unwrap());
        assert_eq!(
            hosts(&pod, Some("10.244.0.12".parse().unwrap()), "cluster.local", "127.0.0.1 box\n"),
            expected,
            "{what}"
        );
    }

    #[test]
    fn hosts_files() {
        let head = format!("{HEADER}{LOCAL}");
        check_hosts("a plain pod", r#"{"containers": []}"#, &format!("{head}10.244.0.12\tweb-0\n"));
        check_hosts(
            "a pod with a subdomain",
            r#"{"containers": [], "subdomain": "web"}"#,
            &format!("{head}10.244.0.12\tweb-0.web.team.svc.cluster.local\tweb-0\n"),
        );
        check_hosts(
            "aliases",
            r#"{"containers": [], "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b.example"]}, {"ip": "::2", "hostnames": ["c"]}]}"#,
            &format!("{head}10.244.0.12\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb.example\n::2\tc\n"),
        );
        check_hosts(
            "a pod of the machine's network",
            r#"{"containers": [], "hostNetwork": true, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}]}"#,
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 box\n\n# Entries added by HostAliases.\n1.2.3.4\ta\n",
        );
    }

    fn check_resolv_conf(what: &str, spec: &str, machine: &str, expected: &str) {
        let names = NameService {
            dns: Ipv4Addr::new(10, 96, 0, 10),
            cluster_domain: "cluster.local",
            machine: &Resolver::parse(machine),
            has_outside: true,
            is_of_further_node: false,
        };
        assert_eq!(resolv_conf(&pod(serde_json::from_str(spec).unwrap()), &names), expected, "{what}");
    }

    #[test]
    fn resolv_conf_files() {
        const MACHINE: &str = "nameserver 8.8.8.8\nsearch corp.example\noptions rotate\n";
        const CLUSTER: &str = "search team.svc.cluster.local svc.cluster.local cluster.local corp.example\n\
                               nameserver 10.96.0.10\noptions ndots:5\n";
        const HOST: &str = "search corp.example\nnameserver 8.8.8.8\noptions rotate\n";
        check_resolv_conf("no policy", r#"{"containers": []}"#, MACHINE, CLUSTER);
        check_resolv_conf("the cluster first", r#"{"containers": [], "dnsPolicy": "ClusterFirst"}"#, MACHINE, CLUSTER);
        check_resolv_conf(
            "the cluster first, on the machine's network",
            r#"{"containers": [], "dnsPolicy": "ClusterFirst", "hostNetwork": true}"#,
            MACHINE,
            HOST,
        );
        check_resolv_conf(
            "the cluster first even on the machine's network",
            r#"{"containers": [], "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}"#,
            MACHINE,
            CLUSTER,
        );
        check_resolv_conf("the machine's", r#"{"containers": [], "dnsPolicy": "Default"}"#, MACHINE, HOST);
        check_resolv_conf(
            "the machine's is a local one, which a pod cannot reach",
            r#"{"containers": [], "dnsPolicy": "Default"}"#,
            "nameserver 127.0.0.53\nnameserver 127.0.0.54\n",
            "nameserver 10.96.0.10\n",
        );
        check_resolv_conf("none", r#"{"containers": [], "dnsPolicy": "None"}"#, MACHINE, "");
        check_resolv_conf(
            "none but one's own",
            r#"{"containers": [], "dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["x.example"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}}"#,
            MACHINE,
            "search x.example\nnameserver 1.1.1.1\noptions edns0 ndots:2\n",
        );
        check_resolv_conf(
            "one's own added, options replaced, repeats and the fourth name server left out",
            r#"{"containers": [], "dnsConfig": {"nameservers": ["1.1.1.1", "10.96.0.10", "2.2.2.2", "3.3.3.3"], "searches": ["svc.cluster.local"], "options": [{"name": "ndots", "value": "2"}]}}"#,
            MACHINE,
            "search team.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\nnameserver 1.1.1.1\nnameserver 2.2.2.2\noptions ndots:2\n",
        );
    }

    #[test]
    fn a_search_line_is_kept_within_its_limits() {
        let many: Vec<String> = (0..40).map(|number| format!("{number}.example")).collect();
        assert_eq!(fitting(many).len(), SEARCHES_MAX);
        let long: Vec<String> = (0..20).map(|number| format!("{number:02}{}", "x".repeat(198))).collect();
        assert_eq!(fitting(long).len(), 10, "10 × 200 and 9 spaces fit into 2048");
        assert_eq!(fitting(vec!["y".repeat(254), "z".to_owned()]), ["z"]);
    }
}
