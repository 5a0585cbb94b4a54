//! Flows step by step: what is seen, what is decided. What is written and made is played back into the next look.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use ronde_api::{Job, JobFlow, JobFlowPhase, JobFlowStatus, JobPhase, JobTemplate, names, rules};
use serde_json::{Value, json};

use super::{
    decide::{ObservedFlow, decide, entries, questions},
    probe::{ProbedPod, Question},
};
use crate::reconcile::Step;

/// A world of one flow, in which all that is decided is done at once.
struct World {
    flow: JobFlow,
    jobs: BTreeMap<String, Arc<Job>>,
    templates: BTreeMap<String, Arc<JobTemplate>>,
    pods: BTreeMap<String, Vec<ProbedPod>>,
    answered: BTreeSet<Question>,
    refusal: Option<String>,
    events: Vec<String>,
}

fn step(name: &str, targets: &[&str]) -> Value {
    json!({"name": name, "dependsOn": {"targets": targets}})
}

fn template(name: &str) -> Arc<JobTemplate> {
    let task = json!({"name": "w", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let template = json!({"metadata": {"name": name}, "spec": {"queue": "team", "tasks": [task]}});
    Arc::new(serde_json::from_value(template).expect("a template"))
}

impl World {
    fn new(spec: &Value) -> Self {
        let meta = json!({"name": "f", "namespace": "ml", "uid": "u1"});
        let flow: JobFlow = serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a flow");
        let templates = flow.spec.flows.iter().map(|one| (one.name.clone(), template(&one.name))).collect();
        Self {
            flow,
            templates,
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            answered: BTreeSet::new(),
            refusal: None,
            events: Vec::new(),
        }
    }

    fn seen(&self) -> ObservedFlow<'_> {
        ObservedFlow {
            flow: &self.flow,
            entries: entries(&self.flow),
            jobs: self.jobs.clone(),
            templates: self.templates.clone(),
            pods: self.pods.clone(),
            answered: self.answered.clone(),
            faults: rules::job_flow::validate(&self.flow).iter().map(ToString::to_string).collect(),
            refusal: self.refusal.clone(),
        }
    }

    /// Does all there is to do; returns the jobs that are made on the way, and the phase in the end.
    fn settle(&mut self) -> String {
        let mut made = Vec::new();
        for _ in 0..20 {
            match decide(&self.seen(), Timestamp::UNIX_EPOCH) {
                Step::Write { status, events } => {
                    self.events
                        .extend(events.iter().map(|event| format!("{}: {}", event.cause.reason, event.cause.message)));
                    self.flow.status = Some(*status);
                }
                Step::Apply(plan) if plan.create.is_empty() && plan.delete.is_empty() => {
                    return format!("{} {}", made.join(","), self.flow.phase()).trim().to_owned();
                }
                Step::Apply(plan) => {
                    for job in plan.create {
                        made.push(job.name_any());
                        self.jobs.insert(job.name_any(), Arc::new(job));
                    }
                    for job in plan.delete {
                        self.jobs.remove(&job.name_any());
                    }
                }
            }
        }
        panic!("it never settles: {:?}", self.flow.status);
    }

    fn becomes(&mut self, template: &str, phase: JobPhase) -> String {
        let name = names::flow_job("f", template);
        let mut job = Job::clone(&self.jobs[&name]);
        job.status.get_or_insert_default().state.phase = Some(phase);
        self.jobs.insert(name, Arc::new(job));
        self.settle()
    }

    fn suspend(&mut self, is: bool) -> String {
        self.flow.annotations_mut().insert(names::FLOW_SUSPENDED.to_owned(), is.to_string());
        self.settle()
    }

    fn delete(&mut self) {
        self.flow.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    }

    fn status(&self) -> &JobFlowStatus {
        self.flow.status.as_ref().expect("a status")
    }
}

fn diamond() -> Value {
    json!({"flows": [{"name": "a"}, step("b", &["a"]), step("c", &["a"]), step("d", &["b", "c"])]})
}

#[test]
fn jobs_start_when_what_they_depend_on_is_complete() {
    let mut world = World::new(&diamond());
    assert_eq!(world.settle(), "f-a Pending");
    assert_eq!(world.becomes("a", JobPhase::Running), "Running");
    assert_eq!(world.becomes("a", JobPhase::Restarting), "Running", "a job that is retried is not over");
    assert_eq!(world.becomes("a", JobPhase::Completed), "f-b,f-c Running");
    assert_eq!(world.becomes("b", JobPhase::Completed), "Running");
    assert_eq!(world.status().completed_jobs, ["f-a", "f-b"]);
    assert_eq!(world.becomes("c", JobPhase::Completed), "f-d Running");
    assert_eq!(world.becomes("d", JobPhase::Completed), "Succeed");
    assert_eq!(world.events, ["Succeed: all jobs are complete"]);
    assert_eq!(world.jobs.len(), 4, "they are kept");
}

#[test]
fn a_job_says_what_it_was_made_from() {
    let mut world = World::new(&json!({"flows": [{"name": "a", "patch": {"jobSpec": {"queue": "other"}}}]}));
    world.settle();
    let job = &world.jobs["f-a"];
    assert_eq!(job.labels()[names::CREATED_BY_TEMPLATE], "ml.a");
    assert_eq!(job.annotations()[names::CREATED_BY_FLOW], "ml.f");
    assert_eq!((job.owner_references()[0].uid.as_str(), job.spec.queue.as_str()), ("u1", "other"));
    assert_eq!(job.spec.tasks[0].replicas, 2, "the rest is as in the template");
}

#[test]
fn a_failed_job_stops_what_depends_on_it_and_nothing_else() {
    let flows = json!([{"name": "a"}, step("b", &["a"]), step("c", &["b"]), {"name": "x"}, step("y", &["x"])]);
    let mut world = World::new(&json!({"flows": flows}));
    assert_eq!(world.settle(), "f-a,f-x Pending");
    assert_eq!(world.becomes("a", JobPhase::Failed), "Running", "the other branch goes on");
    assert_eq!(world.status().state.message, "failed: `f-a`; not run: `f-b`, `f-c`");
    assert_eq!(world.becomes("x", JobPhase::Completed), "f-y Running");
    assert_eq!(world.becomes("y", JobPhase::Completed), "Failed", "nothing can run any more");
    assert_eq!((world.status().failed_jobs.len(), world.status().completed_jobs.len()), (1, 2));
    assert_eq!(world.events, ["JobFailed: failed: `f-a`; not run: `f-b`, `f-c`"]);
}

#[test]
fn every_phase_of_a_job_has_its_place() {
    for phase in JobPhase::ALL {
        let mut world = World::new(&json!({"flows": [{"name": "a"}, step("b", &["a"])]}));
        world.settle();
        let settled = world.becomes("a", *phase);
        let expected = match phase {
            JobPhase::Pending => "Pending",
            JobPhase::Completed => "f-b Running",
            JobPhase::Failed | JobPhase::Terminated => "Failed",
            _ => "Running",
        };
        assert_eq!(settled, expected, "{phase}");
        let status = world.status();
        let lists = [
            &status.pending_jobs,
            &status.running_jobs,
            &status.failed_jobs,
            &status.completed_jobs,
            &status.terminated_jobs,
            &status.un_know_jobs,
        ];
        let listed = lists.iter().filter(|list| list.contains(&"f-a".to_owned())).count();
        assert_eq!(listed, 1, "{phase}: once in all lists");
        assert_eq!(status.conditions["f-a"].phase, Some(*phase));
    }
}

/// A world of two jobs, the second after the first, that has come to a phase.
fn world_in(phase: JobFlowPhase) -> World {
    let mut world = World::new(&json!({"flows": [{"name": "a"}, step("b", &["a"])]}));
    world.settle();
    match phase {
        JobFlowPhase::Pending => {}
        JobFlowPhase::Running => drop(world.becomes("a", JobPhase::Running)),
        JobFlowPhase::Succeed => {
            world.becomes("a", JobPhase::Completed);
            world.becomes("b", JobPhase::Completed);
        }
        JobFlowPhase::Failed => drop(world.becomes("a", JobPhase::Failed)),
        JobFlowPhase::Terminating => world.delete(),
    }
    assert_eq!(world.settle(), phase.to_string());
    world
}

#[test]
fn whatever_happens_in_any_phase_has_its_answer() {
    use JobFlowPhase::{Failed, Pending, Running, Succeed, Terminating};
    // What is made, and the phase afterwards, in the order of the phases above.
    type Row = (&'static str, fn(&mut World), [&'static str; 5]);
    let stays = ["Pending", "Running", "Succeed", "Failed", "Terminating"];
    let rows: [Row; 8] = [
        ("the flow is suspended", |world| drop(world.suspend(true)), stays),
        (
            "a job is deleted while the flow is suspended, which is resumed",
            |world| {
                world.suspend(true);
                world.jobs.remove("f-a");
                assert!(!world.settle().contains("f-a"), "it is not made");
                world.flow.annotations_mut().clear();
            },
            ["f-a Pending", "f-a Pending", "Succeed", "Failed", "Terminating"],
        ),
        (
            "a job is deleted",
            |world| drop(world.jobs.remove("f-a")),
            ["f-a Pending", "f-a Pending", "Succeed", "Failed", "Terminating"],
        ),
        ("a template changes", |world| drop(world.templates.insert("a".to_owned(), template("other"))), stays),
        ("a template goes", |world| drop(world.templates.remove("a")), stays),
        ("a job is refused", |world| world.refusal = Some("exceeded quota".to_owned()), stays),
        (
            "a job is added",
            |world| {
                world.flow.spec.flows.push(serde_json::from_value(json!({"name": "c"})).expect("a job"));
                world.templates.insert("c".to_owned(), template("c"));
            },
            ["f-c Pending", "f-c Running", "f-c Running", "f-c Running", "Terminating"],
        ),
        ("the flow is deleted", World::delete, ["Terminating"; 5]),
    ];
    for (what, happens, expected) in rows {
        for (phase, expected) in [Pending, Running, Succeed, Failed, Terminating].into_iter().zip(expected) {
            let mut world = world_in(phase);
            happens(&mut world);
            assert_eq!(world.settle(), expected, "{what} in {phase}");
        }
    }
}

