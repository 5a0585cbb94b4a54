//! The driver's decisions alone: a ring of many workers loses one and forms again.

use std::time::{Duration, Instant};

use ronde_collective::control_channel::Join;
use ronde_launch::{
    elastic::{Command, Driver, Event, HostSlots, Settings, WorkerId},
    start::Ended,
};

/// Seconds that the driver takes from the end of a worker to the last place in the new ring.
pub fn reset(workers: usize) -> f64 {
    let mut driver = Driver::new(Settings::new(1, workers));
    let hosts = (0..workers.div_ceil(8)).map(|number| HostSlots { host: format!("node-{number}"), slots: 8 });
    let started = driver.on(Event::Hosts(hosts.collect()), Duration::ZERO);
    let ids: Vec<WorkerId> = started.iter().filter_map(started_worker).collect();
    let join = |driver: &mut Driver, id: WorkerId, join: Join| driver.on(Event::Joined(id, join), Duration::ZERO);
    let placed: usize = ids.iter().map(|id| places(&join(&mut driver, *id, Join::default()))).sum();
    assert_eq!(placed, workers, "the first ring did not come together");
    let begun = Instant::now();
    driver.on(Event::Ended(ids[workers / 2], Ended::Signal(9)), Duration::ZERO);
    let survivors = ids.iter().filter(|id| **id != ids[workers / 2]);
    let again = Join { seen: 1, commits: Some(7), is_interrupted: false, why: "a rank was lost".to_owned() };
    let placed: usize = survivors.map(|id| places(&join(&mut driver, *id, again.clone()))).sum();
    assert_eq!(placed, workers - 1, "the second ring did not come together");
    begun.elapsed().as_secs_f64()
}

fn started_worker(command: &Command) -> Option<WorkerId> {
    match command {
        Command::Start { worker, .. } => Some(*worker),
        _ => None,
    }
}

fn places(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Assign(..))).count()
}
