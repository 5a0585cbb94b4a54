//! The command line of the agent and of its client.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use clap::{Args as ClapArgs, Subcommand};
use ronde_launch::agent::dial::PORT_DEFAULT;

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT_DEFAULT);

#[derive(Debug, Clone, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentArgs {
    #[command(subcommand)]
    pub verb: Option<AgentVerb>,

    /// Address to listen on [default: 0.0.0.0 with the port of RONDE_AGENT_PORT, or 9009].
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,

    /// File with the job's secret [default: as RONDE_SECRET_FILE says, or the secret in RONDE_SECRET].
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Copy the job's host list from here (a file, or a folder with a file `hostfile`) whenever it changes, and let
    /// the agents of hosts that leave it go.
    #[arg(long, value_name = "PATH")]
    pub hosts_from: Option<PathBuf>,

    /// Where to copy the host list to. May be repeated.
    #[arg(long, value_name = "FILE", requires = "hosts_from")]
    pub hosts_to: Vec<PathBuf>,

    /// Where to copy the file `deepspeed-hostfile` to, which is beside the host list. May be repeated.
    #[arg(long, value_name = "FILE", requires = "hosts_from")]
    pub deepspeed_hosts_to: Vec<PathBuf>,

    /// Run this command too, and end with its exit code.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, Subcommand)]
pub enum AgentVerb {
    /// Copy this program into a folder, with the names by which other launchers find it: bin/ssh, fallback/horovodrun.
    Install {
        /// Folder, made if it is missing.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

impl AgentArgs {
    /// Where to listen, given the port that the environment names.
    pub fn listen(&self, port: Option<u16>) -> SocketAddr {
        self.listen.unwrap_or_else(|| SocketAddr::new(LISTEN.ip(), port.unwrap_or(LISTEN.port())))
    }
}

#[derive(Debug, Clone, ClapArgs)]
#[command(override_usage = "ronde rsh [OPTIONS OF SSH] [USER@]HOST COMMAND...")]
pub struct RshArgs {
    /// Options of ssh, which are ignored but for -n; the host; the command, which is run by `sh -c`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub words: Vec<String>,

    /// Called as `ssh`.
    #[arg(skip)]
    pub is_ssh: bool,
}
