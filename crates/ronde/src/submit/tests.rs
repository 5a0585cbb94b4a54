//! What flags become: the objects, whatever characters the flags hold.

use proptest::prelude::*;
use ronde_api::{Job, TrainingJob};

use super::{fixtures::submit, *};

fn training(job_type: &str, words: &[&str]) -> TrainingJob {
    match build(&submit(job_type, words)).unwrap().job {
        AnyJob::Training(job) => *job,
        AnyJob::Batch(_) => panic!("{job_type} is a training job"),
    }
}

fn batch(job_type: &str, words: &[&str]) -> Job {
    match build(&submit(job_type, words)).unwrap().job {
        AnyJob::Batch(job) => *job,
        AnyJob::Training(_) => panic!("{job_type} is a job of Volcano"),
    }
}

const SEED: &str = "horovodrun -np $((${workers}*${gpus})) --min-np $((${minWorkers}*${gpus})) \
                    --host-discovery-script /etc/edl/discover_hosts.sh python /examples/x.py ";

fn seed(more: &[&str]) -> TrainingJob {
    let words = ["--name=lm", "--workers=3", "--max-workers=9", "--min-workers=1", "--image=i", "--working-dir=/e"];
    let words: Vec<&str> = words.into_iter().chain(more.iter().copied()).chain([SEED]).collect();
    training("etjob", &words)
}

fn env(job: &TrainingJob, of_launcher: bool) -> Vec<String> {
    let roles = &job.spec.et_replica_specs;
    let template = if of_launcher { &roles.launcher.template } else { &roles.worker.template };
    let container = &template.spec.as_ref().unwrap().containers[0];
    let shown =
        |one: &k8s_openapi::api::core::v1::EnvVar| format!("{}={}", one.name, one.value.clone().unwrap_or_default());
    container.env.iter().flatten().map(shown).collect()
}

#[test]
fn an_elastic_job_is_a_launcher_and_workers() {
    let job = seed(&["--gpus=1"]);
    let value = serde_json::to_value(&job).unwrap();
    let labels =
        json!({"app": "etjob", "chart": "etjob-0.3.2", "createdBy": "etjob", "heritage": "Helm", "release": "lm"});
    assert_eq!(value["metadata"]["labels"], labels);
    assert_eq!(value["metadata"]["annotations"], json!({"requestGPUsOfJobOwner": "3"}));
    let roles = &value["spec"]["etReplicaSpecs"];
    let worker = &roles["worker"];
    assert_eq!([&worker["replicas"], &worker["minReplicas"], &worker["maxReplicas"]], [3, 1, 9]);
    let (launcher, worker) = (&roles["launcher"]["template"]["spec"], &worker["template"]["spec"]);
    assert_eq!(launcher["containers"][0]["command"], json!(["sh", "-c", SEED]));
    assert_eq!(worker["containers"][0]["command"], Value::Null);
    assert_eq!([&launcher["containers"][0]["name"], &worker["containers"][0]["name"]], ["et", "et"]);
    assert_eq!(launcher["containers"][0]["workingDir"], "/e");
    assert_eq!(launcher["containers"][0]["resources"], Value::Null);
    assert_eq!(worker["containers"][0]["resources"]["limits"], json!({"nvidia.com/gpu": "1"}));
    assert_eq!(env(&job, true), ["workers=3", "gpus=1", "maxWorkers=9", "minWorkers=1"]);
    assert_eq!(env(&job, false), env(&job, true));
    assert_eq!(job.spec.clean_pod_policy, "Running");
    assert_eq!(job.spec.launcher_attach_mode, "");
}

#[test]
fn without_gpus_products_count_workers() {
    for more in [&["--cpu-only"][..], &[], &["--gpus=0"]] {
        let job = seed(more);
        assert_eq!(env(&job, true)[1], "gpus=1", "{more:?}");
        assert_eq!(env(&job, true)[4], "NVIDIA_VISIBLE_DEVICES=void");
        assert_eq!(job.spec.slots(), 1);
    }
    let job = seed(&["--gpus=2"]);
    assert_eq!((env(&job, true)[1].as_str(), job.spec.slots()), ("gpus=2", 2));
    let job = seed(&["--slots-per-worker=4"]);
    assert_eq!((env(&job, true)[1].as_str(), job.spec.slots()), ("gpus=4", 4));
}

