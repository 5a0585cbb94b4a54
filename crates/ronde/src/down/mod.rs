//! `ronde down`: stops the instance of a data directory and takes its entries out of the kubeconfig.
//!
//! Saying it twice, or after `kill -9`, is fine: whatever is left gets cleaned up. The process is found by the lock it
//! holds and held by a pidfd, so a process that merely got the same number is never signalled. What is left of an
//! instance whose data directory is gone is the business of [`leftovers`].

mod leftovers;

use std::{io, os::fd::OwnedFd, path::PathBuf, time::Duration};

use ronde_node::{
    instances as marks,
    machine::rootless,
    net::NetworkPlace,
    start,
    sweep::{self, Swept},
};
use ronde_process::Alone;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use crate::{
    Context,
    args::DownArgs,
    client,
    data_dir::{DataDir, DataDirError},
    environment,
    failure::{Answer, Blame, Failure, Outcome},
    instances::count_pods,
    kubeconfig::{self, NAME, Record},
    lock::{self, About, Holder, Lock, LockError},
    printer::Printer,
};

/// After this the user is told what we wait for.
const SILENCE: Duration = Duration::from_secs(1);
/// The instance cuts its own connections after five seconds, and may wait ten for the kubeconfig; this is twice that,
/// counted from the announcement.
const GRACE: Duration = Duration::from_secs(30);
/// The kernel ends a killed process at once, unless it waits for a disk.
const KILL: Duration = Duration::from_secs(5);

/// Why an instance could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    #[error("the data directory {data_dir} is in use by {holder}, which cannot be reached from here")]
    OutOfReach { data_dir: PathBuf, holder: Box<Holder> },
    #[error("cannot stop process {pid}")]
    Signal { pid: i32, source: io::Error },
    #[error("process {pid} does not end even when killed")]
    Stuck { pid: i32 },
    #[error("cannot stop the pods")]
    Sweep { source: io::Error },
    #[error("cannot run `ronde down` for each instance")]
    Spawn { source: io::Error },
}

impl Failure for DownError {
    fn blame(&self) -> Blame {
        Blame::Environment
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::OutOfReach { .. } => Some("run `ronde down` where it was started".to_owned()),
            Self::Signal { .. } => Some("run `ronde down` as the user who started it".to_owned()),
            Self::Stuck { .. } | Self::Sweep { .. } | Self::Spawn { .. } => None,
        }
    }
}

/// Runs the verb.
pub fn run(args: &DownArgs, context: &Context) -> Outcome {
    if args.all {
        return leftovers::down_all(context);
    }
    let named = match &args.instance {
        Some(name) => {
            let instance = leftovers::by_name(name, context)?;
            match instance.data_dir.clone().filter(|path| leftovers::is_data_dir(path, context)) {
                Some(data_dir) => Some(data_dir),
                None => return leftovers::remove(&instance, context),
            }
        }
        None => args.data_dir.data_dir.clone(),
    };
    down(&DataDir::resolve(named.as_deref(), &context.environment)?, args.delete_data, context)
}

/// Stops the instance of a data directory.
fn down(data_dir: &DataDir, delete_data: bool, context: &Context) -> Outcome {
    let printer = context.printer;
    if !data_dir.is_ours()? {
        if delete_data && data_dir.path().exists() {
            return Err(DataDirError::Foreign { path: data_dir.path().to_owned() }.into());
        }
        return leftovers::down_missing(data_dir.path(), context);
    }
    let record = Record::load(data_dir.path());

    // 1. Nothing runs any more.
    match stop(data_dir, printer)? {
        Some(pid) => printer.say(format_args!("stopped ronde (process {pid})")),
        None => printer.say(format_args!("ronde is not running (data in {})", data_dir.path().display())),
    }

    // 2. Nothing may start while we tidy up: pods, links and control groups go first.
    let lock = Lock::take(data_dir.path(), &about())?;
    let place = enter_home(data_dir, context)?;
    let swept = sweep(data_dir, place)?;
    if swept.pods > 0 {
        printer.say(format_args!("stopped {}", count_pods(swept.pods)));
    }
    kubeconfig::remove(data_dir.path(), None)?;
    if let Some(record) = record {
        printer.say(format_args!("removed the context `{NAME}` from {}", record.kubeconfig.display()));
    }

    // 3. What the user asked to be deleted.
    if delete_data {
        let size = data_dir.size()?;
        data_dir.delete()?;
        let mebibytes = size.bytes as f64 / 1_048_576.0;
        printer.say(format_args!("deleted {} ({} files, {mebibytes:.1} MiB)", data_dir.path().display(), size.files));
    }
    drop(lock);
    Ok(Answer::Done)
}

