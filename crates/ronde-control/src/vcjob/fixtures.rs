//! A world of one job for tests: it does what is planned, and scripts tell what happens to its pods.
//!
//! A script is words: `admit`, `run`, `ok:w-0`, `fail:w-0=3`, `evict:w-0`, `preempt:w-0=hi`, `gone`, `cmd:AbortJob`, `wait:60`
//! and so on, see [`World::happen`].
//! Pods are named without the job. After each word the controller looks until there is nothing left to do.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::ResourceExt as _;
use ronde_api::{Command, Job, JobSpec, JobStatus, PodGroup, PodGroupPhase, PodGroupStatus};
use ronde_runtime::pods::disruption;
use ronde_runtime::pods::{is_deleted, phase};
use ronde_sim::pods::at;
use serde_json::{Value, json};

use super::{
    apply::receipt,
    decide::decide,
    member::{Member, TRACKING},
    observed::Observed,
    plan::{Objects, VcJobPlan},
    plugins::Plugins,
};
use crate::reconcile::{GroupChange, JobEvent, Step};

const JOB: &str = "j";
/// More looks than any script needs.
const LOOKS_MAX: usize = 50;
const GRACE_SECONDS: i64 = 30;

/// One write of the controller.
type Write<'a> = Box<dyn FnOnce(&mut World) + 'a>;

/// A job and what is there of it.
#[derive(Clone)]
pub struct World {
    pub job: Job,
    pub pods: BTreeMap<String, Pod>,
    pub group: Option<PodGroup>,
    pub commands: Vec<Command>,
    pub claims: Vec<String>,
    pub faults: Vec<String>,
    pub refusal: Option<String>,
    pub seconds: i64,
    /// Whether the queue lets groups in by itself.
    pub admits: bool,
    pub events: Vec<JobEvent>,
    /// All phases, one after the other.
    pub phases: Vec<String>,
    /// What the process knows of the objects of plugins; lost when it is killed.
    in_place: Option<String>,
    /// When it last wrote the status of the job, as far as it knows.
    pub told: Option<Timestamp>,
    made: usize,
}

/// Returns a task of a job that is written as JSON.
pub fn task(name: &str, replicas: i32, more: Value) -> Value {
    let mut task = json!({
        "name": name, "replicas": replicas, "maxRetry": 3,
        "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}},
    });
    merge(&mut task, more);
    task
}

fn merge(into: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        more.into_iter().for_each(|(key, value)| into[key] = value);
    }
}

impl World {
    /// Makes a world with a new job.
    pub fn new(spec: Value) -> Self {
        let mut spec: JobSpec = serde_json::from_value(spec).expect("a spec");
        if spec.min_available == 0 {
            spec.min_available = spec.tasks.iter().map(ronde_api::TaskSpec::min_available).sum();
        }
        let metadata = ObjectMeta {
            name: Some(JOB.to_owned()),
            namespace: Some("ns".to_owned()),
            uid: Some("u".to_owned()),
            generation: Some(1),
            creation_timestamp: Some(Time(at(0))),
            ..ObjectMeta::default()
        };
        Self {
            job: Job { metadata, spec, status: None },
            pods: BTreeMap::new(),
            group: None,
            commands: Vec::new(),
            claims: Vec::new(),
            faults: Vec::new(),
            refusal: None,
            seconds: 0,
            admits: true,
            events: Vec::new(),
            phases: Vec::new(),
            in_place: None,
            told: None,
            made: 0,
        }
    }