#[test]
fn flags_reach_the_objects() {
    let job = seed(&[
        "--elastic=auto",
        "--spot-instance",
        "--max-wait-time=60",
        "--queue=gpu",
        "--ssh-secret=keys",
        "--retry=2",
        "--worker-restart-policy=Never",
        "--label=team=a",
        "--annotation=note=b",
        "--priority=high",
        "--selector=zone=1",
        "--launcher-selector=zone=2",
        "--toleration=all",
        "--hostNetwork",
        "--image-pull-secret=s",
        "--device=amd.com/gpu=1",
        "--rdma",
        "--env=gpus=7",
    ]);
    let value = serde_json::to_value(&job).unwrap();
    let notes = &value["metadata"]["annotations"];
    assert_eq!(notes["ronde.dev/elastic"], "auto");
    assert_eq!(notes["job-supervisor.kube-ai.io/spot-instance"], "true");
    assert_eq!(notes["job-supervisor.kube-ai.io/max-wait-time"], "60");
    assert_eq!(notes["scheduling.volcano.sh/queue-name"], "gpu");
    assert_eq!(notes["arena.kubeflow.org/ssh-secret"], "keys");
    assert_eq!(value["spec"]["launcherAttachMode"], "ssh");
    assert_eq!((&value["spec"]["restartPolicy"], &value["spec"]["backoffLimit"]), (&json!("OnFailure"), &json!(2)));
    let roles = &value["spec"]["etReplicaSpecs"];
    assert_eq!(roles["worker"]["restartPolicy"], "Never");
    let (launcher, worker) = (&roles["launcher"]["template"], &roles["worker"]["template"]);
    assert_eq!(worker["metadata"]["labels"]["team"], "a");
    assert_eq!(launcher["metadata"]["labels"]["master-pod-name"], "lm-launcher");
    assert_eq!(worker["metadata"]["annotations"], json!({"note": "b"}));
    assert_eq!(worker["spec"]["nodeSelector"], json!({"zone": "1"}));
    assert_eq!(launcher["spec"]["nodeSelector"], json!({"zone": "2"}));
    assert_eq!(worker["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(worker["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
    assert_eq!(worker["spec"]["priorityClassName"], "high");
    assert_eq!(worker["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
    let amounts = json!({"amd.com/gpu": "1", "rdma/hca": "1"});
    assert_eq!(worker["spec"]["containers"][0]["resources"]["requests"], amounts);
    assert_eq!(env(&job, true), ["workers=3", "maxWorkers=9", "minWorkers=1", "gpus=7"], "the user's word counts");
}

#[test]
fn code_is_brought_by_an_init_container() {
    let spec = |words: &[&str]| {
        let value = serde_json::to_value(seed(words)).unwrap();
        value["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["initContainers"][0].clone()
    };
    let git = spec(&["--sync-mode=git", "--sync-source=https://x/y/models.git"]);
    let clone = json!(["git", "clone", "--depth=1", "https://x/y/models.git", "/code/models"]);
    assert_eq!((&git["name"], &git["image"], &git["command"]), (&json!("init-code"), &json!("i"), &clone));
    let git = spec(&["--sync-mode=git", "--sync-source=https://x/y/models.git", "--sync-image=git-sync"]);
    assert_eq!((&git["image"], &git["command"]), (&json!("git-sync"), &Value::Null));
    let env: Vec<&Value> = git["env"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(env.contains(&&json!("GIT_SYNC_REPO")) && env.contains(&&json!("GIT_SYNC_ONE_TIME")), "{env:?}");
    let rsync = spec(&["--sync-mode=rsync", "--sync-source=host::code"]);
    assert_eq!(rsync["command"], json!(["rsync", "-avP", "host::code", "/code"]));
}

#[test]
fn a_launcher_of_another_kind_has_a_fixed_size() {
    let job = training("mpijob", &["--name=lm", "--workers=2", "--image=i", "mpirun hostname"]);
    let worker = job.spec.worker();
    assert_eq!((worker.min_replicas(), worker.replicas(), worker.max_replicas()), (2, 2, 2));
    assert_eq!(JobType::of_training(&job), JobType::Mpijob);
    assert!(env(&job, true).contains(&"OMPI_MCA_orte_default_hostfile=/job/hostfile".to_owned()));
    assert!(!env(&job, false).contains(&"OMPI_MCA_orte_default_hostfile=/job/hostfile".to_owned()));
    let job = training("horovodjob", &["--name=lm", "--workers=2", "--image=i", "horovodrun -np 2 x"]);
    assert_eq!(JobType::of_training(&job), JobType::Horovodjob);
}

#[test]
fn workers_speak_for_a_job_with_parameter_servers() {
    let chief = |more: &[&str]| {
        let words: Vec<&str> =
            ["--name=lm", "--image=i", "--ps=2"].into_iter().chain(more.iter().copied()).chain(["x"]).collect();
        AnyJob::from(batch("tfjob", &words)).chief()
    };
    assert_eq!(chief(&[]), "lm-worker-0");
    assert_eq!(chief(&["--chief"]), "lm-chief-0");
    assert_eq!(AnyJob::from(batch("volcanojob", &["--name=lm", "--image=i", "x"])).chief(), "lm-task-0");
}

#[test]
fn flags_for_what_is_not_here_are_taken_and_said() {
    let flags = ["--model-name=m", "--model-source=s3://m", "--gputopology", "--mounts-on-launcher", "--ssh-port=2222"];
    let words: Vec<&str> = ["--name=lm", "--image=i"].into_iter().chain(flags).chain(["mpirun hostname"]).collect();
    let job = submit("mpijob", &words);
    let notices = build(&job).unwrap().common.ignored.notices();
    let named = |flag: &&str| notices.iter().any(|it| it.contains(&format!("`{}`", flag.split('=').next().unwrap())));
    assert!(notices.len() == flags.len() && flags.iter().all(named), "{notices:?}");
    let plain = submit("mpijob", &["--name=lm", "--image=i", "mpirun hostname"]);
    assert!(build(&plain).unwrap().common.ignored.notices().is_empty());
}

fn check_batch(name: &str, job: &Job, (job_type, tasks, min_available): (JobType, &str, i32), plugins: &[&str]) {
    assert_eq!(JobType::of_batch(job), job_type, "{name}");
    let task = |task: &ronde_api::TaskSpec| {
        let container = &task.template.spec.as_ref().unwrap().containers[0];
        format!("{}:{}:{}", task.name, task.replicas, container.image.as_deref().unwrap_or_default())
    };
    assert_eq!(job.spec.tasks.iter().map(task).collect::<Vec<_>>().join(" "), tasks, "{name}");
    assert_eq!(job.spec.min_available, min_available, "{name}");
    assert_eq!(job.spec.plugins.keys().collect::<Vec<_>>(), plugins, "{name}");
}

#[test]
fn jobs_without_a_launcher_are_tasks_of_volcano() {
    let base = ["--name=lm", "--image=i", "--workers=3", "--gpus=2", "python x.py"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let pytorch = batch("pytorchjob", &with(&["--retry=2", "--ttl-after-finished=1h", "--queue", "gpu"]));
    check_batch("pytorch", &pytorch, (JobType::Pytorchjob, "master:1:i worker:2:i", 3), &["pytorch", "svc"]);
    assert_eq!((pytorch.spec.max_retry, pytorch.spec.ttl_seconds_after_finished), (3, Some(3600)));
    assert_eq!(pytorch.spec.queue, "gpu");
    let tf = batch("tfjob", &with(&["--ps=1", "--chief", "--ps-image=p"]));
    check_batch("tf", &tf, (JobType::Tfjob, "chief:1:i ps:1:p worker:3:i", 5), &["svc", "tensorflow"]);
    let alone = batch("pytorchjob", &["--name=lm", "--image=i", "x"]);
    check_batch("one", &alone, (JobType::Pytorchjob, "master:1:i", 1), &["pytorch", "svc"]);
    let words = ["--name=lm", "--task-images=a,b", "--task-replicas=2", "--min-available=3", "--task-port=2222", "x"];
    let volcano = batch("volcanojob", &words);
    check_batch("volcano", &volcano, (JobType::Volcanojob, "task-0:2:a task-1:2:b", 3), &["env", "svc"]);
}

#[test]
fn what_goes_with_a_job_is_remembered() {
    let job = submit("etjob", &["--name=lm", "--image=i", "--tensorboard", "--logdir=/l", "run"]);
    let submission = build(&job).unwrap();
    let state = &submission.state.body;
    assert_eq!(submission.state.title, "configmap/lm-etjob");
    assert_eq!(state["metadata"]["labels"], json!({"createdBy": "arena"}));
    let app = "deployment.apps/lm-tensorboard\nservice/lm-tensorboard\ntrainingjob.kai.alibabacloud.com/lm";
    assert_eq!((&state["data"]["app"], &state["data"]["etjob"]), (&json!(app), &json!("0.3.2")));
    let values: Value = serde_saphyr::from_str(state["data"]["values"].as_str().unwrap()).unwrap();
    assert_eq!(values["common"]["name"], "lm");
    assert_eq!(values["maxWorkers"], 1000);
    let board = &submission.companions[0].body["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(board["command"][2], "/l");
}

proptest! {
    /// arena puts commands and variables into YAML without quotes.
    #[test]
    fn commands_and_variables_arrive_as_they_were_written(command in "[^-\0][^\0]{0,40}", value in "[^\0]{0,40}") {
        prop_assume!(!command.trim().is_empty());
        let pair = format!("--env=A={value}");
        let words = ["--name=lm", "--image=i", &pair, "--", &command];
        let job = submit("etjob", &words);
        let submission = build(&job).unwrap();
        let document = get::yaml(&job_json(&submission.job));
        let read: Value = serde_saphyr::from_str(&document).unwrap();
        let container = &read["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0];
        prop_assert_eq!(&container["command"], &json!(["sh", "-c", command]));
        let found = container["env"].as_array().unwrap().iter().find(|one| one["name"] == "A").unwrap();
        prop_assert_eq!(&found["value"], &json!(value));
    }
}
