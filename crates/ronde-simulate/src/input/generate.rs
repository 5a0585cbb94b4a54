//! Work from a seed: jobs that arrive at random, of the sizes and lengths that GPU clusters see.
//!
//! Most jobs are small and short, a few are large and long; the lengths are scaled so that all jobs together ask for the wanted
//! part of what the cluster has in that time. A third of those with several pods have a range of sizes.

use ronde_scheduler::{Amounts, Node};

use super::{GPU, InputError, jobs::Work};
use crate::{random::Dice, scenario::Job};

/// More than fits into memory in comfort.
const JOBS_MAX: usize = 10_000_000;
/// Pods and GPUs of each, by how many of a thousand jobs are like that.
const SIZES: [(u64, (u32, i64)); 8] = [
    (500, (1, 1)),
    (130, (1, 2)),
    (120, (1, 4)),
    (150, (1, 8)),
    (50, (2, 8)),
    (30, (4, 8)),
    (15, (8, 8)),
    (5, (16, 8)),
];
const QUEUES: [(u64, &str); 4] = [(4, "team-a"), (3, "team-b"), (2, "team-c"), (1, "team-d")];
/// Priorities by how many of a hundred jobs have them.
const PRIORITIES: [(u64, i32); 3] = [(85, 0), (10, 10), (5, 100)];

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    pub jobs: usize,
    /// The time in which they arrive.
    pub over: i64,
    /// Which part of the cluster they ask for.
    pub load: f64,
    pub seed: u64,
}

/// Makes the jobs for a cluster.
///
/// # Errors
/// If nodes have no GPUs, or too many jobs are wanted.
pub fn jobs(wish: Wish, nodes: &[Node]) -> Result<Work, InputError> {
    let gpus: Vec<i64> = nodes.iter().map(|node| node.allocatable.get(GPU).unwrap_or(0)).collect();
    let (all, most) = (gpus.iter().sum::<i64>(), gpus.iter().copied().max().unwrap_or(0));
    if all == 0 {
        return Err(InputError::Whole(format!("jobs are generated for nodes with {GPU}, and none has any")));
    }
    if wish.jobs > JOBS_MAX {
        return Err(InputError::Whole(format!("at most {JOBS_MAX} jobs are generated")));
    }
    let mut dice = Dice::new(wish.seed);
    let pause = wish.over as f64 / wish.jobs.max(1) as f64;
    let (mut at, mut asked) = (0.0, 0.0);
    let mut lengths = Vec::with_capacity(wish.jobs);
    let mut jobs = Vec::with_capacity(wish.jobs);
    for number in 0..wish.jobs {
        at += dice.waiting(pause);
        let mut job = one(&mut dice, number, (all, most))?;
        job.arrival = rounded(at).min(wish.over);
        // Two waits multiplied: most are short, a few very long.
        let length = dice.waiting(1.0) * dice.waiting(1.0) + 0.02;
        asked += length * job.total(GPU) as f64;
        lengths.push(length);
        jobs.push(job);
    }
    let scale = wish.load * all as f64 * wish.over as f64 / f64::max(asked, 1e-9);
    jobs.iter_mut().zip(lengths).for_each(|(job, length)| job.run = Some(rounded(length * scale).max(1000)));
    Ok(Work { jobs, format: "generated", ..Work::default() })
}

fn one(dice: &mut Dice, number: usize, (all, most): (i64, i64)) -> Result<Job, InputError> {
    let (pods, gpu) = dice.pick(&SIZES).copied().unwrap_or((1, 1));
    let gpu = gpu.min(most);
    let pods = pods.min(u32::try_from(all / gpu).unwrap_or(1)).max(1);
    let queue = dice.pick(&QUEUES).copied().unwrap_or("team-a");
    let is_elastic = pods > 1 && dice.roll(3) == 0;
    let min = if is_elastic { pods.div_ceil(2) } else { pods };
    let wrong = |error: crate::JobError| InputError::Whole(error.to_string());
    let mut job =
        Job::uniform(&format!("job-{number:06}"), queue, (min, pods), Amounts::of([(GPU, gpu)])).map_err(wrong)?;
    if is_elastic {
        job = job.with_max(pods * 2, false).map_err(wrong)?;
    }
    job.group.priority = dice.pick(&PRIORITIES).copied().unwrap_or(0);
    job.user = format!("user-{}", dice.roll(40));
    Ok(job)
}

/// Rounds to seconds: a table of such jobs can be read by people.
fn rounded(millis: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
    let seconds = (millis / 1000.0) as i64;
    seconds.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::cluster::nodes;

    #[test]
    fn the_load_is_what_was_wanted_and_the_seed_decides() {
        let cluster = nodes("10x8gpu").expect("nodes");
        let wish = Wish { jobs: 2000, over: 86_400_000, load: 0.8, seed: 7 };
        let work = jobs(wish, &cluster).expect("jobs");
        let asked: i64 = work.jobs.iter().map(|job| job.run.unwrap_or(0) / 1000 * job.total(GPU)).sum();
        let part = asked as f64 / (80.0 * 86_400.0);
        assert!((0.79..0.81).contains(&part), "{part}");
        assert_eq!(work, jobs(wish, &cluster).expect("jobs"));
        assert_ne!(work, jobs(Wish { seed: 8, ..wish }, &cluster).expect("jobs"));
        assert!(jobs(wish, &nodes("1x4cpu").expect("nodes")).is_err());
    }
}
