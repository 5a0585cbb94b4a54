//! A world of plain data for the tests: a job, its pods, a toy node, agents that leave when they are asked to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::ResourceExt as _;
use ronde_api::{
    ElasticMemory, PodGroup, PodGroupPhase, PodGroupStatus, ScaleIn, ScaleOut, TrainingJob, TrainingJobPhase,
    TrainingJobStatus, rules,
};
use ronde_runtime::pods::disruption;
use ronde_runtime::pods::is_finished;
use serde_json::{Value, json};

use super::{
    apply::receipt,
    decide::decide,
    observed::{Capacity, Member, Observed, Request, RequestObject, TRACKING},
    plan::{Create, Kill, TrainingJobPlan},
    pod::Wiring,
    status_builder::is_live,
};
use crate::reconcile::{GroupChange, Step};

const EPOCH: i64 = 1_800_000_000;
/// The grace of pods that say nothing about it.
const GRACE_SECONDS: u32 = 30;
/// More steps than any story needs.
const STEPS_MAX: usize = 200;

pub struct World {
    pub job: TrainingJob,
    pub pods: BTreeMap<String, Pod>,
    pub group: Option<PodGroup>,
    pub outs: BTreeMap<String, ScaleOut>,
    pub ins: BTreeMap<String, ScaleIn>,
    pub vanishing: BTreeMap<String, String>,
    pub launcher_vanishing: Option<String>,
    pub capacity: Capacity,
    pub refusal: Option<String>,
    pub seconds: i64,
    /// How many pods the node has room for.
    pub room: usize,
    pub hostfile: String,
    pub services: BTreeSet<String>,
    /// Every worker name that ever had a pod.
    pub made: Vec<String>,
    /// Workers that have been hosts.
    hosted: BTreeSet<String>,
    /// Whether agents leave when they are asked to.
    pub obedient: bool,
    /// Whether pods that are deleted end only when their grace is over.
    pub stubborn: bool,
    /// How many more writes the controller may do before it is killed.
    pub fuse: usize,
    pub events: Vec<String>,
    /// When the controller wants to look again by itself.
    pub look_again: Option<SignedDuration>,
}

pub fn spec(workers: Value) -> Value {
    let template = |command: Value| {
        let requests = json!({"requests": {"cpu": "1"}});
        json!({"spec": {"containers": [{"name": "et", "image": "i", "command": command, "resources": requests}]}})
    };
    let mut worker = json!({"template": template(json!([]))});
    if let Value::Object(workers) = workers {
        workers.into_iter().for_each(|(key, value)| worker[key] = value);
    }
    json!({"etReplicaSpecs": {"launcher": {"template": template(json!(["sh", "-c", "train"]))}, "worker": worker}})
}

impl World {
    /// Makes a world with a new job.
    pub fn new(spec: Value) -> Self {
        let metadata = ObjectMeta {
            name: Some("j".to_owned()),
            namespace: Some("ns".to_owned()),
            uid: Some("u".to_owned()),
            creation_timestamp: Some(Time(Timestamp::from_second(EPOCH).expect("a time"))),
            ..ObjectMeta::default()
        };
        let spec = serde_json::from_value(spec).expect("a spec");
        let mut job = TrainingJob { metadata, spec, status: None };
        rules::training_job::default(&mut job);
        Self {
            job,
            pods: BTreeMap::new(),
            group: None,
            outs: BTreeMap::new(),
            ins: BTreeMap::new(),
            vanishing: BTreeMap::new(),
            launcher_vanishing: None,
            capacity: Capacity::default(),
            refusal: None,
            seconds: 0,
            room: 100,
            hostfile: String::new(),
            services: BTreeSet::new(),
            made: Vec::new(),
            hosted: BTreeSet::new(),
            obedient: true,
            stubborn: false,
            fuse: usize::MAX,
            events: Vec::new(),
            look_again: None,
        }
    }

    /// Makes a world in which a job of so many workers runs.
    pub fn running(workers: Value) -> Self {
        let mut world = Self::new(spec(workers));
        world.live();
        // What it has done so far everybody knows.
        world.seconds += 3;
        assert_eq!(world.phase(), Some(TrainingJobPhase::Running), "{:?}", world.status());
        world
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_second(EPOCH + self.seconds).expect("a time")
    }

    pub fn status(&self) -> TrainingJobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    pub fn memory(&self) -> ElasticMemory {
        self.status().elastic
    }

    pub fn phase(&self) -> Option<TrainingJobPhase> {
        self.job.phase()
    }

