//! The command line of the verbs for charts.

use std::{ffi::OsString, path::PathBuf};

use clap::Args as ClapArgs;

use super::ClusterArgs;

#[derive(Debug, Clone, ClapArgs)]
pub struct InstallArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Chart that comes with this program: `horovod`.
    #[arg(value_name = "CHART")]
    pub chart: String,

    /// Name of the release.
    #[arg(value_name = "NAME", required_unless_present = "name")]
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

    /// Namespace of the release [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// More options for Helm, after `--`, as in `-- --wait`.
    #[arg(last = true, value_name = "HELM OPTIONS")]
    pub more: Vec<OsString>,
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
