use std::{collections::BTreeMap, path::PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::*;
use crate::sandbox::layers::Manner;

const FULL: Isolation = Isolation::Namespaces { files: Manner::CopyOnWrite, user_attributes: false };

/// Builds the only container of a pod with this spec.
fn build_one(mut spec: Value, isolation: Isolation) -> Result<ContainerSpec, Cause> {
    spec["containers"][0]["name"] = json!("c");
    let pod: Pod = serde_json::from_value(json!({"metadata": {"uid": "u"}, "spec": spec})).expect("a pod");
    let container: Container = pod.spec.as_ref().expect("a spec").containers[0].clone();
    let ann = Account { gid: 100, home: Some("/home/ann".to_owned()), groups: vec![999] };
    build(Inputs {
        image: None,
        program: Path::new("/bin/ronde"),
        pod: &pod,
        container: &container,
        attempt: 0,
        folder: &PodFolder(PathBuf::from("/pods/u")),
        env: vec![("WHO".to_owned(), "ann".to_owned()), ("PATH".to_owned(), "/own".to_owned())],
        machine_env: &[("PATH".to_owned(), "/machine".to_owned()), ("LANG".to_owned(), "C".to_owned())],
        hostname: "h",
        account: &|uid| if uid == 1000 { ann.clone() } else { Account::default() },
        volumes: &BTreeMap::from([("v".to_owned(), "/pods/u/volumes/v".to_owned())]),
        isolation,
        layers: Vec::new(),
        hidden: Vec::new(),
        devices: Vec::new(),
        hierarchy: None,
        instance: "i",
        pod_processes: 1000,
    })
}

fn check<T: std::fmt::Debug + PartialEq>(what: &str, spec: Value, pick: impl Fn(&ContainerSpec) -> T, expected: T) {
    let built = build_one(spec, FULL).unwrap_or_else(|cause| panic!("{what}: {}", cause.message));
    assert_eq!(pick(&built), expected, "{what}");
}

fn refuse(what: &str, spec: Value, isolation: Isolation, reason: &str, message: &str) {
    let cause = build_one(spec, isolation).expect_err(what);
    assert_eq!((cause.reason.as_str(), cause.message.as_str()), (reason, message), "{what}");
}

#[test]
fn the_command_is_what_the_pod_says() {
    let argv = |spec: &ContainerSpec| spec.program.argv.join(" ");
    check("command and args", json!({"containers": [{"command": ["a"], "args": ["b"]}]}), argv, "a b".to_owned());
    check("args alone", json!({"containers": [{"args": ["b", "c"]}]}), argv, "b c".to_owned());
    let hello = json!({"containers": [{"command": ["echo", "$(WHO) $$(WHO) $(NOBODY)"]}]});
    check("variables", hello, argv, "echo ann $(WHO) $(NOBODY)".to_owned());
    let folder = |spec: &ContainerSpec| spec.program.folder.clone();
    check("no folder", json!({"containers": [{"command": ["a"]}]}), folder, "/".to_owned());
    let there = json!({"containers": [{"command": ["a"], "workingDir": "/work"}]});
    check("a folder", there, folder, "/work".to_owned());
    refuse(
        "nothing to run",
        json!({"containers": [{}]}),
        FULL,
        "CreateContainerError",
        "no command specified: without an image the container needs `command` or `args`",
    );
}

#[test]
fn the_pods_environment_wins_over_the_machines() {
    let of = |name: &'static str| {
        move |spec: &ContainerSpec| {
            spec.program.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        }
    };
    let spec = || json!({"containers": [{"command": ["a"]}]});
    check("the pod's", spec(), of("PATH"), Some("/own".to_owned()));
    check("the machine's", spec(), of("LANG"), Some("C".to_owned()));
    check("the runtime's", spec(), of("HOSTNAME"), Some("h".to_owned()));
    check("no terminal", spec(), of("TERM"), None);
    let tty = json!({"containers": [{"command": ["a"], "tty": true}]});
    check("a terminal", tty, of("TERM"), Some("xterm".to_owned()));
    let ann = json!({"securityContext": {"runAsUser": 1000}, "containers": [{"command": ["a"]}]});
    check("the home of the user", ann, of("HOME"), Some("/home/ann".to_owned()));
}