/// Goes where the instance is: only there its files can be removed. Returns where its network is, if it is ours to remove.
fn enter_home(data_dir: &DataDir, context: &Context) -> Result<Option<NetworkPlace>, DownError> {
    let fail = |source| DownError::Sweep { source };
    let node = data_dir.path().join("node");
    let enter = || Alone::check().and_then(|alone| rootless::enter(alone, &node));
    let enter_for_files = || Alone::check().and_then(|alone| rootless::enter_for_files(alone, &node));
    match rootless::living_holder(&node.join("holder.lock")).map_err(fail)? {
        Some(_) => Ok(Some(NetworkPlace::Own(enter().map_err(fail)?.network))),
        None if context.environment.is_root => Ok(Some(NetworkPlace::Host)),
        None => enter_for_files().map(|()| None).map_err(fail),
    }
}

/// Takes down what the node has left running: pods outlive the process that started them.
fn sweep(data_dir: &DataDir, place: Option<NetworkPlace>) -> Result<Swept, Box<dyn Failure>> {
    let node = data_dir.path().join("node");
    if !node.exists() {
        return Ok(Swept::default());
    }
    let fail = |source| DownError::Sweep { source };
    let runtime = client::runtime()?;
    let mut swept = runtime.block_on(sweep::sweep(data_dir.path(), place.as_ref())).map_err(fail)?;
    // Pods of a directory that was here before, which have lost their folders.
    let name = start::instance(data_dir.path());
    let on_host = place.as_ref().filter(|place| matches!(place, NetworkPlace::Host));
    swept.pods += runtime.block_on(marks::remove(&name, on_host)).map_err(fail)?;
    rootless::leave(&node).map_err(fail)?;
    Ok(swept)
}

fn about() -> About {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    About { pid: std::process::id(), started: environment::now(), endpoint: None, version }
}

/// Stops whoever uses the data directory; returns the process that was stopped.
fn stop(data_dir: &DataDir, printer: Printer) -> Result<Option<i32>, Box<dyn Failure>> {
    let Some((pid, process)) = find(data_dir)? else { return Ok(None) };
    end_process(pid, &process, printer)?;
    Ok(Some(pid.as_raw_nonzero().get()))
}

/// Ends a process: it is told, waited for, and killed in the end.
fn end_process(pid: Pid, process: &OwnedFd, printer: Printer) -> Result<(), DownError> {
    let id = pid.as_raw_nonzero().get();
    let fail = |source: Errno| DownError::Signal { pid: id, source: source.into() };
    signal(process, Signal::TERM).map_err(fail)?;
    if ends_within(process, SILENCE) {
        return Ok(());
    }
    printer.say(format_args!("waiting for process {id} to finish (at most {} s)", GRACE.as_secs()));
    if ends_within(process, GRACE) {
        return Ok(());
    }
    printer.say(format_args!("process {id} does not finish: killing it (whatever it acknowledged is on disk)"));
    signal(process, Signal::KILL).map_err(fail)?;
    if ends_within(process, KILL) { Ok(()) } else { Err(DownError::Stuck { pid: id }) }
}

/// Returns the process that holds the lock, together with a handle that no other process can slip into.
fn find(data_dir: &DataDir) -> Result<Option<(Pid, OwnedFd)>, Box<dyn Failure>> {
    let Some(holder) = lock::holder(data_dir.path())? else { return Ok(None) };
    let Some(pid) = holder.pid else {
        return Err(DownError::OutOfReach { data_dir: data_dir.path().to_owned(), holder: Box::new(holder) }.into());
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(DownError::Signal { pid: pid.as_raw_nonzero().get(), source: errno.into() }.into()),
    };
    // Still the holder, so the handle is the holder's and not that of a later process with its number.
    let is_holder = |holder: Result<Option<Holder>, LockError>| Ok(holder?.is_some_and(|now| now.pid == Some(pid)));
    match is_holder(lock::holder(data_dir.path())) {
        Ok(true) => Ok(Some((pid, process))),
        Ok(false) => Ok(None),
        Err(error) => Err(LockError::into(error)),
    }
}

fn signal(process: &OwnedFd, signal: Signal) -> Result<(), Errno> {
    match pidfd_send_signal(process, signal) {
        // It has ended by itself.
        Err(Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// A pidfd becomes readable when its process ends.
fn ends_within(process: &OwnedFd, time: Duration) -> bool {
    let limit = Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready > 0)
}
