//! The signals that end a job, and their names.

use std::{io, thread};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

pub const SIGINT: i32 = 2;
pub const SIGTERM: i32 = 15;

/// Signals to this process that mean: stop.
#[derive(Debug)]
pub struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
    /// Until the end of stdin was told of.
    input_ends: Option<oneshot::Receiver<()>>,
}

impl Stops {
    /// Listens from now on. Needs a runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // A handler would undo what `nohup` has set for us.
            hangup: if is_hangup_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
            input_ends: None,
        })
    }

    /// The end of stdin counts as a signal from now on.
    pub fn listen_to_stdin(&mut self) -> io::Result<()> {
        let (ended, input_ends) = oneshot::channel();
        // A read that nobody can cancel: a thread of the runtime would keep it from ending.
        thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = ended.send(());
        })?;
        self.input_ends = Some(input_ends);
        Ok(())
    }

    /// Waits for the next one and returns its number; the end of the terminal, or of stdin, counts as SIGTERM.
    pub async fn next(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let input_ends = async {
            match &mut self.input_ends {
                Some(input_ends) => input_ends.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = input_ends => {
                self.input_ends = None;
                SIGTERM
            }
            _ = self.interrupt.recv() => SIGINT,
            _ = self.terminate.recv() => SIGTERM,
            _ = hangup => SIGTERM,
        }
    }
}

fn is_hangup_ignored() -> bool {
    let Ok(status) = fs_err::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 is signal 1, SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The name of a signal that ends programs, or its number.
pub fn name(number: i32) -> String {
    let known = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    format!("signal {number} ({known})")
}