    /// Returns the indexes in the list of hosts.
    pub fn hosts(&self) -> String {
        let index = |line: &str| line.trim_start_matches("j-worker-").split(':').next().map(str::to_owned);
        self.hostfile.lines().filter_map(index).collect::<Vec<_>>().join(" ")
    }

    pub fn annotate(&mut self, key: &str, value: Option<&str>) {
        let notes = self.job.metadata.annotations.get_or_insert_default();
        match value {
            Some(value) => drop(notes.insert(key.to_owned(), value.to_owned())),
            None => drop(notes.remove(key)),
        }
    }

    /// Asks for a number of workers as `kubectl scale` does.
    pub fn scale(&mut self, replicas: i32) {
        self.job.spec.et_replica_specs.worker.replicas = Some(replicas);
    }

    pub fn replicas(&self) -> i32 {
        self.job.spec.worker().replicas()
    }

    pub fn scale_out(&mut self, name: &str, count: i32, timeout: i32) {
        let spec = json!({"selector": {"name": "j"}, "toAdd": {"count": count}, "timeout": timeout});
        let object = json!({"metadata": self.meta_of(name), "spec": spec});
        self.outs.insert(name.to_owned(), serde_json::from_value(object).expect("a ScaleOut"));
    }

    pub fn scale_in(&mut self, name: &str, which: Value, timeout: i32) {
        let spec = json!({"selector": {"name": "j"}, "toDelete": which, "timeout": timeout});
        let object = json!({"metadata": self.meta_of(name), "spec": spec});
        self.ins.insert(name.to_owned(), serde_json::from_value(object).expect("a ScaleIn"));
    }

