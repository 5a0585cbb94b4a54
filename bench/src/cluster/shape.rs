//! Shapes of work: so many jobs of so many pods each, in so many queues.

use std::{fmt, str::FromStr};

/// `10x100`: ten jobs of a hundred pods; `10x100@5`: in five queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub jobs: usize,
    pub pods: usize,
    pub queues: usize,
}

impl Shape {
    pub fn all_pods(self) -> usize {
        self.jobs * self.pods
    }

    /// Returns the queue of a job; with one alone it is the default one.
    pub fn queue(self, job: usize) -> String {
        if self.queues == 1 { "default".to_owned() } else { format!("bench-{:04}", job % self.queues) }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.jobs, self.pods)?;
        if self.queues > 1 { write!(f, "@{}", self.queues) } else { Ok(()) }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is no shape; 10x100 is 10 jobs of 100 pods, 10x100@5 the same in 5 queues");
        let (jobs, rest) = text.split_once('x').ok_or_else(wrong)?;
        let (pods, queues) = rest.split_once('@').unwrap_or((rest, "1"));
        let number = |text: &str| text.parse().ok().filter(|number: &usize| *number > 0).ok_or_else(wrong);
        Ok(Self { jobs: number(jobs)?, pods: number(pods)?, queues: number(queues)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_and_shown() {
        for text in ["10x100", "1000x1", "50x2@7"] {
            assert_eq!(text.parse::<Shape>().map(|shape| shape.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "10", "x", "0x1", "1x1@0", "1x-1"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }
}
