//! What pods are given, as a contract with agents and scripts.

use k8s_openapi::api::core::v1::Pod;
use ronde_api::TrainingJob;
use serde_json::{Value, json};

use super::super::{
    fixtures::spec,
    pod::{AgentSettings, Wiring},
};

fn job(change: impl FnOnce(&mut Value)) -> TrainingJob {
    let mut spec = spec(json!({"replicas": 2}));
    change(&mut spec);
    let meta = json!({"name": "j", "namespace": "ns", "uid": "u"});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a job")
}

fn wiring() -> Wiring {
    Wiring { agent: AgentSettings { program: "/bin/ronde".to_owned(), image: None, driver: None } }
}

/// Returns the pod as JSON.
fn shown(pod: &Pod) -> Value {
    serde_json::to_value(pod).expect("JSON")
}

fn words(list: &Value) -> String {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

fn mounts(container: &Value) -> String {
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    mounts.filter_map(|mount| mount["mountPath"].as_str()).collect::<Vec<_>>().join(" ")
}

fn env(container: &Value) -> String {
    let pairs = container["env"].as_array().into_iter().flatten();
    let pair =
        |pair: &Value| format!("{}={}", pair["name"].as_str().unwrap_or(""), pair["value"].as_str().unwrap_or(""));
    pairs.map(pair).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_launcher_runs_its_command_under_an_agent_that_knows_the_hosts() {
    let pod = shown(&wiring().launcher(&job(|_| {}), 1));
    let main = &pod["spec"]["containers"][0];
    assert_eq!(
        words(&main["command"]),
        "/opt/kube/ronde agent --hosts-from /etc/mpi/hostfile --hosts-to /etc/edl/hostfile \
         --deepspeed-hosts-to /job/hostfile -- sh -c train"
    );
    assert_eq!(mounts(main), "/opt/kube /etc/edl /etc/mpi /job /etc/ronde");
    assert_eq!(
        env(main),
        "RONDE_AGENT_PORT=9009 RONDE_HOSTS_FILE=/etc/edl/hostfile RONDE_SECRET_FILE=/etc/ronde/agent-secret"
    );
    let init: Vec<&str> =
        pod["spec"]["initContainers"].as_array().expect("some").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(init, ["init-agent", "init-hostfile"]);
    assert_eq!(words(&pod["spec"]["initContainers"][0]["command"]), "/bin/ronde agent install /opt/kube");
    assert_eq!(pod["spec"]["initContainers"][0]["image"], "i", "the pod's own");
    assert_eq!(
        (&pod["spec"]["serviceAccountName"], &pod["spec"]["restartPolicy"]),
        (&json!("j-launcher"), &json!("Never"))
    );
    assert_eq!(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "j-u");
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
}

#[test]
fn a_worker_is_an_agent_and_leaves_before_it_is_stopped() {
    let worker = shown(&wiring().worker(&job(|_| {}), "j-worker-4", 1));
    let main = &worker["spec"]["containers"][0];
    assert_eq!(words(&main["command"]), "/opt/kube/ronde agent");
    assert_eq!(env(main), "RONDE_SECRET_FILE=/etc/ronde/agent-secret RONDE_AGENT_PORT=9009");
    assert!(main["lifecycle"]["preStop"]["exec"].is_object());
    assert_eq!(
        worker["metadata"]["labels"],
        json!({"group-name": "kai.alibabacloud.com", "training-job-name": "j", "training-job-role": "worker", "replica-index": "4"})
    );
    let own = job(|spec| {
        let container = &mut spec["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"][0];
        container["command"] = json!(["serve"]);
        container["args"] = json!(["-v"]);
    });
    let worker = shown(&wiring().worker(&own, "j-worker-0", 1));
    assert_eq!(words(&worker["spec"]["containers"][0]["command"]), "/opt/kube/ronde agent -- serve -v");
}

#[test]
fn with_ssh_workers_are_as_in_the_original() {
    let ssh = job(|spec| spec["launcherAttachMode"] = "ssh".into());
    let worker = shown(&wiring().worker(&ssh, "j-worker-0", 1));
    let main = &worker["spec"]["containers"][0];
    assert_eq!(words(&main["command"]), "sh -c /usr/sbin/sshd  && sleep 365d");
    assert_eq!(mounts(main), "/etc/ronde /root/.ssh");
    assert_eq!((&worker["spec"]["initContainers"], env(main).as_str()), (&Value::Null, ""));
    let files: Vec<&str> = worker["spec"]["volumes"][1]["secret"]["items"]
        .as_array()
        .expect("some")
        .iter()
        .filter_map(|it| it["path"].as_str())
        .collect();
    assert_eq!(files, [".ssh/id_rsa", ".ssh/id_rsa.pub", ".ssh/authorized_keys", ".ssh/config"]);
    let launcher = shown(&wiring().launcher(&ssh, 1));
    let command = words(&launcher["spec"]["containers"][0]["command"]);
    assert!(
        command.starts_with("/opt/kube/ronde agent --secret-file /etc/ronde/agent-secret --hosts-from"),
        "{command}"
    );
    assert!(command.contains(" -- sh -c PATH=${PATH#/opt/kube/bin:}; unset RONDE_SECRET_FILE "), "{command}");
    assert_eq!(env(&launcher["spec"]["containers"][0]), "");
}

#[test]
fn an_image_for_the_agent_is_used_where_one_is_set() {
    let wiring = Wiring { agent: AgentSettings { image: Some("ronde:1".to_owned()), ..AgentSettings::default() } };
    let pod = shown(&wiring.worker(&job(|_| {}), "j-worker-0", 1));
    let init = &pod["spec"]["initContainers"][0];
    assert_eq!(
        (&init["image"], words(&init["command"]).as_str()),
        (&json!("ronde:1"), "/usr/local/bin/ronde agent install /opt/kube")
    );
    assert_eq!(init["resources"], json!({"requests": {"cpu": "1"}}), "no more than the pod itself asks for");
}

#[test]
fn a_program_that_a_driver_mounts_needs_no_init_container_and_nothing_of_the_host() {
    let wiring = Wiring { agent: AgentSettings { driver: Some("d".to_owned()), ..AgentSettings::default() } };
    let job = job(|_| {});
    for pod in [wiring.worker(&job, "j-worker-0", 1), wiring.launcher(&job, 1)].map(|pod| shown(&pod)) {
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let program = json!({"name": "training-job-kubectl", "csi": {"driver": "d", "readOnly": true}});
        assert!(volumes.contains(&program), "{volumes:?}");
        assert!(volumes.iter().all(|volume| volume["hostPath"].is_null()), "baseline allows none: {volumes:?}");
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = json!({"name": "training-job-kubectl", "mountPath": "/opt/kube", "readOnly": true});
        assert!(mounts.contains(&mount), "{mounts:?}");
        let init = pod["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
        assert!(init.iter().all(|container| container["name"] != "init-agent"), "{init:?}");
    }
}

#[test]
fn another_scheduler_places_pods_without_a_group() {
    let other = job(|spec| {
        spec["etReplicaSpecs"]["worker"]["template"]["spec"]["schedulerName"] = "default-scheduler".into();
    });
    let pod = shown(&wiring().worker(&other, "j-worker-0", 1));
    assert_eq!(pod["metadata"]["annotations"].get("scheduling.k8s.io/group-name"), None);
}