#[test]
fn what_has_ended_does_not_run_again_and_what_has_not_does() {
    let mut world = World::new(&diamond());
    world.settle();
    world.becomes("a", JobPhase::Running);
    world.jobs.remove("f-a");
    assert_eq!(world.settle(), "f-a Pending", "somebody deleted a job that was running");
    world.becomes("a", JobPhase::Completed);
    world.jobs.remove("f-a");
    assert_eq!(world.settle(), "Running", "it is remembered");
    assert_eq!(world.becomes("b", JobPhase::Failed), "Running");
    world.jobs.remove("f-b");
    assert_eq!(world.settle(), "Running");
    assert_eq!(world.becomes("c", JobPhase::Completed), "Failed");
}

#[test]
fn the_end_of_a_job_is_awaited_until_it_is_written_down() {
    let mut world = World::new(&diamond());
    world.settle();
    assert!(world.flow.awaits_end("f-a") && !world.flow.awaits_end("f-x"), "only its own jobs");
    world.becomes("a", JobPhase::Completed);
    assert!(!world.flow.awaits_end("f-a") && world.flow.awaits_end("f-b"));
    world.flow.spec.flows.retain(|one| one.name != "b");
    assert!(!world.flow.awaits_end("f-b"), "it would not be made again");
}

#[test]
fn jobs_of_a_flow_that_succeeded_are_deleted_if_it_says_so() {
    let mut world = World::new(&json!({"flows": [{"name": "a"}, step("b", &["a"])], "jobRetainPolicy": "delete"}));
    world.settle();
    assert_eq!(world.becomes("a", JobPhase::Completed), "f-b Running");
    assert_eq!(world.jobs.len(), 2, "not before the end");
    assert_eq!(world.becomes("b", JobPhase::Completed), "Succeed");
    assert!(world.jobs.is_empty());
    assert_eq!(world.status().completed_jobs, ["f-a", "f-b"]);
    let mut failed = World::new(&json!({"flows": [{"name": "a"}], "jobRetainPolicy": "delete"}));
    failed.settle();
    assert_eq!(failed.becomes("a", JobPhase::Failed), "Failed");
    assert_eq!(failed.jobs.len(), 1, "what failed is kept");
}

