//! Watches the ranks of a job until the last has ended.

use std::time::Duration;

use futures::{StreamExt as _, future, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{self, Instant},
};

use crate::{
    output::{self, Output, Tail},
    signals::{self, SIGINT, SIGTERM, Stops},
    slots::Slot,
    start::{Ended, NOTICED_WITHIN, Order},
};

/// What a rank has to end by itself once it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// For ranks that are killed.
const LAST_WORDS: Duration = NOTICED_WITHIN;

/// A rank that runs.
pub(super) struct Rank {
    pub slot: Slot,
    pub orders: mpsc::Sender<Order>,
    pub ended: oneshot::Receiver<Ended>,
    pub stdout: JoinHandle<Tail>,
    pub stderr: JoinHandle<Tail>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Done,
    Failed(Failed),
    /// By a signal to the launcher.
    Stopped(i32),
}

/// The first rank that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub slot: Slot,
    pub ended: Ended,
    /// The last lines of its stderr.
    pub tail: Tail,
}

impl Ending {
    /// The exit code of the job.
    pub fn exit_code(&self) -> u8 {
        let code = match self {
            Self::Done => 0,
            Self::Failed(failed) => failed.ended.exit_code(),
            Self::Stopped(number) => 128 + number,
        };
        // No code that says success for what was none.
        u8::try_from(code & 0xff).ok().filter(|low| *low != 0 || code == 0).unwrap_or(1)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Slot { rank, host, .. } = &self.slot;
        match &self.ended {
            Ended::Code(code) => write!(f, "rank {rank} on host `{host}` exited with code {code}")?,
            Ended::Signal(number) => {
                write!(f, "rank {rank} on host `{host}` was killed by {}", signals::name(*number))?;
            }
            Ended::Lost(why) => write!(f, "rank {rank} on host `{host}` was lost: {why}")?,
        }
        if !self.tail.is_empty() {
            write!(f, "\n  its last lines on stderr:")?;
        }
        self.tail.iter().try_for_each(|line| write!(f, "\n    {line}"))?;
        self.ended.hint().map_or(Ok(()), |hint| write!(f, "\n\nhint: {hint}"))
    }
}

/// Waits for all ranks. Ends them all when one fails or a signal comes.
pub(super) async fn watch(ranks: Vec<Rank>, output: &Output, stops: &mut Stops) -> Ending {
    let (mut ends, mut crew) = Crew::new(ranks);
    let mut first: Option<(usize, Ended)> = None;
    let mut stopped: Option<i32> = None;
    let mut patience = Patience::Endless;
    loop {
        tokio::select! {
            end = ends.next() => {
                let Some((index, ended)) = end else { break };
                if ended != Ended::Code(0) && first.is_none() && stopped.is_none() {
                    crew.tell_of_failure(index, &ended, output);
                    first = Some((index, ended));
                    patience = crew.ask_to_end();
                }
            }
            number = stops.next() => {
                if stopped.replace(number).is_some() {
                    patience = crew.kill();
                } else {
                    if number == SIGINT {
                        output.print_notice("stopping (Ctrl-C again: at once)");
                    }
                    patience = crew.ask_to_end();
                }
            }
            () = patience.is_over() => match patience {
                Patience::Asked(_) => patience = crew.kill(),
                // A process that the kernel does not let go; the job is over all the same.
                _ => break,
            },
        }
    }
    let tails = crew.drain(output).await;
    match (first, stopped) {
        (Some((index, ended)), _) => {
            let tail = tails.into_iter().nth(index).unwrap_or_default();
            Ending::Failed(Failed { slot: crew.ranks.swap_remove(index).slot, ended, tail })
        }
        (None, Some(number)) => Ending::Stopped(number),
        (None, None) => Ending::Done,
    }
}

/// Kills ranks of a job that did not come together.
pub(super) async fn stop_now(ranks: Vec<Rank>, output: &Output) {
    let (ends, mut crew) = Crew::new(ranks);
    crew.kill();
    let _ = time::timeout(LAST_WORDS, ends.collect::<Vec<_>>()).await;
    crew.drain(output).await;
}

/// How long the ranks may still take.
#[derive(Debug, Clone, Copy)]
enum Patience {
    Endless,
    /// They were asked to end; then they are killed.
    Asked(Instant),
    /// They were killed; then nobody waits any more.
    Killed(Instant),
}

impl Patience {
    async fn is_over(self) {
        match self {
            Self::Endless => future::pending().await,
            Self::Asked(until) | Self::Killed(until) => time::sleep_until(until).await,
        }
    }
}

struct Crew {
    ranks: Vec<Member>,
}

struct Member {
    slot: Slot,
    orders: mpsc::Sender<Order>,
    pumps: Option<(JoinHandle<Tail>, JoinHandle<Tail>)>,
}

type Ends = FuturesUnordered<future::BoxFuture<'static, (usize, Ended)>>;

impl Crew {
    fn new(ranks: Vec<Rank>) -> (Ends, Self) {
        let ends = Ends::new();
        let mut members = Vec::with_capacity(ranks.len());
        for (index, rank) in ranks.into_iter().enumerate() {
            ends.push(Box::pin(async move {
                (index, rank.ended.await.unwrap_or_else(|_| Ended::Lost("nobody knows why".to_owned())))
            }));
            members.push(Member { slot: rank.slot, orders: rank.orders, pumps: Some((rank.stdout, rank.stderr)) });
        }
        (ends, Self { ranks: members })
    }

    /// In the words of the original, which scripts look for.
    fn tell_of_failure(&self, index: usize, ended: &Ended, output: &Output) {
        let rank = self.ranks[index].slot.rank;
        let mut text = format!("Process {rank} exit with status code {}.", ended.exit_code());
        if self.ranks.len() > 1 {
            text.push_str(&format!("\nTerminating remaining workers after failure of Process {rank}."));
        }
        output.print_notice(&text);
    }

    fn ask_to_end(&self) -> Patience {
        self.order(Order::Signal(SIGTERM));
        Patience::Asked(Instant::now() + GRACE)
    }

    fn kill(&self) -> Patience {
        self.order(Order::Kill);
        Patience::Killed(Instant::now() + LAST_WORDS)
    }

    fn order(&self, order: Order) {
        // Full: it has orders enough. Closed: it has ended.
        self.ranks.iter().for_each(|member| {
            let _ = member.orders.try_send(order);
        });
    }

    /// Waits for the rest of the output, unless nobody reads it; returns the last lines of each rank's stderr.
    async fn drain(&mut self, output: &Output) -> Vec<Tail> {
        output.end();
        let deadline = Instant::now() + output::ENDED_WITHIN;
        let mut tails = Vec::with_capacity(self.ranks.len());
        for member in &mut self.ranks {
            let Some((stdout, stderr)) = member.pumps.take() else { continue };
            let _ = time::timeout_at(deadline, stdout).await;
            tails.push(time::timeout_at(deadline, stderr).await.ok().and_then(Result::ok).unwrap_or_default());
        }
        tails
    }
}
