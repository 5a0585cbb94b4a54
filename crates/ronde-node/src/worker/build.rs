//! From a pod to the description of one of its containers. Pure: everything that had to be looked up is given.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, SecurityContext, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};
use ronde_images::manifest::Execution;
use ronde_process::{Capabilities, Credentials, Program, become_program::PATH_DEFAULT};

use super::{account::Account, volumes::is_shared};
use crate::{
    env::expand,
    lifecycle::Cause,
    machine::probe::Isolation,
    orphans,
    sandbox::{
        cgroup::{Hierarchy, Limits},
        layers::{Layer, Manner, OWN},
        spec::{ContainerSpec, Mount, Pids, Root, Source, Terminal},
    },
    supervisor::folder::PodFolder,
};

/// What a container is built from.
pub struct Inputs<'a> {
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub attempt: u32,
    pub folder: &'a PodFolder,
    /// Everything that the pod gives it, in order.
    pub env: Vec<(String, String)>,
    /// The image that it runs from; nothing for this machine's files.
    pub image: Option<ImageInputs<'a>>,
    /// What stands in for an image's environment.
    pub machine_env: &'a [(String, String)],
    pub hostname: &'a str,
    pub account: &'a dyn Fn(u32) -> Account,
    /// Where the pod's volumes are on this machine.
    pub volumes: &'a BTreeMap<String, String>,
    /// This program, which volumes that all pods share bring along.
    pub program: &'a Path,
    pub isolation: Isolation,
    pub layers: Vec<Layer>,
    pub hidden: Vec<String>,
    pub devices: Vec<String>,
    pub hierarchy: Option<&'a Hierarchy>,
    pub instance: &'a str,
    /// How many processes and threads the pod may have.
    pub pod_processes: u64,
}

/// What an image says about its container.
pub struct ImageInputs<'a> {
    pub execution: &'a Execution,
    /// The user and perhaps the group that the image names.
    pub user: (u32, Option<u32>),
    /// Its unpacked layers, the lowest first.
    pub lowers: Vec<String>,
}

/// Builds the description of a container.
///
/// # Errors
/// Why it cannot be made, with the reason that the status shows.
pub fn build(inputs: Inputs<'_>) -> Result<ContainerSpec, Cause> {
    let spec = inputs.pod.spec.as_ref().ok_or_else(|| config_error("the pod has no spec"))?;
    let container = inputs.container;
    let of_image = inputs.image.as_ref().map(|image| image.user);
    let uid = user(spec, container, of_image.map(|(uid, _)| uid))?;
    let account = (inputs.account)(uid);
    let env = environment(&inputs, &account);
    let program = program(container, &env, inputs.image.as_ref().map(|image| image.execution))?;
    let mounts =
        if inputs.isolation == Isolation::None { check_bare(container)? } else { mounts(&inputs, &program.env)? };
    let limits = Limits { pod_processes: Some(inputs.pod_processes), ..limits(container) };
    let pod_uid = inputs.pod.metadata.uid.as_deref().unwrap_or_default();
    Ok(ContainerSpec {
        name: container.name.clone(),
        attempt: inputs.attempt,
        credentials: credentials(
            spec,
            container,
            uid,
            &Account { gid: gid(of_image, uid, &account), ..account.clone() },
        )?,
        root: root(&inputs, container),
        mounts,
        pids: pids(spec, inputs.isolation),
        terminal: Terminal {
            tty: container.tty.unwrap_or(false),
            stdin: container.stdin.unwrap_or(false),
            stdin_once: container.stdin_once.unwrap_or(false),
        },
        cgroup: inputs.hierarchy.map(|tree| tree.plan(inputs.instance, pod_uid, &container.name, limits)),
        program,
    })
}

fn config_error(message: impl Into<String>) -> Cause {
    Cause { reason: "CreateContainerConfigError".to_owned(), message: message.into() }
}

fn create_error(message: impl Into<String>) -> Cause {
    Cause { reason: "CreateContainerError".to_owned(), message: message.into() }
}

fn of_container<T>(container: &Container, field: impl Fn(&SecurityContext) -> Option<T>) -> Option<T> {
    container.security_context.as_ref().and_then(field)
}

