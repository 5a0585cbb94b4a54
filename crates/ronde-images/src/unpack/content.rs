//! The content of files, from the archive to the disk without a copy in between.

use std::{
    io::{self, BufRead, Seek as _, SeekFrom, Write as _},
    os::fd::OwnedFd,
};

use super::{BLOCK, Header};

/// Which side failed: the archive or the disk.
pub enum PutError {
    Read(io::Error),
    Write(io::Error),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes what follows a header into a file, and gives the file back.
pub fn write(reader: &mut impl BufRead, file: OwnedFd, header: &Header) -> Result<OwnedFd, PutError> {
    let mut file = fs_err::File::from_parts(file.into(), "layer");
    match &header.sparse {
        None => copy(reader, &mut file, header.size)?,
        Some(sparse) => {
            for (offset, length) in &sparse.pieces {
                file.seek(SeekFrom::Start(*offset))?;
                copy(reader, &mut file, *length)?;
            }
            file.set_len(sparse.size)?;
        }
    }
    Ok(file.into_file().into())
}

fn copy(reader: &mut impl BufRead, file: &mut fs_err::File, size: u64) -> Result<(), PutError> {
    let mut left = size;
    while left > 0 {
        let bytes = next(reader, left).map_err(PutError::Read)?;
        file.write_all(bytes)?;
        let read = bytes.len();
        reader.consume(read);
        left -= read as u64;
    }
    Ok(())
}

/// Passes over bytes.
pub fn skip(reader: &mut impl BufRead, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let read = next(reader, left)?.len();
        reader.consume(read);
        left -= read as u64;
    }
    Ok(())
}

/// Returns some of the bytes that are next, at least one and not more than wanted.
fn next(reader: &mut impl BufRead, most: u64) -> io::Result<&[u8]> {
    let bytes = reader.fill_buf()?;
    if bytes.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is cut off"));
    }
    Ok(&bytes[..bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX))])
}

/// Contents are filled up to whole blocks.
pub fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}
