//! The controls of `baseline`: what would make a pod the master of its machine.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, Pod, Violation, containers, joined, plural, text, texts};

/// In the order in which a real server tells them.
pub const CHECKS: [Check; 12] = [
    app_armor,
    capabilities,
    host_namespaces,
    host_path,
    host_ports,
    host_probes,
    privileged,
    proc_mount,
    se_linux,
    seccomp,
    sysctls,
    host_process,
];

/// Those that `restricted` does not replace by stricter ones.
pub const KEPT: [Check; 9] =
    [app_armor, host_namespaces, host_ports, host_probes, privileged, proc_mount, se_linux, sysctls, host_process];

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
const SE_LINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |context: &Value| text(&context["appArmorProfile"]["type"]) == "Unconfined";
    let fields =
        pod.setters(is_bad).map(|setters| format!("{setters} must not set AppArmor profile type to \"Unconfined\""));
    let is_allowed = |profile: &str| matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/");
    let annotations = pod.metadata["annotations"].as_object().into_iter().flatten();
    let bad = annotations.filter(|(key, value)| key.starts_with(APP_ARMOR) && !is_allowed(text(value)));
    let told: Vec<String> =
        fields.into_iter().chain(bad.map(|(key, value)| format!("{key}={:?}", text(value)))).collect();
    let reason = if told.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    (!told.is_empty()).then(|| Violation { reason, detail: told.join(", ") })
}

fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    added_beyond(pod, &CAPABILITIES).map(|detail| Violation { reason: "non-default capabilities", detail })
}

/// Says which containers add capabilities that are not among these.
pub fn added_beyond(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let bad = |context: &Value| -> BTreeSet<String> {
        let added = texts(&context["capabilities"]["add"]).filter(|name| !allowed.contains(name));
        added.map(str::to_owned).collect()
    };
    let setters = pod.containers_with(|context| !bad(context).is_empty())?;
    let names: BTreeSet<String> = pod.containers().flat_map(|one| bad(&one["securityContext"])).collect();
    let names: Vec<String> = names.into_iter().collect();
    Some(format!("{setters} must not include {} in securityContext.capabilities.add", joined(&names)))
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let used: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| pod.spec[*field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    (!used.is_empty()).then(|| Violation { reason: "host namespaces", detail: used.join(", ") })
}

fn host_path(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let names: Vec<&str> =
        volumes.filter(|volume| !volume["hostPath"].is_null()).map(|volume| text(&volume["name"])).collect();
    let detail = || format!("{} {}", plural("volume", names.len()), joined(&names));
    (!names.is_empty()).then(|| Violation { reason: "hostPath volumes", detail: detail() })
}

fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let ports = |one: &Value| -> BTreeSet<i64> {
        let ports = one["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0).collect()
    };
    let names: Vec<&str> =
        pod.containers().filter(|one| !ports(one).is_empty()).map(|one| text(&one["name"])).collect();
    let all: BTreeSet<String> = pod.containers().flat_map(ports).map(|port| port.to_string()).collect();
    let listed: Vec<String> = all.into_iter().collect();
    let (who, verb) = (containers(&names)?, if names.len() == 1 { "uses" } else { "use" });
    let detail = format!("{who} {verb} {} {}", plural("hostPort", listed.len()), listed.join(", "));
    Some(Violation { reason: "hostPort", detail })
}

fn host_probes(pod: &Pod<'_>) -> Option<Violation> {
    let hosts = |one: &Value| -> BTreeSet<String> {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &one[probe]);
        let hooks = ["postStart", "preStop"].map(|hook| &one["lifecycle"][hook]);
        let handlers = probes.into_iter().chain(hooks);
        let named = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|way| text(&handler[way]["host"])));
        named.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let names: BTreeSet<&str> =
        pod.containers().filter(|one| !hosts(one).is_empty()).map(|one| text(&one["name"])).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let all: BTreeSet<String> = pod.containers().flat_map(hosts).collect();
    let listed: Vec<String> = all.into_iter().collect();
    let (who, verb) = (containers(&names)?, if names.len() == 1 { "uses" } else { "use" });
    let what = plural("probe or lifecycle host", listed.len());
    Some(Violation { reason: "probe or lifecycle host", detail: format!("{who} {verb} {what} {}", joined(&listed)) })
}

fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.containers_with(|context| context["privileged"] == true)?;
    Some(Violation { reason: "privileged", detail: format!("{who} must not set securityContext.privileged=true") })
}

fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.containers_with(|context| !matches!(text(&context["procMount"]), "" | "Default"))?;
    let detail = format!("{who} must not set securityContext.procMount to \"Unmasked\"");
    Some(Violation { reason: "procMount", detail })
}

fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    let options =
        |context: &Value| ["type", "user", "role"].map(|field| text(&context["seLinuxOptions"][field]).to_owned());
    let is_bad_type = |kind: &String| !SE_LINUX_TYPES.contains(&kind.as_str());
    let is_bad = |context: &Value| {
        let [kind, user, role] = options(context);
        is_bad_type(&kind) || !user.is_empty() || !role.is_empty()
    };
    let who = pod.setters(is_bad)?;
    let all: Vec<[String; 3]> =
        [pod.context()].into_iter().chain(pod.containers().map(|one| &one["securityContext"])).map(options).collect();
    let types: BTreeSet<&String> = all.iter().map(|[kind, ..]| kind).filter(|kind| is_bad_type(kind)).collect();
    let types: Vec<&String> = types.into_iter().collect();
    let mut faults = Vec::new();
    if !types.is_empty() {
        faults.push(format!("{} {}", plural("type", types.len()), joined(&types)));
    }
    for (index, field) in [(1, "user"), (2, "role")] {
        if all.iter().any(|options| !options[index].is_empty()) {
            faults.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", faults.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.setters(is_unconfined)?;
    let detail = format!("{who} must not set securityContext.seccompProfile.type to \"Unconfined\"");
    Some(Violation { reason: "seccompProfile", detail })
}

pub fn is_unconfined(context: &Value) -> bool {
    text(&context["seccompProfile"]["type"]) == "Unconfined"
}

fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let set = pod.context()["sysctls"].as_array().into_iter().flatten().map(|sysctl| text(&sysctl["name"]));
    let bad: Vec<&str> = set.filter(|name| !SYSCTLS.contains(name)).collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.setters(|context| context["windowsOptions"]["hostProcess"] == true)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation { reason: "hostProcess", detail })
}