    fn meta_of(&self, name: &str) -> Value {
        json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "creationTimestamp": Time(self.now())})
    }

    /// Returns how a scale operation ended, and why.
    pub fn outcome(&self, name: &str) -> (String, String) {
        let out = self.outs.get(name).and_then(|it| it.status.clone());
        let status = out.or_else(|| self.ins.get(name)?.status.clone()).unwrap_or_default();
        let last = status.conditions.last().cloned().unwrap_or_default();
        (last.type_, last.message)
    }

    pub fn observe(&self) -> Observed<'_> {
        let members = self.pods.values().cloned().map(Arc::new).map(Member::of_pod);
        let (launchers, workers): (Vec<_>, Vec<_>) = members.partition(|member| member.name == "j-launcher");
        let outs = self.outs.values().cloned().map(Arc::new);
        let ins = self.ins.values().cloned().map(Arc::new);
        let outs = outs.map(|it| (it.creation_timestamp(), Request::of_out(it)));
        let mut requests: Vec<_> = outs.chain(ins.map(|it| (it.creation_timestamp(), Request::of_in(it)))).collect();
        requests.sort_by(|(a, x), (b, y)| (a, &x.name).cmp(&(b, &y.name)));
        Observed {
            job: &self.job,
            workers: workers.into_iter().map(|it| (it.name.clone(), it)).collect(),
            launcher: launchers.into_iter().next(),
            group: self.group.clone().map(Arc::new),
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            vanishing: self.vanishing.clone(),
            launcher_vanishing: self.launcher_vanishing.clone(),
            capacity: self.capacity.clone(),
            objects: None,
            refusal: self.refusal.clone(),
            faults: Vec::new(),
        }
    }

    /// Lets the controller look until it has nothing to do, or is killed.
    pub fn look(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.fuse == 0 {
                return;
            }
            let (seen, now) = (self.observe(), self.now());
            match decide(&seen, now) {
                Step::Write { status, events } => {
                    drop(seen);
                    let lines = events.iter().map(|it| format!("{}: {}", it.cause.reason, it.cause.message));
                    self.events.extend(lines);
                    if self.may_write() {
                        self.job.status = Some(*status);
                    }
                }
                Step::Apply(plan) => {
                    drop(seen);
                    self.look_again = plan.look_again;
                    if self.carry_out(&plan) == 0 {
                        return;
                    }
                }
            }
            self.check();
        }
        panic!("the controller finds no rest: {:?}", self.status());
    }

    fn may_write(&mut self) -> bool {
        let may = self.fuse > 0;
        self.fuse = self.fuse.saturating_sub(1);
        may
    }

    /// Does what a plan says, in the order of [`super::apply`]; returns how many writes there were.
    fn carry_out(&mut self, plan: &TrainingJobPlan) -> usize {
        let mut writes = 0;
        if let Some(launcher) = &plan.release {
            writes += 1;
            if self.may_write()
                && let Some(pod) = self.pods.get_mut(&launcher.name_any())
            {
                pod.finalizers_mut().retain(|finalizer| finalizer != TRACKING);
            }
        }
        for kill in &plan.kill {
            writes += 1;
            if self.may_write() {
                self.kill(kill);
            }
        }
        if plan.group != GroupChange::Leave {
            writes += 1;
            if self.may_write() {
                self.apply_group(&plan.group);
            }
        }
        if let Some(objects) = &plan.objects {
            // Each of them may be the last.
            if self.may_write() {
                self.hostfile.clone_from(&objects.files.hostfile);
                self.note_hosts();
            }
            if self.may_write() {
                self.services.clone_from(&objects.services);
            }
            if self.may_write() {
                self.job.status = Some(receipt(&self.job, objects, self.now()));
            }
            return writes + 3;
        }
        if let Some((launcher, note)) = &plan.note {
            writes += 1;
            if self.may_write()
                && let Some(pod) = self.pods.get_mut(&launcher.name_any())
            {
                pod.annotations_mut().insert("ronde.dev/hosts".to_owned(), note.clone());
            }
        }
        writes += self.create(&plan.create);
        for update in &plan.scalers {
            writes += 1;
            if self.may_write() {
                self.tell(&update.object, update.status.clone());
            }
        }
        writes + self.follow(plan.replicas)
    }

    /// Makes pods; returns how many there were to be made.
    fn create(&mut self, create: &Create) -> usize {
        let mut writes = 0;
        let (wiring, run) = (Wiring::default(), self.memory().run);
        let launcher = create.launcher.then(|| wiring.launcher(&self.job, run));
        let workers: Vec<Pod> = create.workers.iter().map(|name| wiring.worker(&self.job, name, run)).collect();
        for mut pod in launcher.into_iter().chain(workers) {
            writes += 1;
            if self.may_write() {
                pod.metadata.creation_timestamp = Some(Time(self.now()));
                assert!(
                    self.services.contains(&pod.name_any()) || pod.name_any() == "j-launcher",
                    "a name before a pod"
                );
                self.made.push(pod.name_any());
                self.hosted.remove(&pod.name_any());
                assert!(self.pods.insert(pod.name_any(), pod).is_none(), "the name was taken");
            }
        }
        writes
    }

    /// Writes the number of workers into the spec, if it is to be another; returns the number of writes.
    fn follow(&mut self, replicas: Option<i32>) -> usize {
        let Some(replicas) = replicas else { return 0 };
        if self.may_write() {
            self.scale(replicas);
        }
        1
    }

    fn kill(&mut self, kill: &Kill) {
        let grace = if self.stubborn { i64::from(kill.grace.unwrap_or(GRACE_SECONDS)) } else { 0 };
        let end = Timestamp::from_second(EPOCH + self.seconds + grace).expect("a time");
        if let Some(pod) = self.pods.get_mut(&kill.pod.name_any()) {
            pod.metadata.deletion_timestamp = Some(Time(end));
            pod.metadata.deletion_grace_period_seconds = Some(grace);
        }
    }

    fn apply_group(&mut self, plan: &GroupChange) {
        match plan {
            GroupChange::Leave => {}
            GroupChange::Create(group) | GroupChange::Replace(group) | GroupChange::Recreate(_, group) => {
                let mut group = (**group).clone();
                let phase = Some(PodGroupPhase::Inqueue);
                group.status = Some(PodGroupStatus { phase, ..PodGroupStatus::default() });
                self.group = Some(group);
            }
            GroupChange::Delete(_) => self.group = None,
        }
    }

    fn tell(&mut self, object: &RequestObject, status: Option<ronde_api::ScalerStatus>) {
        let owner = ronde_runtime::pods::controller_ref(&self.job);
        match object {
            RequestObject::Out(object) => {
                let object = self.outs.get_mut(&object.name_any()).expect("it is there");
                object.metadata.owner_references = Some(vec![owner]);
                object.status = status.or(object.status.take());
            }
            RequestObject::In(object) => {
                let object = self.ins.get_mut(&object.name_any()).expect("it is there");
                object.metadata.owner_references = Some(vec![owner]);
                object.status = status.or(object.status.take());
            }
        }
    }

    fn note_hosts(&mut self) {
        let names = self.hostfile.lines().filter_map(|line| line.split(':').next().map(str::to_owned));
        self.hosted.extend(names);
    }

    /// Lets the node do what it can: pods start while there is room, hosts that are none any more leave, deleted pods go.
    pub fn node(&mut self) {
        let now = self.now();
        let is_over = |pod: &Pod| pod.metadata.deletion_timestamp.as_ref().is_some_and(|time| time.0 <= now);
        self.pods.retain(|_, pod| !is_over(pod) || !pod.finalizers().is_empty());
        let hosts: BTreeSet<String> =
            self.hostfile.lines().filter_map(|line| line.split(':').next().map(str::to_owned)).collect();
        // The launcher has its place from the beginning.
        let runs = |(name, pod): &(&String, &Pod)| phase(pod) == "Running" || *name == "j-launcher";
        let mut used = self.pods.iter().filter(runs).count();
        let names: Vec<String> = self.pods.keys().cloned().collect();
        for name in names {
            let is_asked = self.hosted.contains(&name) && !hosts.contains(&name);
            let state = phase(&self.pods[&name]).to_owned();
            // The launcher waits for a list of hosts.
            let may_start = name != "j-launcher" || !hosts.is_empty();
            let is_launcher = name == "j-launcher";
            if state.is_empty() && (used < self.room || is_launcher) && may_start {
                self.set_phase(&name, "Running", None);
                used += usize::from(!is_launcher);
            } else if state == "Running" && is_asked && self.obedient {
                self.set_phase(&name, "Succeeded", Some(0));
            }
        }
    }

    pub fn set_phase(&mut self, name: &str, phase: &str, code: Option<i32>) {
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("there is no pod {name}"));
        let now = Time(Timestamp::from_second(EPOCH + self.seconds).expect("a time"));
        let state = code.map(|code| {
            json!([{"name": "et", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
            "state": {"terminated": {"exitCode": code, "finishedAt": now}}}])
        });
        pod.status = serde_json::from_value(json!({"phase": phase, "containerStatuses": state})).expect("a status");
        pod.spec.get_or_insert_default().node_name = Some("n1".to_owned());
    }

    /// Marks a pod as one that is ended and has done nothing wrong.
    pub fn mark(&mut self, name: &str, reason: &str, message: &str) {
        let mark = json!({
            "type": disruption::CONDITION, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": Time(self.now()),
        });
        let mark = serde_json::from_value(mark).expect("a condition");
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("there is no pod {name}"));
        pod.status.get_or_insert_default().conditions.get_or_insert_default().push(mark);
    }

    /// Lets somebody delete a pod, a second after whatever happened to it before.
    pub fn delete_now(&mut self, name: &str) {
        self.seconds += 1;
        let now = Time(self.now());
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("there is no pod {name}"));
        pod.metadata.deletion_timestamp = Some(now);
    }

    pub fn delete(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("there is no pod {name}"));
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    }

    /// Lets controller and node go on until both have nothing to do.
    pub fn live(&mut self) {
        for _ in 0..STEPS_MAX {
            let before = (self.job.clone(), self.pods.clone(), self.hostfile.clone());
            self.look();
            self.node();
            if before == (self.job.clone(), self.pods.clone(), self.hostfile.clone()) || self.fuse == 0 {
                return;
            }
        }
        panic!("the world finds no rest: {:?}", self.status());
    }

    pub fn pass(&mut self, seconds: i64) {
        self.seconds += seconds;
        self.live();
    }

    /// What must hold at any moment, also between two writes.
    fn check(&self) {
        let status = self.status();
        let running = |name: &str| self.pods.get(name).is_some_and(|pod| phase(pod) == "Running");
        for host in &status.current_workers {
            assert!(status.target_workers.contains(host), "{host} is a host and no member: {status:?}");
            assert!(running(host), "{host} is a host and does not run: {status:?}");
        }
        let mut workers: Vec<&String> = self.made.iter().filter(|name| *name != "j-launcher").collect();
        let made = workers.len();
        workers.sort();
        workers.dedup();
        let is_first_run = status.elastic.run <= 1;
        assert!(!is_first_run || workers.len() == made, "a name was used twice: {:?}", self.made);
        if status.phase.is_some_and(is_live) {
            let most = self.job.spec.worker().max_replicas();
            assert!(status.elastic.wanted <= most, "more than maxReplicas: {status:?}");
        }
    }

    /// Returns the worker pods that have not ended.
    pub fn workers(&self) -> Vec<&str> {
        let workers = self.pods.iter().filter(|(name, pod)| *name != "j-launcher" && !is_finished(pod));
        workers.map(|(name, _)| name.as_str()).collect()
    }
}

fn phase(pod: &Pod) -> &str {
    ronde_runtime::pods::phase(pod)
}
