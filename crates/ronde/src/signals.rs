//! Turns signals into an order to stop: once gracefully, twice at once.
//!
//! SIGINT and SIGTERM stop. SIGHUP stops a process in the foreground, whose terminal has gone, unless it was started
//! with `nohup`; one in the background has no terminal and nothing to reload, so it takes no notice.

use std::io;

use fs_err as fs;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{failure::INTERRUPTED, printer::Printer};

/// Returns a token that the first signal cancels; the second one ends the process. Needs a runtime.
pub fn stop_token(detached: bool, printer: Printer) -> io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = Hangup::new(detached)?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => printer.say("stopping (Ctrl-C again: at once)"),
            _ = terminate.recv() => tracing::info!("stopping on SIGTERM"),
            () = hangup.recv() => tracing::info!("stopping: the terminal is gone"),
        }
        token.cancel();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        end_now();
    });
    Ok(stop)
}

/// Returns what waits for the first signal that asks to stop; later ones are ignored. Needs a runtime.
pub fn first_stop() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = Hangup::new(false)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = hangup.recv() => {}
        }
    })
}

#[expect(clippy::exit, reason = "the second signal asks for exactly this")]
fn end_now() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}

/// SIGHUP, or silence when nobody means it.
enum Hangup {
    Stops(Signal),
    Ignored,
}

impl Hangup {
    fn new(detached: bool) -> io::Result<Self> {
        // A handler would undo the SIG_IGN that `nohup` has set for us.
        if is_hangup_ignored() {
            return Ok(Self::Ignored);
        }
        let hangup = signal(SignalKind::hangup())?;
        Ok(if detached { Self::Ignored } else { Self::Stops(hangup) })
    }

    async fn recv(&mut self) {
        match self {
            Self::Stops(signal) => {
                signal.recv().await;
            }
            Self::Ignored => std::future::pending().await,
        }
    }
}

fn is_hangup_ignored() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // Bit 0 is signal 1, SIGHUP.
    mask & 1 == 1
}
