//! Memory of tensors: our own, or the caller's by address.
//!
//! The engine works on tensors while their owner does something else, so the caller of [`Buffer::from_raw`] promises
//! to keep them alive and alone until the operation is done. [`View`] is what the algorithms see: a source and a
//! target that may be one and the same.
#![expect(unsafe_code, reason = "tensors of Python frameworks come as addresses")]

use std::{ops::Range, ptr::NonNull};

use rustix::mm::{Advice, madvise};

/// The pages that advice is about; a kernel with larger ones ignores it.
const PAGE: usize = 4096;
/// Two large pages: whatever the address, one lies within. NumPy has the same bound.
const LARGE: usize = 4 << 20;

/// The bytes of a tensor.
#[derive(Debug)]
pub struct Buffer(Memory);

#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    Raw { address: NonNull<u8>, len: usize },
}

// SAFETY: by the promise of `from_raw` nobody else uses the memory while the buffer exists, in whatever thread.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Takes memory of somebody else.
    ///
    /// # Safety
    /// Until the operation that the buffer is given to is done, or failed, the memory must stay valid for reads and
    /// writes, and nobody else may write it, or read it if it is a target.
    pub unsafe fn from_raw(address: *mut u8, len: usize) -> Self {
        Self(Memory::Raw { address: NonNull::new(address).unwrap_or(NonNull::dangling()), len })
    }

    pub fn zeroed(len: usize) -> Self {
        Self(Memory::Own(vec![0; len]))
    }

    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(bytes) => bytes,
            // SAFETY: the promise of `from_raw`.
            Memory::Raw { address, len } => unsafe { std::slice::from_raw_parts(address.as_ptr(), *len) },
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(bytes) => bytes,
            // SAFETY: the promise of `from_raw`.
            Memory::Raw { address, len } => unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), *len) },
        }
    }

    /// Asks the kernel for large pages under memory that nobody has written yet: the first write to each page costs
    /// more than a sum over it. Says nothing if the kernel refuses.
    pub fn prefer_large_pages(&mut self) {
        let bytes = self.as_mut_slice();
        if bytes.len() < LARGE {
            return;
        }
        let skipped = bytes.as_ptr().align_offset(PAGE);
        let pages = &mut bytes[skipped..];
        let len = pages.len() / PAGE * PAGE;
        // SAFETY: the pages lie within memory that is ours to write, and the advice does not change what is in them.
        let _ = unsafe { madvise(pages.as_mut_ptr().cast(), len, Advice::LinuxHugepage) };
    }

    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Memory::Own(bytes))
    }
}

/// Where an algorithm reads and writes.
#[derive(Debug)]
pub(crate) enum View<'a> {
    /// The result replaces the data.
    InPlace(&'a mut [u8]),
    Apart {
        from: &'a [u8],
        to: &'a mut [u8],
    },
}

impl View<'_> {
    pub(crate) fn from(&self, range: Range<usize>) -> &[u8] {
        match self {
            Self::InPlace(data) => &data[range],
            Self::Apart { from, .. } => &from[range],
        }
    }

    pub(crate) fn to(&mut self, range: Range<usize>) -> &mut [u8] {
        match self {
            Self::InPlace(data) => &mut data[range],
            Self::Apart { to, .. } => &mut to[range],
        }
    }

    /// Makes a part of the source a part of the target.
    pub(crate) fn keep(&mut self, range: Range<usize>, at: usize) {
        match self {
            Self::InPlace(data) if range.start != at => data.copy_within(range, at),
            Self::InPlace(_) => {}
            Self::Apart { from, to } => to[at..at + range.len()].copy_from_slice(&from[range]),
        }
    }

    pub(crate) fn reborrow(&mut self) -> View<'_> {
        match self {
            Self::InPlace(data) => View::InPlace(data),
            Self::Apart { from, to } => View::Apart { from, to },
        }
    }
}
