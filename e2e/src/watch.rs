//! An open watch: a task collects the lines of the answer while the scenario goes on.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use tokio::{sync::mpsc, task::JoinHandle};

/// A scenario expects a handful of events; more than this means that it watches too much.
const EVENTS_HELD: usize = 1000;

/// The lines of one watch. Dropping it closes the connection.
pub struct Watch {
    lines: mpsc::Receiver<String>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Starts to collect lines.
    pub fn open(body: Body) -> Self {
        let (sender, lines) = mpsc::channel(EVENTS_HELD);
        let task = tokio::spawn(collect(body, sender));
        Watch { lines, task }
    }

    /// Returns the next `count` lines, or fewer when they do not come in time or the watch ends.
    pub async fn take(&mut self, count: usize, limit: Duration) -> Vec<String> {
        let mut taken = Vec::new();
        let all = async {
            while taken.len() < count {
                match self.lines.recv().await {
                    Some(line) => taken.push(line),
                    None => break,
                }
            }
        };
        // Running out of time shows in the number of lines.
        let _ = tokio::time::timeout(limit, all).await;
        taken
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn collect(mut body: Body, sender: mpsc::Sender<String>) {
    let mut pending = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if !line.is_empty() && sender.send(line).await.is_err() {
                return;
            }
        }
    }
}
