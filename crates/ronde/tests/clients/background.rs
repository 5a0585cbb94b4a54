//! A client in the background: one that watches, waits or serves while the test goes on.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Output},
    sync::mpsc::{self, Receiver},
    thread,
};

use ronde_sim::wait_until;

use crate::{client::Home, sandbox::LIMIT};

/// A client that runs until it ends by itself or the test is over.
pub struct Background {
    child: Child,
    /// Lines of stdout; a thread reads them, so that waiting for one has a bound.
    lines: Receiver<String>,
}

impl Background {
    pub fn start(home: &Home, script: &str) -> Self {
        // Without `exec` the kill would end the shell alone.
        let mut child = home.shell(&format!("exec {script}")).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Waits for the next line.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("the client prints another line")
    }

    /// Returns the next line if it is there.
    pub fn try_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Waits until the client ends by itself.
    pub fn end(mut self) -> Output {
        let status = wait_until("the client ends", LIMIT, || self.child.try_wait().unwrap());
        let mut output =
            Output { status, stdout: self.lines.iter().collect::<Vec<_>>().join("\n").into(), stderr: vec![] };
        self.child.stderr.take().unwrap().read_to_end(&mut output.stderr).unwrap();
        output
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
