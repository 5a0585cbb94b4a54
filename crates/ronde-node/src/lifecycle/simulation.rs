//! Random lives of pods on a tiny simulated machine, with the properties that must hold in each of them.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use proptest::prelude::*;

use super::{
    Action, Ailment, ContainerSeen, Decision, Exit, HookState, Run, RunState, Sandbox, crashes_after,
    fixtures::{World, pod},
};

/// Rounds of decide and act until nothing is left to do: every container may start, stop and start again.
const ROUNDS_MAX: usize = 40;

/// What happens to the pod from outside. Containers are named by a number that is taken modulo their count.
#[derive(Debug, Clone)]
enum Fate {
    Wait(i64),
    Exit(usize, i32),
    Ail(usize),
    Start(usize),
    FailHook(usize),
    /// The next start of a container fails before it begins.
    Block(usize),
    LoseSandbox,
    FailSandbox,
    /// The records on disk are gone; what was published remains.
    Forget,
    Delete(i64),
}

/// A kind of pod.
#[derive(Debug, Clone)]
struct Shape {
    policy: &'static str,
    /// The init containers, and whether each is a sidecar.
    sidecars: Vec<bool>,
    mains: usize,
    deadline: Option<i64>,
}

struct Machine {
    world: World,
    begun: BTreeSet<(String, u32)>,
    blocked: Option<String>,
    sandbox_fails: bool,
    released: bool,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        4 => (1_i64..400).prop_map(Fate::Wait),
        6 => (0_usize..6, prop_oneof![Just(0), Just(1), Just(137)]).prop_map(|(index, code)| Fate::Exit(index, code)),
        2 => (0_usize..6).prop_map(Fate::Ail),
        4 => (0_usize..6).prop_map(Fate::Start),
        1 => (0_usize..6).prop_map(Fate::FailHook),
        1 => (0_usize..6).prop_map(Fate::Block),
        1 => Just(Fate::LoseSandbox),
        1 => Just(Fate::FailSandbox),
        1 => Just(Fate::Forget),
        1 => (0_i64..60).prop_map(Fate::Delete),
    ];
    proptest::collection::vec(fate, 1..30)
}

fn shapes() -> impl Strategy<Value = Shape> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let inits = proptest::collection::vec(any::<bool>(), 0..3);
    let parts = (policy, inits, 1_usize..3, proptest::option::of(50_i64..2000));
    parts.prop_map(|(policy, sidecars, mains, deadline)| Shape { policy, sidecars, mains, deadline })
}

impl Shape {
    fn build(&self) -> World {
        let mut world = pod("p").restart(self.policy).sandbox(Sandbox::Absent);
        for (index, is_sidecar) in self.sidecars.iter().enumerate() {
            let name = format!("i{index}");
            world = if *is_sidecar { world.sidecar(&name) } else { world.init(&name) };
        }
        for index in 0..self.mains {
            world = world.container(&format!("m{index}"));
        }
        world.spec().active_deadline_seconds = self.deadline;
        world
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn every_life_keeps_the_rules_and_ends(shape in shapes(), fates in fates()) {
        let world = shape.build();
        let mut machine = Machine { world, begun: BTreeSet::new(), blocked: None, sandbox_fails: false, released: false };
        machine.settle();
        for fate in fates {
            machine.suffer(fate);
            machine.settle();
        }
        machine.suffer(Fate::Delete(30));
        // Stop, kill, tear down; the main containers and up to two sidecars one after the other.
        for _ in 0..5 {
            machine.settle();
            machine.suffer(Fate::Wait(31));
        }
        machine.settle();
        prop_assert!(machine.released, "not released: {}", machine.world.shown());
    }
}

impl Machine {
    fn suffer(&mut self, fate: Fate) {
        match fate {
            Fate::Wait(seconds) => self.wait(seconds),
            Fate::Exit(index, code) => self.on_running(index, |machine, name| machine.exit(name, code)),
            Fate::Ail(index) => self.change(index, |seen| seen.unhealthy = Some(Ailment::Liveness)),
            Fate::Start(index) => self.change(index, |seen| {
                (seen.started, seen.ready, seen.post_start) = (true, true, HookState::Done);
            }),
            Fate::FailHook(index) => self.change(index, |seen| seen.post_start = HookState::Failed),
            Fate::Block(index) => self.blocked = Some(self.name(index)),
            Fate::LoseSandbox if matches!(self.world.sandbox, Sandbox::Ready { .. }) => {
                self.world.sandbox = Sandbox::Lost { at: self.world.now };
            }
            Fate::LoseSandbox => {}
            Fate::FailSandbox => self.sandbox_fails = true,
            Fate::Forget => {
                self.world.containers.clear();
                self.world.sandbox = Sandbox::Absent;
            }
            Fate::Delete(grace) => self.delete(grace),
        }
    }

