//! The names of images, in one file that is replaced as a whole. Who changes it holds `index.lock` for that time.

use std::{collections::BTreeMap, io, io::Write as _, path::Path};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{
    StoreError, lock,
    temporary::{Temporary, sync_folder},
};
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
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        match fs::read(folder.join("index.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(StoreError::Index),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { version: VERSION, images: BTreeMap::new() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Changes the file in one step, after everybody else who is at it. Durable when it returns.
    pub fn change<T>(folder: &Path, change: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _lock = lock::take(&folder.join("index.lock"))?;
        let before = Self::read(folder)?;
        let mut index = before.clone();
        let changed = change(&mut index)?;
        if index != before {
            index.write(folder)?;
        }
        Ok(changed)
    }

    fn write(&self, folder: &Path) -> Result<(), StoreError> {
        let (temporary, mut file) = Temporary::file(&folder.join("tmp"))?;
        file.write_all(&serde_json::to_vec_pretty(self).map_err(StoreError::Index)?)?;
        file.sync_all()?;
        temporary.rename(&folder.join("index.json"))?;
        Ok(sync_folder(folder)?)
    }
}
