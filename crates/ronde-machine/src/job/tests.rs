//! Tests of what a job decides and counts. Pods are tracked unless they say otherwise.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::ResourceExt as _;
use proptest::prelude::{ProptestConfig, any, proptest};
use ronde_runtime::indexes::Indexes;
use ronde_sim::pods::{Making, at, pod};
use serde_json::{Value, json};

use super::{
    account::{Account, JobEvent, account},
    census::Observed,
    plan::{JobPlan, plan},
    policy, template, ttl,
    verdict::{self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition},
};

fn job(change: Value) -> Job {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}});
    let mut spec = json!({
        "parallelism": 2, "completions": 3, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed", "selector": {"matchLabels": {"a": "b"}}, "template": template,
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "work", "uid": "work"}, "spec": spec})).expect("a job")
}

fn with_status(mut job: Job, status: Value) -> Job {
    job.status = Some(serde_json::from_value(status).expect("a status"));
    job
}

fn tracked(name: &str) -> Making {
    pod(name).finalizer(template::TRACKING)
}

fn indexed(name: &str, index: i32) -> Making {
    tracked(name).annotation(template::INDEX, &index.to_string())
}

fn observed<'a>(job: &'a Job, pods: &[Making]) -> Observed<'a> {
    let pods = pods.iter().map(|pod| pod.clone().build()).collect();
    Observed { job, spec: job.spec.as_ref().expect("a spec"), pods }
}

fn shown(plan: &JobPlan) -> String {
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(" ");
    let index = |pod: &Pod| template::index(pod).map_or("?".to_owned(), |index| index.to_string());
    let mut parts = Vec::new();
    if !plan.create.is_empty() {
        parts.push(format!("create {}", plan.create.iter().map(index).collect::<Vec<_>>().join(" ")));
    }
    for (verb, pods) in [("fail", &plan.fail), ("give up", &plan.give_up)] {
        if !pods.is_empty() {
            parts.push(format!("{verb} {}", names(pods)));
        }
    }
    parts.extend(plan.look_again.map(|wait| format!("look again in {}", wait.as_secs())));
    parts.join("; ")
}

#[test]
fn as_many_pods_as_are_useful() {
    fn check(name: &str, job: Job, pods: &[Making], expected: &str) {
        assert_eq!(shown(&plan(&observed(&job, pods), at(100))), expected, "{name}");
    }
    let plain = || job(json!({}));
    let failed = |name: &str, when| tracked(name).ended("Failed", when);
    let succeeded = |name: &str| tracked(name).ended("Succeeded", 50);
    check("the first pods", plain(), &[], "create ? ?");
    check("one is there", plain(), &[tracked("a")], "create ?");
    check("no more than completions are left", plain(), &[succeeded("a"), succeeded("b")], "create ?");
    check("one too many", plain(), &[tracked("a").ready(0), tracked("b").ready(0), tracked("c")], "give up c");
    check(
        "too many after success",
        plain(),
        &[succeeded("a"), succeeded("b"), succeeded("c"), tracked("d")],
        "give up d",
    );
    check("a failure is waited out", plain(), &[failed("a", 95)], "look again in 5");
    check("twice as long after the second", plain(), &[failed("a", 80), failed("b", 95)], "look again in 15");
    check("it has been waited out", plain(), &[failed("a", 89)], "create ? ?");
    check(
        "a success begins anew",
        plain(),
        &[failed("a", 40), failed("b", 45), succeeded("c"), failed("d", 91)],
        "look again in 1",
    );
    check("a pod that was given up is no failure", plain(), &[pod("a").ended("Failed", 99).deleted(98)], "create ? ?");
    check("a pod on its way out is replaced", plain(), &[tracked("a").ready(0).deleted(80), tracked("b")], "create ?");
    let failed_only = job(json!({"podReplacementPolicy": "Failed"}));
    check("or only when it has ended", failed_only, &[tracked("a").ready(0).deleted(80), tracked("b")], "");
    check("suspended", job(json!({"suspend": true})), &[tracked("a")], "give up a");
    let any = || job(json!({"completions": null, "parallelism": 2}));
    check("without completions: all at once", any(), &[], "create ? ?");
    check("until one succeeds", any(), &[succeeded("a"), tracked("b")], "");
    let deadline = with_status(job(json!({"activeDeadlineSeconds": 60})), json!({"startTime": at(50).to_string()}));
    check("a deadline is looked at in time", deadline.clone(), &[tracked("a"), tracked("b")], "look again in 10");
    let late = with_status(deadline, json!({"startTime": at(40).to_string()}));
    check("after it all pods go", late, &[tracked("a"), tracked("b")], "fail a b");
}