    pub fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    pub fn observe(&self) -> Observed<'_> {
        Observed {
            job: &self.job,
            members: self.pods.values().cloned().map(Arc::new).map(Member::of_pod).collect(),
            group: self.group.clone().map(Arc::new),
            commands: self.commands.iter().cloned().map(Arc::new).collect(),
            claims: self.claims.iter().cloned().collect(),
            priorities: BTreeMap::from([("high".to_owned(), 1000)]),
            faults: self.faults.clone(),
            refusal: self.refusal.clone(),
            has_lost_objects: false,
            in_place: self.in_place.clone(),
            told: self.told,
            is_forwarded: false,
        }
    }

    /// Writes statuses until there is a plan.
    pub fn look(&mut self) -> VcJobPlan {
        for _ in 0..LOOKS_MAX {
            match decide(&self.observe(), at(self.seconds)) {
                Step::Apply(plan) => return *plan,
                Step::Write { status, events } => self.record(*status, events),
            }
        }
        panic!("the status never stands still: {:?}", self.status());
    }

    /// Takes one decision; returns a plan only if nothing had to be written down.
    pub fn step(&mut self) -> Option<VcJobPlan> {
        match decide(&self.observe(), at(self.seconds)) {
            Step::Apply(plan) => Some(*plan),
            Step::Write { status, events } => {
                self.record(*status, events);
                None
            }
        }
    }

    fn record(&mut self, status: JobStatus, events: Vec<JobEvent>) {
        let phase = status.state.phase.expect("a phase").to_string();
        if self.phases.last() != Some(&phase) {
            self.phases.push(phase);
        }
        self.job.status = Some(status);
        self.events.extend(events);
    }

    /// Looks and does what is planned until there is nothing left to do.
    pub fn work(&mut self) {
        for _ in 0..LOOKS_MAX {
            let plan = self.look();
            if self.carry_out(&plan, usize::MAX) == 0 {
                return;
            }
        }
        panic!("there is always something to do: {:?}", self.look());
    }

    /// Does at most this many of the writes that are planned, in the controller's order; returns how many.
    pub fn carry_out(&mut self, plan: &VcJobPlan, most: usize) -> usize {
        let mut writes: Vec<Write<'_>> = Vec::new();
        for command in &plan.forget {
            writes.push(Box::new(|world| world.commands.retain(|other| other.uid() != command.uid())));
        }
        for pod in &plan.release {
            writes.push(Box::new(|world| world.release(&pod.name_any())));
        }
        for pod in &plan.kill {
            writes.push(Box::new(|world| world.delete(&pod.name_any())));
        }
        match &plan.group {
            GroupChange::Leave => {}
            GroupChange::Delete(_) => writes.push(Box::new(|world| world.group = None)),
            GroupChange::Recreate(_, group) => {
                writes.push(Box::new(|world| world.group = None));
                writes.push(Box::new(|world| world.put_group(PodGroup::clone(group))));
            }
            GroupChange::Create(group) | GroupChange::Replace(group) => {
                writes.push(Box::new(|world| world.put_group(PodGroup::clone(group))));
            }
        }
        for claim in &plan.claims {
            writes.push(Box::new(|world| world.claims.push(claim.name_any())));
        }
        if plan.objects == Objects::Ensure {
            writes.push(Box::new(|world| world.in_place = Some(Plugins::of_job(&world.job).fingerprint())));
        }
        for pod in &plan.create {
            writes.push(Box::new(|world| world.create(pod.clone())));
        }
        if let Some(receipt) = receipt(&self.job, plan.objects) {
            writes.push(Box::new(move |world| world.job.status = Some(receipt)));
        }
        let done = writes.len().min(most);
        writes.into_iter().take(most).for_each(|write| write(self));
        done
    }

    fn put_group(&mut self, mut group: PodGroup) {
        if self.admits && group.phase().is_none() {
            group.status = Some(PodGroupStatus { phase: Some(PodGroupPhase::Inqueue), ..PodGroupStatus::default() });
        }
        self.group = Some(group);
    }

    /// The process is killed: what it has not written down it does not know any more.
    pub fn kill(&mut self) {
        self.in_place = None;
    }

    fn create(&mut self, mut pod: Pod) {
        let plugins = Plugins::of_job(&self.job);
        let is_wired = plugins.objects().is_empty() || self.in_place == Some(plugins.fingerprint());
        assert!(is_wired, "a pod is made before what it needs");
        self.made += 1;
        pod.metadata.uid = Some(format!("p{}", self.made));
        pod.metadata.creation_timestamp = Some(Time(at(self.seconds)));
        pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
        let before = self.pods.insert(pod.name_any(), pod);
        assert!(before.is_none(), "a name is taken");
    }

    fn release(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).expect("a pod that is let go");
        pod.finalizers_mut().retain(|finalizer| finalizer != TRACKING);
    }

    /// Asks for a pod to be deleted; it goes with the next `gone`.
    pub fn delete(&mut self, name: &str) {
        let seconds = self.seconds;
        let Some(pod) = self.pods.get_mut(name).filter(|pod| !is_deleted(pod)) else { return };
        pod.metadata.deletion_timestamp = Some(Time(at(seconds + GRACE_SECONDS)));
        pod.metadata.deletion_grace_period_seconds = Some(GRACE_SECONDS);
    }

    /// Marks a pod as one that is ended and has done nothing wrong.
    pub fn mark(&mut self, name: &str, reason: &str, message: &str) {
        let mark = PodCondition {
            type_: disruption::CONDITION.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(Time(at(self.seconds))),
            ..PodCondition::default()
        };
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("no pod {name}"));
        pod.status.get_or_insert_default().conditions.get_or_insert_default().push(mark);
    }

    /// Removes what is deleted and not waited for.
    pub fn remove_deleted(&mut self) {
        self.pods.retain(|_, pod| !is_deleted(pod) || !pod.finalizers().is_empty());
    }

    /// Puts a pod into a phase, its container with an exit code if it has ended.
    pub fn report(&mut self, name: &str, phase: &str, code: i32) {
        let ended = ContainerStateTerminated {
            exit_code: code,
            finished_at: Some(Time(at(self.seconds))),
            ..ContainerStateTerminated::default()
        };
        let terminated = matches!(phase, "Succeeded" | "Failed").then_some(ended);
        let container = ContainerStatus {
            name: "c".to_owned(),
            ready: phase == "Running",
            state: Some(ContainerState { terminated, ..ContainerState::default() }),
            ..ContainerStatus::default()
        };
        let status = PodStatus {
            phase: Some(phase.to_owned()),
            container_statuses: Some(vec![container]),
            ..PodStatus::default()
        };
        self.pods.get_mut(name).unwrap_or_else(|| panic!("no pod {name}")).status = Some(status);
    }

    fn restart_containers(&mut self, name: &str, times: i32) {
        let status = self.pods.get_mut(name).expect("a pod").status.as_mut().expect("a status");
        status.container_statuses.as_mut().expect("containers")[0].restart_count = times;
    }

    /// Lets every pod run that waits and is not deleted.
    pub fn run_all(&mut self) {
        let waiting: Vec<String> =
            self.pods.values().filter(|pod| phase(pod) == "Pending" && !is_deleted(pod)).map(Pod::name_any).collect();
        waiting.iter().for_each(|name| self.report(name, "Running", 0));
    }

    pub fn command(&mut self, action: &str) {
        self.made += 1;
        let name = format!("c{}", self.made);
        let target = OwnerReference {
            kind: "Job".to_owned(),
            name: JOB.to_owned(),
            uid: "u".to_owned(),
            ..OwnerReference::default()
        };
        let metadata = ObjectMeta { name: Some(name.clone()), uid: Some(name), ..ObjectMeta::default() };
        let command = Command { metadata, action: action.to_owned(), target: Some(target), ..Command::default() };
        self.commands.push(command);
    }

    fn group_phase(&mut self, phase: &str) {
        let group = self.group.as_mut().expect("a group");
        group.status.get_or_insert_default().phase = Some(phase.parse().expect("a phase"));
    }

    fn scale(&mut self, name: &str, replicas: i32) {
        let spec = &mut self.job.spec;
        let all_before: i32 = spec.tasks.iter().map(|task| task.replicas).sum();
        let task = spec.tasks.iter_mut().find(|task| task.name == name).expect("a task");
        let difference = replicas - task.replicas;
        task.replicas = replicas;
        if spec.min_available == all_before {
            spec.min_available += difference;
        }
        self.job.metadata.generation = self.job.metadata.generation.map(|generation| generation + 1);
    }

    /// Changes the image of a task.
    fn set_image(&mut self, name: &str, image: &str) {
        let task = self.job.spec.tasks.iter_mut().find(|task| task.name == name).expect("a task");
        let pod = task.template.spec.as_mut().expect("a pod");
        pod.containers[0].image = Some(image.to_owned());
        self.job.metadata.generation = self.job.metadata.generation.map(|generation| generation + 1);
    }

    /// Shows the images of pods: `w-0=x`.
    pub fn show_images(&self) -> String {
        let image = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default();
        let show = |pod: &Pod| format!("{}={}", pod.name_any().trim_start_matches("j-"), image(pod));
        self.pods.values().map(show).collect::<Vec<_>>().join(" ")
    }

    /// Lets one word of a script happen.
    pub fn happen(&mut self, word: &str) {
        let (verb, what) = word.split_once(':').unwrap_or((word, ""));
        let (what, value) = what.split_once('=').unwrap_or((what, "0"));
        let number: i32 = value.parse().unwrap_or(0);
        let pod = format!("{JOB}-{what}");
        match verb {
            "admit" => self.group_phase("Inqueue"),
            "run" if what.is_empty() => self.run_all(),
            "run" => self.report(&pod, "Running", 0),
            "ok" => self.report(&pod, "Succeeded", 0),
            "fail" => self.report(&pod, "Failed", number),
            "evict" => self.delete(&pod),
            "preempt" => {
                self.mark(&pod, disruption::BY_SCHEDULER, &format!("preempted by {value} (priority high)"));
                self.delete(&pod);
            }
            "pressure" => {
                self.report(&pod, "Failed", 137);
                self.mark(&pod, disruption::BY_NODE, "The node was low on resource: ephemeral-storage. ");
            }
            "gone" => self.remove_deleted(),
            "restarts" => self.restart_containers(&pod, number),
            "cmd" => self.command(what),
            "group" => self.group_phase(what),
            "image" => self.set_image(what, value),
            "scale" => self.scale(what, number),
            "wait" => self.seconds += what.parse::<i64>().expect("seconds"),
            "claim" => self.claims.push(what.to_owned()),
            other => panic!("unknown word {other}"),
        }
    }

    /// Plays a script; the controller looks after each word.
    pub fn play(&mut self, script: &str) {
        self.work();
        for word in script.split_whitespace() {
            self.happen(word);
            self.work();
        }
    }

    /// Shows the pods: name, state, version.
    pub fn show_pods(&self) -> String {
        let show = |pod: &Pod| {
            let member = Member::of_pod(Arc::new(pod.clone()));
            let name = member.name.trim_start_matches("j-");
            format!("{name}:{:?}@{}", member.state, member.version)
        };
        self.pods.values().map(show).collect::<Vec<_>>().join(" ")
    }

    /// Returns how long until the controller wants to look again.
    pub fn look_again(&mut self) -> Option<SignedDuration> {
        self.look().look_again
    }
}
