//! The arguments of `ronde image`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{DataDirArgs, RegistriesArgs};

#[derive(Debug, Clone, ClapArgs)]
pub struct ImageArgs {
    #[command(flatten)]
    pub data_dir: DataDirArgs,

    #[command(subcommand)]
    pub verb: ImageVerb,
}

#[derive(Debug, Clone, Subcommand)]
pub enum ImageVerb {
    /// List the images of this machine.
    #[command(alias = "ls")]
    List {
        /// Output format.
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: ImageOutput,
    },
    /// Pull images from their registries.
    Pull {
        #[arg(value_name = "IMAGE", required = true)]
        images: Vec<String>,

        #[command(flatten)]
        registries: RegistriesArgs,
    },
    /// Load images from a docker-archive, an OCI archive or an OCI folder.
    Load {
        /// Archive or folder; `-` reads an archive from stdin.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Name of the image [default: the names in the archive].
        #[arg(long, value_name = "IMAGE")]
        name: Option<String>,
    },
    /// Save an image as an archive that OCI tools and `docker load` read.
    Save {
        #[arg(value_name = "IMAGE")]
        image: String,

        /// File to write; `-` writes to stdout.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove names of images, and what nothing else needs.
    #[command(alias = "rm")]
    Remove {
        #[arg(value_name = "IMAGE", required = true)]
        images: Vec<String>,
    },
    /// Remove all images that no pod uses.
    Prune,
    /// Show the digest, layers and configuration of an image, as JSON.
    Inspect {
        #[arg(value_name = "IMAGE")]
        image: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImageOutput {
    Table,
    Json,
    Name,
}
