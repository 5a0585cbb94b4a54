//! The command line of `ronde doctor`.

use clap::Args as ClapArgs;

use super::{ClusterArgs, StatusOutput};

#[derive(Debug, Clone, ClapArgs)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Namespace whose jobs you work with [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: StatusOutput,
}
