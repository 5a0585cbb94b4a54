//! The part of `ronde down` that works without a data directory: what the kernel still has of an instance is removed.

use std::{path::Path, process::Command};

use ronde_node::{
    instances::{self, Instance, State},
    start,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{DownError, end_process};
use crate::{
    Context, client,
    data_dir::DataDir,
    failure::{Answer, Failure, Outcome},
    instances::{InstancesError, count_pods, find, place},
    kubeconfig::{self, NAME, Record, Removed},
    up::find_kubeconfig,
};

/// Stops every instance of this user.
pub fn down_all(context: &Context) -> Outcome {
    let found = find(context)?;
    if found.is_empty() {
        context.printer.say("no instances of yours on this machine");
    }
    // One that cannot be stopped keeps no other.
    let done: Vec<Outcome> = found.iter().map(|instance| down_found(instance, context)).collect();
    done.into_iter().find(|outcome| !matches!(outcome, Ok(Answer::Done))).unwrap_or(Ok(Answer::Done))
}

/// Returns the instance that a name stands for.
pub fn by_name(name: &str, context: &Context) -> Result<Instance, Box<dyn Failure>> {
    let found = find(context)?.into_iter().find(|instance| instance.name == name);
    found.ok_or_else(|| InstancesError::Unknown { name: name.to_owned() }.into())
}

/// Stops one of several instances. One that has its data directory is stopped by a process of its own: without root,
/// that goes into the namespaces of its instance, and there is no way out of them.
fn down_found(instance: &Instance, context: &Context) -> Outcome {
    let Some(data_dir) = instance.data_dir.as_ref().filter(|path| is_data_dir(path, context)) else {
        return remove(instance, context);
    };
    let own = std::env::current_exe().map_err(|source| DownError::Spawn { source })?;
    let mut command = Command::new(own);
    command.arg("down").arg("--data-dir").arg(data_dir);
    if context.printer.quiet {
        command.arg("--quiet");
    }
    let status = command.status().map_err(|source| DownError::Spawn { source })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(if status.success() { Answer::Done } else { Answer::Code(code) })
}

pub fn is_data_dir(path: &Path, context: &Context) -> bool {
    DataDir::resolve(Some(path), &context.environment).is_ok_and(|data_dir| data_dir.is_ours().is_ok_and(|ours| ours))
}

/// Stops what is left of the instance of a directory that is not there; says what else is without one.
pub fn down_missing(data_dir: &Path, context: &Context) -> Outcome {
    let printer = context.printer;
    let name = start::instance(data_dir);
    let (own, others): (Vec<Instance>, Vec<Instance>) =
        find(context)?.into_iter().partition(|instance| instance.name == name);
    match own.first() {
        Some(own) => drop(remove(own, context)?),
        None => {
            printer.say(format_args!("ronde is not running (no data in {})", data_dir.display()));
            withdraw(data_dir, context)?;
        }
    }
    for orphan in others.iter().filter(|instance| instance.state() == State::Orphaned) {
        let data = orphan.data_dir.as_ref().map(|path| format!(" of {}", path.display())).unwrap_or_default();
        let pods = count_pods(orphan.pods.len());
        printer.say(format_args!(
            "instance `{0}`{data} no longer has a data directory ({pods}): remove it with `ronde down --instance {0}`",
            orphan.name
        ));
    }
    Ok(Answer::Done)
}

/// Ends the daemon and the pods of an instance whose data directory is gone, and removes its network and groups.
pub fn remove(instance: &Instance, context: &Context) -> Outcome {
    let printer = context.printer;
    if let Some(pid) = instance.daemon.and_then(Pid::from_raw)
        && let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
    {
        end_process(pid, &process, printer)?;
        printer.say(format_args!("stopped ronde (process {})", pid.as_raw_nonzero()));
    }
    let removed = client::runtime()?.block_on(instances::remove(&instance.name, place(context).as_ref()));
    let ended = removed.map_err(|source| DownError::Sweep { source })?;
    // Those that were found may have noticed by themselves that their directory is gone.
    let pods = count_pods(ended.max(instance.pods.len()));
    let data = instance.data_dir.as_ref().map(|path| format!(" ({} is gone)", path.display())).unwrap_or_default();
    printer.say(format_args!("removed what was left of instance `{}`{data}: {pods}", instance.name));
    match &instance.data_dir {
        Some(data_dir) => withdraw(data_dir, context).map(|()| Answer::Done),
        None => Ok(Answer::Done),
    }
}

/// Takes the context of an instance out of the kubeconfig where it usually is: the directory that knew better is gone.
fn withdraw(data_dir: &Path, context: &Context) -> Result<(), Box<dyn Failure>> {
    let Ok(path) = find_kubeconfig(None, context) else { return Ok(()) };
    if let Removed::Entries { kubeconfig } = kubeconfig::remove(data_dir, Some(Record::new(path, None, false)))? {
        context.printer.say(format_args!("removed the context `{NAME}` from {}", kubeconfig.display()));
    }
    Ok(())
}
