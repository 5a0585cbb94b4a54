//! Changes of a job that no job can take. Admission refuses them; on a cluster without it, people are told of them.
//!
//! Pure. What may not change is remembered as one short text for each task and one for all volumes: to say what has changed,
//! the old values are not needed. Other fields are guarded by the rules of the definition.

use ronde_api::{Job, JobSpec, JobVolume, rules};

use ronde_runtime::pods::hash;

use super::template::without_mutable;

/// What marks begin with: those of another version look at other fields.
const VERSION: &str = "2:";

/// Returns a text that stands for what may not change.
pub fn marks(spec: &JobSpec) -> String {
    // Volcano's controller notes the name of the claim that it has made.
    let of_volume = |volume: &JobVolume| match &volume.volume_claim {
        Some(_) => JobVolume { volume_claim_name: String::new(), ..volume.clone() },
        None => volume.clone(),
    };
    let volumes: Vec<JobVolume> = spec.volumes.iter().map(of_volume).collect();
    let tasks = spec.tasks.iter().map(|task| hash::name(&without_mutable(task), None));
    let marks: Vec<String> = [hash::name(&volumes, None)].into_iter().chain(tasks).collect();
    format!("{VERSION}{}", marks.join("."))
}

/// Returns what is wrong with a job that has changed since it had these marks.
pub fn faults(job: &Job, before: Option<&str>) -> Vec<String> {
    let now = marks(&job.spec);
    // What an older version has noted says nothing.
    let before = before.filter(|before| before.starts_with(VERSION));
    let (before, now): (Vec<&str>, Vec<&str>) = (before.unwrap_or(&now).split('.').collect(), now.split('.').collect());
    let mut faults = Vec::new();
    if before.len() == now.len() {
        faults.extend((0..now.len()).filter(|at| before[*at] != now[*at]).map(changed));
    } else {
        faults.push("spec.tasks: job updates may not add or remove tasks".to_owned());
    }
    faults.extend(rules::job::validate_accepted(job).iter().map(ToString::to_string));
    faults
}

/// Returns what is wrong with the part of a mark.
fn changed(at: usize) -> String {
    match at.checked_sub(1) {
        None => "spec.volumes: job updates may not change them; pods that exist keep theirs".to_owned(),
        Some(task) => {
            let may = rules::job::MUTABLE_FIELDS;
            format!(
                "spec.tasks[{task}]: job updates may not change fields other than {may}; pods that exist stay as they are"
            )
        }
    }
}
