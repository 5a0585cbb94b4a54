//! Changes of a job that no job can take. Admission refuses them; on a cluster without it, people are told of them.
//!
//! Pure. What may not change is remembered as one short text for each task and one for all volumes: to say what has changed,
//! the old values are not needed. Other fields are guarded by the rules of the definition.

use ronde_api::{Job, JobSpec, JobVolume, TaskSpec, rules};

use ronde_runtime::pods::hash;

/// Returns a text that stands for what may not change.
pub fn marks(spec: &JobSpec) -> String {
    let fixed = |task: &TaskSpec| TaskSpec { replicas: 0, min_available: None, ..task.clone() };
    // Volcano's controller notes the name of the claim that it has made.
    let of_volume = |volume: &JobVolume| match &volume.volume_claim {
        Some(_) => JobVolume { volume_claim_name: String::new(), ..volume.clone() },
        None => volume.clone(),
    };
    let volumes: Vec<JobVolume> = spec.volumes.iter().map(of_volume).collect();
    let tasks = spec.tasks.iter().map(|task| hash::name(&fixed(task), None));
    [hash::name(&volumes, None)].into_iter().chain(tasks).collect::<Vec<_>>().join(".")
}

/// Returns what is wrong with a job that has changed since it had these marks.
pub fn faults(job: &Job, before: Option<&str>) -> Vec<String> {
    let now = marks(&job.spec);
    let (before, now): (Vec<&str>, Vec<&str>) = (before.unwrap_or(&now).split('.').collect(), now.split('.').collect());
    let mut faults = Vec::new();
    if before.len() == now.len() {
        faults.extend((0..now.len()).filter(|at| before[*at] != now[*at]).map(changed));
    } else {
        faults.push("spec.tasks: tasks may not be added or removed after creation".to_owned());
    }
    faults.extend(rules::job::validate_accepted(job).iter().map(ToString::to_string));
    faults
}

/// Returns what is wrong with the part of a mark.
fn changed(at: usize) -> String {
    match at.checked_sub(1) {
        None => "spec.volumes: may not change after creation; pods that exist keep theirs".to_owned(),
        Some(task) => {
            let why = "only replicas and minAvailable may change after creation; pods that exist stay as they are";
            format!("spec.tasks[{task}]: {why}")
        }
    }
}
