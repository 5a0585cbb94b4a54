use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::fixtures::*, *};

fn defaulted(spec: &Value) -> Job {
    let mut job = job(spec);
    default(&mut job, Stage::Create, None);
    job
}

/// A job with a task `ps` of 1 and a task `worker` of 2, changed.
fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({"tasks": [task("ps", 1), task("worker", 2)]});
    change(&mut spec);
    spec
}

#[test]
fn what_is_left_open_is_defaulted() {
    let mut worker = task("", 4);
    worker["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1});
    let mut host = task("host", 1);
    host["template"]["spec"]["hostNetwork"] = true.into();
    let job = defaulted(&json!({"tasks": [task("", 2), worker, host], "plugins": {"mpi": []}}));
    let spec = serde_json::to_value(&job.spec).expect("a spec");
    let expected = json!({
        "schedulerName": "volcano", "queue": "default", "maxRetry": 3, "minAvailable": 5,
        "plugins": {"mpi": [], "ssh": [], "svc": []},
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(spec[field], *value, "{field}");
    }
    let tasks: Vec<_> = job.spec.tasks.iter().map(|task| (&*task.name, task.min_available, task.max_retry)).collect();
    assert_eq!(tasks, [("default0", Some(2), 3), ("default1", Some(2), 3), ("host", Some(1), 3)]);
    let dns = |at: usize| job.spec.tasks[at].template.spec.as_ref().and_then(|pod| pod.dns_policy.as_deref());
    assert_eq!((dns(0), dns(2)), (None, Some("ClusterFirstWithHostNet")));
}

#[test]
fn what_is_said_stays() {
    let said = with(|spec| {
        spec["minAvailable"] = 1.into();
        spec["maxRetry"] = 7.into();
        spec["queue"] = "team-a".into();
        spec["schedulerName"] = "ronde".into();
        spec["tasks"][1]["minAvailable"] = 0.into();
    });
    let mut job = defaulted(&said);
    assert_eq!((job.spec.min_available, job.spec.max_retry, &*job.spec.queue), (1, 7, "team-a"));
    assert_eq!((job.spec.tasks[1].min_available, &*job.spec.scheduler_name), (Some(0), "ronde"));
    let once = job.clone();
    default(&mut job, Stage::Create, Some("other"));
    assert_eq!(job, once, "defaulting twice changes nothing");
}

#[test]
fn the_namespace_may_have_a_queue_for_its_jobs() {
    let mut job = job(&with(|_| {}));
    default(&mut job, Stage::Create, Some("team-a"));
    assert_eq!(job.spec.queue, "team-a");
}

#[test]
fn an_update_may_ask_for_no_pods_at_all() {
    let mut job = job(&with(|spec| spec["minAvailable"] = 0.into()));
    default(&mut job, Stage::Update, None);
    assert_eq!(job.spec.min_available, 0);
}

fn check_job(what: &str, spec: &Value, expected: &[&str]) {
    check(what, &validate(&defaulted(spec), &some_queues()), expected);
}

#[test]
fn good_jobs_pass() {
    check_job("two tasks", &with(|_| {}), &[]);
    check_job("no pods", &json!({"tasks": [task("a", 0)]}), &[]);
    check_job(
        "policies",
        &with(|spec| {
            spec["policies"] = json!([
                {"event": "PodEvicted", "action": "RestartJob"},
                {"events": ["PodFailed", "PodPending"], "action": "AbortJob", "timeout": "5m"},
                {"exitCode": 3, "action": "RestartTask"},
            ]);
            spec["tasks"][0]["policies"] = json!([{"event": "*", "action": "CompleteJob"}]);
        }),
        &[],
    );
    check_job(
        "dependencies",
        &with(|spec| spec["tasks"][1]["dependsOn"] = json!({"name": ["ps"], "iteration": "any"})),
        &[],
    );
    check_job("mpi", &with(|spec| spec["plugins"] = json!({"mpi": ["--master=ps"]})), &[]);
    check_job(
        "volumes",
        &with(|spec| {
            spec["volumes"] =
                json!([{"mountPath": "/a", "volumeClaimName": "data"}, {"mountPath": "/b", "volumeClaim": {}}]);
        }),
        &[],
    );
}

#[test]
fn every_fault_of_a_malformed_job_is_told() {
    let mut long = task(&"t".repeat(58), 11);
    long["minAvailable"] = 12.into();
    let mut first = task("a", 2);
    first["dependsOn"] = json!({"name": ["b", "ghost"], "iteration": "most"});
    let mut second = task("b", 1);
    second["dependsOn"] = json!({"name": ["a"]});
    let spec = json!({
        "minAvailable": 20, "maxRetry": -1, "ttlSecondsAfterFinished": -5, "minSuccess": 0, "queue": "nowhere",
        "priorityClassName": "High!", "schedulerName": "s".repeat(64),
        "tasks": [first, second, task("a", 1), long],
        "policies": [{"event": "PodFailed", "exitCode": 1, "action": "RestartJob"}],
        "plugins": {"magic": []},
        "networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"},
    });
    check_job(
        "everything",
        &spec,
        &[
            "spec.queue: there is no queue \"nowhere\"",
            "spec.tasks[3].name: its last pod would be named \
         \"mnist-tttttttttttttttttttttttttttttttttttttttttttttttttttttttttt-10\", which has 67 characters; at most 63 are allowed",
            "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks: 20 > 15",
            "spec.maxRetry: -1 should be greater than or equal to 0",
            "spec.ttlSecondsAfterFinished: -5 should be greater than or equal to 0",
            "spec.minSuccess: 0 should be greater than or equal to 1",
            "spec.priorityClassName: \"High!\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
         characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', should \
         match '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "spec.schedulerName: has more than 63 characters",
            "spec.tasks[2].name: duplicated task name \"a\"",
            "spec.tasks[3].minAvailable: 'minAvailable' is greater than 'replicas' in task \"tttttttttttttttttttttttttttttttttttttttttttttttttttttttttt\": 12 > 11",
            "spec.tasks[0].dependsOn.iteration: \"most\" is not one of any, all",
            "spec.tasks[0].dependsOn.name[1]: there is no task \"ghost\"",
            "spec.tasks[0].dependsOn: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): \"a\" waits for \"b\" waits for itself",
            "spec.policies[0].exitCode: must not specify event and exitCode simultaneously: set one of them",
            "spec.plugins.magic: unable to find job plugin: \"magic\" is not one of env, svc, ssh, tensorflow, mpi, pytorch, ray, \
         hcclrank",
            "spec.networkTopology.highestTierName: cannot be combined with highestTierAllowed: set one of them",
        ],
    );
}

#[test]
fn more_pods_than_a_controller_can_hold_are_refused() {
    let of =
        |replicas: [i32; 2]| json!({"queue": "default", "tasks": [task("a", replicas[0]), task("b", replicas[1])]});
    check_job("as many as there may be", &of([9_999, 1]), &[]);
    check_job("too many", &of([9_999, 2]), &["spec.tasks: have 10001 pods in total, at most 10000 are allowed"]);
    check_job(
        "by far",
        &of([i32::MAX, 1]),
        &["spec.tasks[0].replicas: 2147483647 should be less than or equal to 10000"],
    );
}

#[test]
fn a_job_without_tasks_is_refused() {
    check_job(
        "no tasks",
        &json!({"plugins": {"mpi": []}}),
        &["spec.tasks: No task specified in job spec; at least one is needed"],
    );
}

#[test]
fn a_queue_must_be_open_and_an_end_of_the_tree() {
    let rows: [(&str, &[&str]); 5] = [
        ("team-a", &[]),
        ("shut", &["spec.queue: can only submit job to queue with state `Open`: \"shut\" is Closed"]),
        ("root", &["spec.queue: can not submit job to root queue: it is the parent of all queues"]),
        ("dept", &["spec.queue: can only submit job to leaf queue: \"dept\" has child queues, such as \"dept-x\""]),
        ("dept-x", &[]),
    ];
    for (name, expected) in rows {
        check_job(name, &with(|spec| spec["queue"] = name.into()), expected);
    }
}

#[test]
fn policies_contradict_themselves_in_many_ways() {
    let rows: [(Value, &[&str]); 7] = [
        (
            json!([{}]),
            &[
                "spec.policies[0].action: must be an action, such as RestartJob",
                "spec.policies[0].event: set event, events or exitCode",
            ],
        ),
        (
            json!([{"action": "SyncJob", "event": "PodRunning"}]),
            &[
                "spec.policies[0].action: invalid policy action: \"SyncJob\" is not one of AbortJob, RestartJob, RestartTask, RestartPod, \
             RestartPartition, TerminateJob, CompleteJob, ResumeJob",
                "spec.policies[0].event: invalid policy event: \"PodRunning\" is not one of *, PodFailed, PodEvicted, PodPending, Unknown, \
             TaskCompleted, TaskFailed, JobUpdated",
            ],
        ),
        (
            json!([{"action": "AbortJob", "exitCode": 0}]),
            &["spec.policies[0].exitCode: 0 is not a valid error code: it means success"],
        ),
        (
            json!([{"action": "AbortJob", "exitCode": 3}, {"action": "RestartJob", "exitCode": 3}]),
            &["spec.policies[1].exitCode: duplicate exitCode 3: an earlier policy has it"],
        ),
        (
            json!([{"action": "AbortJob", "events": ["PodFailed", "Unknown"]}, {"action": "RestartJob", "event": "Unknown"}]),
            &["spec.policies[1].event: duplicate event Unknown: an earlier policy has it"],
        ),
        (
            json!([{"action": "AbortJob", "event": "PodFailed"}, {"action": "RestartJob", "events": ["*"]}]),
            &["spec.policies[1].events[0]: if there's * here, no other policy should be here: it matches every event"],
        ),
        (
            json!([{"action": "AbortJob", "event": "*", "timeout": "-1s"}]),
            &["spec.policies[0].timeout: -1s is negative"],
        ),
    ];
    for (policies, expected) in rows {
        check_job(&policies.to_string(), &with(|spec| spec["policies"] = policies.clone()), expected);
    }
}

#[test]
fn circles_of_tasks_are_shown() {
    let chain = |waits: &[(&str, &[&str])]| {
        let tasks: Vec<Value> = waits
            .iter()
            .map(|(name, on)| {
                let mut task = task(name, 1);
                task["dependsOn"] = json!({"name": on});
                task
            })
            .collect();
        json!({"tasks": tasks})
    };
    check_job("a line", &chain(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]), &[]);
    check_job(
        "itself",
        &chain(&[("a", &["a"])]),
        &[
            "spec.tasks[0].dependsOn: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): \"a\" waits for itself",
        ],
    );
    check_job(
        "two circles",
        &chain(&[("a", &[]), ("c", &["b"]), ("b", &["a", "c"]), ("x", &["y"]), ("y", &["x"])]),
        &[
            "spec.tasks[1].dependsOn: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): \"c\" waits for \"b\" waits for itself",
            "spec.tasks[3].dependsOn: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): \"x\" waits for \"y\" waits for itself",
        ],
    );
}

