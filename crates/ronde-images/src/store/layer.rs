//! One layer on its way from its blob into a folder: decompressed, checked against its diffID, and unpacked.

use std::{
    io::{self, Read},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;
use fs_err as fs;

use super::{StoreError, ahead::read_ahead, progress::Progress};
use crate::{
    Descriptor, Digest,
    manifest::Compression,
    unpack::{self, Options, UnpackError},
    zstd,
};

/// What is read from a blob at a time.
const CHUNK: usize = 1 << 17;

/// Unpacks a blob into an empty folder.
///
/// # Errors
/// If the layer is refused or is not the one that was meant; then the folder has a part of it.
pub fn unpack(
    blob: &Path,
    layer: &Descriptor,
    diff_id: Digest,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<(), StoreError> {
    // What the container sees as `/`, unless the layer says otherwise.
    rustix::fs::chmod(folder, rustix::fs::Mode::from_raw_mode(0o755)).map_err(io::Error::from)?;
    let blob = Told { reader: fs::File::open(blob)?, layer, progress };
    let blob = io::BufReader::with_capacity(CHUNK, blob);
    let actual = match layer.compression()? {
        Compression::None => unpack_hashed(blob, folder),
        Compression::Gzip => unpack_hashed(MultiGzDecoder::new(blob), folder),
        Compression::Zstd => unpack_hashed(zstd::Decoder::new(blob), folder),
    };
    let actual = actual.map_err(|source| StoreError::Unpack { diff_id, source })?;
    if actual != diff_id {
        return Err(crate::digest::Error::Mismatch { expected: diff_id, actual }.into());
    }
    Ok(())
}

fn unpack_hashed(reader: impl Read + Send, folder: &Path) -> Result<Digest, UnpackError> {
    let (_, digest) = read_ahead(reader, |ahead| unpack::unpack(ahead, folder, Options::of_caller()))?;
    Ok(digest)
}

/// Tells how much of a blob has been read.
struct Told<'a, R> {
    reader: R,
    layer: &'a Descriptor,
    progress: &'a dyn Progress,
}

impl<R: Read> Read for Told<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.progress.unpacked(self.layer, read as u64);
        Ok(read)
    }
}
