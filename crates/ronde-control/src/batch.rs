//! What batch work needs, started together: the controllers of Volcano's jobs, groups and queues, that of training jobs, and
//! the scheduler.
//!
//! On one machine and on a cluster alike; our kinds must be there before (see [`crate::install`]).

use ronde_runtime::{pods::orphans::Orphans, runner::Runner};

use crate::{
    elastic::{Elastic, pod::AgentSettings},
    podgroup::PodGroups,
    scheduling::Scheduler,
    ssh_keys::KeySource,
    vcjob::VcJobs,
    vcqueue::VcQueues,
};

/// Adds everything to a runner.
pub fn add(runner: &mut Runner, keys: KeySource, agent: AgentSettings, scheduler: Scheduler) {
    add_controllers(runner, keys, agent, &scheduler);
    runner.add_loop(scheduler);
}

/// Adds the controllers alone; somebody else is the scheduler.
pub fn add_controllers(runner: &mut Runner, keys: KeySource, agent: AgentSettings, scheduler: &Scheduler) {
    let groups = PodGroups { schedulers: scheduler.schedulers.clone() };
    runner.add(Elastic::new(keys.clone(), agent)).add(Orphans::<Elastic>::default());
    runner.add(VcJobs::new(keys)).add(Orphans::<VcJobs>::default()).add(groups).add(VcQueues);
}
