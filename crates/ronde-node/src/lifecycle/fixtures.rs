//! Pods and machines for the tests: `pod("p").container("a").sees(running("a"))`.

use std::{collections::BTreeMap, fmt::Write, net::IpAddr};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod, PodReadinessGate, PodSpec, PodStatus, Probe},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    Action, Ailment, Cause, ContainerSeen, Decision, Exit, HookState, PodSeen, Run, RunState, Sandbox, decide,
};

/// A pod and the machine around it; times are seconds since the pod was seen first.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub pod: Pod,
    pub now: Timestamp,
    pub sandbox: Sandbox,
    pub containers: BTreeMap<String, ContainerSeen>,
    pub refused: Option<Cause>,
    pub evicted: Option<Cause>,
}

/// A container as it is seen.
#[derive(Debug, Clone)]
pub(super) struct Record(pub String, pub ContainerSeen);

pub(super) fn second(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("in range")
}

pub(super) fn pod(name: &str) -> World {
    let mut pod = Pod { spec: Some(PodSpec::default()), ..Pod::default() };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    pod.metadata.uid = Some("uid".to_owned());
    pod.metadata.generation = Some(1);
    World {
        pod,
        now: second(0),
        sandbox: Sandbox::Ready { ip: Some(IpAddr::from([10, 1, 0, 7])) },
        containers: BTreeMap::new(),
        refused: None,
        evicted: None,
    }
}

pub(super) fn running(name: &str) -> Record {
    let run = Run { container_id: format!("{name}-0"), started_at: second(0) };
    record(name, RunState::Running(run))
}

pub(super) fn exited(name: &str, code: i32, at: i64) -> Record {
    Record(name.to_owned(), ContainerSeen { crashes: 1, ..record(name, RunState::Exited(exit(name, code, at))).1 })
}

pub(super) fn blocked(name: &str, at: i64) -> Record {
    waiting(name, "CreateContainerConfigError", "configmap \"c\" not found", at)
}

pub(super) fn waiting(name: &str, reason: &str, message: &str, at: i64) -> Record {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    record(name, RunState::Blocked { reason, message, until: super::blocked_until(second(at)) })
}

fn exit(name: &str, code: i32, at: i64) -> Exit {
    let reason = if code == 0 { "Completed" } else { "Error" };
    Exit {
        container_id: format!("{name}-0"),
        code,
        reason: reason.to_owned(),
        message: None,
        started_at: Some(second(0)),
        finished_at: second(at),
    }
}

fn record(name: &str, state: RunState) -> Record {
    let seen = ContainerSeen {
        image_id: None,
        attempt: 0,
        current: true,
        state,
        previous: None,
        crashes: 0,
        post_start: HookState::Done,
        stopping: None,
        started: true,
        ready: true,
        unhealthy: None,
    };
    Record(name.to_owned(), seen)
}

impl Record {
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.1.attempt = attempt;
        self.1.previous = Some(exit(&self.0, 1, 0));
        match &mut self.1.state {
            RunState::Running(run) => run.container_id = format!("{}-{attempt}", self.0),
            RunState::Exited(exit) => exit.container_id = format!("{}-{attempt}", self.0),
            RunState::Blocked { .. } => {}
        }
        self
    }

    pub fn crashes(mut self, crashes: u32) -> Self {
        self.1.crashes = crashes;
        self
    }

    pub fn of_old_sandbox(mut self) -> Self {
        self.1.current = false;
        self
    }

    pub fn unready(mut self) -> Self {
        self.1.ready = false;
        self
    }

    pub fn unstarted(mut self) -> Self {
        self.1.started = false;
        self
    }

    pub fn ails(mut self, ailment: Ailment) -> Self {
        self.1.unhealthy = Some(ailment);
        self
    }

    pub fn hook(mut self, state: HookState) -> Self {
        self.1.post_start = state;
        self
    }

    pub fn stopping(mut self, at: i64) -> Self {
        self.1.stopping = Some(second(at));
        self
    }

    pub fn start_error(mut self, message: &str) -> Self {
        if let RunState::Exited(exit) = &mut self.1.state {
            exit.started_at = None;
            exit.reason = "StartError".to_owned();
            exit.message = Some(message.to_owned());
        }
        self
    }
}

