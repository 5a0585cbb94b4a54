//! Scale operations: rules, and that they do not change after creation.

use super::{Fault, PODS_MAX, fault::Faults};
use crate::{ScaleIn, ScaleOut, Scaler, names::elastic::JOB_NAME_MAX};

const LABEL_MAX: usize = 63;

/// Returns what is wrong with a request for more workers.
pub fn validate_out(scaler: &ScaleOut) -> Vec<Fault> {
    let mut faults = Faults::default();
    check(scaler, &mut faults);
    match scaler.spec.to_add.as_ref().and_then(|add| add.count) {
        None => faults.required("spec.toAdd.count", "must be the number of workers to add"),
        Some(count) => {
            faults.at_least("spec.toAdd.count", count, 1);
            faults.at_most("spec.toAdd.count", count, PODS_MAX);
        }
    }
    // The workers have it in a label.
    let name = scaler.metadata.name.as_deref().unwrap_or_default();
    if name.len() > LABEL_MAX {
        faults.invalid("metadata.name", format!("has {} characters, at most {LABEL_MAX} are allowed", name.len()));
    }
    faults.into_vec()
}

/// Returns what is wrong with a request for fewer workers.
pub fn validate_in(scaler: &ScaleIn) -> Vec<Fault> {
    let mut faults = Faults::default();
    check(scaler, &mut faults);
    let delete = scaler.spec.to_delete.clone().unwrap_or_default();
    match delete.count {
        None if delete.pod_names.is_empty() => {
            faults.required("spec.toDelete", "must set count (how many workers to remove) or podNames (which)");
        }
        Some(count) if delete.pod_names.is_empty() => faults.at_least("spec.toDelete.count", count, 1),
        _ => {}
    }
    faults.into_vec()
}

/// Returns what is wrong with a change: what is under way is not changed.
pub fn validate_change(is_changed: bool) -> Vec<Fault> {
    let mut faults = Faults::default();
    if is_changed {
        faults.forbidden("spec", "may not change after creation; create another one instead");
    }
    faults.into_vec()
}

/// Returns what is taken and has no effect. Scripts brought the list of hosts to a launcher; it comes there by itself.
pub fn warnings(scaler: &impl Scaler) -> Vec<String> {
    let has_script = !scaler.script().is_empty();
    has_script.then(|| "spec.script: is not run: the host list needs no script".to_owned()).into_iter().collect()
}

fn check(scaler: &impl Scaler, faults: &mut Faults) {
    let job = scaler.job_name();
    if job.is_empty() {
        faults.required("spec.selector.name", "must name the training job to scale");
    } else if job.len() > JOB_NAME_MAX {
        let why = format!("has {} characters: no training job has such a name", job.len());
        faults.invalid("spec.selector.name", why);
    }
    if let Some(timeout) = scaler.given_timeout() {
        faults.at_least("spec.timeout", timeout, 1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::fixtures::check, *};

    fn out(spec: &Value) -> ScaleOut {
        serde_json::from_value(json!({"spec": spec})).expect("a ScaleOut")
    }

    fn scale_in(spec: &Value) -> ScaleIn {
        serde_json::from_value(json!({"spec": spec})).expect("a ScaleIn")
    }

    #[test]
    fn a_request_says_which_job_and_how_many() {
        let job = json!({"name": "mnist"});
        check("more", &validate_out(&out(&json!({"selector": job, "toAdd": {"count": 1}}))), &[]);
        check("fewer", &validate_in(&scale_in(&json!({"selector": job, "toDelete": {"count": 1}}))), &[]);
        check("these", &validate_in(&scale_in(&json!({"selector": job, "toDelete": {"podNames": ["x"]}}))), &[]);
        check(
            "nothing",
            &validate_out(&out(&json!({"timeout": 0, "script": "/x.sh"}))),
            &[
                "spec.selector.name: must name the training job to scale",
                "spec.timeout: 0 should be greater than or equal to 1",
                "spec.toAdd.count: must be the number of workers to add",
            ],
        );
        check(
            "none of a job that cannot be",
            &validate_in(&scale_in(&json!({"selector": {"name": "a".repeat(50)}, "toDelete": {"count": 0}}))),
            &[
                "spec.selector.name: has 50 characters: no training job has such a name",
                "spec.toDelete.count: 0 should be greater than or equal to 1",
            ],
        );
        check(
            "nobody",
            &validate_in(&scale_in(&json!({"selector": job}))),
            &["spec.toDelete: must set count (how many workers to remove) or podNames (which)"],
        );
        let mut long = out(&json!({"selector": job, "toAdd": {"count": i32::MAX}}));
        long.metadata.name = Some("a".repeat(64));
        check(
            "more than can be, by a name that is no label",
            &validate_out(&long),
            &[
                "spec.toAdd.count: 2147483647 should be less than or equal to 10000",
                "metadata.name: has 64 characters, at most 63 are allowed",
            ],
        );
        let script = out(&json!({"selector": job, "toAdd": {"count": 1}, "script": "/x.sh"}));
        check("a script", &validate_out(&script), &[]);
        assert_eq!(warnings(&script), ["spec.script: is not run: the host list needs no script"]);
        check("a change", &validate_change(true), &["spec: may not change after creation; create another one instead"]);
        check("none", &validate_change(false), &[]);
    }
}
