//! Finds the fusion threshold that moves most bytes, by trying. Pure: bytes and times come in, a threshold goes out.
//!
//! Each candidate is in force for a while of work; its score is the median of a few samples of bytes per
//! microsecond. The best one stays. The first rank tunes; the others hear its choice in the rounds.

use std::time::Duration;

const MEGABYTE: usize = 1024 * 1024;
/// From small batches that begin early to large ones that begin late; the last candidate is the largest that is used.
const CANDIDATES: [usize; 4] = [MEGABYTE / 4, MEGABYTE, 4 * MEGABYTE, 16 * MEGABYTE];
/// Samples of a candidate; the first is a warm-up and does not count.
const SAMPLES: usize = 6;
/// Batches that make up a sample.
const BATCHES: usize = 20;

/// A search in progress, or its result.
#[derive(Debug)]
pub(crate) struct Tuner {
    candidates: Vec<usize>,
    candidate: usize,
    samples: Vec<f64>,
    scores: Vec<f64>,
    batches: usize,
    bytes: usize,
    time: Duration,
    best: Option<usize>,
    log: Vec<String>,
}

impl Tuner {
    /// Tries thresholds up to `most`: larger ones would not be used.
    pub(crate) fn new(most: usize) -> Self {
        let below = CANDIDATES.into_iter().filter(|candidate| *candidate < most);
        Self {
            candidates: below.chain([most]).collect(),
            candidate: 0,
            samples: Vec::new(),
            scores: Vec::new(),
            batches: 0,
            bytes: 0,
            time: Duration::ZERO,
            best: None,
            log: Vec::new(),
        }
    }

    /// What should be in force now.
    pub(crate) fn threshold(&self) -> usize {
        self.candidates[self.best.unwrap_or(self.candidate)]
    }

    /// Counts a batch that was done.
    pub(crate) fn record(&mut self, bytes: usize, time: Duration) {
        if self.best.is_some() || bytes == 0 {
            return;
        }
        self.batches += 1;
        self.bytes += bytes;
        self.time += time;
        if self.batches == BATCHES {
            self.samples.push(self.bytes as f64 / self.time.as_secs_f64().max(1e-9) / 1e6);
            (self.batches, self.bytes, self.time) = (0, 0, Duration::ZERO);
        }
        if self.samples.len() == SAMPLES {
            self.close_candidate();
        }
    }

    fn close_candidate(&mut self) {
        let mut counted: Vec<f64> = self.samples.drain(..).skip(1).collect();
        counted.sort_by(f64::total_cmp);
        let score = counted[counted.len() / 2];
        self.scores.push(score);
        self.log.push(format!("{},{score}", self.candidates[self.candidate]));
        self.candidate += 1;
        if self.candidate == self.candidates.len() {
            let by_score = |a: &usize, b: &usize| self.scores[*a].total_cmp(&self.scores[*b]);
            let best = (0..self.candidates.len()).max_by(by_score).unwrap_or(0);
            self.log.push(format!("{},{}", self.candidates[best], self.scores[best]));
            self.best = Some(best);
        }
    }

    /// Rows `tensor_fusion_threshold,score` since the last call; the last row of all is the choice.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BATCHES, MEGABYTE, SAMPLES, Tuner};

    #[test]
    fn the_candidate_that_moves_most_bytes_wins() {
        let mut tuner = Tuner::new(32 * MEGABYTE);
        for _ in 0..tuner.candidates.len() * SAMPLES * BATCHES {
            let time = if tuner.threshold() == 16 * MEGABYTE { 50 } else { 100 };
            tuner.record(1000, Duration::from_micros(time));
        }
        assert_eq!(tuner.threshold(), 16 * MEGABYTE);
        let log = tuner.take_log();
        assert_eq!(log.len(), tuner.candidates.len() + 1);
        assert_eq!(log.last().map(String::as_str), Some("16777216,20"));
        tuner.record(1, Duration::from_secs(1));
        assert_eq!(tuner.threshold(), 16 * MEGABYTE, "the choice stays");
    }

    #[test]
    fn what_would_not_be_used_is_not_tried() {
        assert_eq!(Tuner::new(2 * MEGABYTE).candidates, [MEGABYTE / 4, MEGABYTE, 2 * MEGABYTE]);
    }
}
