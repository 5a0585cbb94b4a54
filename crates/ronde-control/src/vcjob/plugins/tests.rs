//! What plugins do to a job, in the words of the sheet: names, files, variables.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use ronde_api::{Job, JobSpec};
use serde_json::{Value, json};

use super::{Object, Plugins};
use crate::vcjob::{fixtures::task, pod};

fn job(plugins: Value, tasks: Value) -> Job {
    let spec: JobSpec = serde_json::from_value(json!({"plugins": plugins, "tasks": tasks})).unwrap();
    let mut job = Job { spec, ..Job::default() };
    job.metadata.name = Some("lm".to_owned());
    job.metadata.namespace = Some("ml".to_owned());
    job.metadata.uid = Some("u1".to_owned());
    job
}

/// The worked example: one master, two workers.
fn lm(plugins: Value) -> Job {
    job(plugins, json!([task("master", 1, json!({})), task("gpu-worker", 2, json!({}))]))
}

fn build(job: &Job, task: usize, index: i32) -> Pod {
    pod::build(job, &job.spec.tasks[task], index, &Plugins::of_job(job))
}

fn container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

/// Shows the variables of a container; those from a config map by their key.
fn env(pod: &Pod) -> String {
    let show = |variable: &k8s_openapi::api::core::v1::EnvVar| {
        let from = variable.value_from.as_ref().and_then(|from| from.config_map_key_ref.as_ref());
        let from = from.map(|key| format!("<{}/{}>", key.name, key.key));
        format!("{}={}", variable.name, variable.value.clone().or(from).unwrap_or_default())
    };
    container(pod).env.iter().flatten().map(show).collect::<Vec<_>>().join("\n")
}

fn find<T>(job: &Job, pick: impl Fn(Object) -> Option<T>) -> T {
    Plugins::of_job(job).objects().into_iter().find_map(pick).expect("an object")
}

fn config_map(job: &Job) -> Value {
    let map = find(job, |object| if let Object::ConfigMap(map) = object { Some(map) } else { None });
    assert_eq!(map.name_any(), "lm-svc");
    serde_json::to_value(map.data).unwrap()
}

#[test]
fn pods_have_the_labels_and_annotations_that_schedulers_read() {
    let mut job = lm(json!({}));
    job.annotations_mut().insert("volcano.sh/preemptable".to_owned(), "true".to_owned());
    let pod = build(&job, 1, 1);
    let shown = serde_json::to_value((pod.name_any(), pod.labels(), pod.annotations(), pod.finalizers())).unwrap();
    let expected = json!([
        "lm-gpu-worker-1",
        {
            "volcano.sh/job-name": "lm", "volcano.sh/job-namespace": "ml", "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": "1", "volcano.sh/task-spec": "gpu-worker",
        },
        {
            "ronde.dev/template": "5bfbf8954b", "scheduling.k8s.io/group-name": "lm-u1", "volcano.sh/job-name": "lm",
            "volcano.sh/job-retry-count": "0", "volcano.sh/job-version": "0", "volcano.sh/preemptable": "true", "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": "1", "volcano.sh/task-spec": "gpu-worker", "volcano.sh/template-uid": "lm-gpu-worker",
        },
        ["ronde.dev/job-tracking"],
    ]);
    assert_eq!(shown, expected);
    assert_eq!(pod.spec.unwrap().scheduler_name.as_deref(), Some("volcano"));
    assert_eq!(pod.metadata.owner_references.unwrap()[0].api_version, "batch.volcano.sh/v1alpha1");
}

#[test]
fn env_tells_a_pod_its_index() {
    assert_eq!(env(&build(&lm(json!({"env": []})), 1, 1)), "VK_TASK_INDEX=1\nVC_TASK_INDEX=1");
}