#[test]
fn a_template_counts_as_it_is_when_its_job_is_made() {
    let mut world = World::new(&json!({"flows": [{"name": "a"}, step("b", &["a"])]}));
    world.templates.remove("b");
    world.settle();
    let mut other = JobTemplate::clone(&template("a"));
    other.spec.queue = "later".to_owned();
    world.templates.insert("a".to_owned(), Arc::new(other));
    assert_eq!(world.settle(), "Pending");
    assert_eq!(world.jobs["f-a"].spec.queue, "team", "a job that was made stays as it is");
    assert_eq!(world.becomes("a", JobPhase::Completed), "Running");
    assert_eq!(world.status().state.message, "there is no JobTemplate `b`");
    world.templates.insert("b".to_owned(), template("b"));
    assert_eq!(world.settle(), "f-b Running");
    assert_eq!(world.status().state.message, "");
}

#[test]
fn a_flow_that_is_deleted_starts_nothing() {
    let mut world = World::new(&diamond());
    world.settle();
    world.delete();
    assert_eq!(world.becomes("a", JobPhase::Completed), "Terminating");
}

#[test]
fn a_suspended_flow_starts_nothing_and_follows_what_runs() {
    let mut world = World::new(&diamond());
    assert_eq!(world.suspend(true), "Pending", "not even the first");
    assert_eq!(world.status().state.message, "no job starts until the flow is resumed");
    assert_eq!(world.suspend(false), "f-a Pending");
    world.becomes("a", JobPhase::Running);
    assert_eq!(world.suspend(true), "Running", "a job that runs goes on");
    assert_eq!(world.becomes("a", JobPhase::Completed), "Running", "and those after it wait");
    assert_eq!(world.status().completed_jobs, ["f-a"]);
    assert_eq!(world.suspend(false), "f-b,f-c Running");
    world.becomes("b", JobPhase::Failed);
    assert_eq!(world.suspend(true), "Running");
    let message = "no job starts until the flow is resumed; failed: `f-b`";
    assert_eq!((&*world.status().state.reason, &*world.status().state.message), ("Suspended", message));
    assert_eq!(world.becomes("c", JobPhase::Completed), "Failed", "it ends although it is suspended");
    assert_eq!(world.status().state.reason, "JobFailed");
    let told: Vec<&str> = world.events.iter().filter_map(|event| event.split(':').next()).collect();
    let expected = ["Suspended", "Resumed", "Suspended", "Resumed", "JobFailed", "Suspended", "Resumed", "JobFailed"];
    assert_eq!(told, expected, "{:?}", world.events);
}

