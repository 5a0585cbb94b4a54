//! The data directory is deleted under everything; then nothing of it is left, and all begins anew.

use fs_err as fs;
use ronde_sim::wait_until;

use crate::{
    deeds::Deeds,
    dice::Dice,
    instance::{Instance, LIMIT},
    leftovers::Leftovers,
};

/// Deletes the data directory, at times after the daemon was killed, and starts from nothing.
pub async fn lose_data(deeds: &mut Deeds, instance: &mut Instance, dice: &mut Dice) -> String {
    let has_daemon = dice.below(2) == 0;
    let names = Leftovers::names(instance);
    if !has_daemon {
        instance.kill_daemon();
    }
    delete(instance);
    // A daemon notices by itself; without one somebody has to say it.
    if !has_daemon {
        instance.run(&["down"]);
    }
    wait_until("nothing is left of a deleted data directory", LIMIT, || {
        delete(instance);
        (Leftovers::find(instance, &names) == Leftovers::default()).then_some(())
    });
    instance.revive().await;
    deeds.begin_anew(instance).await;
    format!("delete the data directory {} a daemon", if has_daemon { "under" } else { "without" })
}

/// What is being written at this moment may be in the way; a disk of its own stays, without anything on it.
fn delete(instance: &Instance) {
    let data_dir = instance.data_dir();
    wait_until("the data directory is deleted", LIMIT, || {
        for entry in fs::read_dir(&data_dir).into_iter().flatten().flatten() {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
        let _ = fs::remove_dir(&data_dir);
        fs::read_dir(&data_dir).map_or(true, |mut left| left.next().is_none()).then_some(())
    });
}
