//! The command line of the verbs for charts.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args as ClapArgs, ValueEnum};

use super::ClusterArgs;

#[derive(Debug, Clone, ClapArgs)]
pub struct InstallArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Chart that comes with this program: `horovod`, or `operator` to run jobs on a cluster.
    #[arg(value_name = "CHART")]
    pub chart: String,

    /// Name of the release; the operator's is `ronde` unless you say otherwise.
    #[arg(value_name = "NAME")]
    pub release: Option<String>,

    /// Name of the release, as Helm 2 took it.
    #[arg(long, value_name = "NAME", conflicts_with = "release")]
    pub name: Option<String>,

    /// File of values. May be repeated; later files win.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub values: Vec<PathBuf>,

    /// Value, as in `worker.number=2`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Namespace of the release [default: the context's; for the operator, `ronde-system`].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Wait until everything is ready.
    #[arg(long, conflicts_with = "dry_run")]
    pub wait: bool,

    /// Print the manifests instead of installing them; asks no cluster.
    #[arg(long)]
    pub dry_run: bool,

    /// Whose custom resource definitions become Ronde's; for the operator.
    #[arg(long, value_name = "WHOSE", value_delimiter = ',')]
    pub take_over: Vec<Peer>,

    /// More options for Helm, after `--`, as in `-- --timeout 5m`.
    #[arg(last = true, value_name = "HELM OPTIONS")]
    pub more: Vec<OsString>,
}

/// Another operator of the same kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    Volcano,
    EtOperator,
}

impl Peer {
    /// Returns the name as values of the chart have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volcano => "volcano",
            Self::EtOperator => "et-operator",
        }
    }
}

#[derive(Debug, Clone, ClapArgs)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the release.
    #[arg(value_name = "NAME", required = true)]
    pub releases: Vec<String>,

    /// Namespace of the release [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// More options for Helm, after `--`, as in `-- --wait`.
    #[arg(last = true, value_name = "HELM OPTIONS")]
    pub more: Vec<OsString>,
}