#[test]
fn svc_tells_pods_of_each_other() {
    let job = lm(json!({"svc": []}));
    let expected = json!({
        "master.host": "lm-master-0.lm",
        "VC_MASTER_HOSTS": "lm-master-0.lm",
        "VC_MASTER_NUM": "1",
        "gpu_worker.host": "lm-gpu-worker-0.lm\nlm-gpu-worker-1.lm",
        "VC_GPU_WORKER_HOSTS": "lm-gpu-worker-0.lm,lm-gpu-worker-1.lm",
        "VC_GPU_WORKER_NUM": "2",
    });
    assert_eq!(config_map(&job), expected);
    let pod = build(&job, 1, 0);
    let spec = pod.spec.clone().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("lm-gpu-worker-0"), Some("lm")));
    let variables = "VC_MASTER_HOSTS=<lm-svc/VC_MASTER_HOSTS>\nVC_MASTER_NUM=<lm-svc/VC_MASTER_NUM>\n\
        VC_GPU_WORKER_HOSTS=<lm-svc/VC_GPU_WORKER_HOSTS>\nVC_GPU_WORKER_NUM=<lm-svc/VC_GPU_WORKER_NUM>";
    assert_eq!(env(&pod), variables);
    assert_eq!(container(&pod).volume_mounts.as_ref().unwrap()[0].mount_path, "/etc/volcano");
    let without = lm(json!({"svc": ["--inject-hosts-env=false", "--disable-network-policy"]}));
    assert_eq!(env(&build(&without, 1, 0)), "");
    assert_eq!(Plugins::of_job(&without).objects().len(), 2, "no policy");
}

#[test]
fn svc_makes_a_service_and_a_policy() {
    let job = lm(json!({"svc": ["--publish-not-ready-addresses"]}));
    let service = find(&job, |object| if let Object::Service(service) = object { Some(service) } else { None });
    let own = json!({"volcano.sh/job-name": "lm", "volcano.sh/job-namespace": "ml"});
    let expected = json!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": own});
    assert_eq!((service.name_any(), serde_json::to_value(service.spec).unwrap()), ("lm".to_owned(), expected));
    let policy = find(&job, |object| if let Object::NetworkPolicy(policy) = object { Some(policy) } else { None });
    let expected = json!({
        "podSelector": {"matchLabels": own}, "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": own}}]}],
    });
    assert_eq!((policy.name_any(), serde_json::to_value(policy.spec).unwrap()), ("lm".to_owned(), expected));
}

#[test]
fn a_template_that_names_its_host_has_one() {
    let named = json!({"template": {"spec": {"hostname": "h", "subdomain": "s", "containers": [{"name": "c"}]}}});
    let job = job(json!({"svc": []}), json!([task("w", 2, named)]));
    assert_eq!(config_map(&job), json!({"w.host": "h.s", "VC_W_HOSTS": "h.s", "VC_W_NUM": "1"}));
}

#[test]
fn ssh_makes_every_pod_a_host() {
    let job = lm(json!({"ssh": ["--ssh-port=2200"]}));
    let keys = find(&job, |object| if let Object::Keys(keys) = object { Some(keys) } else { None });
    assert_eq!(keys.name, "lm-ssh");
    let config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n\
        Host lm-master-0\n  HostName lm-master-0.lm\n  Port 2200\n\
        Host lm-gpu-worker-0\n  HostName lm-gpu-worker-0.lm\n  Port 2200\n\
        Host lm-gpu-worker-1\n  HostName lm-gpu-worker-1.lm\n  Port 2200\n";
    assert_eq!(keys.config, config);
    let check = |arguments: Value, expected: Value| {
        let job = lm(json!({"ssh": arguments}));
        let pod = build(&job, 0, 0);
        let volume = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0].clone();
        let mount = container(&pod).volume_mounts.as_ref().unwrap()[0].clone();
        let mode = volume.secret.as_ref().unwrap().default_mode;
        let paths: Vec<String> = volume.secret.unwrap().items.unwrap().into_iter().map(|item| item.path).collect();
        assert_eq!(paths, [".ssh/id_rsa", ".ssh/id_rsa.pub", ".ssh/authorized_keys", ".ssh/config"]);
        assert_eq!(json!([volume.name, mount.mount_path, mount.sub_path, mode]), expected);
    };
    check(json!([]), json!(["lm-ssh", "/root/.ssh", ".ssh", 0o600]));
    check(json!(["--ssh-key-file-path=/home/me/.ssh"]), json!(["lm-ssh", "/home/me/.ssh", ".ssh", 0o644]));
}