#[test]
fn partitions_must_add_up() {
    let partitioned = |policy: Value, least: Option<i32>| {
        with(|spec| {
            spec["tasks"][1]["replicas"] = 6.into();
            spec["tasks"][1]["partitionPolicy"] = policy;
            if let Some(least) = least {
                spec["tasks"][1]["minAvailable"] = least.into();
            }
        })
    };
    let three = |least: i32| json!({"totalPartitions": 3, "partitionSize": 2, "minPartitions": least});
    check_job("add up", &partitioned(three(2), Some(4)), &[]);
    check_job("defaulted", &partitioned(three(2), None), &[]);
    check_job(
        "do not agree",
        &partitioned(three(2), Some(3)),
        &["spec.tasks[1].minAvailable: 3 is not minPartitions × partitionSize, which is 4"],
    );
    check_job(
        "more than all",
        &partitioned(three(4), Some(6)),
        &[
            "spec.tasks[1].partitionPolicy.minPartitions: 4 is more than totalPartitions, which is 3",
            "spec.tasks[1].minAvailable: 6 is not minPartitions × partitionSize, which is 8",
        ],
    );
    check_job(
        "do not fill",
        &partitioned(json!({"totalPartitions": 2, "partitionSize": 2}), None),
        &["spec.tasks[1].replicas: 6 is not totalPartitions × partitionSize, which is 4"],
    );
    check_job(
        "empty",
        &partitioned(json!({}), None),
        &[
            "spec.tasks[1].partitionPolicy.totalPartitions: 0 should be greater than or equal to 1",
            "spec.tasks[1].partitionPolicy.partitionSize: 0 should be greater than or equal to 1",
        ],
    );
}

