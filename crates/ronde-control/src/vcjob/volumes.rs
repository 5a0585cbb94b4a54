//! The volumes of a job: which claims they are, which have to be made, how pods get them.
//!
//! Pure. The name of a claim that is made for a job follows from the job and the place where it is mounted: a
//! controller that was killed after making it finds it again, and nothing has to be written back to the job.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount,
};
use kube::ResourceExt as _;
use ronde_api::{Job, JobVolume};
use ronde_runtime::pods::hash;

use super::{observed::Observed, plugins::owned_meta};

const SUFFIX: usize = 12;

/// Returns the names of all claims of a job, in the order of its volumes.
pub fn claim_names(job: &Job) -> Vec<String> {
    job.spec.volumes.iter().map(|volume| claim_name(job, volume)).collect()
}

/// Returns the claims that are to be made.
pub fn missing(seen: &Observed<'_>) -> Vec<PersistentVolumeClaim> {
    let job = seen.job;
    let made = job.spec.volumes.iter().filter(|volume| volume.volume_claim_name.is_empty());
    let missing = made.filter(|volume| !seen.claims.contains(&claim_name(job, volume)));
    missing.map(|volume| build(job, volume)).collect()
}

/// Mounts the volumes of a job in all main containers of a pod; of two with the same claim only the first.
pub fn mount(job: &Job, spec: &mut PodSpec) {
    let mut mounted: Vec<String> = Vec::new();
    for volume in &job.spec.volumes {
        let claim = claim_name(job, volume);
        if mounted.contains(&claim) {
            continue;
        }
        let name = format!("{}-{}", job.name_any(), suffix(job, volume));
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), read_only: None };
        let made = Volume { name: name.clone(), persistent_volume_claim: Some(source), ..Volume::default() };
        spec.volumes.get_or_insert_default().push(made);
        for container in &mut spec.containers {
            let mount =
                VolumeMount { name: name.clone(), mount_path: volume.mount_path.clone(), ..VolumeMount::default() };
            container.volume_mounts.get_or_insert_default().push(mount);
        }
        mounted.push(claim);
    }
}

fn build(job: &Job, volume: &JobVolume) -> PersistentVolumeClaim {
    let metadata = owned_meta(job, claim_name(job, volume));
    PersistentVolumeClaim { metadata, spec: volume.volume_claim.clone(), status: None }
}

fn claim_name(job: &Job, volume: &JobVolume) -> String {
    if volume.volume_claim_name.is_empty() {
        format!("{}-pvc-{}", job.name_any(), suffix(job, volume))
    } else {
        volume.volume_claim_name.clone()
    }
}

/// Returns twelve letters that stand for a volume of this very job.
fn suffix(job: &Job, volume: &JobVolume) -> String {
    let content = (job.uid().unwrap_or_default(), &volume.mount_path);
    let letters = format!("{}{}", hash::name(&content, Some(0)), hash::name(&content, Some(1)));
    letters.chars().take(SUFFIX).collect()
}
