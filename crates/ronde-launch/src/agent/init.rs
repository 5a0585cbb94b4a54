//! The outer process of an agent: the first of its pod, or as good as that.
//!
//! It does nothing but what that asks for: it takes in orphans and buries them, passes signals to the agent proper, and
//! ends with it. Whichever of the two is killed, the other goes too, with all that was started.

use std::io;

use ronde_process::{Alone, Child, Ended, Fork, Namespaces, fork, kill};
use rustix::process::{Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the agent proper in a process of its own and returns its exit code, in both processes.
///
/// # Errors
/// There must be only one thread; and what the system refuses.
pub fn under_init<E: From<io::Error>>(agent: impl FnOnce() -> Result<i32, E>) -> Result<i32, E> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(io::Error::from)?;
    match fork(Alone::check()?, Namespaces::default())? {
        Fork::Parent(child) => Ok(watch(&child)?.exit_code()),
        Fork::Child => {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
            if rustix::process::getppid() != Some(own) {
                return Err(io::Error::other("the process above is gone already").into());
            }
            // Ctrl-C in a terminal comes once: through the process above.
            rustix::process::setsid().map_err(io::Error::from)?;
            agent()
        }
    }
}

fn watch(child: &Child) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(pass_on(child))?;
    kill::descendants()?;
    Ok(ended)
}

async fn pass_on(child: &Child) -> io::Result<Ended> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut someone_ended = signal(SignalKind::child())?;
    loop {
        if let Some(ended) = bury(child)? {
            return Ok(ended);
        }
        tokio::select! {
            _ = someone_ended.recv() => {}
            _ = terminate.recv() => child.signal(Signal::TERM)?,
            _ = interrupt.recv() => child.signal(Signal::INT)?,
        }
    }
}

/// Reaps all that has ended; the agent, if it is among it, is told.
fn bury(agent: &Child) -> io::Result<Option<Ended>> {
    let mut found = None;
    // As long as the agent is there, there is a child: none has ended is not an error.
    while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
        if pid == agent.pid {
            let code = status.exit_status().map(Ended::Code);
            found = code.or_else(|| status.terminating_signal().map(Ended::Signal));
            break;
        }
    }
    Ok(found)
}
