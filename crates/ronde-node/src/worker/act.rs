//! Carries out what was decided. Every act may be repeated, and may have been begun by a worker that was killed.

use std::{io, os::fd::OwnedFd, time::Duration};

use fs_err as fs;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{Task, Worker, build, sandbox, signal, volumes};
use crate::{
    images::choice,
    lifecycle::{Action, Sandbox, Severity, StopReason},
    machine::probe::Isolation,
    net::{self, Resolver},
    node::CLUSTER_DOMAIN,
    orphans,
    sandbox::spec::Pids,
    supervisor::{Pod, client, control::Order, remove_files, start},
};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

impl Worker {
    pub(super) async fn act(&mut self, action: &Action, now: Timestamp) -> io::Result<()> {
        match action {
            Action::EnsureSandbox => {
                self.ensure_sandbox(now).await;
                Ok(())
            }
            Action::Start { container, attempt } => {
                self.start(container, *attempt, now).await;
                Ok(())
            }
            Action::Stop { container, deadline, reason } => {
                self.stop(container, *deadline, *reason, now);
                Ok(())
            }
            Action::TearDown => self.tear_down(now).await,
            Action::Release => Ok(()),
        }
    }

    pub(super) fn spec(&self) -> PodSpec {
        self.pod.spec.clone().unwrap_or_default()
    }

    /// Finds a container by its name.
    pub(super) fn container(&self, name: &str) -> Option<Container> {
        let spec = self.pod.spec.as_ref()?;
        spec.init_containers.iter().flatten().chain(&spec.containers).find(|one| one.name == name).cloned()
    }

    pub(super) fn uses_machine_network(&self) -> bool {
        self.node.network.is_none() || self.pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
    }

    async fn ensure_sandbox(&mut self, now: Timestamp) {
        match self.make_sandbox(now).await {
            Ok(()) => self.sandbox_failed = None,
            Err(error) => {
                let tries = match &self.sandbox_failed {
                    Some(Sandbox::Failed { tries, .. }) => tries + 1,
                    _ => 1,
                };
                let message = error.to_string();
                self.event(Severity::Warning, "", "FailedCreatePodSandBox", message.clone());
                self.sandbox_failed = Some(Sandbox::Failed { message, at: now, tries });
            }
        }
    }

    async fn make_sandbox(&mut self, now: Timestamp) -> io::Result<()> {
        // 1. What a dead supervisor, or one that was only half made, has left.
        self.take_down(now).await?;
        // 2. The supervisor with its namespaces.
        let spec = self.spec();
        let host_network = self.uses_machine_network();
        let node = self.node.further_network_of(&self.pod).filter(|_| host_network);
        let joined = node.map(|node| node.netns.try_clone()).transpose()?;
        let hostname = match &spec.node_name {
            Some(name) if joined.is_some() => name.clone(),
            _ => net::hostname(&self.pod, CLUSTER_DOMAIN).map_err(io::Error::other)?,
        };
        let pod = Pod {
            hostname: hostname.clone(),
            isolated: self.node.isolation != Isolation::None,
            host_network,
            joins_node: joined.is_some(),
            host_ipc: spec.host_ipc == Some(true),
            memory: volumes::in_memory(&self.pod, &self.folder),
        };
        client::launch(&self.node.program, &self.folder, &pod, joined).await?;
        // 3. Its place in the network.
        let ip = match &self.node.network {
            Some(network) if !pod.host_network => {
                let netns = self.network_namespace()?;
                let attached = network.attach(&self.uid, netns, None).await;
                Some(attached.map_err(io::Error::other)?)
            }
            _ => None,
        };
        // 4. The files that tell its containers who they are.
        self.write_files(&hostname, ip.map(Into::into))?;
        let node = spec.node_name.filter(|_| pod.joins_node);
        sandbox::write(&self.folder, &sandbox::Made { version: 1, made_at: now, ip, node, lost_at: None })
    }

    /// Opens the network namespace of the pod's supervisor.
    fn network_namespace(&self) -> io::Result<OwnedFd> {
        let pid = client::living(&self.folder)?.ok_or_else(|| io::Error::other("the supervisor exited immediately"))?;
        Ok(fs::File::open(format!("/proc/{pid}/ns/net"))?.into_parts().0.into())
    }

    fn write_files(&self, hostname: &str, ip: Option<std::net::IpAddr>) -> io::Result<()> {
        let folder = self.folder.files();
        fs::create_dir_all(&folder)?;
        let mut machine = fs::read_to_string("/etc/hosts").unwrap_or_default();
        if let Some(node) = self.node.further_network_of(&self.pod) {
            machine += &format!("{}\t{hostname}\n", node.address);
        }
        fs::write(folder.join("hosts"), net::hosts(&self.pod, ip, CLUSTER_DOMAIN, &machine))?;
        fs::write(folder.join("hostname"), format!("{hostname}\n"))?;
        let resolver = match &self.node.network {
            Some(network) => {
                let node = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
                net::resolv_conf(&self.pod, &network.names(&Resolver::of_machine(), node))
            }
            None => fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
        };
        fs::write(folder.join("resolv.conf"), resolver)
    }

