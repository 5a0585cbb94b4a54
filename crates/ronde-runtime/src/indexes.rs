//! Sets of completion indexes, as a job's status writes them: `1,3-5,7`.
//!
//! Pure. A set is kept as intervals, so that a job of a hundred thousand indexes stays small.

use std::fmt;

/// A set of indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes {
    /// First and last of each interval; in order, and with gaps in between.
    intervals: Vec<(i32, i32)>,
}

impl Indexes {
    /// Reads a set, leaving out what is not below `completions` or cannot be read.
    pub fn parse(text: &str, completions: i32) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            indexes.add(first, last.min(completions - 1));
        }
        indexes
    }

    /// Adds the indexes of an interval; an empty one adds nothing.
    fn add(&mut self, first: i32, last: i32) {
        if first > last || first < 0 {
            return;
        }
        let touches = |other: &(i32, i32)| other.0 <= last.saturating_add(1) && first <= other.1.saturating_add(1);
        let start = self.intervals.iter().position(|other| first <= other.1.saturating_add(1));
        let start = start.unwrap_or(self.intervals.len());
        let end = start + self.intervals[start..].iter().take_while(|other| touches(other)).count();
        let touched = &self.intervals[start..end];
        let first = touched.first().map_or(first, |other| other.0.min(first));
        let last = touched.last().map_or(last, |other| other.1.max(last));
        self.intervals.splice(start..end, [(first, last)]);
    }

    /// Returns the set with more indexes.
    pub fn with(mut self, indexes: impl IntoIterator<Item = i32>) -> Self {
        indexes.into_iter().for_each(|index| self.add(index, index));
        self
    }

    /// Returns the set with those of another one.
    pub fn union(mut self, other: &Self) -> Self {
        other.intervals.iter().for_each(|(first, last)| self.add(*first, *last));
        self
    }

    /// Returns the set without those of an interval.
    pub fn without(&self, first: i32, last: i32) -> Self {
        let mut left = Self::default();
        for (from, to) in &self.intervals {
            left.add(*from, (*to).min(first - 1));
            left.add((*from).max(last + 1), *to);
        }
        left
    }

    pub fn contains(&self, index: i32) -> bool {
        let after = self.intervals.partition_point(|interval| interval.1 < index);
        self.intervals.get(after).is_some_and(|interval| interval.0 <= index)
    }

    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Returns how many indexes there are.
    pub fn len(&self) -> i32 {
        self.intervals.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Returns how many indexes are in both sets.
    pub fn overlap(&self, other: &Self) -> i32 {
        let pairs = self.intervals.iter().flat_map(|one| other.intervals.iter().map(move |two| (one, two)));
        pairs.map(|(one, two)| (one.1.min(two.1) - one.0.max(two.0) + 1).max(0)).sum()
    }

    /// Returns the smallest indexes below `completions` that are not in the set.
    pub fn first_missing(&self, completions: i32, number: usize) -> Vec<i32> {
        (0..completions).filter(|index| !self.contains(*index)).take(number).collect()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.intervals.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