/// The group that an image names is that of its user only.
fn gid(of_image: Option<(u32, Option<u32>)>, uid: u32, account: &Account) -> u32 {
    of_image.filter(|(user, _)| *user == uid).and_then(|(_, group)| group).unwrap_or(account.gid)
}

fn user(spec: &PodSpec, container: &Container, of_image: Option<u32>) -> Result<u32, Cause> {
    let of_pod = spec.security_context.as_ref();
    let chosen = of_container(container, |context| context.run_as_user).or(of_pod.and_then(|pod| pod.run_as_user));
    let not_root =
        of_container(container, |context| context.run_as_non_root).or(of_pod.and_then(|pod| pod.run_as_non_root));
    let chosen_or_image = chosen.or(of_image.map(i64::from)).unwrap_or(0);
    let uid = u32::try_from(chosen_or_image).map_err(|_| config_error("runAsUser is out of range"))?;
    if uid == 0 && not_root == Some(true) {
        let words = if chosen.is_some() {
            "container's runAsUser breaks non-root policy"
        } else {
            "container has runAsNonRoot and image will run as root"
        };
        return Err(config_error(words));
    }
    Ok(uid)
}

fn credentials(spec: &PodSpec, container: &Container, uid: u32, account: &Account) -> Result<Credentials, Cause> {
    let of_pod = spec.security_context.as_ref();
    let group = of_container(container, |context| context.run_as_group).or(of_pod.and_then(|pod| pod.run_as_group));
    let number = |value: i64| u32::try_from(value).map_err(|_| config_error("a group is out of range"));
    let gid = group.map(number).transpose()?.unwrap_or(account.gid);
    let more = of_pod.and_then(|pod| pod.supplemental_groups.clone()).unwrap_or_default();
    let mut groups =
        more.into_iter().chain(of_pod.and_then(|pod| pod.fs_group)).map(number).collect::<Result<Vec<_>, _>>()?;
    groups.extend(account.groups.iter().copied().chain([gid]));
    groups.sort_unstable();
    groups.dedup();
    let is_privileged = of_container(container, |context| context.privileged) == Some(true);
    let base = if is_privileged { Capabilities::ALL } else { Capabilities::default_set() };
    let wanted =
        container.security_context.as_ref().and_then(|context| context.capabilities.clone()).unwrap_or_default();
    let capabilities = base
        .with(&wanted.add.unwrap_or_default(), &wanted.drop.unwrap_or_default())
        .map_err(|name| create_error(format!("unknown capability \"{name}\"")))?;
    // Runtimes leave it to containers that ask, which `baseline` lets everybody do, and keep them from opening the disks
    // by a control group that we do not always have.
    let capabilities = if is_privileged { capabilities } else { capabilities.without_device_files() };
    let no_new_privileges = of_container(container, |context| context.allow_privilege_escalation) == Some(false);
    Ok(Credentials { uid, gid, groups, capabilities, no_new_privileges })
}

/// The machine's environment first, then what container runtimes add, then the pod's; the last one wins.
fn environment(inputs: &Inputs<'_>, account: &Account) -> Vec<(String, String)> {
    let mut env = BTreeMap::new();
    env.insert("PATH".to_owned(), PATH_DEFAULT.to_owned());
    env.insert("HOSTNAME".to_owned(), inputs.hostname.to_owned());
    env.insert("HOME".to_owned(), account.home.clone().unwrap_or_else(|| "/".to_owned()));
    if inputs.container.tty == Some(true) {
        env.insert("TERM".to_owned(), "xterm".to_owned());
    }
    match &inputs.image {
        Some(image) => env.extend(image.execution.env.iter().filter_map(|one| split_variable(one))),
        None => env.extend(inputs.machine_env.iter().cloned()),
    }
    env.extend(inputs.env.iter().cloned());
    let is_among_others = inputs.pod.spec.as_ref().is_some_and(|spec| pids(spec, inputs.isolation) == Pids::Machine);
    if is_among_others && inputs.hierarchy.is_none() {
        env.insert(orphans::MARK.to_owned(), inputs.pod.metadata.uid.clone().unwrap_or_default());
        env.insert(orphans::INSTANCE_MARK.to_owned(), inputs.instance.to_owned());
    }
    env.into_iter().collect()
}

