//! Waits for a state of objects, within a limit, and says what is missing when it takes longer than a moment.

use std::time::Duration;

use tokio::time::{self, Instant};

use crate::{
    Context,
    args::WaitArgs,
    failure::{Blame, Failure},
    printer::Printer,
    watch::{self, Watch},
};

/// What takes less needs no words.
const MOMENT: Duration = Duration::from_secs(1);

/// How far something has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// Not yet, and this is why.
    Waits(String),
}

/// It took too long.
#[derive(Debug, thiserror::Error)]
#[error("timed out after {limit}: {waits}")]
pub struct TooLong {
    limit: ronde_api::Duration,
    waits: String,
}

impl Failure for TooLong {
    fn blame(&self) -> Blame {
        Blame::Environment
    }

    fn hint(&self) -> Option<String> {
        Some("the operation continues; wait longer with `--timeout TIME`".to_owned())
    }
}

/// Looks at the watches, and again each time they change, until it is done.
///
/// # Errors
/// If `look` fails, the API cannot be reached, or the time is over.
pub async fn until(
    watches: &mut [Watch],
    args: WaitArgs,
    context: &Context,
    look: impl Fn(&[Watch]) -> Result<Progress, Box<dyn Failure>>,
) -> Result<(), Box<dyn Failure>> {
    let mut narrator = Narrator { printer: context.printer, said: String::new() };
    let mut tick = time::interval_at(Instant::now() + MOMENT, MOMENT);
    let over = time::sleep(args.timeout.to_std());
    tokio::pin!(over);
    loop {
        let waits = match look(watches)? {
            Progress::Done => return Ok(()),
            Progress::Waits(waits) => waits,
        };
        tokio::select! {
            // In this order, so that what is in the way has been said before it is given up.
            biased;
            changed = watch::any_changed(watches) => changed?,
            _ = tick.tick() => narrator.tell(&waits),
            () = &mut over => return Err(TooLong { limit: args.timeout, waits }.into()),
        }
    }
}

/// Says the same thing once.
struct Narrator {
    printer: Printer,
    said: String,
}

impl Narrator {
    fn tell(&mut self, waits: &str) {
        if self.said != waits {
            let said_so = waits.starts_with("waiting ");
            self.printer.say(format_args!("{}{waits}", if said_so { "" } else { "waiting: " }));
            waits.clone_into(&mut self.said);
        }
    }
}
