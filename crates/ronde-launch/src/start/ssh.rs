//! The system's ssh: which words it gets, and whether it reaches a host. The user's configuration and agent apply.

use std::{path::PathBuf, process::Stdio};

use futures::future;
use tokio::process::Command;

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
        let mut words: Vec<String> = ["ssh", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", host]
            .map(str::to_owned)
            .into();
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
            let tried = Command::new(&words[0])
                .args(&words[1..])
                .arg("true")
                .stdin(Stdio::null())
                .process_group(0)
                .kill_on_drop(true)
                .output()
                .await;
            match tried {
                Ok(output) if output.status.success() => return None,
                Ok(output) => said = String::from_utf8_lossy(&output.stderr).into_owned(),
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