fn split_variable(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
}

fn is_empty(words: Option<&Vec<String>>) -> bool {
    words.is_none_or(Vec::is_empty)
}

/// As the kubelet: a command replaces both words of the image, arguments only the second.
fn program(container: &Container, env: &[(String, String)], image: Option<&Execution>) -> Result<Program, Cause> {
    let lookup = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let command = container.command.iter().flatten();
    let own = command.chain(container.args.iter().flatten()).map(|word| expand(word, lookup));
    let (entrypoint, cmd) = image.map_or((&[][..], &[][..]), |image| (&image.entrypoint[..], &image.cmd[..]));
    let entrypoint = if is_empty(container.command.as_ref()) { entrypoint } else { &[] };
    let is_own = !is_empty(container.command.as_ref()) || !is_empty(container.args.as_ref());
    let cmd = if is_own { &[] } else { cmd };
    let argv: Vec<String> = entrypoint.iter().cloned().chain(own).chain(cmd.iter().cloned()).collect();
    if argv.is_empty() && image.is_some() {
        return Err(create_error("no command specified: neither the container nor its image names one"));
    }
    if argv.is_empty() {
        return Err(create_error("no command specified: without an image the container needs `command` or `args`"));
    }
    let folder = container.working_dir.as_ref().or(image.map(|image| &image.working_dir));
    let folder = folder.filter(|folder| !folder.is_empty()).map_or_else(|| "/".to_owned(), |folder| absolute(folder));
    Ok(Program { argv, env: env.to_vec(), folder })
}

fn absolute(folder: &str) -> String {
    format!("/{}", folder.trim_start_matches('/'))
}

fn root(inputs: &Inputs<'_>, container: &Container) -> Root {
    match inputs.isolation {
        Isolation::None => Root::Machine,
        Isolation::Namespaces { user_attributes, files } => Root::Layers {
            layers: match &inputs.image {
                Some(image) => {
                    vec![Layer::Image { lowers: image.lowers.clone(), is_copied: files == Manner::ReadOnly }]
                }
                None => inputs.layers.clone(),
            },
            read_only: of_container(container, |context| context.read_only_root_filesystem) == Some(true),
            // Nothing of the machine shows in an image.
            hidden: if inputs.image.is_some() { Vec::new() } else { inputs.hidden.clone() },
            volumes: inputs.image.as_ref().map(|image| own_volumes(image.execution, container)).unwrap_or_default(),
            devices: inputs.devices.clone(),
            user_attributes,
        },
    }
}

/// The volumes that an image declares, except where the container mounts its own or every container has something.
fn own_volumes(execution: &Execution, container: &Container) -> Vec<String> {
    let mounts = || container.volume_mounts.iter().flatten().map(|mount| mount.mount_path.as_str());
    let is_covered = |path: &str| {
        path == "/" || OWN.into_iter().chain(mounts()).any(|over| Path::new(path).starts_with(absolute(over)))
    };
    let volumes = execution.volumes.iter().map(|path| absolute(path));
    volumes.filter(|path| !is_covered(path)).collect()
}

/// Decides which processes the containers of a pod see.
pub fn pids(spec: &PodSpec, isolation: Isolation) -> Pids {
    match (isolation, spec.host_pid, spec.share_process_namespace) {
        (Isolation::None, ..) | (_, Some(true), _) => Pids::Machine,
        (.., Some(true)) => Pids::Pod,
        _ => Pids::Own,
    }
}

/// Without namespaces nothing can be mounted: what a container cannot do without is refused.
fn check_bare(container: &Container) -> Result<Vec<Mount>, Cause> {
    let is_token = |mount: &&VolumeMount| mount.mount_path == "/var/run/secrets/kubernetes.io/serviceaccount";
    match container.volume_mounts.iter().flatten().find(|mount| !is_token(mount)) {
        None => Ok(Vec::new()),
        Some(mount) => Err(create_error(format!(
            "volume {} cannot be mounted at {} without isolation",
            mount.name, mount.mount_path
        ))),
    }
}

