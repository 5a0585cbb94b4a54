//! Pods held against levels, with what is told of them.

use serde_json::{Value, json};

use super::*;

/// A pod with one container `c`: fields of the spec, and fields of the container.
fn pod(spec: Value, container: Value) -> Value {
    let mut one = json!({"name": "c", "image": "x"});
    merge(&mut one, container);
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [one]}});
    merge(&mut pod["spec"], spec);
    pod
}

fn merge(into: &mut Value, from: Value) {
    let Value::Object(fields) = from else { return };
    for (key, value) in fields {
        into[key] = value;
    }
}

#[track_caller]
fn check(level: Level, pod: &Value, expected: &str) {
    let violations = level.violations(&Pod::of_object(pod));
    let told: Vec<String> = violations.iter().map(|one| format!("{} ({})", one.reason, one.detail)).collect();
    assert_eq!(told.join(", "), expected, "{pod}");
}

#[test]
fn baseline_keeps_pods_off_the_machine() {
    let with = |context: Value| pod(json!({}), json!({"securityContext": context}));
    for (pod, expected) in [
        (pod(json!({}), json!({})), ""),
        (with(json!({"runAsUser": 0, "allowPrivilegeEscalation": true, "capabilities": {"add": ["CHOWN"]}})), ""),
        (
            with(json!({"privileged": true})),
            r#"privileged (container "c" must not set securityContext.privileged=true)"#,
        ),
        (
            pod(json!({"hostNetwork": true, "hostIPC": true}), json!({})),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (pod(json!({"hostPID": true}), json!({})), "host namespaces (hostPID=true)"),
        (
            pod(
                json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "emptyDir": {}}]}),
                json!({}),
            ),
            r#"hostPath volumes (volume "a")"#,
        ),
        (
            with(json!({"capabilities": {"add": ["SYS_ADMIN", "NET_RAW", "KILL"]}})),
            r#"non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            with(json!({"capabilities": {"add": ["ALL"]}})),
            r#"non-default capabilities (container "c" must not include "ALL" in securityContext.capabilities.add)"#,
        ),
        (
            pod(
                json!({}),
                json!({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 81}]}),
            ),
            r#"hostPort (container "c" uses hostPorts 80, 81)"#,
        ),
        (
            pod(json!({}), json!({"livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 1}}})),
            r#"probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")"#,
        ),
        (
            with(json!({"procMount": "Unmasked"})),
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
    ] {
        check(Level::Baseline, &pod, expected);
        check(Level::Privileged, &pod, "");
    }
}

#[test]
fn baseline_keeps_what_confines_pods() {
    let of_pod = |context: Value| pod(json!({"securityContext": context}), json!({}));
    for (pod, expected) in [
        (
            of_pod(json!({"seLinuxOptions": {"type": "spc_t", "user": "u"}})),
            r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)"#,
        ),
        (
            pod(
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            ),
            r#"seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            of_pod(json!({"appArmorProfile": {"type": "Unconfined"}})),
            r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            of_pod(
                json!({"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_syncookies"}, {"name": "kernel.sem"}]}),
            ),
            "forbidden sysctls (kernel.msgmax, kernel.sem)",
        ),
        (
            of_pod(json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        check(Level::Baseline, &pod, expected);
        check(Level::Privileged, &pod, "");
    }
}

#[test]
fn every_container_counts_and_everything_is_told_at_once() {
    let bad = |name: &str| json!({"name": name, "securityContext": {"privileged": true}});
    let pod = json!({"spec": {
        "hostNetwork": true, "volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}],
        "initContainers": [bad("i")], "containers": [bad("a"), {"name": "fine"}], "ephemeralContainers": [bad("e")],
    }});
    let expected = concat!(
        r#"host namespaces (hostNetwork=true), hostPath volumes (volumes "v", "w"), "#,
        r#"privileged (containers "i", "a", "e" must not set securityContext.privileged=true)"#
    );
    check(Level::Baseline, &pod, expected);
    let told = Standard::latest(Level::Baseline).complaint([&pod, &pod].into_iter().map(Pod::of_object));
    assert_eq!(told, Some(format!("violate PodSecurity \"baseline:latest\": {expected}")));
}

#[test]
fn restricted_asks_for_hardening() {
    let expected = concat!(
        r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), "#,
        r#"unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), "#,
        r#"runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), "#,
        r#"seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
    );
    check(Level::Restricted, &pod(json!({}), json!({})), expected);
    let hard = || {
        json!({"securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
        }})
    };
    check(Level::Restricted, &pod(json!({}), hard()), "");
    check(
        Level::Restricted,
        &pod(
            json!({"hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]}),
            hard(),
        ),
        r#"host namespaces (hostPID=true), restricted volume types (volume "v" uses restricted volume type "hostPath")"#,
    );
    let mut root = hard();
    root["securityContext"]["runAsNonRoot"] = false.into();
    root["securityContext"]["runAsUser"] = 0.into();
    root["securityContext"]["seccompProfile"]["type"] = "Unconfined".into();
    check(
        Level::Restricted,
        &pod(json!({}), root),
        concat!(
            r#"runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false), "#,
            r#"runAsUser=0 (container "c" must not set runAsUser=0), "#,
            r#"seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")"#
        ),
    );
}

#[test]
fn labels_say_what_a_namespace_asks_for() {
    let read = |rows: &[(&str, &str)]| {
        Labels::read(&rows.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())).collect())
    };
    assert_eq!(read(&[]), Labels::default());
    let both = read(&[("enforce", "baseline"), ("enforce-version", "v1.30"), ("warn", "restricted")]);
    assert_eq!(both.enforce, Some(Standard { level: Level::Baseline, version: "v1.30".into() }));
    assert_eq!(both.warn, Some(Standard::latest(Level::Restricted)));
    assert_eq!(read(&[("enforce", "nonsense")]).enforce, Some(Standard::latest(Level::Restricted)));
}
