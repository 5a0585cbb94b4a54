//! A story in columns of equal time: how many pods there were at least in each, and how high the loss was.

use jiff::Timestamp;

use crate::Story;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is drawn.
pub struct Chart {
    pub sizes: Vec<i32>,
    /// The mean of each column; none where nothing was said.
    pub losses: Vec<Option<f64>>,
}

impl Chart {
    pub fn new(story: &Story, columns: usize) -> Self {
        Self { sizes: sizes(story, columns), losses: losses(story, columns) }
    }

    pub fn size_max(&self) -> i32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    pub fn loss_max(&self) -> Option<f64> {
        self.losses.iter().flatten().copied().reduce(f64::max)
    }
}

/// Returns where a time is, from 0 for the submission to 1 for the end.
pub fn place(story: &Story, time: Timestamp) -> f64 {
    let whole = story.until.duration_since(story.submitted).as_secs_f64();
    let part = time.duration_since(story.submitted).as_secs_f64();
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place is between 0 and 1")]
fn column(story: &Story, time: Timestamp, columns: usize) -> usize {
    ((place(story, time) * columns as f64) as usize).min(columns.saturating_sub(1))
}

/// Returns the least size that began in each column, so that a short loss is seen; where none began, the one before.
fn sizes(story: &Story, columns: usize) -> Vec<i32> {
    let mut began: Vec<Option<(i32, i32)>> = vec![None; columns];
    for size in &story.sizes {
        let column = &mut began[column(story, size.time, columns)];
        *column = Some((column.map_or(size.count, |(least, _)| least.min(size.count)), size.count));
    }
    let mut current = 0;
    let least_of = |column: Option<(i32, i32)>| {
        let (least, last) = column.unwrap_or((current, current));
        current = last;
        least
    };
    began.into_iter().map(least_of).collect()
}

fn losses(story: &Story, columns: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_u32); columns];
    for sample in &story.samples {
        let sum = &mut sums[column(story, sample.time, columns)];
        *sum = (sum.0 + sample.loss, sum.1 + 1);
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
}

/// Draws values as bars of one line; what is not known and what is 0 are gaps.
pub fn spark(values: impl Iterator<Item = Option<f64>>, top: f64) -> String {
    let bar = |value: Option<f64>| {
        let share = value.filter(|value| *value > 0.0 && top > 0.0).map(|value| value / top);
        share.map_or(BARS[0], |share| {
            let level = (1..BARS.len()).find(|level| share * 8.0 <= *level as f64 + 0.5);
            BARS[level.unwrap_or(BARS.len() - 1)]
        })
    };
    values.map(bar).collect()
}
