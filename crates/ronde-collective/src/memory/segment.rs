//! Memory that several processes map: how it is made, found by peers, and looked at.
//!
//! A segment is a memfd, so it has no name and no size limit but the machine's, and it goes with its last user.
//! Peers open it through `/proc/<pid>/fd`, which the kernel allows to processes of the same user in the same pid
//! namespace: where that fails there is no shared memory, and TCP is used.
//!
//! Which part of the segment belongs to whom, and when, is the protocol of the callers in `shm/`: a region is written
//! by its one owner before it publishes a counter (release), and read by others after they saw it (acquire).
#![expect(unsafe_code, reason = "shared memory is outside of what the compiler can check")]

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64},
    time::Duration,
};

use rustix::{
    event::Timespec,
    fs::MemfdFlags,
    io::Errno,
    mm::{MapFlags, ProtFlags},
    thread::futex,
};

/// A mapping, taken down when dropped.
#[derive(Debug)]
pub(crate) struct Segment {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is there until the drop, for whatever thread; access to it is by atomics or by the protocol.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a new segment of zeros; peers find it by the descriptor's number.
    pub(crate) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = rustix::fs::memfd_create("ronde", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        Ok((Self::map(&fd, len)?, fd))
    }

    /// Maps the segment of a peer on the same host.
    pub(crate) fn open(pid: u32, fd: i32, len: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}"))?;
        // A wrong guess may lead to any file: only one of the right length is mapped, and the caller checks its head.
        if file_len(&file)? == len as u64 {
            Self::map(&file, len)
        } else {
            Err(io::Error::other("it is not the segment"))
        }
    }

    fn map(fd: impl AsFd, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Self { base, len })
    }

    fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "a place outside of the segment");
        // SAFETY: inside of the mapping, by the check above.
        unsafe { self.base.add(offset) }
    }

    /// A word to wait on.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "words are aligned");
        // SAFETY: inside, aligned, and only ever looked at as an atomic.
        unsafe { self.at(offset, 4).cast().as_ref() }
    }

    /// A counter.
    pub(crate) fn counter(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "counters are aligned");
        // SAFETY: inside, aligned, and only ever looked at as an atomic.
        unsafe { self.at(offset, 8).cast().as_ref() }
    }

    /// Sleeps on a word while it is as it was heard, or a while; tells whether it was the latter.
    pub(crate) fn sleep(&self, offset: usize, heard: u32, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        let woken = futex::wait(self.word(offset), futex::Flags::empty(), heard, Some(&limit));
        woken == Err(Errno::TIMEDOUT)
    }

    /// Wakes all who sleep on a word.
    pub(crate) fn wake(&self, offset: usize) {
        let _ = futex::wake(self.word(offset), futex::Flags::empty(), u32::MAX >> 1);
    }

    /// What somebody has published.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside; by the protocol nobody writes there until we say that we have read it.
        unsafe { std::slice::from_raw_parts(self.at(offset, len).as_ptr(), len) }
    }

    /// A region that belongs to us until we publish it.
    #[expect(clippy::mut_from_ref, reason = "the protocol gives every region one writer at a time")]
    pub(crate) fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: inside; by the protocol we are the only one who looks there until we publish it.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len).as_ptr(), len) }
    }
}

fn file_len(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// The number by which peers find a descriptor.
pub(crate) fn number(fd: &OwnedFd) -> i32 {
    fd.as_raw_fd()
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
