//! A story as it is told: plain data, which is also its JSON.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Grows when a field of the JSON changes its meaning or goes.
pub const VERSION: u32 = 1;
/// How many samples a story has at most: two for each column of the widest picture.
const SAMPLES_MAX: usize = 1440;

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    pub version: u32,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub queue: String,
    /// The phase that it is in, as its kind calls it.
    pub phase: String,
    /// What its sizes count: `worker` or `pod`.
    pub unit: &'static str,
    /// Why it is in its phase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub submitted: Timestamp,
    /// When it first ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Up to when it is told: its end, or when it was asked for.
    pub until: Timestamp,
    /// The oldest first.
    pub moments: Vec<Moment>,
    /// How many workers or pods it had since when, the oldest first.
    pub sizes: Vec<Size>,
    /// What it printed of its progress, the oldest first.
    pub samples: Vec<Sample>,
    /// What is not known any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    pub time: Timestamp,
    pub what: What,
    pub text: String,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Submitted,
    Lost,
    Trouble,
    Suspended,
    Resumed,
    Restarted,
    Waited,
    Placed,
    Started,
    Grew,
    Shrank,
    Ended,
}

/// A number of workers or pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Size {
    pub time: Timestamp,
    pub count: i32,
}

/// What a training said of its progress.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    pub time: Timestamp,
    pub step: u64,
    pub loss: f64,
}

impl What {
    /// Returns where it is told among what happened in the same second; of one place the order is that of the status.
    pub fn place(self) -> u8 {
        match self {
            Self::Submitted => 0,
            Self::Lost | Self::Grew | Self::Shrank | Self::Trouble => 1,
            Self::Suspended | Self::Resumed | Self::Restarted => 2,
            Self::Waited => 3,
            Self::Placed => 4,
            Self::Started => 5,
            Self::Ended => 6,
        }
    }
}

impl Moment {
    pub fn new(time: Timestamp, what: What, text: impl Into<String>) -> Self {
        Self { time, what, text: text.into() }
    }
}

impl Story {
    /// Returns the fewest and the most workers or pods that it ran with.
    pub fn range(&self) -> Option<(i32, i32)> {
        let counts = || self.sizes.iter().map(|size| size.count).filter(|count| *count > 0);
        Some((counts().min()?, counts().max()?))
    }

    /// Returns how long it waited before it first ran, or has waited until now.
    pub fn waited(&self) -> SignedDuration {
        self.started.unwrap_or(self.until).duration_since(self.submitted)
    }
}

/// Drops every second sample until few enough are left; the last one stays.
pub fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let mut kept = samples.to_vec();
    while kept.len() > SAMPLES_MAX {
        let last = kept.len() - 1;
        let mut index = 0..;
        kept.retain(|_| index.next().is_some_and(|at| at % 2 == 0 || at == last));
    }
    kept
}

/// Says how long something lasted: `42s`, `1m3s`, `2h5m`, `3d4h`.
pub fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let two = |great: i64, unit: char, small: i64, below: char| {
        if small == 0 { format!("{great}{unit}") } else { format!("{great}{unit}{small}{below}") }
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds % 3_600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3_600, 'h'),
    }
}

/// Returns a number with its word: `1 worker`, `3 workers`.
pub fn counted(count: i32, unit: &str) -> String {
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// Puts the reason behind something, if there is one.
pub fn because(what: impl Into<String>, why: &str) -> String {
    let what = what.into();
    if why.is_empty() { what } else { format!("{what}: {why}") }
}
