//! `ronde queue open` and `ronde queue close`: by commands to the controller of queues, in the namespace that `vcctl` uses.
//!
//! What cannot work is refused here, because the controller only notes it in an event.

use kube::Client;
use ronde_api::{Action, PodGroup, Queue, QueueState, names};

use super::show::count_inside;
use crate::{
    Context,
    args::QueueStateArgs,
    client, commands,
    failure::{Answer, Blame, Failure, Outcome},
    objects::{self, title},
    wait::{self, Progress},
    watch::Watch,
};

/// Where commands for queues, which have no namespace, are put.
const NAMESPACE: &str = "default";

/// Why a queue does not do as it is told.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot open queue `{name}`: its parent `{parent}` is {state}")]
    ParentNotOpen { name: String, parent: String, state: QueueState },
    #[error("cannot close queue `{}`: it is the root of all queues", names::ROOT_QUEUE)]
    Root,
    #[error("queue `{name}` was deleted in the meantime")]
    Gone { name: String },
}

impl Failure for StateError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::ParentNotOpen { parent, .. } => Some(format!("open it first: `ronde queue open {parent}`")),
            Self::Root => Some("close its child queues instead".to_owned()),
            Self::Gone { .. } => None,
        }
    }
}

/// Opens a queue.
pub async fn open(args: &QueueStateArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let queue = super::fetch(&client, &args.name).await?;
    check_parent(&client, &queue).await?;
    reach(&client, &queue, QueueState::Open, (args, context)).await
}

/// Closes a queue.
pub async fn close(args: &QueueStateArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let queue = super::fetch(&client, &args.name).await?;
    if args.name == names::ROOT_QUEUE {
        return Err(StateError::Root.into());
    }
    reach(&client, &queue, QueueState::Closed, (args, context)).await
}

/// Returns the state of a queue; one that no controller has looked at is open.
pub fn of(queue: &Queue) -> QueueState {
    queue.status.as_ref().and_then(|status| status.state).unwrap_or(QueueState::Open)
}

async fn check_parent(client: &Client, queue: &Queue) -> Result<(), Box<dyn Failure>> {
    let name = &queue.spec.parent;
    if name.is_empty() {
        return Ok(());
    }
    match objects::find::<Queue>(client, None, name).await? {
        Some(parent) if !parent.is_open() => {
            let own = queue.metadata.name.clone().unwrap_or_default();
            Err(StateError::ParentNotOpen { name: own, parent: name.clone(), state: of(&parent) }.into())
        }
        _ => Ok(()),
    }
}

async fn reach(
    client: &Client,
    queue: &Queue,
    goal: QueueState,
    (args, context): (&QueueStateArgs, &Context),
) -> Outcome {
    let title = title::<Queue>(&args.name);
    let before = of(queue);
    if before == goal {
        context.printer.say(format_args!("queue `{}` is already {before}", args.name));
        context.printer.data(format_args!("{title} unchanged"));
        return Ok(Answer::Done);
    }
    let (action, verb, done) = match goal {
        QueueState::Open => (Action::OpenQueue, "open", "opened"),
        _ => (Action::CloseQueue, "close", "closed"),
    };
    // A queue that is closing needs no second command to be closed.
    let command = if goal == QueueState::Closed && before == QueueState::Closing {
        None
    } else {
        Some(commands::give::<Queue>(client, NAMESPACE, action, &queue.metadata).await?)
    };
    if !args.wait.wait {
        context.printer.data(format_args!("{title} {verb} asked for"));
        return Ok(Answer::Done);
    }
    follow(client, goal, command, (args, context)).await?;
    context.printer.data(format_args!("{title} {done}"));
    Ok(Answer::Done)
}

async fn follow(
    client: &Client,
    goal: QueueState,
    command: Option<Watch>,
    (args, context): (&QueueStateArgs, &Context),
) -> Result<(), Box<dyn Failure>> {
    let own = objects::watch_one::<Queue>(client, None, &args.name).await?;
    let groups = objects::watch::<PodGroup>(client, None, &[]).await?;
    let mut watches: Vec<Watch> = [own, groups].into_iter().chain(command).collect();
    wait::until(&mut watches, args.wait, context, |watches| {
        let groups: Vec<PodGroup> = watches[1].all()?;
        let untaken = watches.get(2).and_then(commands::untaken);
        let queue: Option<Queue> = watches[0].one()?;
        let queue = queue.ok_or_else(|| StateError::Gone { name: args.name.clone() })?;
        Ok(progress(&args.name, (of(&queue), goal), count_inside(&groups, &args.name), untaken))
    })
    .await
}

fn progress(name: &str, (now, goal): (QueueState, QueueState), inside: usize, untaken: Option<&str>) -> Progress {
    if now == goal {
        return Progress::Done;
    }
    let why = match (now, untaken) {
        (_, Some(untaken)) => format!(": {untaken}"),
        (QueueState::Closing, None) => match inside {
            1 => ": it takes no more jobs, and 1 group is still in it".to_owned(),
            count => format!(": it takes no more jobs, and {count} groups are still in it"),
        },
        _ => String::new(),
    };
    Progress::Waits(format!("queue `{name}` is {now}{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, states: (QueueState, QueueState), inside: usize, untaken: Option<&str>, expected: &str) {
        let shown = match progress("gpu", states, inside, untaken) {
            Progress::Done => "done".to_owned(),
            Progress::Waits(waits) => waits,
        };
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn the_wait_says_what_is_in_the_way() {
        use QueueState::{Closed, Closing, Open};
        check("closed", (Closed, Closed), 0, None, "done");
        check("opened", (Open, Open), 3, None, "done");
        check("nobody cares", (Open, Closed), 0, Some("nobody is there"), "queue `gpu` is Open: nobody is there");
        check("taken and not done", (Closed, Open), 0, None, "queue `gpu` is Closed");
        check(
            "one is inside",
            (Closing, Closed),
            1,
            None,
            "queue `gpu` is Closing: it takes no more jobs, and 1 group is still in it",
        );
        check(
            "some are inside",
            (Closing, Closed),
            2,
            None,
            "queue `gpu` is Closing: it takes no more jobs, and 2 groups are still in it",
        );
    }
}