#[test]
fn users_and_groups_are_as_kubernetes_chooses_them() {
    let who = |spec: &ContainerSpec| (spec.credentials.uid, spec.credentials.gid, spec.credentials.groups.clone());
    let spec = |pod: Value, own: Value| json!({"securityContext": pod, "containers": [{"command": ["a"], "securityContext": own}]});
    check("root", spec(json!({}), json!({})), who, (0, 0, vec![0]));
    check("of the pod", spec(json!({"runAsUser": 1000}), json!({})), who, (1000, 100, vec![100, 999]));
    let both = spec(json!({"runAsUser": 1000}), json!({"runAsUser": 7, "runAsGroup": 8}));
    check("the container's own", both, who, (7, 8, vec![8]));
    let groups = spec(json!({"fsGroup": 5, "supplementalGroups": [6, 5]}), json!({}));
    check("more groups", groups, who, (0, 0, vec![0, 5, 6]));
    refuse(
        "root where it must not be",
        spec(json!({"runAsNonRoot": true}), json!({})),
        FULL,
        "CreateContainerConfigError",
        "container has runAsNonRoot and image will run as root",
    );
    let wrong = spec(json!({}), json!({"capabilities": {"add": ["FLY"]}}));
    refuse("no such capability", wrong, FULL, "CreateContainerError", "unknown capability \"FLY\"");
}

#[test]
fn device_files_are_for_privileged_containers() {
    let powers = |spec: &ContainerSpec| spec.credentials.capabilities;
    let spec = |own: Value| json!({"containers": [{"command": ["a"], "securityContext": own}]});
    let usual = ronde_process::Capabilities::default_set();
    check("asked for alone", spec(json!({"capabilities": {"add": ["MKNOD"]}})), powers, usual);
    check("privileged", spec(json!({"privileged": true})), powers, ronde_process::Capabilities::ALL);
}

#[test]
fn volumes_are_mounted_where_the_container_wants_them() {
    let mounts = |spec: &ContainerSpec| {
        let ours = spec.mounts.iter().filter(|mount| !mount.target.starts_with("/etc/"));
        ours.map(|mount| match &mount.source {
            Source::Path { path, inside } => format!("{path}[{}] {}", inside.as_deref().unwrap_or(""), mount.target),
            Source::Memory { .. } => mount.target.clone(),
        })
        .collect::<Vec<_>>()
    };
    let with = |mounts: Value| json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"command": ["a"], "volumeMounts": mounts}]});
    let nested = with(json!([
        {"name": "v", "mountPath": "/a/b", "subPath": "x"},
        {"name": "v", "mountPath": "/a"},
        {"name": "v", "mountPath": "/a/b/c", "subPathExpr": "$(WHO)"},
    ]));
    let expected = ["/pods/u/volumes/v[] /a", "/pods/u/volumes/v[x] /a/b", "/pods/u/volumes/v[ann] /a/b/c"];
    check("the outer one first", nested, mounts, expected.map(str::to_owned).to_vec());
    let out = with(json!([{"name": "v", "mountPath": "/a", "subPath": "../x"}]));
    refuse("out of the volume", out, FULL, "CreateContainerConfigError", "subPath of volume v leads out of it");
    let bare = with(json!([{"name": "v", "mountPath": "/a"}]));
    let why = "volume v cannot be mounted at /a without isolation";
    refuse("without isolation", bare, Isolation::None, "CreateContainerError", why);
}

#[test]
fn what_all_pods_share_is_read_only_whatever_they_ask_for() {
    let is_read_only = |spec: &ContainerSpec| spec.mounts.iter().find(|mount| mount.target == "/a").unwrap().read_only;
    let with = |volume: Value| {
        let mounts = json!([{"name": "v", "mountPath": "/a", "readOnly": false}]);
        json!({"volumes": [volume], "containers": [{"command": ["a"], "volumeMounts": mounts}]})
    };
    check("its own", with(json!({"name": "v", "emptyDir": {}})), is_read_only, false);
    let shared = with(json!({"name": "v", "csi": {"driver": "d"}}));
    check("everybody's", shared.clone(), is_read_only, true);
    let program = |spec: &ContainerSpec| spec.mounts.last().map(|mount| (mount.target.clone(), mount.read_only));
    check("with the program in it", shared, program, Some(("/a/ronde".to_owned(), true)));
}

#[test]
fn processes_are_shared_only_when_asked() {
    let pids = |spec: &ContainerSpec| spec.pids;
    check("by default", json!({"containers": [{"command": ["a"]}]}), pids, Pids::Own);
    let shared = json!({"shareProcessNamespace": true, "containers": [{"command": ["a"]}]});
    check("the pod's", shared, pids, Pids::Pod);
    let host = json!({"hostPID": true, "containers": [{"command": ["a"]}]});
    check("the machine's", host, pids, Pids::Machine);
}

#[test]
fn volumes_of_an_image_are_its_own_unless_something_covers_them() {
    let volumes = json!({"/data": {}, "cache/": {}, "/": {}, "/tmp/x": {}, "/mnt/a": {}, "/mnt": {}, "/mnt-b": {}});
    let execution: Execution = serde_json::from_value(json!({"Volumes": volumes})).expect("a configuration");
    let mounts = json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/mnt/"}]});
    let container: Container = serde_json::from_value(mounts).expect("a container");
    assert_eq!(own_volumes(&execution, &container), ["/data", "/mnt-b", "/cache/"]);
}
