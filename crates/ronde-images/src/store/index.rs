//! The names of images, in one file that is replaced as a whole.

use std::{collections::BTreeMap, io, path::Path};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{StoreError, work};
use crate::{Digest, Reference};

const VERSION: u32 = 1;

/// Names and the digests of their manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    version: u32,
    pub images: BTreeMap<Reference, Digest>,
}

impl Index {
    /// Reads the file; one that is not there has no names in it.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(StoreError::Index),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { version: VERSION, images: BTreeMap::new() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the file in one step.
    pub fn write(&self, folder: &Path) -> Result<(), StoreError> {
        let temporary = folder.join("tmp").join("index.json");
        fs::write(&temporary, serde_json::to_vec_pretty(self).map_err(StoreError::Index)?)?;
        fs::File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, folder.join("index.json"))?;
        Ok(work::sync_folder(folder)?)
    }
}
