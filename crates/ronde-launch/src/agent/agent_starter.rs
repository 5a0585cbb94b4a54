//! Ranks through agents: one way to start them among others.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use tokio::{
    io::duplex,
    sync::{mpsc, oneshot},
};
use tokio_util::task::TaskTracker;

use super::{
    client::{self, Ends},
    dial::{DialError, Dialer, PORT_VARIABLE},
    frame::{CHUNK_BYTES, Run},
    names::Names,
    secret::{SECRET_FILE_VARIABLE, SecretError, SecretSource},
};
use crate::start::{Program, StartError, Started, Starter};

/// Orders that wait to be sent; nobody gives more than a few.
const ORDERS_MAX: usize = 16;

/// Starts ranks through the agents of their hosts.
#[derive(Debug, Clone)]
pub struct AgentStarter {
    pub dialer: Dialer,
}

impl AgentStarter {
    /// Returns the way that the environment names: by a port and a secret.
    pub fn around(variables: &BTreeMap<String, String>) -> Result<Option<Self>, AgentStarterError> {
        let (Some(port), Some(file)) = (variables.get(PORT_VARIABLE), variables.get(SECRET_FILE_VARIABLE)) else {
            return Ok(None);
        };
        let port = port.parse().map_err(|_| AgentStarterError::Port(port.clone()))?;
        let secret = SecretSource { file: Some(file.into()), text: None }.read()?;
        Ok(Some(Self { dialer: Dialer { names: Names::default(), port, secret } }))
    }
}

/// What is wrong with the environment.
#[derive(Debug, thiserror::Error)]
pub enum AgentStarterError {
    #[error("{PORT_VARIABLE} is `{0}`, not a port number")]
    Port(String),
    #[error("cannot use the job's secret: {0}")]
    Secret(#[from] SecretError),
}

impl Starter for AgentStarter {
    fn start<'a>(&'a self, host: &'a str, program: &'a Program) -> BoxFuture<'a, Result<Started, StartError>> {
        Box::pin(async move {
            let channel = self.dialer.dial(host).await.map_err(|error| start_error(host, &error))?;
            let (stdout, out) = duplex(CHUNK_BYTES);
            let (stderr, err) = duplex(CHUNK_BYTES);
            let (orders, given) = mpsc::channel(ORDERS_MAX);
            let (end, ended) = oneshot::channel();
            let run = run(program);
            tokio::spawn(async move {
                let ends = Ends { stdin: None, stdout: Box::new(out), stderr: Box::new(err) };
                // Nobody waits for the output as a whole: its readers see where it ends.
                let passing = TaskTracker::new();
                // The receiver may have lost interest.
                let _ = end.send(client::run(channel, run, ends, given, &passing).await);
            });
            Ok(Started { stdout: Box::new(stdout), stderr: Box::new(stderr), orders, ended })
        })
    }
}

fn run(program: &Program) -> Run {
    Run {
        words: program.words.clone(),
        environment: program.environment.clone().into_iter().collect(),
        directory: program.directory.display().to_string(),
        has_input: false,
    }
}

fn start_error(host: &str, error: &DialError) -> StartError {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    StartError { host: host.to_owned(), why: format!("{error}{hint}") }
}