#[test]
fn every_index_runs_once() {
    fn check(name: &str, job: Job, pods: &[Making], expected: &str) {
        assert_eq!(shown(&plan(&observed(&job, pods), at(100))), expected, "{name}");
    }
    let plain = |completed: &str| {
        let job = job(json!({"completionMode": "Indexed", "completions": 5, "parallelism": 3}));
        with_status(job, json!({"completedIndexes": completed}))
    };
    let per_index =
        || job(json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "backoffLimit": 99}));
    check("the first ones", plain(""), &[], "create 0 1 2");
    check("those that are missing", plain("0,2"), &[indexed("a", 1)], "create 3 4");
    check("one that has just succeeded", plain(""), &[indexed("a", 0).ended("Succeeded", 9)], "create 1 2 3");
    check("one index twice", plain(""), &[indexed("a", 0), indexed("b", 0), indexed("c", 1)], "give up a");
    check("an index that is none", plain(""), &[indexed("a", 0), indexed("b", 7), tracked("c")], "give up b c");
    check(
        "a failed index waits by itself",
        per_index(),
        &[indexed("a", 0).ended("Failed", 95)],
        "create 1; look again in 5",
    );
    check("and comes back", per_index(), &[indexed("a", 0).ended("Failed", 80)], "create 0 1");
    let again = indexed("a", 0).ended("Failed", 80).annotation("batch.kubernetes.io/job-index-failure-count", "1");
    check("but not for ever", per_index(), &[again], "create 1 2");
}

#[test]
fn a_pod_of_an_index_knows_it() {
    let job = job(json!({"completionMode": "Indexed", "backoffLimitPerIndex": 3}));
    let before = indexed("a", 2).annotation("batch.kubernetes.io/job-index-failure-count", "1").build();
    let made = template::build_index(&job, job.spec.as_ref().expect("a spec"), 2, Some(&before));
    assert_eq!(made.metadata.generate_name.as_deref(), Some("work-2-"));
    assert_eq!(made.labels()[template::INDEX], "2");
    assert_eq!(made.annotations()["batch.kubernetes.io/job-index-failure-count"], "2");
    let spec = made.spec.unwrap_or_default();
    assert_eq!(spec.hostname.as_deref(), Some("work-2"));
    let variable = &spec.containers[0].env.as_ref().expect("a variable")[0];
    let field =
        variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref()).map(|field| field.field_path.as_str());
    assert_eq!(
        (variable.name.as_str(), field),
        ("JOB_COMPLETION_INDEX", Some("metadata.labels['batch.kubernetes.io/job-completion-index']"))
    );
}

#[test]
fn a_long_name_leaves_room_for_the_index() {
    let mut job = job(json!({"completionMode": "Indexed"}));
    job.metadata.name = Some("j".repeat(62));
    let made = template::build_index(&job, job.spec.as_ref().expect("a spec"), 10, None);
    assert_eq!(made.metadata.generate_name, Some(format!("{}-10-", "j".repeat(54))));
}