    /// Ends the supervisor, if there is one, and everything in it; gives its address back.
    async fn take_down(&mut self, now: Timestamp) -> io::Result<()> {
        self.tasks.clear();
        self.finding.clear();
        self.news = None;
        let made = sandbox::read(&self.folder)?;
        // Of one that was not finished nobody knows whether it has come to the network.
        let has_address = made.map_or_else(|| start::is_wanted(&self.folder), |made| made.ip.is_some());
        client::retire(&self.folder).await?;
        self.end_orphans().await?;
        sandbox::record_lost(&self.folder, now)?;
        if let Some(network) = self.node.network.as_ref().filter(|_| has_address) {
            network.detach(&self.uid).await.map_err(io::Error::other)?;
        }
        sandbox::forget(&self.folder)
    }

    /// A container that shares the machine's processes leaves some behind when its supervisor is killed.
    async fn end_orphans(&self) -> io::Result<()> {
        // Of a pod that the API has forgotten nobody knows what it shared.
        let shares = self.pod.spec.as_ref().is_none_or(|spec| build::pids(spec, self.node.isolation) == Pids::Machine);
        let may_be_marked = shares && self.node.hierarchy.is_none();
        match orphans::end(&self.node.instance, &self.uid, may_be_marked).await? {
            0 => {}
            killed => tracing::info!(pod = self.name(), killed, "killed processes that outlived their supervisor"),
        }
        Ok(())
    }

    async fn tear_down(&mut self, now: Timestamp) -> io::Result<()> {
        self.take_down(now).await?;
        self.sandbox_failed = None;
        self.node.gpus_taken.lock().release(&self.uid);
        let folder = self.folder.clone();
        // What the containers have written may be large.
        let removed = tokio::task::spawn_blocking(move || {
            for (name, records) in crate::supervisor::record::read_all(&folder)? {
                for record in records {
                    remove_files(&folder, &name, record.attempt)?;
                }
            }
            io::Result::Ok(())
        });
        removed.await.map_err(io::Error::other)?
    }

    /// Removes the changed files of attempts that are over: a container that crashes for ever must not fill the disk.
    ///
    /// Their records stay, and what they have said.
    pub(super) fn forget_before(&self, name: &str, attempt: u32) {
        let (folder, name, pod) = (self.folder.clone(), name.to_owned(), self.name());
        // May be large, and nobody waits for it.
        tokio::task::spawn_blocking(move || {
            let removed = (0..attempt).try_for_each(|before| remove_files(&folder, &name, before));
            if let Err(error) = removed {
                tracing::warn!(pod, container = name, %error, "cannot remove the files of an earlier attempt");
            }
        });
    }

    /// Removes everything of the pod from the disk.
    pub(super) fn remove_folder(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.folder.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The signal that asks a container to end: its own choice, that of its image, or SIGTERM.
    fn stop_signal(&self, name: &str) -> i32 {
        let own = self.container(name).and_then(|one| one.lifecycle?.stop_signal);
        let of_image = || choice::read(&self.folder).ok()?.remove(name)?.stop_signal;
        own.or_else(of_image).and_then(|signal| signal::parse(&signal)).unwrap_or(SIGTERM)
    }

    /// Begins to stop a container, or shortens the time of one that is being stopped.
    fn stop(&mut self, name: &str, deadline: Timestamp, reason: StopReason, now: Timestamp) {
        let attempt = super::exec::newest(&self.folder, name).ok().flatten().map_or(0, |record| record.attempt);
        let notes = self.notes.entry(name.to_owned()).or_default();
        let hook_done = notes.attempt == attempt && notes.stopping.is_some();
        if notes.attempt != attempt {
            *notes = super::Notes { attempt, ..super::Notes::default() };
        }
        notes.stopping = Some(deadline);
        let left = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
        let hook = self.pre_stop(name, reason).filter(|_| !hook_done);
        let folder = self.folder.clone();
        let (container, kill_at) = (name.to_owned(), Instant::now() + left);
        let signal = self.stop_signal(name);
        let task = tokio::spawn(async move {
            if let Some(hook) = hook {
                let _ = tokio::time::timeout_at(kill_at, hook).await;
            }
            let send = |signal, all| {
                let order = Order::Signal { container: container.clone(), signal, all };
                let folder = folder.clone();
                async move {
                    if let Err(error) = client::order(&folder, &order).await {
                        tracing::debug!(%error, "cannot deliver a signal");
                    }
                }
            };
            send(signal, false).await;
            tokio::time::sleep_until(kill_at).await;
            send(SIGKILL, true).await;
        });
        self.tasks.insert((name.to_owned(), Task::Stop), (attempt, AbortOnDropHandle::new(task)));
        self.tasks.remove(&(name.to_owned(), Task::Probes));
    }
}
