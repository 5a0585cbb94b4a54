//! Starting a container: everything it needs is looked up and put in place, then its supervisor gets the order.

use std::{collections::BTreeMap, io, net::IpAddr, sync::Arc};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, Container, Node as NodeObject, Secret, Service, ServiceAccount, Volume},
};
use kube::{Api, api::PostParams};
use ronde_images::Image;
use ronde_runtime::watch::Key;

use super::{Notes, Worker, account, build, exec, observe::Blocked, sandbox, volumes as places};
use crate::{
    env::{self, EnvError, PodFacts},
    images::ContainerFiles,
    lifecycle::{Cause, HookState, Sandbox, Severity, blocked_until},
    net,
    node::CLUSTER_DOMAIN,
    probes::ProbeState,
    supervisor::{client, control::Order},
    volumes::{self, Files, TokenWanted, Tokens},
};

/// What a token lives if the pod does not say.
const TOKEN_SECONDS: i64 = 3600;
/// Devices that every GPU needs beside its own.
const GPU_DEVICES: [&str; 4] = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"];
const GPU: &str = "nvidia.com/gpu";

type Variable = (String, String);

/// A token that was asked for, and when it is time for the next.
#[derive(Debug, Clone)]
pub struct HeldToken {
    token: String,
    renew_at: Timestamp,
}

/// The objects that a pod refers to.
struct Sources {
    config_maps: BTreeMap<String, Arc<ConfigMap>>,
    secrets: BTreeMap<String, Arc<Secret>>,
    allocatable: BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    pod_ip: Option<IpAddr>,
}

impl Worker {
    /// Starts an attempt, or notes why it could not be.
    pub(super) async fn start(&mut self, name: &str, attempt: u32, now: Timestamp) {
        let Some(container) = self.container(name) else { return };
        let files = match self.files_of(&container, now).await {
            Ok(None) => return self.wait_for_files(name, attempt, now),
            Ok(Some(files)) => Ok(files),
            Err(cause) => Err(cause),
        };
        self.notes.insert(name.to_owned(), Notes { attempt, ..Notes::default() });
        self.tasks.retain(|(of, _), _| of != name);
        self.tell_limits(&container);
        let started = match &files {
            Ok(files) => self.try_start(&container, attempt, files, now).await,
            Err(cause) => Err(cause.clone()),
        };
        if let Err(cause) = started {
            let until = blocked_until(now);
            // Of a volume that is not there the events tell; the container is just being made.
            let blocked = if cause.reason == "FailedMount" {
                if self.told.mount.as_ref() != Some(&cause.message) {
                    self.event(Severity::Warning, "", "FailedMount", cause.message.clone());
                    self.told.mount = Some(cause.message);
                }
                Blocked::creating(until)
            } else {
                Blocked { cause, until }
            };
            let notes = self.notes.entry(name.to_owned()).or_default();
            notes.blocked = Some(blocked);
        }
    }

