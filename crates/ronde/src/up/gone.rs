//! A data directory that is deleted or moved away under a running instance: it is noticed, and nothing is left behind.
//!
//! Nothing can be kept any more, and nobody would find the pods again. So the instance stops as if it had been told to,
//! ends its pods, and takes its network and control groups with it.

use std::{io, path::Path, time::Duration};

use ronde_node::{instances, net::NetworkPlace, presence::Presence, start};
use rustix::fs::{Mode, OFlags};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::{Context, data_dir::DataDir};

/// How often the store's file is looked for: two system calls.
const CHECK: Duration = Duration::from_secs(1);

/// Follows the data directory of a running instance.
pub struct Watch {
    /// Cancelled when the directory is gone.
    gone: CancellationToken,
}

impl Watch {
    /// Begins to look, by the store's file; `stop` is cancelled when that is gone.
    pub fn start(runtime: &Runtime, data_dir: &DataDir, stop: &CancellationToken) -> io::Result<Self> {
        let store = data_dir.store();
        // By its name only: to close a real handle would give up locks that the store holds.
        let file = rustix::fs::open(&store, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut presence = Presence::new(file, &store)?;
        let gone = CancellationToken::new();
        let (found, stop, path) = (gone.clone(), stop.clone(), data_dir.path().to_owned());
        runtime.spawn(async move {
            while !stop.is_cancelled() {
                tokio::time::sleep(CHECK).await;
                if presence.is_gone() {
                    tracing::error!(data_dir = %path.display(), "stopping: the data directory is gone");
                    found.cancel();
                    stop.cancel();
                }
            }
        });
        Ok(Self { gone })
    }

    pub fn has_seen_it_go(&self) -> bool {
        self.gone.is_cancelled()
    }
}

/// Ends the pods and removes what the kernel has of this instance.
pub fn clean_up(runtime: &Runtime, data_dir: &Path, context: &Context) {
    let place = context.environment.is_root.then_some(NetworkPlace::Host);
    let removed = runtime.block_on(instances::remove(&start::instance(data_dir), place.as_ref()));
    if let Err(error) = removed {
        context.printer.warn(format_args!("cannot remove what is left of the pods: {error}"));
    }
}
