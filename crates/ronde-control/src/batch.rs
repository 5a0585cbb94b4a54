//! What batch work needs, started together: the controllers of Volcano's jobs, groups and queues, that of training jobs, and
//! the scheduler.
//!
//! On one machine and on a cluster alike; our kinds must be there before (see [`crate::install`]).

use ronde_runtime::{pods::orphans::Orphans, runner::Runner};

use crate::{
    cronjob::CronJobs,
    elastic::{Elastic, pod::AgentSettings},
    jobflow::{JobFlows, probe::PodDialer},
    native::{V1Alpha2, V1Beta1},
    native_group::NativeGroups,
    podgroup::PodGroups,
    scheduling::Scheduler,
    ssh_keys::KeySource,
    vcjob::VcJobs,
    vcqueue::VcQueues,
};

/// What the controllers need that is different from one cluster to another.
#[derive(Clone)]
pub struct Surroundings {
    /// Where the keys of jobs come from.
    pub keys: KeySource,
    /// Where the program comes from that runs in the pods of training jobs.
    pub agent: AgentSettings,
    /// How the addresses of pods are reached.
    pub dialer: PodDialer,
}

/// Adds everything to a runner.
pub fn add(runner: &mut Runner, surroundings: Surroundings, scheduler: Scheduler) {
    add_controllers(runner, surroundings, &scheduler);
    runner.add_loop(scheduler);
}

/// Adds the controllers alone; somebody else is the scheduler.
pub fn add_controllers(runner: &mut Runner, surroundings: Surroundings, scheduler: &Scheduler) {
    let Surroundings { keys, agent, dialer } = surroundings;
    let groups = PodGroups { schedulers: scheduler.schedulers.clone() };
    runner.add(Elastic::new(keys.clone(), agent)).add(Orphans::<Elastic>::default());
    runner.add(VcJobs::new(keys)).add(Orphans::<VcJobs>::default()).add(groups).add(VcQueues);
    runner.add(NativeGroups::<V1Alpha2>::new(scheduler.schedulers.clone()));
    runner.add(NativeGroups::<V1Beta1>::new(scheduler.schedulers.clone()));
    runner.add(JobFlows::new(dialer)).add(CronJobs::default());
}