    async fn try_start(
        &mut self,
        container: &Container,
        attempt: u32,
        files: &ContainerFiles,
        now: Timestamp,
    ) -> Result<(), Cause> {
        // 1. What it refers to.
        let sources = self.sources();
        let places = self.put_volumes(&sources, now).await?;
        let services: Vec<Arc<Service>> = self.ctx.caches.list::<Service>(None);
        let env = env::build(&self.facts(&sources), container, services.iter().map(|service| &**service))
            .map_err(|error| Cause { reason: EnvError::REASON.to_owned(), message: error.to_string() })?;
        // 2. What it is.
        let gpus = self.take_gpus(container)?;
        let spec = self.describe(container, attempt, with_gpus(env, &gpus), (&places, files), &gpus)?;
        // 3. The files that only this attempt has.
        let internal =
            |error: io::Error| Cause { reason: "CreateContainerError".to_owned(), message: error.to_string() };
        exec::remember(&self.folder, &spec, &gpus).map_err(internal)?;
        fs::write(build::termination_message(&self.folder, &container.name, attempt), "").map_err(internal)?;
        // 4. The order.
        let has_hook = container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some());
        self.notes.insert(
            container.name.clone(),
            Notes {
                attempt,
                hook: has_hook.then_some(HookState::Pending),
                health: Some(ProbeState::new(container, None).health()),
                ..Notes::default()
            },
        );
        client::order(&self.folder, &Order::Start(Box::new(spec))).await.map_err(internal)?;
        self.forget_before(&container.name, attempt);
        Ok(())
    }

    fn facts<'a>(&'a self, sources: &'a Sources) -> PodFacts<'a> {
        PodFacts {
            pod: &self.pod,
            host_ip: self.node.host_ip_of(&self.pod),
            pod_ip: sources.pod_ip,
            allocatable: &sources.allocatable,
            config_maps: &sources.config_maps,
            secrets: &sources.secrets,
        }
    }

    fn sources(&self) -> Sources {
        let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
        let wanted = volumes::references(&self.pod);
        let caches = &self.ctx.caches;
        let key = |name: &String| Key::new(namespace.clone(), name.clone());
        let node = self.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let node = caches.get::<NodeObject>(&Key::new("", node));
        let made = sandbox::read(&self.folder).ok().flatten();
        let own = made.and_then(|made| made.ip).map(IpAddr::from);
        Sources {
            config_maps: wanted
                .config_maps
                .iter()
                .filter_map(|name| Some((name.clone(), caches.get(&key(name))?)))
                .collect(),
            secrets: wanted.secrets.iter().filter_map(|name| Some((name.clone(), caches.get(&key(name))?))).collect(),
            allocatable: node.and_then(|node| node.status.clone()?.allocatable).unwrap_or_default(),
            pod_ip: own.or_else(|| self.uses_machine_network().then(|| self.node.host_ip_of(&self.pod))),
        }
    }

    /// Puts all volumes in place; returns where they are.
    async fn put_volumes(&mut self, sources: &Sources, now: Timestamp) -> Result<BTreeMap<String, String>, Cause> {
        let tokens = self.tokens(now).await?;
        // One that cannot be made keeps no other from being up to date.
        let volumes = self.spec().volumes.unwrap_or_default();
        let put: Vec<Result<(), Cause>> =
            volumes.iter().map(|volume| self.put_volume(volume, sources, &tokens, now)).collect();
        put.into_iter().collect::<Result<(), Cause>>()?;
        self.volumes_of = Some(self.desired.borrow().sources);
        let supplies = places::Supplies { caches: &self.ctx.caches, shared: &self.node.shared };
        places::place(&self.pod, &self.folder, supplies)
    }

    fn put_volume(&self, volume: &Volume, sources: &Sources, tokens: &Tokens, now: Timestamp) -> Result<(), Cause> {
        let failed = |error: &dyn std::fmt::Display| places::failed(&volume.name, error);
        let group = self.pod.spec.as_ref().and_then(places::fs_group);
        let files: Option<Files> =
            volumes::content(volume, &self.facts(sources), tokens).map_err(|error| failed(&error))?;
        let Some(files) = files else { return Ok(()) };
        let path = self.folder.volumes().join(&volume.name);
        volumes::write(&path, &files, group, now).map(drop).map_err(|error| failed(&error))
    }

    /// Brings the files of volumes up to date while containers run.
    pub(super) async fn refresh_volumes(&mut self, sandbox: &Sandbox) {
        let now = self.node.clock.now();
        let newest = self.desired.borrow().sources;
        let is_due = self.held.values().any(|held| held.renew_at <= now);
        let was_put = self.volumes_of.is_some_and(|put| put != newest || is_due);
        // After a restart of the daemon they may be old.
        let was_found = self.volumes_of.is_none() && self.folder.volumes().exists();
        if matches!(sandbox, Sandbox::Ready { .. }) && (was_put || was_found) {
            let sources = self.sources();
            if let Err(cause) = self.put_volumes(&sources, now).await {
                tracing::debug!(pod = self.name(), why = cause.message, "cannot update the volumes");
                self.volumes_of = Some(newest);
            }
        }
    }

    async fn tokens(&mut self, now: Timestamp) -> Result<Tokens, Cause> {
        for wanted in volumes::references(&self.pod).tokens {
            let place = (wanted.volume.clone(), wanted.path.clone());
            if self.held.get(&place).is_none_or(|held| held.renew_at <= now) {
                let held =
                    self.request_token(&wanted, now).await.map_err(|error| places::failed(&wanted.volume, error))?;
                self.held.insert(place, held);
            }
        }
        Ok(self.held.iter().map(|(place, held)| (place.clone(), held.token.clone())).collect())
    }

    async fn request_token(&self, wanted: &TokenWanted, now: Timestamp) -> Result<HeldToken, kube::Error> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.node.client.clone(), namespace);
        let seconds = wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: wanted.audience.clone().into_iter().collect(),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: self.pod.metadata.name.clone(),
                    uid: Some(self.uid.clone()),
                }),
                expiration_seconds: Some(seconds),
            },
            ..TokenRequest::default()
        };
        let account = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        let account = account.unwrap_or_else(|| "default".to_owned());
        let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await?;
        // As the kubelet: at four fifths of its life.
        let renew_at = now.saturating_add(SignedDuration::from_secs(seconds / 5 * 4)).unwrap_or(Timestamp::MAX);
        Ok(HeldToken { token: answer.status.map(|status| status.token).unwrap_or_default(), renew_at })
    }

    fn describe(
        &self,
        container: &Container,
        attempt: u32,
        env: Vec<(String, String)>,
        (places, files): (&BTreeMap<String, String>, &ContainerFiles),
        gpus: &[usize],
    ) -> Result<crate::sandbox::spec::ContainerSpec, Cause> {
        let ContainerFiles { image, passwd, group } = files;
        let image = image.as_ref().map(|image| image_inputs(image, passwd, group)).transpose()?;
        let hostname = net::hostname(&self.pod, CLUSTER_DOMAIN).unwrap_or_default();
        build::build(build::Inputs {
            program: &self.node.program,
            pod: &self.pod,
            container,
            attempt,
            folder: &self.folder,
            env,
            image,
            machine_env: &self.node.machine_env,
            hostname: &hostname,
            account: &|uid| account::find(passwd, group, uid),
            volumes: places,
            isolation: self.node.isolation,
            layers: self.node.layers(),
            hidden: self.node.hidden.clone(),
            devices: self.devices(gpus),
            hierarchy: self.node.hierarchy.as_ref(),
            instance: &self.node.instance,
            pod_processes: self.node.pod_processes,
        })
    }

    /// Takes as many of the machine's GPUs as the container asks for, if there are any; declared ones have no device.
    fn take_gpus(&self, container: &Container) -> Result<Vec<usize>, Cause> {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let wanted = limits.and_then(|limits| limits.get(GPU)).and_then(build::whole).unwrap_or(0);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if self.node.gpus.is_empty() || wanted == 0 {
            return Ok(Vec::new());
        }
        let owner = (self.uid.clone(), container.name.clone());
        self.node.gpus_taken.lock().assign(owner, wanted, self.node.gpus.len()).map_err(|free| Cause {
            reason: "CreateContainerError".to_owned(),
            message: format!("requested {wanted} GPUs, {free} available"),
        })
    }

    /// The device files of GPUs, with those that all of them need.
    fn devices(&self, gpus: &[usize]) -> Vec<String> {
        if gpus.is_empty() {
            return Vec::new();
        }
        let own = gpus.iter().filter_map(|gpu| self.node.gpus.get(*gpu).cloned());
        let shared =
            GPU_DEVICES.iter().filter(|path| std::path::Path::new(path).exists()).map(|path| (*path).to_owned());
        own.chain(shared).collect()
    }

    /// Says once what cannot be enforced.
    fn tell_limits(&mut self, container: &Container) {
        let has_limits = build::limits(container) != crate::sandbox::cgroup::Limits::default();
        if has_limits && self.node.hierarchy.is_none() && !self.told.limits {
            self.told.limits = true;
            let message = "limits of memory and CPU are not enforced: this machine has no control groups for us";
            self.event(Severity::Warning, &container.name, "LimitsNotEnforced", message);
        }
    }
}

/// What an image says about its container, with its user looked up in its own files.
fn image_inputs<'a>(image: &'a Image, passwd: &str, group: &str) -> Result<build::ImageInputs<'a>, Cause> {
    let execution = &image.config.config;
    let user = account::parse_user(passwd, group, &execution.user)
        .map_err(|message| Cause { reason: "CreateContainerError".to_owned(), message })?;
    let lowers = image.layers.iter().map(|layer| layer.to_string_lossy().into_owned()).collect();
    Ok(build::ImageInputs { execution, user, lowers })
}

/// Tells a container the numbers of its GPUs, if it has any.
fn with_gpus(mut env: Vec<Variable>, gpus: &[usize]) -> Vec<Variable> {
    if !gpus.is_empty() {
        let numbers = gpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        env.push(("NVIDIA_VISIBLE_DEVICES".to_owned(), numbers));
    }
    env
}
