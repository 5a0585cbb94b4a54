//! The system's ssh: which words it gets, and whether it reaches a host. The user's configuration and agent apply.

use std::path::{Path, PathBuf};

use futures::future;
use tokio::io::{self, AsyncReadExt as _};

use super::{
    Ended, Program,
    local::{Local, Output},
};
use crate::{environment, keeper::NO_INPUT};

/// Tries before a host counts as out of reach.
const ATTEMPTS: usize = 5;
const CONNECT_TIMEOUT_SECONDS: u32 = 10;

/// Settings of ssh for all hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssh {
    pub port: Option<u16>,
    pub identity: Option<PathBuf>,
}

/// A host that ssh does not reach, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfReach {
    pub host: String,
    /// The command that should have succeeded.
    pub command: String,
    pub said: String,
}

impl Ssh {
    /// The command up to the line that is to be run.
    pub fn words(&self, host: &str, connect_timeout_seconds: Option<u32>) -> Vec<String> {
        let mut words = vec!["ssh".to_owned()];
        // A connection that others share would end with the rank that has opened it; one that is there is used.
        for option in ["PasswordAuthentication=no", "StrictHostKeyChecking=no", "ControlMaster=no"] {
            words.extend(["-o".to_owned(), option.to_owned()]);
        }
        words.push(host.to_owned());
        if let Some(port) = self.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(identity) = &self.identity {
            words.extend(["-i".to_owned(), identity.display().to_string()]);
        }
        if let Some(seconds) = connect_timeout_seconds {
            words.extend(["-o".to_owned(), format!("ConnectTimeout={seconds}")]);
        }
        words
    }

    /// Tries all hosts at once; returns those that cannot be reached.
    pub async fn check(&self, hosts: &[&str]) -> Vec<OutOfReach> {
        let tries = hosts.iter().map(|host| self.check_one(host));
        future::join_all(tries).await.into_iter().flatten().collect()
    }

    async fn check_one(&self, host: &str) -> Option<OutOfReach> {
        let words = self.words(host, Some(CONNECT_TIMEOUT_SECONDS));
        let mut said = String::new();
        for _ in 0..ATTEMPTS {
            match run([words.as_slice(), &["true".to_owned()]].concat()).await {
                Ok((Ended::Code(0), _)) => return None,
                Ok((_, stderr)) => said = stderr,
                Err(error) => {
                    said = format!("cannot run `ssh`: {error}");
                    break;
                }
            }
        }
        Some(OutOfReach {
            host: host.to_owned(),
            command: format!("{} true", words.join(" ")),
            said: said.trim().to_owned(),
        })
    }
}

/// Runs a command to its end, under a keeper as all that may wait for a host; returns what it says on stderr.
async fn run(words: Vec<String>) -> std::io::Result<(Ended, String)> {
    let program = Program { words, environment: environment::variables(), directory: environment::folder()? };
    let mut started = Local::default().spawn(&program, Path::new(NO_INPUT), Output::Piped)?;
    let (mut said, mut nowhere) = (Vec::new(), io::sink());
    let _ = tokio::join!(io::copy(&mut started.stdout, &mut nowhere), started.stderr.read_to_end(&mut said));
    let ended = started.ended.await.map_err(std::io::Error::other)?;
    Ok((ended, String::from_utf8_lossy(&said).into_owned()))
}
