//! A job and everything that a decision about it is made from. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt as _;
use ronde_api::{Command, Job, JobPhase, JobSpec, PodGroup, PodGroupPhase, TaskSpec};
use ronde_runtime::pods::state::PodState;

use super::{member::Member, memory::Memory};

/// What 0 stands for where the API server has not filled it in.
const MAX_RETRY: i32 = 3;

/// What is there of a job.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub job: &'a Job,
    pub members: Vec<Member>,
    pub group: Option<Arc<PodGroup>>,
    /// The commands for this very job, the oldest first.
    pub commands: Vec<Arc<Command>>,
    /// The names of the claims in the namespace that the job asks for and that are there.
    pub claims: BTreeSet<String>,
    /// The values of the priority classes that the job names.
    pub priorities: BTreeMap<String, i32>,
    /// What is wrong with a job that nothing was made for yet.
    pub faults: Vec<String>,
    /// Why the API refuses to make something for the job.
    pub refusal: Option<String>,
    /// One of the objects that its plugins ask for is not there.
    pub has_lost_objects: bool,
    /// Stands for the contents of these objects, if this process has seen them to be as they should and they have not
    /// changed since.
    pub in_place: Option<String>,
    /// When this process last wrote the status of the job.
    pub told: Option<Timestamp>,
    /// Its queue extends to other clusters.
    pub is_forwarded: bool,
}

impl Observed<'_> {
    pub fn spec(&self) -> &JobSpec {
        &self.job.spec
    }

    pub fn task(&self, name: &str) -> Option<&TaskSpec> {
        self.spec().tasks.iter().find(|task| task.name == name)
    }

    /// Tells whether a pod has an index that the job does not want.
    pub fn is_surplus(&self, member: &Member) -> bool {
        self.task(&member.task).is_none_or(|task| !(0..task.replicas).contains(&member.index))
    }

    /// Tells whether a pod belongs to the run that goes on.
    pub fn is_present(&self, memory: &Memory, member: &Member) -> bool {
        !memory.is_past(member) && !self.is_surplus(member)
    }

    /// Tells whether the pod of an index that has succeeded is kept, for its output, although the run is over.
    pub fn is_kept(&self, memory: &Memory, member: &Member) -> bool {
        member.state == PodState::Succeeded
            && !self.is_surplus(member)
            && memory.has_succeeded(&member.task, member.index)
    }

    /// Tells whether the queue has let the job in, so that pods may be made.
    pub fn is_admitted(&self, memory: &Memory) -> bool {
        let group = self.group.as_ref().filter(|group| !is_past_group(memory, group));
        let phase = group.and_then(|group| group.phase());
        phase.is_some_and(|phase| phase != PodGroupPhase::Pending)
    }

    /// Returns the claims that the job names and that nobody has made.
    pub fn missing_claims(&self) -> Vec<&str> {
        let named = self.spec().volumes.iter().map(|volume| volume.volume_claim_name.as_str());
        named.filter(|name| !name.is_empty() && !self.claims.contains(*name)).collect()
    }

    /// Returns how many pods the job has when it is whole.
    pub fn replicas(&self) -> i32 {
        self.spec().tasks.iter().map(|task| task.replicas).fold(0, i32::saturating_add)
    }

    /// Returns how often the job may run.
    pub fn max_retry(&self) -> i32 {
        max_retry(self.spec().max_retry)
    }
}

/// Returns a limit of retries with its default.
pub fn max_retry(given: i32) -> i32 {
    if given > 0 { given } else { MAX_RETRY }
}

/// Tells whether a group was made for a run that is over.
pub fn is_past_group(memory: &Memory, group: &PodGroup) -> bool {
    let version = group.annotations().get(ronde_api::names::JOB_VERSION);
    // A group without a version was made by Volcano, or by hand: it is taken as it is.
    version.and_then(|version| version.parse::<i32>().ok()).is_some_and(|version| version < memory.job_floor())
}

/// Tells whether pods are made and policies answered in a phase.
pub fn is_live(phase: JobPhase) -> bool {
    matches!(phase, JobPhase::Pending | JobPhase::Running | JobPhase::Restarting)
}
