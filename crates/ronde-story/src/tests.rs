//! Stories by tables: jobs that waited, grew, lost a worker, were preempted, ended; of both kinds.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use ronde_api::{Job, ScaleOut, TrainingJob};
use serde_json::{Value, json};

use crate::{Sample, Seen, Story, Subject, svg, tell, text};

/// The second of the day on which everything happens.
fn at(second: i64) -> String {
    (Timestamp::from_second(1_767_225_600 + second).unwrap()).to_string()
}

fn phase(phase: &str, second: i64, message: &str, obstacle: &str, pods: i32) -> Value {
    json!({"phase": phase, "since": at(second), "message": message, "obstacle": obstacle, "pods": pods})
}

fn size(second: i64, workers: i32, reason: &str, message: &str) -> Value {
    json!({"time": at(second), "workers": workers, "reason": reason, "message": message})
}

fn training(status: Value) -> TrainingJob {
    let metadata = json!({"name": "bert", "namespace": "team-a", "uid": "u1", "creationTimestamp": at(0)});
    let worker = json!({"replicas": 3, "minReplicas": 2, "maxReplicas": 6, "template": {}});
    let spec = json!({"etReplicaSpecs": {"launcher": {"template": {}}, "worker": worker}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn batch(status: Value) -> Job {
    let metadata = json!({"name": "lm", "namespace": "team-a", "uid": "u1", "creationTimestamp": at(0)});
    let spec = json!({"minAvailable": 2, "queue": "research", "tasks": [{"name": "worker", "replicas": 2}]});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// A pod that ran from one second to another, or still runs; with its exit code.
fn pod(name: &str, (created, started): (i64, i64), end: Option<(i64, i32)>) -> Pod {
    let state = match end {
        None => json!({"running": {"startedAt": at(started)}}),
        Some((end, code)) => {
            json!({"terminated": {"startedAt": at(started), "finishedAt": at(end), "exitCode": code}})
        }
    };
    let phase = end.map_or("Running", |(_, code)| if code == 0 { "Succeeded" } else { "Failed" });
    let container =
        json!({"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state});
    let placed = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(created)});
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": at(created)},
        "spec": {"nodeName": "node-1", "containers": []},
        "status": {"phase": phase, "containerStatuses": [container], "conditions": [placed]},
    }))
    .unwrap()
}

fn warning(kind: &str, name: &str, (second, count): (i64, i32), (reason, message): (&str, &str)) -> Event {
    serde_json::from_value(json!({"metadata": {}, "type": "Warning", "reason": reason, "message": message,
        "count": count, "firstTimestamp": at(second), "involvedObject": {"kind": kind, "name": name}}))
    .unwrap()
}

fn seen(job: Subject<'_>, now: i64) -> Seen<'_> {
    let now = at(now).parse().unwrap();
    Seen { job, pods: &[], events: &[], scale_outs: &[], scale_ins: &[], samples: &[], now }
}

/// What a story tells, without its head.
fn told(story: &Story) -> Vec<String> {
    let lines = text::lines(story);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "80 columns are enough: {lines:#?}");
    let moments = lines.iter().position(|line| line.starts_with("TIME")).unwrap();
    lines[moments + 1..].to_vec()
}

#[track_caller]
fn check(name: &str, seen: Seen<'_>, expected: &[&str]) {
    assert_eq!(told(&tell(&seen)), expected, "{name}");
}

const FIT: &str = "needs 3 pods × 4 cpu; 1 of 3 nodes fits";

fn eventful() -> TrainingJob {
    let phases = json!([
        phase("Created", 0, "TrainingJob bert is created.", FIT, 0),
        phase("Running", 63, "TrainingJob bert is running.", "", 4),
        phase("Waiting", 200, "1 of at least 2 workers are running; bert-worker-2 waits: no room", "", 1),
        phase("Running", 230, "", "", 2),
        phase("Succeeded", 310, "the launcher succeeded", "", 0),
    ]);
    let sizes = json!([
        size(63, 3, "WorkersJoined", ""),
        size(120, 4, "ScalingOutSucceeded", "ScaleOut grow-1: added bert-worker-3"),
        size(150, 3, "TrainingJobWorkerFailed", "bert-worker-1 failed with exit code 137"),
        size(152, 4, "WorkersJoined", ""),
        size(180, 2, "ScaleIn", "ScaleIn shrink-1"),
        size(200, 1, "TrainingJobWorkerFailed", "bert-worker-0 was preempted by hi (priority high)"),
        size(230, 2, "WorkersJoined", ""),
        size(310, 0, "TrainingJobSucceeded", "the launcher succeeded"),
    ]);
    training(json!({"phase": "Succeeded", "completionTime": at(310), "phases": phases, "sizes": sizes}))
}

#[test]
fn a_training_that_waited_grew_lost_workers_and_ended() {
    let job = eventful();
    check(
        "from its status alone, long after its events are gone",
        seen(Subject::Training(&job), 1_000_000),
        &[
            "00:00:00   submitted to queue default: 3 workers, from 2 to 6",
            "00:00:00   waited 1m3s: needs 3 pods × 4 cpu; 1 of 3 nodes fits",
            "00:01:03   started with 3 workers",
            "00:02:00   grew to 4 workers: ScaleOut grow-1: added bert-worker-3",
            "00:02:30   down to 3 workers: bert-worker-1 failed with exit code 137",
            "00:02:32   back to 4 workers",
            "00:03:00   shrank to 2 workers: ScaleIn shrink-1",
            "00:03:20   down to 1 worker: bert-worker-0 was preempted by hi (priority high)",
            "00:03:20   waited 30s: 1 of at least 2 workers are running; bert-worker-2 waits:",
            "           no room",
            "00:03:50   back to 2 workers",
            "00:03:50   ran again with 2 workers",
            "00:05:10   succeeded after 5m10s: the launcher succeeded",
        ],
    );
}

#[test]
fn a_training_that_others_stopped_and_people_suspended() {
    let phases = json!([
        phase("Created", 0, "", "", 0),
        phase("Running", 5, "", "", 3),
        phase("Created", 60, "the launcher was preempted by hi (priority high)", FIT, 0),
        phase("Running", 90, "", "", 3),
        phase("Suspended", 100, "annotation x is set", "", 0),
        phase("Created", 200, "annotation x is gone", "", 0),
    ]);
    let job = training(json!({"phase": "Created", "phases": phases, "message": "0 of 3 workers are running"}));
    check(
        "without sizes the phases know how many there were",
        seen(Subject::Training(&job), 210),
        &[
            "00:00:00   submitted to queue default: 3 workers, from 2 to 6",
            "00:00:00   waited 5s",
            "00:00:05   started with 3 workers",
            "00:01:00   restarted: the launcher was preempted by hi (priority high)",
            "00:01:00   waited 30s: needs 3 pods × 4 cpu; 1 of 3 nodes fits",
            "00:01:30   ran again with 3 workers",
            "00:01:40   suspended: annotation x is set",
            "00:03:20   resumed",
            "00:03:20   has waited 10s",
        ],
    );
}

#[test]
fn a_job_of_volcano_that_was_preempted_and_completed() {
    let preempted = "PodEvicted: RestartJob: pod lm-worker-0 was preempted by hi (priority high)";
    let phases = json!([
        phase("Pending", 0, "", "needs 2 pods × 8 cpu; 0 of 3 nodes fit", 0),
        phase("Running", 40, "2 of 2 pods started, 2 required", "", 2),
        phase("Restarting", 100, preempted, "", 0),
        phase("Pending", 103, preempted, "needs 2 pods × 8 cpu; 1 of 3 nodes fits", 0),
        phase("Running", 160, "2 of 2 pods started, 2 required", "", 2),
        phase("Completed", 300, "2 of 2 pods succeeded, 2 required", "", 0),
    ]);
    let state = json!({"phase": "Completed", "lastTransitionTime": at(300)});
    let job = batch(json!({"state": state, "phases": phases}));
    let expected = [
        "00:00:00   submitted to queue research: 2 pods, at least 2",
        "00:00:00   waited 40s: needs 2 pods × 8 cpu; 0 of 3 nodes fit",
        "00:00:40   started with 2 pods",
        "00:01:40   restarted: PodEvicted: RestartJob: pod lm-worker-0 was preempted by",
        "           hi (priority high)",
        "00:01:43   waited 57s: needs 2 pods × 8 cpu; 1 of 3 nodes fits",
        "00:02:40   ran again with 2 pods",
        "00:05:00   completed after 5m: 2 of 2 pods succeeded, 2 required",
    ];
    check("its pods are gone", seen(Subject::Batch(&job), 9_999), &expected);
    let story = tell(&seen(Subject::Batch(&job), 9_999));
    let sizes: Vec<String> = story.sizes.iter().map(|size| format!("{}@{}", size.count, size.time)).collect();
    assert_eq!(
        sizes,
        ["2@2026-01-01T00:00:40Z", "0@2026-01-01T00:01:40Z", "2@2026-01-01T00:02:40Z", "0@2026-01-01T00:05:00Z"]
    );
}

#[test]
fn what_happens_in_one_second_is_told_in_the_order_of_the_phases() {
    let phases = json!([
        phase("Pending", 0, "", "", 0),
        phase("Running", 1, "", "", 2),
        phase("Restarting", 1, "RestartJob: pod lm-worker-0 was evicted", "", 0),
        phase("Pending", 1, "", "", 0),
        phase("Running", 1, "", "", 2),
    ]);
    let job = batch(json!({"state": {"phase": "Running", "lastTransitionTime": at(1)}, "phases": phases}));
    let expected = [
        "00:00:00   submitted to queue research: 2 pods, at least 2",
        "00:00:01   started with 2 pods",
        "00:00:01   restarted: RestartJob: pod lm-worker-0 was evicted",
        "00:00:01   ran again with 2 pods",
    ];
    check("a pod that is evicted at once", seen(Subject::Batch(&job), 60), &expected);
}

#[test]
fn a_job_of_volcano_that_grew_and_lost_a_pod() {
    let phases = json!([phase("Pending", 0, "", "", 0), phase("Running", 3, "", "", 2)]);
    let state =
        json!({"phase": "Running", "message": "pod lm-worker-1: CrashLoopBackOff", "lastTransitionTime": at(3)});
    let job = batch(json!({"state": state, "phases": phases}));
    let pods = [
        pod("lm-worker-0", (1, 3), None),
        pod("lm-worker-1", (1, 3), Some((50, 137))),
        pod("lm-worker-2", (30, 31), None),
    ];
    let events = [
        warning("Pod", "lm-worker-1", (20, 3), ("BackOff", "Back-off restarting failed container")),
        warning("Pod", "lm-worker-1", (25, 2), ("BackOff", "Back-off restarting failed container")),
        warning("Pod", "lm-worker-2", (30, 1), ("FailedScheduling", "0/3 nodes are available")),
        warning("Job", "lm", (50, 1), ("Disrupted", "lm-worker-1 failed with exit code 137")),
    ];
    check(
        "what is said twice is told once, and waits are told by phases",
        Seen { pods: &pods, events: &events, ..seen(Subject::Batch(&job), 60) },
        &[
            "00:00:00   submitted to queue research: 2 pods, at least 2",
            "00:00:00   waited 3s",
            "00:00:03   started with 2 pods",
            "00:00:20   lm-worker-1: BackOff: Back-off restarting failed container (5 times)",
            "00:00:30   placed on node-1 (3)",
            "00:00:31   grew to 3 pods",
            "00:00:50   lm-worker-1 failed with exit code 137",
        ],
    );
}

#[test]
fn scale_operations_that_failed_are_told_of_this_job_only() {
    let scaler = |second: i64| -> ScaleOut {
        let failed = json!({"type": "ScaleFailed", "status": "True", "message": "execution timeout",
            "lastTransitionTime": at(second)});
        serde_json::from_value(json!({"metadata": {"name": "grow"}, "spec": {}, "status": {"conditions": [failed]}}))
            .unwrap()
    };
    let job = training(json!(null));
    let outs = [scaler(-100), scaler(20)];
    check(
        "an earlier job of the name had its own",
        Seen { scale_outs: &outs, ..seen(Subject::Training(&job), 30) },
        &[
            "00:00:00   submitted to queue default: 3 workers, from 2 to 6",
            "00:00:00   has waited 30s: no controller has looked at it yet",
            "00:00:20   ScaleOut grow failed: execution timeout",
        ],
    );
}

#[test]
fn the_jobs_of_other_controllers_have_a_story_too() {
    let condition = |phase: &str, second: i64| json!({"status": phase, "lastTransitionTime": at(second)});
    let conditions = json!([condition("Pending", 1), condition("Running", 9), condition("Failed", 20)]);
    let state = json!({"phase": "Failed", "message": "pod x failed", "lastTransitionTime": at(20)});
    let job = batch(json!({"state": state, "conditions": conditions}));
    check(
        "Volcano's status says when each phase was last",
        seen(Subject::Batch(&job), 30),
        &[
            "00:00:00   submitted to queue research: 2 pods, at least 2",
            "00:00:00   waited 9s",
            "00:00:09   started",
            "00:00:20   failed after 20s",
        ],
    );
}

#[test]
fn what_is_not_known_any_more_is_named() {
    let phases: Vec<Value> =
        (0..20).map(|n| phase(if n % 2 == 0 { "Waiting" } else { "Running" }, n * 100, "", "", 2)).collect();
    let sizes: Vec<Value> = (0..20).map(|n| size(n * 100, i32::try_from(n % 2 + 1).unwrap(), "", "")).collect();
    let job = training(json!({"phase": "Running", "phases": phases, "sizes": sizes}));
    let lines = told(&tell(&seen(Subject::Training(&job), 2000)));
    assert_eq!(
        lines[lines.len() - 2..],
        [
            "note      phases before 2026-01-01 00:01:40 are not all kept",
            "note      sizes before 2026-01-01 00:00:00 are not kept",
        ]
    );
}

fn with_loss() -> (TrainingJob, Vec<Sample>) {
    let sample = |second: i64| Sample {
        time: at(second).parse().unwrap(),
        step: u64::try_from(second * 10).unwrap(),
        loss: 2.3 / (second - 60) as f64,
    };
    (eventful(), (64..310).map(sample).collect())
}

#[test]
fn the_page_of_a_job_fits_a_small_terminal() {
    let (job, samples) = with_loss();
    let story = tell(&Seen { samples: &samples, ..seen(Subject::Training(&job), 400) });
    insta::assert_snapshot!(text::lines(&story)[..12].join("\n"));
}

#[test]
fn the_json_of_a_story_keeps_its_names() {
    let (job, samples) = with_loss();
    let mut story = tell(&Seen { samples: &samples[..2], ..seen(Subject::Training(&job), 400) });
    story.moments.truncate(2);
    story.sizes.truncate(2);
    insta::assert_snapshot!(serde_json::to_string_pretty(&story).unwrap());
}

#[test]
fn the_picture_is_bounded_and_harmless() {
    let (mut job, samples) = with_loss();
    let many: Vec<Sample> = samples.iter().cycle().take(100_000).copied().collect();
    let hostile = "</title><script>alert(1)</script>\u{1b}[2J";
    job.status.as_mut().unwrap().sizes[2].message = hostile.to_owned();
    job.metadata.name = Some(hostile.to_owned());
    let story = tell(&Seen { samples: &many, ..seen(Subject::Training(&job), 400) });
    let picture = svg::picture(&story);
    assert!(picture.len() < 20_000, "{} bytes", picture.len());
    assert!(!picture.contains("<script") && !picture.contains('\u{1b}'), "{picture}");
    assert!(picture.contains("&lt;script&gt;"), "{picture}");
    let page = text::lines(&story).join("\n");
    assert!(!page.contains('\u{1b}'), "{page}");
}

#[test]
fn a_job_that_nobody_has_looked_at_has_a_story() {
    let job = training(json!(null));
    let story = tell(&seen(Subject::Training(&job), 0));
    assert_eq!(
        text::lines(&story),
        [
            "job       bert (TrainingJob)",
            "queue     default",
            "status    Created",
            "waited    0s",
            "",
            "TIME       WHAT",
            "00:00:00   submitted to queue default: 3 workers, from 2 to 6",
        ]
    );
    assert!(svg::picture(&story).contains("<title>TrainingJob bert: Created</title>"));
}