    /// Decides and acts until nothing is left to do, and checks every decision.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let decision = self.world.decide();
            self.check_status(&decision.status);
            self.world.pod.status = Some(decision.status.clone());
            self.check_published(&decision);
            if decision.actions.is_empty() && self.world.decide().actions.is_empty() {
                return self.check_rest(&decision);
            }
            for action in decision.actions {
                self.act(action);
            }
        }
        panic!("does not settle: {}", self.world.shown());
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::EnsureSandbox => self.make_sandbox(),
            Action::Start { container, attempt } => self.start(&container, attempt),
            Action::Stop { container, deadline, .. } => {
                let seen = self.world.containers.get_mut(&container).expect("a stopped container is known");
                assert!(matches!(seen.state, RunState::Running(_)), "only what runs is stopped");
                assert!(seen.stopping.is_none_or(|ordered| deadline < ordered), "stopped again only if earlier");
                seen.stopping = Some(deadline);
            }
            Action::TearDown => {
                assert!(self.running().is_empty(), "nothing runs at the end");
                self.world.sandbox = Sandbox::Absent;
            }
            Action::Release => {
                assert!(self.world.pod.metadata.deletion_timestamp.is_some(), "only what is deleted is released");
                assert!(is_terminal(self.world.status()), "the end is published before");
                assert_eq!(self.world.sandbox, Sandbox::Absent);
                self.released = true;
                // The object is gone; there is nothing left to decide.
                self.world.pod.metadata.deletion_timestamp = None;
            }
        }
    }

    fn make_sandbox(&mut self) {
        let now = self.world.now;
        if std::mem::take(&mut self.sandbox_fails) {
            self.world.sandbox = Sandbox::Failed { message: "no".to_owned(), at: now, tries: 1 };
            return;
        }
        for seen in self.world.containers.values_mut() {
            if let RunState::Running(run) = &seen.state {
                seen.state = RunState::Exited(Exit::lost(run, now));
            }
            seen.current = false;
        }
        self.world.sandbox = Sandbox::Ready { ip: None };
    }

    fn start(&mut self, name: &str, attempt: u32) {
        self.check_start(name, attempt);
        let now = self.world.now;
        let before = self.world.containers.remove(name);
        let previous = before.as_ref().and_then(|before| match &before.state {
            RunState::Exited(exit) => Some(exit.clone()),
            _ => before.previous.clone(),
        });
        let crashes = before.as_ref().map_or(0, |before| before.crashes);
        let state = if self.blocked.as_deref() == Some(name) {
            self.blocked = None;
            let (reason, message) = ("CreateContainerConfigError".to_owned(), "no".to_owned());
            RunState::Blocked { reason, message, until: super::blocked_until(now) }
        } else {
            assert!(self.begun.insert((name.to_owned(), attempt)), "{name}#{attempt} begins twice");
            RunState::Running(Run { container_id: format!("{name}-{attempt}"), started_at: now })
        };
        let seen = ContainerSeen {
            attempt,
            current: true,
            state,
            previous,
            crashes,
            post_start: HookState::Pending,
            stopping: None,
            started: false,
            ready: false,
            unhealthy: None,
            image_id: None,
        };
        self.world.containers.insert(name.to_owned(), seen);
    }

    fn check_start(&mut self, name: &str, attempt: u32) {
        assert!(matches!(self.world.sandbox, Sandbox::Ready { .. }), "{name} starts outside a sandbox");
        assert!(self.world.pod.metadata.deletion_timestamp.is_none(), "{name} starts in a deleted pod");
        assert!(!is_terminal(self.world.status()), "{name} starts in a finished pod");
        let spec = self.world.spec().clone();
        let inits = spec.init_containers.unwrap_or_default();
        let is_sidecar = |name: &str| inits.iter().any(|init| init.name == name && init.restart_policy.is_some());
        if spec.restart_policy.as_deref() == Some("Never") && !is_sidecar(name) {
            assert_eq!(attempt, 0, "{name} runs once");
        }
        let current = |name: &str| self.world.containers.get(name).filter(|seen| seen.current);
        let has_begun = |name: &str| current(name).is_some_and(|seen| !matches!(seen.state, RunState::Blocked { .. }));
        if spec.containers.iter().any(|main| has_begun(&main.name)) {
            assert!(
                is_sidecar(name) || spec.containers.iter().any(|main| main.name == name),
                "{name} runs out of order"
            );
            return;
        }
        for init in inits.iter().take_while(|init| init.name != name) {
            let is_done = current(&init.name).is_some_and(|seen| match &seen.state {
                RunState::Exited(exit) => exit.code == 0 && !is_sidecar(&init.name),
                RunState::Running(_) => is_sidecar(&init.name) && seen.started,
                RunState::Blocked { .. } => false,
            });
            assert!(is_done, "{name} starts before {} is done", init.name);
        }
    }

    fn check_status(&mut self, status: &PodStatus) {
        let rank = |status: &PodStatus| match status.phase.as_deref() {
            Some("Running") => 1,
            Some("Succeeded" | "Failed") => 2,
            _ => 0,
        };
        let old = self.world.status().clone();
        assert!(rank(status) >= rank(&old), "phase goes back from {:?} to {:?}", old.phase, status.phase);
        assert!(rank(&old) < 2 || old.phase == status.phase, "the end changes");
        assert!(rank(status) < 2 || rank(&old) == 2 || self.running().is_empty(), "ends while a container runs");
        self.check_transitions(&old, status);
    }

    /// What the API server refuses: a container that ended for good runs again.
    fn check_transitions(&mut self, old: &PodStatus, new: &PodStatus) {
        let policy = self.world.spec().restart_policy.clone().unwrap_or_default();
        let sidecars: Vec<String> = self
            .world
            .spec()
            .init_containers
            .iter()
            .flatten()
            .filter(|init| init.restart_policy.is_some())
            .map(|init| init.name.clone())
            .collect();
        let code = |status: &ContainerStatus| status.state.as_ref()?.terminated.as_ref().map(|ended| ended.exit_code);
        let all = |status: &PodStatus| -> Vec<ContainerStatus> {
            status.init_container_statuses.iter().chain(&status.container_statuses).flatten().cloned().collect()
        };
        for before in all(old).iter().filter(|before| !sidecars.contains(&before.name)) {
            let Some(ended) = code(before) else { continue };
            let is_final = policy == "Never" || (policy == "OnFailure" && ended == 0);
            let now = all(new).into_iter().find(|now| now.name == before.name).expect("a status stays");
            assert!(!is_final || code(&now).is_some(), "{} ended for good and runs again", before.name);
        }
    }

    /// Deciding on what was just published changes nothing, but that the object may go.
    fn check_published(&self, decision: &Decision) {
        let again = self.world.decide();
        assert_eq!(again.status, decision.status);
        let actions: Vec<_> = again.actions.into_iter().filter(|action| *action != Action::Release).collect();
        let before: Vec<_> = decision.actions.iter().filter(|action| **action != Action::Release).cloned().collect();
        assert_eq!(actions, before);
    }

    /// Nothing is left to do: neither asking again, nor the API, nor time until it wants to be woken changes that.
    fn check_rest(&self, decision: &Decision) {
        assert_eq!(self.world.decide(), self.world.decide(), "the same again");
        let stored = serde_json::to_value(&decision.status).expect("a status is JSON");
        let read: PodStatus = serde_json::from_value(stored).expect("a status is read");
        assert_eq!(read, decision.status, "the API keeps it as it is");
        let later = match decision.wake_at {
            Some(at) => {
                assert!(at > self.world.now, "wakes in the past");
                at.checked_sub(SignedDuration::from_nanos(1)).expect("in range")
            }
            None => self.world.now.checked_add(SignedDuration::from_hours(9)).expect("in range"),
        };
        let slept = World { now: later, ..self.world.clone() }.decide();
        assert_eq!((slept.actions, slept.status), (Vec::new(), decision.status.clone()), "slept until {later}");
    }

    fn wait(&mut self, seconds: i64) {
        self.world.now = self.world.now.checked_add(SignedDuration::from_secs(seconds)).expect("in range");
        for name in self.running() {
            let stopping = self.world.containers.get(&name).and_then(|seen| seen.stopping);
            if stopping.is_some_and(|at| at <= self.world.now) {
                self.exit(&name, 137);
            }
        }
    }

    fn exit(&mut self, name: &str, code: i32) {
        let now = self.world.now;
        let Some(seen) = self.world.containers.get_mut(name) else { return };
        let RunState::Running(run) = &seen.state else { return };
        let exit = Exit {
            container_id: run.container_id.clone(),
            code,
            reason: "Error".to_owned(),
            message: None,
            started_at: Some(run.started_at),
            finished_at: now,
        };
        seen.crashes = crashes_after(seen.crashes, &exit);
        seen.state = RunState::Exited(exit);
    }

    fn delete(&mut self, grace: i64) {
        let meta = &self.world.pod.metadata;
        if meta.deletion_timestamp.is_none() && !self.released {
            let seconds = self.world.now.as_second() - super::fixtures::second(0).as_second();
            self.world = self.world.clone().deleted_until(seconds + grace);
        }
    }

    fn running(&self) -> Vec<String> {
        let runs = |seen: &ContainerSeen| seen.current && matches!(seen.state, RunState::Running(_));
        let is_there = matches!(self.world.sandbox, Sandbox::Ready { .. });
        let running = self.world.containers.iter().filter(|(_, seen)| is_there && runs(seen));
        running.map(|(name, _)| name.clone()).collect()
    }

    fn name(&mut self, index: usize) -> String {
        let spec = self.world.spec();
        let names: Vec<_> =
            spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| c.name.clone()).collect();
        names[index % names.len()].clone()
    }

    fn on_running(&mut self, index: usize, act: impl FnOnce(&mut Self, &str)) {
        let running = self.running();
        if !running.is_empty() {
            act(self, &running[index % running.len()]);
        }
    }

    fn change(&mut self, index: usize, act: impl FnOnce(&mut ContainerSeen)) {
        self.on_running(index, |machine, name| {
            if let Some(seen) = machine.world.containers.get_mut(name) {
                act(seen);
            }
        });
    }
}

fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}
