//! Commands: orders to jobs and queues, which name their target and are deleted when they are carried out.

use std::sync::Arc;

use kube::{Resource, ResourceExt as _};
use ronde_api::Command;

/// Tells whether a command is for this very object, not for an earlier one of its name.
pub fn is_for(command: &Command, object: &impl Resource) -> bool {
    let uid = command.target.as_ref().map(|target| target.uid.as_str()).unwrap_or_default();
    uid.is_empty() || object.meta().uid.as_deref() == Some(uid)
}

/// Puts the oldest first.
pub fn put_in_order(commands: &mut [Arc<Command>]) {
    commands.sort_by_key(|command| (command.creation_timestamp().map(|time| time.0), command.name_any()));
}
