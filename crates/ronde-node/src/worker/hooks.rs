//! What goes on beside a running container: its hooks, its probes, and what it says about its own end.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use fs_err as fs;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, LifecycleHandler, Pod};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Note, Task, Worker, build, reach::InContainer};
use crate::{
    lifecycle::{ContainerSeen, HookState, RunState, Severity, StopReason},
    logs::record::Record as LogRecord,
    probes::{Health, ProbeState, Target, Watching, run_hook, watch_health},
    supervisor::record::Record,
};

/// As the kubelet: that much of a termination message is kept.
const MESSAGE_BYTES_MAX: u64 = 4096;
/// Lines and bytes of the log that stand in for a message.
const LOG_LINES: usize = 80;
const LOG_BYTES_MAX: usize = 2048;
/// They are looked for in that much of its end: a log may be long.
const LOG_READ_MAX: u64 = 1 << 16;

impl Worker {
    /// Takes up containers that are found running after a restart of the daemon: what was published is what is known.
    ///
    /// This comes before the first decision, which would otherwise publish that probes have passed.
    pub(super) fn recognise(&mut self, records: &BTreeMap<String, Vec<Record>>) {
        for (name, records) in records {
            let Some(last) = records.last().filter(|record| record.end.is_none()) else { continue };
            if self.notes.get(name).is_some_and(|notes| notes.attempt >= last.attempt) {
                continue;
            }
            let Some(container) = self.container(name) else { continue };
            let health = ProbeState::new(&container, published(&self.pod, name, last.attempt)).health();
            let notes = super::Notes { attempt: last.attempt, health: Some(health), ..super::Notes::default() };
            self.notes.insert(name.clone(), notes);
        }
    }

    /// Gives every running container its hook and its probes.
    pub(super) fn watch_running(&mut self, containers: &BTreeMap<String, ContainerSeen>) {
        for (name, seen) in containers {
            match seen.state {
                RunState::Running(_) if seen.stopping.is_none() => {
                    if let Some(container) = self.container(name) {
                        self.watch_one(&container, seen.attempt);
                    }
                }
                RunState::Running(_) => {}
                _ => self.tasks.retain(|(of, _), _| of != name),
            }
        }
    }

    fn watch_one(&mut self, container: &Container, attempt: u32) {
        let name = &container.name;
        let hook = self.notes.get(name).filter(|notes| notes.attempt == attempt).and_then(|notes| notes.hook);
        let has_started = super::exec::newest(&self.folder, name).ok().flatten().is_some_and(|one| one.pid.is_some());
        if hook == Some(HookState::Pending) && has_started && !self.has_task(name, Task::Hook, attempt) {
            let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.clone());
            if let Some(hook) = hook {
                self.run_post_start(container.clone(), attempt, hook);
            }
        }
        if has_started && !self.has_task(name, Task::Probes, attempt) {
            self.run_probes(container, attempt);
        }
    }

    fn has_task(&self, name: &str, task: Task, attempt: u32) -> bool {
        self.tasks.get(&(name.to_owned(), task)).is_some_and(|(of, _)| *of == attempt)
    }

    pub(super) fn take_note(&mut self, note: Note) {
        match note {
            Note::Hook { container, attempt, failed } => {
                // What the hook said may be a secret: the event that follows does not repeat it.
                if let Some(why) = &failed {
                    tracing::debug!(pod = self.name(), container, why, "a hook failed");
                }
                if let Some(notes) = self.notes.get_mut(&container).filter(|notes| notes.attempt == attempt) {
                    notes.hook = Some(if failed.is_some() { HookState::Failed } else { HookState::Done });
                }
            }
            Note::Probes { container, attempt, health } => {
                if let Some(notes) = self.notes.get_mut(&container).filter(|notes| notes.attempt == attempt) {
                    notes.health = Some(health);
                }
            }
            Note::PodEvent(event) => self.record_event(&event),
            Note::Files { container, image, credentials, failed } => {
                self.take_files(&container, &image, credentials, failed);
            }
            Note::Event { container, reason, message } => self.event(Severity::Warning, &container, reason, message),
        }
    }

    /// Reads what containers that have ended say about it, once.
    pub(super) fn read_messages(&mut self, records: &BTreeMap<String, Vec<Record>>) {
        for (name, records) in records {
            let Some(last) = records.last().filter(|record| record.end.is_some()) else { continue };
            let is_known =
                self.notes.get(name).is_some_and(|notes| notes.attempt == last.attempt && notes.message.is_some());
            if is_known {
                continue;
            }
            let message = self.message_of(name, last);
            let notes = self.notes.entry(name.clone()).or_default();
            if notes.attempt != last.attempt && notes.attempt < last.attempt {
                *notes = super::Notes { attempt: last.attempt, ..super::Notes::default() };
            }
            if notes.attempt == last.attempt {
                notes.message = message;
            }
        }
    }

    fn message_of(&self, name: &str, record: &Record) -> Option<String> {
        let container = self.container(name)?;
        let own = read_start(&build::termination_message(&self.folder, name, record.attempt)).unwrap_or_default();
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        let failed = record.end.as_ref().is_some_and(|end| end.code != 0);
        if own.is_empty() && falls_back && failed {
            let log = self.folder.logs(name).join(format!("{}.log", record.attempt));
            return Some(last_lines(&read_end(&log).unwrap_or_default()));
        }
        Some(own).filter(|own| !own.is_empty())
    }

    fn run_post_start(&mut self, container: Container, attempt: u32, hook: LifecycleHandler) {
        let (outbox, name) = (self.outbox.clone(), container.name.clone());
        let run = self.hook(&container, hook);
        let task = tokio::spawn(async move {
            let failed = run.await.err();
            let _ = outbox.send(Note::Hook { container: container.name, attempt, failed }).await;
        });
        self.tasks.insert((name, Task::Hook), (attempt, AbortOnDropHandle::new(task)));
    }

    /// The preStop hook of a container, ready to run; none if it is not to be run.
    pub(super) fn pre_stop(&self, name: &str, reason: StopReason) -> Option<BoxFuture<'static, ()>> {
        if reason == StopReason::PostStart {
            return None;
        }
        let container = self.container(name)?;
        let hook = container.lifecycle.as_ref()?.pre_stop.clone()?;
        let (run, outbox, name) = (self.hook(&container, hook), self.outbox.clone(), name.to_owned());
        let told = async move {
            if let Err(message) = run.await {
                let _ = outbox.send(Note::Event { container: name, reason: "FailedPreStopHook", message }).await;
            }
        };
        Some(told.boxed())
    }
}