#[test]
fn volumes_have_one_claim_and_a_place_of_their_own() {
    let volumes = json!([
        {"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {}},
        {"mountPath": "/a", "volumeClaimName": "X"},
        {"mountPath": "c:d"},
        {"volumeClaim": {}},
    ]);
    let complaint = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'example.com', should match \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    check_job(
        "volumes",
        &with(|spec| spec["volumes"] = volumes),
        &[
            "spec.volumes[0].volumeClaim: cannot be combined with volumeClaimName: set one of them",
            "spec.volumes[1].mountPath: duplicated mountPath \"/a\"",
            &format!("spec.volumes[1].volumeClaimName: \"X\": {complaint}"),
            "spec.volumes[2].mountPath: \"c:d\" contains ':'",
            "spec.volumes[2].volumeClaim: either VolumeClaim or VolumeClaimName must be specified",
            "spec.volumes[3].mountPath: must be the path at which containers mount the volume",
        ],
    );
}

#[test]
fn a_topology_policy_needs_whole_cpus() {
    let cpu = |requests: Value| {
        with(|spec| {
            spec["tasks"][0]["topologyPolicy"] = "restricted".into();
            spec["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = requests;
        })
    };
    check_job("whole", &cpu(json!({"requests": {"cpu": "2000m"}})), &[]);
    check_job(
        "a limit is a request",
        &cpu(json!({"limits": {"cpu": "1500m"}})),
        &["spec.tasks[0].template.spec.containers[0].resources.requests.cpu: 1500m is not a whole number, which \
         topologyPolicy needs"],
    );
    check_job(
        "no such policy",
        &with(|spec| spec["tasks"][0]["topologyPolicy"] = "loose".into()),
        &["spec.tasks[0].topologyPolicy: \"loose\" is not one of none, best-effort, restricted, single-numa-node"],
    );
}

#[test]
fn mpi_needs_its_master() {
    check_job(
        "none",
        &with(|spec| spec["plugins"] = json!({"mpi": []})),
        &["spec.plugins.mpi: needs a task \"master\", from which the workers are started"],
    );
}

#[test]
fn names_must_do_as_host_names() {
    let named = |name: &str, plugins: Value| {
        let mut job = defaulted(&with(|spec| spec["plugins"] = plugins));
        job.metadata.name = Some(name.to_owned());
        validate(&job, &some_queues())
    };
    check("plain", &named("1st.job", json!({})), &[]);
    check(
        "too long",
        &named(&"j".repeat(64), json!({})),
        &["metadata.name: has 64 characters, at most 63 are allowed"],
    );
    let complaint = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                     character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', should \
                     match '[a-z]([-a-z0-9]*[a-z0-9])?')";
    check("a service", &named("1st", json!({"svc": []})), &[&format!("metadata.name: \"1st\": {complaint}")]);
    check("just fits", &named(&"j".repeat(54), json!({})), &[]);
    check(
        "does not fit",
        &named(&"j".repeat(55), json!({})),
        &[&format!(
            "spec.tasks[1].name: its last pod would be named \"{}-worker-1\", which has 64 characters; at most 63 are allowed",
            "j".repeat(55)
        )],
    );
}

fn check_update(what: &str, change: impl FnOnce(&mut Value), expected: &[&str]) {
    let old = with(|spec| spec["volumes"] = json!([{"mountPath": "/a", "volumeClaim": {}}]));
    let mut new = old.clone();
    change(&mut new);
    let old = defaulted(&old);
    let mut changed = job(&new);
    default(&mut changed, Stage::Create, None);
    check(what, &validate_update(&old, &changed), expected);
}

#[test]
fn little_may_change_after_creation() {
    let refused = format!("job updates may not change fields other than {MUTABLE_FIELDS}");
    let pod = |spec: &mut Value, at: usize, change: fn(&mut Value)| change(&mut spec["tasks"][at]["template"]["spec"]);
    check_update(
        "scale",
        |spec| {
            spec["tasks"][1]["replicas"] = 5.into();
            spec["tasks"][1]["minAvailable"] = 1.into();
            spec["minAvailable"] = 3.into();
            spec["priorityClassName"] = "high".into();
        },
        &[],
    );
    check_update(
        "what a job that waits may need to start",
        |spec| {
            pod(spec, 0, |pod| pod["containers"][0]["image"] = "other".into());
            pod(spec, 0, |pod| pod["priorityClassName"] = "high".into());
            pod(spec, 1, |pod| pod["containers"][0]["resources"] = json!({"requests": {"nvidia.com/gpu": "1"}}));
        },
        &[],
    );
    check_update(
        "another container",
        |spec| pod(spec, 0, |pod| pod["containers"] = json!([])),
        &[
            "spec.tasks[0].template.spec.containers: must have at least one container",
            &format!("spec.tasks[0].template.spec.containers: {refused}"),
        ],
    );
    check_update("a claim was made", |spec| spec["volumes"][0]["volumeClaimName"] = "mnist-pvc-x".into(), &[]);
    check_update(
        "scale below the least",
        |spec| {
            spec["minAvailable"] = 3.into();
            spec["tasks"][1]["minAvailable"] = 2.into();
            spec["tasks"][1]["replicas"] = 1.into();
        },
        &[
            "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks: 3 > 2",
            "spec.tasks[1].minAvailable: 'minAvailable' is greater than 'replicas' in task \"worker\": 2 > 1",
        ],
    );
    check_update(
        "the rest",
        |spec| {
            spec["queue"] = "team-a".into();
            spec["tasks"][0]["name"] = "lead".into();
            pod(spec, 1, |pod| pod["containers"][0]["command"] = json!(["other"]));
            spec["plugins"] = json!({"env": []});
        },
        &[
            &format!("spec.plugins: {refused}"),
            &format!("spec.queue: {refused}"),
            &format!("spec.tasks[0].name: {refused}"),
            &format!("spec.tasks[1].template.spec.containers[0].command: {refused}"),
        ],
    );
    check_update(
        "another task",
        |spec| spec["tasks"] = json!([task("ps", 1)]),
        &["spec.tasks: job updates may not add or remove tasks"],
    );
}

#[test]
fn what_has_no_effect_is_told() {
    let job = defaulted(&with(|spec| {
        spec["policies"] = json!([{"event": "JobUpdated", "action": "RestartJob"}]);
        spec["tasks"][0]["policies"] = json!([{"event": "JobUpdated", "action": "RestartJob"}]);
        spec["tasks"][0]["topologyPolicy"] = "best-effort".into();
        spec["minSuccess"] = 9.into();
    }));
    assert_eq!(
        warnings(&job),
        [
            "spec.tasks[0].policies[0].event: JobUpdated happens to jobs, so this policy of a task never acts",
            "spec.tasks[0].topologyPolicy: is set on the pods, but scheduling ignores NUMA topology",
            "spec.minSuccess: 9 pods cannot succeed: the job has 3",
        ]
    );
    assert_eq!(warnings(&defaulted(&with(|_| {}))), [""; 0]);
}

proptest! {
    /// Defaults never make a job wrong that was right in all it said.
    #[test]
    fn defaults_satisfy_the_rules(replicas in proptest::collection::vec(0..50_i32, 1..6)) {
        let tasks: Vec<Value> = replicas.iter().map(|&replicas| task("", replicas)).collect();
        let job = defaulted(&json!({"tasks": tasks}));
        prop_assert_eq!(validate(&job, &some_queues()), vec![]);
    }

    /// A circle is found exactly if following the tasks in any order cannot end.
    #[test]
    fn circles_are_found_and_nothing_else(edges in proptest::collection::vec((0..6_usize, 0..6_usize), 0..10)) {
        let mut tasks: Vec<Value> = (0..6).map(|at| task(&format!("t{at}"), 1)).collect();
        for (at, task) in tasks.iter_mut().enumerate() {
            let on: Vec<String> = edges.iter().filter(|(from, _)| *from == at).map(|(_, to)| format!("t{to}")).collect();
            task["dependsOn"] = json!({"name": on});
        }
        let found = !validate(&defaulted(&json!({"tasks": tasks})), &some_queues()).is_empty();
        // Reachability by repeated squaring of the relation.
        let mut reach = [[false; 6]; 6];
        for &(from, to) in &edges {
            reach[from][to] = true;
        }
        for via in 0..6 {
            for from in 0..6 {
                for to in 0..6 {
                    reach[from][to] |= reach[from][via] && reach[via][to];
                }
            }
        }
        prop_assert_eq!(found, (0..6).any(|at| reach[at][at]));
    }
}
