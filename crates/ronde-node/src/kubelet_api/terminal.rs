//! The daemon's end of a pseudo-terminal, for exec with `-t`.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll},
};

use rustix::{
    fs::{Mode, OFlags},
    pty::OpenptFlags,
    termios::Winsize,
};
use tokio::io::{AsyncRead, Interest, ReadBuf, unix::AsyncFd};

use crate::streams::Size;

/// A terminal in a container: our end of it.
pub struct Master(AsyncFd<OwnedFd>);

/// Opens a terminal where the container of a process will find it by name; returns both ends.
pub fn open(pid: u32) -> io::Result<(Master, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let ours = rustix::fs::open(format!("/proc/{pid}/root/dev/ptmx"), flags, Mode::empty())?;
    rustix::pty::unlockpt(&ours)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    #[expect(deprecated, reason = "what it warns of cannot happen to a descriptor that is owned")]
    let ours = AsyncFd::new(ours)?;
    Ok((Master(ours), theirs))
}

impl Master {
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.0.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd.as_fd(), bytes)?)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    pub fn resize(&self, size: Size) {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = rustix::termios::tcsetwinsize(self.0.get_ref(), size);
    }
}

/// Reads what the program has written.
impl AsyncRead for &Master {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = std::task::ready!(self.0.poll_read_ready(cx))?;
            match ready.try_io(|fd| Ok(rustix::io::read(fd.as_fd(), buffer.initialize_unfilled())?)) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // So says a terminal whose other end nobody has open any more.
                Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}