fn mounts(inputs: &Inputs<'_>, env: &[(String, String)]) -> Result<Vec<Mount>, Cause> {
    let folder = inputs.folder;
    let own = |name: &str, target: &str| {
        let path = folder.files().join(name).to_string_lossy().into_owned();
        Mount { source: Source::Path { path, inside: None }, target: target.to_owned(), read_only: false }
    };
    let mut mounts =
        vec![own("hosts", "/etc/hosts"), own("hostname", "/etc/hostname"), own("resolv.conf", "/etc/resolv.conf")];
    if let Some(target) = inputs.container.termination_message_path.clone().filter(|path| !path.is_empty()) {
        let path = termination_message(folder, &inputs.container.name, inputs.attempt).to_string_lossy().into_owned();
        mounts.push(Mount { source: Source::Path { path, inside: None }, target, read_only: false });
    }
    let mut wanted: Vec<&VolumeMount> = inputs.container.volume_mounts.iter().flatten().collect();
    // An outer folder before what is mounted inside it; /etc/hosts of a volume covers ours.
    wanted.sort_by_key(|mount| mount.mount_path.matches('/').count());
    for mount in wanted {
        mounts.push(volume_mount(inputs, mount, env)?);
        if is_shared(inputs.pod, &mount.name) && mount.sub_path.is_none() && mount.sub_path_expr.is_none() {
            mounts.push(program_mount(inputs.program, &mount.mount_path));
        }
    }
    Ok(mounts)
}

/// The program itself, over the empty file that stands for it in a shared folder: it is copied nowhere.
fn program_mount(program: &Path, folder: &str) -> Mount {
    let source = Source::Path { path: program.to_string_lossy().into_owned(), inside: None };
    Mount { source, target: format!("{}/{PROGRAM}", folder.trim_end_matches('/')), read_only: true }
}

/// The file behind a container's termination message path.
pub fn termination_message(folder: &PodFolder, container: &str, attempt: u32) -> std::path::PathBuf {
    folder.attempt(container, attempt).join("termination-log")
}

fn volume_mount(inputs: &Inputs<'_>, mount: &VolumeMount, env: &[(String, String)]) -> Result<Mount, Cause> {
    let path = inputs.volumes.get(&mount.name).ok_or_else(|| config_error(format!("no volume {}", mount.name)))?;
    let lookup = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let inside = mount.sub_path.clone().or_else(|| mount.sub_path_expr.as_ref().map(|text| expand(text, lookup)));
    let inside = inside.filter(|inside| !inside.is_empty());
    if inside
        .as_deref()
        .is_some_and(|inside| Path::new(inside).is_absolute() || inside.split('/').any(|part| part == ".."))
    {
        return Err(config_error(format!("subPath of volume {} leads out of it", mount.name)));
    }
    Ok(Mount {
        source: Source::Path { path: path.clone(), inside },
        target: mount.mount_path.clone(),
        read_only: mount.read_only.unwrap_or(false) || is_shared(inputs.pod, &mount.name),
    })
}

/// The name of our program in folders that all pods share.
const PROGRAM: &str = "ronde";

/// Reads the limits that control groups know.
pub fn limits(container: &Container) -> Limits {
    let resources = container.resources.as_ref();
    let limit = |name: &str| resources?.limits.as_ref()?.get(name);
    let request = |name: &str| resources?.requests.as_ref()?.get(name);
    Limits {
        memory_bytes: limit("memory").and_then(whole),
        cpu_milli: limit("cpu").and_then(milli),
        cpu_request_milli: request("cpu").and_then(milli),
        pod_processes: None,
    }
}

pub fn whole(quantity: &Quantity) -> Option<u64> {
    u64::try_from(ronde_text::quantity::Quantity::parse(&quantity.0).ok()?.value()).ok()
}

pub fn milli(quantity: &Quantity) -> Option<u64> {
    u64::try_from(ronde_text::quantity::Quantity::parse(&quantity.0).ok()?.milli()).ok()
}

#[cfg(test)]
mod tests;
