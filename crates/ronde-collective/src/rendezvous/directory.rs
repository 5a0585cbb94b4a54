//! A rendezvous without a server: cards are files in a directory that all ranks see.
//!
//! Files appear whole, by renaming. They stay: the directory belongs to whoever made it. Who can write there is
//! trusted, so the directory's permissions take the place of the secret.

use std::{path::Path, thread, time::Duration};

use super::{Error, Meeting, Result, clock};

const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn exchange(meeting: &Meeting<'_>, directory: &Path, step: &str, card: &[u8]) -> Result<Vec<Vec<u8>>> {
    let name = |rank: usize| directory.join(format!("{}.{step}.{rank}", meeting.scope.replace('/', "_")));
    let failed = |error: std::io::Error| Error::Bootstrap(error.to_string());
    let own = name(meeting.rank.0);
    let draft = directory.join(format!(".draft.{}", meeting.rank));
    fs_err::write(&draft, card).map_err(failed)?;
    fs_err::rename(&draft, &own).map_err(failed)?;
    let mut cards = Vec::new();
    for rank in 0..meeting.size {
        cards.push(loop {
            match fs_err::read(name(rank)) {
                Ok(card) => break card,
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                Err(_) if clock::now() >= meeting.deadline => {
                    return Err(Error::Bootstrap(format!(
                        "timed out waiting for rank {rank} in `{}`",
                        directory.display()
                    )));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        });
    }
    Ok(cards)
}