#[test]
fn pytorch_tells_ranks() {
    let tasks = json!([task("master", 1, json!({})), task("worker", 2, json!({})), task("board", 1, json!({}))]);
    let job = job(json!({"pytorch": ["--port=7000", "--wait-master-enabled"]}), tasks);
    let own = |pod: &Pod| {
        let all = env(pod);
        all.lines().filter(|line| !line.starts_with("VC_")).collect::<Vec<_>>().join(" ")
    };
    let common = "MASTER_ADDR=lm-master-0.lm MASTER_PORT=7000 WORLD_SIZE=3";
    assert_eq!(own(&build(&job, 0, 0)), format!("{common} RANK=0"));
    assert_eq!(own(&build(&job, 1, 1)), format!("{common} RANK=2"));
    assert_eq!(own(&build(&job, 2, 0)), common);
    let worker = build(&job, 1, 0).spec.unwrap();
    assert_eq!(worker.init_containers.unwrap()[0].name, "wait-for-master");
    let port = worker.containers[0].ports.as_ref().unwrap()[0].clone();
    assert_eq!((port.name.as_deref(), port.container_port), (Some("pytorchjob-port"), 7000));
    assert!(build(&job, 0, 0).spec.unwrap().init_containers.is_none(), "the master waits for nobody");
    assert_eq!(Plugins::of_job(&job).names().collect::<Vec<_>>(), ["svc", "pytorch"], "svc comes with it");
}

#[test]
fn tensorflow_describes_the_cluster() {
    let tasks = json!([task("ps", 1, json!({})), task("worker", 2, json!({}))]);
    let own = |pod: &Pod| env(pod).lines().find_map(|line| line.strip_prefix("TF_CONFIG=").map(ToOwned::to_owned));
    let job_of_three = job(json!({"tensorflow": []}), tasks);
    let expected = "{\"cluster\":{\"ps\":[\"lm-ps-0.lm:2222\"],\"worker\":[\"lm-worker-0.lm:2222\",\"lm-worker-1.lm:2222\"]},\
        \"task\":{\"type\":\"worker\",\"index\":1}}";
    assert_eq!(own(&build(&job_of_three, 1, 1)).as_deref(), Some(expected));
    let alone = job(json!({"tensorflow": []}), json!([task("worker", 1, json!({}))]));
    assert_eq!(own(&build(&alone, 0, 0)), None);
}

#[test]
fn mpi_tells_the_master_where_the_workers_are() {
    let job = job(json!({"mpi": []}), json!([task("master", 1, json!({})), task("worker", 2, json!({}))]));
    assert!(env(&build(&job, 0, 0)).contains("MPI_HOST=lm-worker-0.lm,lm-worker-1.lm"));
    assert!(!env(&build(&job, 1, 0)).contains("MPI_HOST"));
    let port = container(&build(&job, 1, 0)).ports.as_ref().unwrap()[0].clone();
    assert_eq!((port.name.as_deref(), port.container_port), (Some("mpijob-port"), 22));
    assert_eq!(Plugins::of_job(&job).names().collect::<Vec<_>>(), ["svc", "ssh", "mpi"]);
}

#[test]
fn ray_starts_itself() {
    let named = |name: &str| json!({"template": {"spec": {"containers": [{"name": name}]}}});
    let tasks = json!([task("head", 1, named("head")), task("worker", 2, named("worker"))]);
    let job_of_three = job(json!({"ray": []}), tasks);
    let command = |pod: &Pod| container(pod).command.clone().unwrap().join(" ");
    let head = "sh -c ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 \
        --ray-client-server-port=10001";
    assert_eq!(command(&build(&job_of_three, 0, 0)), head);
    assert_eq!(command(&build(&job_of_three, 1, 0)), "sh -c ray start --block --address=lm-head-0.lm:6379");
    let services = Plugins::of_job(&job_of_three).objects().into_iter();
    let names = services
        .filter_map(|object| if let Object::Service(service) = object { Some(service.name_any()) } else { None });
    assert_eq!(names.collect::<Vec<_>>(), ["lm", "lm-head-svc"]);
    let headless = job(json!({"ray": []}), json!([task("worker", 2, json!({}))]));
    let obstacle = Plugins::of_job(&headless).obstacle();
    assert_eq!(obstacle.as_deref(), Some("plugin ray: the job has no task \"head\" for the head"));
}

#[test]
fn hcclrank_counts_masters_and_workers() {
    let job = job(json!({"hcclrank": []}), json!([task("master", 2, json!({})), task("worker", 2, json!({}))]));
    let rank = |task, index| build(&job, task, index).annotations()["hccl/rankIndex"].clone();
    assert_eq!([rank(0, 0), rank(0, 1), rank(1, 0), rank(1, 1)], ["0", "1", "2", "3"]);
}

#[test]
fn an_unknown_flag_is_told_and_fails_nothing() {
    let job = lm(json!({"ssh": ["--no-root"], "svc": []}));
    let plugins = Plugins::of_job(&job);
    let faults: Vec<String> = plugins.faults_of("ssh").collect();
    assert_eq!(faults, ["plugin ssh: flag provided but not defined: -no-root"]);
    assert_eq!(plugins.obstacle(), None);
}