#[test]
fn a_job_ends_for_a_reason() {
    fn check(name: &str, change: Value, pods: &[Making], expected: &str) {
        let job = with_status(job(change), json!({"startTime": at(0).to_string()}));
        let observed = observed(&job, pods);
        let verdict = verdict::verdict(&observed, &super::census::Census::of_job(&observed), at(100));
        let shown =
            verdict.map(|verdict| format!("{} {}", if verdict.is_success { "ok" } else { "bad" }, verdict.reason));
        assert_eq!(shown.unwrap_or_default(), expected, "{name}");
    }
    let ok = |name: &str| tracked(name).ended("Succeeded", 50);
    let bad = |name: &str| tracked(name).ended("Failed", 50);
    let exit = |name: &str, code: i32| {
        bad(name).with_status(|status| {
            let state = json!({"terminated": {"exitCode": code}});
            let container =
                json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
            status.container_statuses = Some(vec![serde_json::from_value(container).expect("a container")]);
        })
    };
    let restarted = |count: i32| {
        tracked("a").phase("Running").with_status(|status| {
            let container = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": count});
            status.container_statuses = Some(vec![serde_json::from_value(container).expect("a container")]);
        })
    };
    let none = || json!({});
    check("it runs", none(), &[tracked("a")], "");
    check("enough successes", none(), &[ok("a"), ok("b"), ok("c")], "ok CompletionsReached");
    check("enough, but one still runs", none(), &[ok("a"), ok("b"), ok("c"), tracked("d")], "");
    check("failures within the limit", json!({"backoffLimit": 2}), &[bad("a"), bad("b")], "");
    check("too many failures", json!({"backoffLimit": 1}), &[bad("a"), bad("b")], "bad BackoffLimitExceeded");
    check("too long", json!({"activeDeadlineSeconds": 100}), &[tracked("a")], "bad DeadlineExceeded");
    check("not while suspended", json!({"activeDeadlineSeconds": 100, "suspend": true}), &[], "");
    let mut restarts =
        json!({"template": {"spec": {"containers": [], "restartPolicy": "OnFailure"}}, "backoffLimit": 3});
    check("restarts within the limit", restarts.clone(), &[restarted(2)], "");
    check("restarts beyond it", restarts.clone(), &[restarted(3)], "bad BackoffLimitExceeded");
    restarts["backoffLimit"] = 0.into();
    check("no restart at all", restarts, &[restarted(1)], "bad BackoffLimitExceeded");
    let policy = |action: &str| json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]}});
    check("an exit code that ends it", policy("FailJob"), &[exit("a", 42)], "bad PodFailurePolicy");
    check("another exit code counts", policy("FailJob"), &[exit("a", 1)], "bad BackoffLimitExceeded");
    check("an exit code that does not matter", policy("Ignore"), &[exit("a", 42)], "");
    let drained = bad("a").on_condition("DisruptionTarget", "True", 40);
    let conditions = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let rules = json!([{"action": "Ignore", "onPodConditions": conditions}]);
    check(
        "a drained pod does not matter",
        json!({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}}),
        &[drained],
        "",
    );
    let success =
        |rule: Value| json!({"completionMode": "Indexed", "completions": 4, "successPolicy": {"rules": [rule]}});
    let done = |index: i32| indexed(&format!("i{index}"), index).ended("Succeeded", 50);
    check("the leader is enough", success(json!({"succeededIndexes": "0"})), &[done(0)], "ok SuccessPolicy");
    check(
        "some of some are enough",
        success(json!({"succeededIndexes": "0-2", "succeededCount": 2})),
        &[done(0), done(2)],
        "ok SuccessPolicy",
    );
    check("not those", success(json!({"succeededIndexes": "0-2", "succeededCount": 2})), &[done(0), done(3)], "");
    check("any number", success(json!({"succeededCount": 1})), &[done(3)], "ok SuccessPolicy");
    let index_bad = |index: i32| indexed(&format!("b{index}"), index).ended("Failed", 50);
    let per_index = |most: Value| json!({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 0, "maxFailedIndexes": most, "backoffLimit": 99});
    check("an index fails, others go on", per_index(Value::Null), &[index_bad(0)], "");
    check("all have ended, one badly", per_index(Value::Null), &[index_bad(0), done(1)], "bad FailedIndexes");
    check("too many indexes fail", per_index(0.into()), &[index_bad(0)], "bad MaxFailedIndexesExceeded");
}

#[test]
fn a_failure_that_ends_the_job_says_which() {
    let rules = json!([
        {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]},
    ]);
    let job = job(json!({"podFailurePolicy": {"rules": rules}}));
    let pod = tracked("a").ended("Failed", 1).on_condition("ConfigIssue", "True", 1).build();
    let judged = policy::judge(job.spec.as_ref().expect("a spec"), &pod);
    let message = "Pod default/a has condition ConfigIssue matching FailJob rule at index 1";
    assert_eq!(judged, policy::Failure::FailsJob(message.to_owned()));
}

#[test]
fn indexes_are_written_as_kubernetes_writes_them() {
    fn check(text: &str, completions: i32, expected: &str) {
        assert_eq!(Indexes::parse(text, completions).to_string(), expected, "{text} below {completions}");
    }
    check("", 5, "");
    check("1,3-5,7", 10, "1,3-5,7");
    check("1,2", 10, "1,2");
    check("0,1,2", 10, "0-2");
    check("0-9", 4, "0-3");
    check("3,nonsense,1-", 10, "3");
}

proptest! {
    #[test]
    fn indexes_are_a_set(numbers in proptest::collection::btree_set(0..40_i32, 0..20), number in 0..40_i32) {
        let indexes = Indexes::default().with(numbers.iter().rev().copied());
        assert_eq!(indexes.contains(number), numbers.contains(&number));
        assert_eq!(usize::try_from(indexes.len()).expect("small"), numbers.len());
        assert_eq!(Indexes::parse(&indexes.to_string(), 40), indexes);
        let missing: Vec<i32> = (0..40).filter(|number| !numbers.contains(number)).take(3).collect();
        assert_eq!(indexes.first_missing(40, 3), missing);
    }
}

#[test]
fn a_finished_job_lives_for_its_time() {
    let end = json!([{"type": COMPLETE, "status": "True", "lastTransitionTime": at(10).to_string()}]);
    let left = |job: &Job| ttl::left(job, at(20));
    let kept = with_status(job(json!({"ttlSecondsAfterFinished": 30})), json!({"conditions": end}));
    assert_eq!(left(&kept), Some(SignedDuration::from_secs(20)));
    assert_eq!(left(&with_status(job(json!({})), json!({"conditions": end}))), None);
    assert_eq!(left(&job(json!({"ttlSecondsAfterFinished": 30}))), None);
}