#[test]
fn a_suspended_flow_asks_nobody() {
    let mut world = probing(&json!({"tcpSocketList": [{"port": 22}]}));
    world.becomes("a", JobPhase::Running);
    world.pods.insert("f-a".to_owned(), vec![pod(Some("10.0.0.1")), pod(Some("10.0.0.2"))]);
    assert_eq!(questions(&world.seen()).len(), 2);
    world.suspend(true);
    assert!(questions(&world.seen()).is_empty());
}

#[test]
fn a_flow_that_is_wrong_starts_nothing_and_says_why() {
    let mut world = World::new(&json!({"flows": [step("a", &["b"]), step("b", &["a"])]}));
    assert_eq!(world.settle(), "Pending");
    assert_eq!(world.status().state.reason, "InvalidJobFlow");
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    world.flow.spec.flows[0].depends_on = None;
    assert_eq!(world.settle(), "f-a Pending", "it goes on when it is mended");
}

#[test]
fn a_refusal_and_a_patch_that_does_not_fit_are_told() {
    let mut world = World::new(&json!({"flows": [{"name": "a", "patch": {"jobSpec": {"minAvailable": "x"}}}]}));
    assert_eq!(world.settle(), "Pending");
    assert!(world.status().state.message.starts_with("job `f-a`: the patch does not fit: "));
    world.refusal = Some("exceeded quota".to_owned());
    world.settle();
    assert_eq!(world.status().state.message, "exceeded quota");
}