impl Worker {
    fn target(&self, container: &Container) -> Target<InContainer> {
        let made = super::sandbox::read(&self.folder).ok().flatten();
        let ip = made
            .and_then(|made| made.ip)
            .map_or_else(|| self.node.host_ip_of(&self.pod).to_string(), |ip| ip.to_string());
        let meta = &self.pod.metadata;
        let (name, namespace) =
            (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
        Target {
            reach: InContainer {
                node: self.node.clone(),
                folder: self.folder.clone(),
                container: container.name.clone(),
            },
            container: container.clone(),
            pod_ip: ip,
            pod: format!("{name}_{namespace}({})", self.uid),
            field_path: format!("spec.containers{{{}}}", container.name),
        }
    }

    fn hook(&self, container: &Container, handler: LifecycleHandler) -> BoxFuture<'static, Result<(), String>> {
        let target = self.target(container);
        async move { run_hook(&target, &handler).await }.boxed()
    }

    fn run_probes(&mut self, container: &Container, attempt: u32) {
        if container.startup_probe.is_none()
            && container.readiness_probe.is_none()
            && container.liveness_probe.is_none()
        {
            return;
        }
        let target = self.target(container);
        let started = super::exec::newest(&self.folder, &container.name).ok().flatten().and_then(|one| one.started_at);
        let age = started.map(|at| self.node.clock.now().duration_since(at));
        let known = self.notes.get(&container.name).and_then(|notes| notes.health);
        let state = ProbeState::new(container, known);
        let (health, mut told) = watch::channel(state.health());
        let (ending, is_ending) = watch::channel(false);
        let (outbox, events, name) = (self.outbox.clone(), self.outbox.clone(), container.name.clone());
        let watching = Watching {
            age: age.and_then(|age| age.try_into().ok()).unwrap_or_default(),
            state,
            health,
            ending: is_ending,
            // An event that finds no room is not worth waiting for.
            report: move |event| drop(events.try_send(Note::PodEvent(event))),
        };
        let task = tokio::spawn(async move {
            // Never said: probes end with the order to stop.
            let _ending = ending;
            let forward = async {
                loop {
                    let health = *told.borrow_and_update();
                    let note = Note::Probes { container: name.clone(), attempt, health };
                    if outbox.send(note).await.is_err() || told.changed().await.is_err() {
                        return;
                    }
                }
            };
            tokio::join!(watch_health(&target, watching), forward);
        });
        self.tasks.insert((container.name.clone(), Task::Probes), (attempt, AbortOnDropHandle::new(task)));
    }
}

/// Reads a termination message. A container may write as much there as it likes: the rest is not looked at.
fn read_start(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the end of a log.
fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(LOG_READ_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_READ_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the published status says of the probes of one attempt of a container.
fn published(pod: &Pod, name: &str, attempt: u32) -> Option<Health> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let is_it = |status: &&ContainerStatus| status.name == name && u32::try_from(status.restart_count) == Ok(attempt);
    let found = all.into_iter().find(is_it)?;
    Some(Health { started: found.started == Some(true), ready: found.ready, unhealthy: None })
}

/// The last texts of a log, which may have any bytes in them.
fn last_lines(log: &[u8]) -> String {
    // Where the log was cut there is no record.
    let records: Vec<LogRecord<'_>> = log.split(|byte| *byte == b'\n').filter_map(LogRecord::parse).collect();
    let last = &records[records.len().saturating_sub(LOG_LINES)..];
    let text: String = last.iter().flat_map(|record| [String::from_utf8_lossy(record.text), "\n".into()]).collect();
    let start = text.len().saturating_sub(LOG_BYTES_MAX);
    text[text.ceil_char_boundary(start)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_log_of_any_bytes_stands_in_for_a_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log: Vec<u8> = b"2026-01-01T00:00:00.000000000Z stdout F working\n".repeat(4000);
        log.extend_from_slice(b"2026-01-01T00:00:01.000000000Z stderr F not \xff text\n");
        fs::write(&path, &log).unwrap();
        let text = last_lines(&read_end(&path).unwrap());
        assert!(text.ends_with("working\nnot \u{fffd} text\n"), "{text}");
        assert_eq!(text.lines().count(), LOG_LINES);
    }
}