/// Carries one account out as the controller does; `writes` is how many writes are done before it dies.
fn carry_out(job: &mut Job, pods: &mut [Making], mut writes: usize) -> Vec<JobEvent> {
    let Account { status, untrack, mut news } = account(&observed(job, pods), at(100));
    if job.status.as_ref() == Some(&status) {
        news.clear();
    } else if writes == 0 {
        return Vec::new();
    } else {
        writes -= 1;
        job.status = Some(status);
    }
    for pod in untrack.into_iter().take(writes) {
        let is_it = |other: &Making| other.clone().build().metadata.uid == pod.metadata.uid;
        let found = pods.iter_mut().find(|other| is_it(other)).expect("a pod of the job");
        *found = found.clone().without_finalizers();
    }
    news
}

fn finish(job: &mut Job, pods: &mut [Making]) -> (JobStatus, Vec<JobEvent>) {
    let mut news = Vec::new();
    for _ in 0..10 {
        news.extend(carry_out(job, pods, usize::MAX));
    }
    (job.status.clone().unwrap_or_default(), news)
}

#[test]
fn an_end_is_announced_and_then_stated() {
    let mut success = job(json!({"completions": 1}));
    let mut pods = [tracked("a").ended("Succeeded", 50)];
    carry_out(&mut success, &mut pods, 1);
    let status = success.status.clone().unwrap_or_default();
    assert!(condition(&status, SUCCESS_CRITERIA_MET).is_some() && condition(&status, COMPLETE).is_none());
    assert_eq!(status.uncounted_terminated_pods.and_then(|names| names.succeeded), Some(vec!["a".to_owned()]));
    let (status, news) = finish(&mut success, &mut pods);
    assert_eq!((status.succeeded, condition(&status, COMPLETE).is_some()), (Some(1), true));
    assert_eq!(status.completion_time, Some(ronde_runtime::pods::time(at(100))));
    assert_eq!(news, [JobEvent::Completed]);

    let mut failure = job(json!({"backoffLimit": 0}));
    let mut pods = [tracked("a").ended("Failed", 50), tracked("b").ready(0).deleted(99)];
    let (status, _) = finish(&mut failure, &mut pods);
    assert!(condition(&status, FAILURE_TARGET).is_some());
    assert!(condition(&status, FAILED).is_none(), "a pod is on its way out");
    pods[1] = pod("b").ended("Failed", 99).deleted(99);
    let (status, news) = finish(&mut failure, &mut pods);
    assert_eq!((status.failed, condition(&status, FAILED).is_some()), (Some(2), true));
    assert!(
        matches!(news.as_slice(), [JobEvent::Failed(verdict)] if verdict.reason == "BackoffLimitExceeded"),
        "{news:?}"
    );
}

#[test]
fn a_pause_is_told_and_does_not_count() {
    let mut paused = with_status(job(json!({"suspend": true})), json!({"startTime": at(0).to_string()}));
    let (_, news) = finish(&mut paused, &mut []);
    assert_eq!(news, [JobEvent::Suspended]);
    paused.spec.as_mut().expect("a spec").suspend = Some(false);
    let (status, news) = finish(&mut paused, &mut []);
    assert_eq!((status.start_time, news), (Some(ronde_runtime::pods::time(at(100))), vec![JobEvent::Resumed]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// However often the controller dies, and after whichever write: each ended pod counts exactly once.
    #[test]
    fn nothing_is_lost_and_nothing_counts_twice(
        ends in proptest::collection::vec(any::<bool>(), 0..8),
        deaths in proptest::collection::vec(0..4_usize, 0..12),
        is_indexed in any::<bool>(),
    ) {
        let mode = if is_indexed { "Indexed" } else { "NonIndexed" };
        let mut job = job(json!({"completions": 20, "backoffLimit": 99, "completionMode": mode}));
        let ended = |(number, is_ok): (i32, &bool)| {
            indexed(&format!("p{number}"), number).ended(if *is_ok { "Succeeded" } else { "Failed" }, 50)
        };
        let mut pods: Vec<Making> = (0..).zip(&ends).map(ended).collect();
        for writes in deaths {
            carry_out(&mut job, &mut pods, writes);
        }
        let (status, _) = finish(&mut job, &mut pods);
        let number = |is_ok: bool| i32::try_from(ends.iter().filter(|end| **end == is_ok).count()).expect("few");
        assert_eq!((status.succeeded.unwrap_or(0), status.failed.unwrap_or(0)), (number(true), number(false)));
        assert!(pods.iter().all(|pod| pod.clone().build().finalizers().is_empty()));
    }
}
