//! Why a job could not be run: who has to act, and what they could do.

use std::{io, path::PathBuf};

use crate::{
    agent::agent_starter::AgentStarterError,
    hosts::HostsError,
    slots::TooFewSlots,
    start::{StartError, ssh::OutOfReach},
};

/// Why a job could not be run. That a rank failed is none of these: it is how a job can end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("number of ranks not given")]
    NoNumber,
    #[error("no command given")]
    NoCommand,
    #[error("cannot use the hosts")]
    Hosts(#[source] HostsError),
    #[error("{0}")]
    Slots(TooFewSlots),
    #[error("cannot read `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot use the configuration file `{}`: {why}", .path.display())]
    Config { path: PathBuf, why: String },
    #[error("{0}")]
    Parameter(String),
    #[error("there is no network interface `{0}` on this machine")]
    Interface(String),
    #[error("the command `{0}` is empty")]
    Rsh(String),
    #[error("{0}")]
    AgentStarter(#[from] AgentStarterError),
    #[error("cannot write the output to `{}`", .path.display())]
    Output { path: PathBuf, source: io::Error },
    #[error("cannot prepare the job")]
    Prepare(#[source] io::Error),
    #[error("{}", unreachable(.0))]
    Unreachable(Vec<OutOfReach>),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the ranks were not started within {seconds} s")]
    Late { seconds: u64 },
}

fn unreachable(hosts: &[OutOfReach]) -> String {
    let lines = hosts.iter().map(|host| format!("ssh not successful for host {}:\n{}", host.host, host.said));
    lines.collect::<Vec<_>>().join("\n")
}

impl LaunchError {
    /// Whether the input can be fixed; else the machine, a host or the network is in the way.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Prepare(_) | Self::Unreachable(_) | Self::Start(_) | Self::Late { .. } | Self::Output { .. } => false,
            Self::NoNumber
            | Self::NoCommand
            | Self::Hosts(_)
            | Self::Slots(_)
            | Self::Read { .. }
            | Self::Config { .. }
            | Self::Parameter(_)
            | Self::Interface(_)
            | Self::Rsh(_)
            | Self::AgentStarter(_) => true,
        }
    }

    /// 2 or 3, as for every command of ours.
    pub fn exit_code(&self) -> u8 {
        if self.is_input() { 2 } else { 3 }
    }

    /// Names a flag or a command that helps.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoNumber => "set it with -np, as in `-np 4`",
            Self::NoCommand => "it stands at the end, as in `-np 4 python train.py`",
            Self::Hosts(error) => error.hint(),
            Self::Slots(_) => "give the hosts more slots (`-H node1:4,node2:4`), or start fewer ranks with -np",
            Self::Parameter(_) => "see --help",
            Self::Config { .. } => "the same parameters are flags, see --help",
            Self::Interface(_) => "`ip link` lists the interfaces",
            Self::Unreachable(hosts) => {
                let command = hosts.first().map_or("ssh HOST true", |host| host.command.as_str());
                return Some(format!("`{command}` must succeed without a prompt"));
            }
            Self::AgentStarter(AgentStarterError::Secret(error)) => return Some(error.hint()),
            Self::Late { .. } => "give them more time with --start-timeout",
            Self::Rsh(_) => "name a command that runs a line of shell on a host, as in `--rsh 'ssh -q'`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