impl World {
    pub fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.get_or_insert_default()
    }

    pub fn status(&mut self) -> &mut PodStatus {
        self.pod.status.get_or_insert_default()
    }

    pub fn container(mut self, name: &str) -> Self {
        self.spec().containers.push(Container { name: name.to_owned(), ..Container::default() });
        self
    }

    pub fn init(mut self, name: &str) -> Self {
        let container = Container { name: name.to_owned(), ..Container::default() };
        self.spec().init_containers.get_or_insert_default().push(container);
        self
    }

    pub fn sidecar(mut self, name: &str) -> Self {
        self = self.init(name);
        let containers = self.spec().init_containers.get_or_insert_default();
        if let Some(container) = containers.last_mut() {
            container.restart_policy = Some("Always".to_owned());
        }
        self
    }

    pub fn restart(mut self, policy: &str) -> Self {
        self.spec().restart_policy = Some(policy.to_owned());
        self
    }

    pub fn grace(mut self, seconds: i64) -> Self {
        self.spec().termination_grace_period_seconds = Some(seconds);
        self
    }

    pub fn liveness_grace(mut self, seconds: i64) -> Self {
        let probe = Probe { termination_grace_period_seconds: Some(seconds), ..Probe::default() };
        self.spec().containers[0].liveness_probe = Some(probe);
        self
    }

    pub fn active_deadline(mut self, seconds: i64) -> Self {
        self.spec().active_deadline_seconds = Some(seconds);
        self
    }

    pub fn gate(mut self, condition: &str) -> Self {
        self.spec().readiness_gates = Some(vec![PodReadinessGate { condition_type: condition.to_owned() }]);
        self
    }

    /// The pod was deleted, and its containers have until then.
    pub fn deleted_until(mut self, seconds: i64) -> Self {
        self.pod.metadata.deletion_timestamp = Some(Time(second(seconds)));
        self
    }

    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = sandbox;
        self
    }

    pub fn evicted(mut self, message: &str) -> Self {
        self.evicted = Some(Cause { reason: "Evicted".to_owned(), message: message.to_owned() });
        self
    }

    pub fn refused(mut self, reason: &str, message: &str) -> Self {
        self.refused = Some(Cause { reason: reason.to_owned(), message: message.to_owned() });
        self.sandbox = Sandbox::Absent;
        self
    }

    pub fn sees(mut self, record: Record) -> Self {
        self.containers.insert(record.0, record.1);
        self
    }

    pub fn forgets(mut self, name: &str) -> Self {
        self.containers.remove(name);
        self
    }

    pub fn at(mut self, seconds: i64) -> Self {
        self.now = second(seconds);
        self
    }

    /// Publishes what is decided now.
    pub fn published(mut self) -> Self {
        let status = self.decide().status;
        self.pod.status = Some(status);
        self
    }

    pub fn decide(&self) -> Decision {
        decide(&PodSeen {
            pod: &self.pod,
            now: self.now,
            host_ip: IpAddr::from([192, 168, 0, 1]),
            refused: self.refused.as_ref(),
            evicted: self.evicted.as_ref(),
            sandbox: &self.sandbox,
            containers: &self.containers,
        })
    }

    /// What is decided, on one line per kind of thing.
    pub fn shown(&self) -> String {
        let decision = self.decide();
        let mut text = phase_line(&decision.status);
        for status in
            decision.status.init_container_statuses.iter().chain(&decision.status.container_statuses).flatten()
        {
            let _ = write!(text, "\n  {}", container_line(status));
        }
        for action in &decision.actions {
            let _ = write!(text, "\n> {}", action_line(self.now, action));
        }
        if let Some(at) = decision.wake_at {
            let _ = write!(text, "\n> wake in {}", at.as_second() - self.now.as_second());
        }
        for event in &decision.events {
            let of = if event.field_path.is_empty() { "pod" } else { &event.field_path };
            let _ = write!(text, "\n! {of} {:?} {}: {}", event.severity, event.reason, event.message);
        }
        text
    }
}

fn phase_line(status: &PodStatus) -> String {
    let mut text = status.phase.clone().unwrap_or_default();
    for part in [&status.reason, &status.message].into_iter().flatten() {
        let _ = write!(text, ", {part}");
    }
    text
}

fn container_line(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap_or_default();
    let mut text = format!("{}#{} ", status.name, status.restart_count);
    if let Some(waiting) = state.waiting {
        let _ = write!(text, "waits {}", waiting.reason.unwrap_or_default());
        if let Some(message) = waiting.message {
            let _ = write!(text, " ({message})");
        }
    } else if let Some(ended) = state.terminated {
        let _ = write!(text, "ended {} {}", ended.exit_code, ended.reason.unwrap_or_default());
    } else {
        text.push_str("runs");
    }
    if let Some(last) = status.last_state.as_ref().and_then(|last| last.terminated.as_ref()) {
        let _ = write!(text, ", last {}", last.exit_code);
    }
    if status.ready {
        text.push_str(", ready");
    }
    text
}

fn action_line(now: Timestamp, action: &Action) -> String {
    match action {
        Action::EnsureSandbox => "sandbox".to_owned(),
        Action::Start { container, attempt } => format!("start {container}#{attempt}"),
        Action::Stop { container, deadline, reason } => {
            format!("stop {container} within {} {reason:?}", deadline.as_second() - now.as_second())
        }
        Action::TearDown => "tear down".to_owned(),
        Action::Release => "release".to_owned(),
    }
}