fn probing(probe: &Value) -> World {
    let flows = json!([{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]);
    let mut world = World::new(&json!({"flows": flows}));
    world.settle();
    world
}

fn pod(address: Option<&str>) -> ProbedPod {
    ProbedPod { task: "w".to_owned(), address: address.map(|address| address.parse().expect("an address")) }
}

#[test]
fn a_probe_lets_a_job_start_while_its_target_runs() {
    let probe = json!({"httpGetList": [{"taskName": "w", "port": 80, "path": "/ok"}], "tcpSocketList": [{"port": 22}]});
    let mut world = probing(&probe);
    assert_eq!(world.becomes("a", JobPhase::Running), "Running", "there are no pods to ask");
    world.pods.insert("f-a".to_owned(), vec![pod(Some("10.0.0.1"))]);
    world.answered = questions(&world.seen());
    assert_eq!(world.settle(), "Running", "the second pod is not there");
    world.pods.insert("f-a".to_owned(), vec![pod(Some("10.0.0.1")), pod(None)]);
    assert_eq!(world.settle(), "Running", "it has no address");
    world.pods.insert("f-a".to_owned(), vec![pod(Some("10.0.0.1")), pod(Some("10.0.0.2"))]);
    let asked = questions(&world.seen());
    assert_eq!(asked.len(), 4, "two pods, two ports");
    world.answered = asked.iter().skip(1).cloned().collect();
    assert_eq!(world.settle(), "Running", "one did not answer");
    world.answered = asked;
    assert_eq!(world.settle(), "f-b Running");
    assert!(questions(&world.seen()).is_empty(), "who has started asks no more");
}

#[test]
fn a_target_that_is_complete_needs_no_probe_and_one_that_failed_passes_none() {
    let probe = json!({"tcpSocketList": [{"port": 22}]});
    assert_eq!(probing(&probe).becomes("a", JobPhase::Completed), "f-b Running");
    assert_eq!(probing(&probe).becomes("a", JobPhase::Failed), "Failed");
}

#[test]
fn a_probe_of_task_status_counts_pods() {
    let rows: [(&str, Value, bool); 5] = [
        ("Running", json!({"Running": 1}), false),
        ("Running", json!({"Running": 2}), true),
        ("Running", json!({"Running": 1, "Succeeded": 1}), true),
        ("Succeeded", json!({"Running": 1, "Succeeded": 1}), false),
        ("Succeeded", json!({"Succeeded": 2}), true),
    ];
    for (phase, counts, starts) in rows {
        let mut world = probing(&json!({"taskStatusList": [{"taskName": "w", "phase": phase}]}));
        let mut job = Job::clone(&world.jobs["f-a"]);
        let status = json!({"state": {"phase": "Running"}, "taskStatusCount": {"w": {"phase": counts}}});
        job.status = serde_json::from_value(status).expect("a status");
        world.jobs.insert("f-a".to_owned(), Arc::new(job));
        assert_eq!(world.settle().contains("f-b"), starts, "{phase} {counts}");
    }
    let mut world = probing(&json!({"taskStatusList": [{"taskName": "nobody", "phase": "Running"}]}));
    assert_eq!(world.becomes("a", JobPhase::Running), "Running", "a probe of no task of the target says nothing");
    assert_eq!(world.becomes("a", JobPhase::Completed), "f-b Running");
}

#[test]
fn a_job_that_restarts_for_ever_does_not_fill_the_status() {
    let mut world = World::new(&diamond());
    world.settle();
    for _ in 0..20 {
        world.becomes("a", JobPhase::Running);
        world.becomes("a", JobPhase::Restarting);
    }
    let histories = &world.status().job_status_list[0].running_histories;
    assert_eq!((histories.len(), histories[4].state), (5, Some(JobPhase::Restarting)));
}
