//! Which run of a container a question about its log means, in the words of a kubelet. Pure.

use k8s_openapi::api::core::v1::PodStatus;

/// A run of a container whose log can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub attempt: u32,
    /// Whether it goes on.
    pub is_running: bool,
}

/// Finds the run that is asked for: the one that goes on, the one that ended last, or the one before.
///
/// # Errors
/// If there is none; the text is for the user.
pub fn find(pod: &str, status: &PodStatus, container: &str, previous: bool) -> Result<Run, String> {
    let about = format!("container {container:?} in pod {pod:?}");
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let found = lists.into_iter().flatten().flatten().find(|status| status.name == container);
    let status = found.ok_or_else(|| format!("{about} is not available"))?;
    let state = status.state.clone().unwrap_or_default();
    let newest = u32::try_from(status.restart_count).unwrap_or(0);
    let is_waiting = state.running.is_none() && state.terminated.is_none();
    // While a container waits to be started again, the count is that of the run that has ended.
    let last = if is_waiting { Some(newest) } else { newest.checked_sub(1) };
    let last = last.filter(|_| status.last_state.as_ref().is_some_and(|state| state.terminated.is_some()));
    let ended = |attempt| Run { attempt, is_running: false };
    if previous {
        return last.map(ended).ok_or_else(|| format!("previous terminated {about} not found"));
    }
    match (state.running, state.terminated, last, state.waiting) {
        (Some(_), ..) => Ok(Run { attempt: newest, is_running: true }),
        (None, Some(_), ..) => Ok(ended(newest)),
        (None, None, Some(last), _) => Ok(ended(last)),
        (None, None, None, Some(waiting)) => {
            Err(format!("{about} is waiting to start: {}", waiting.reason.unwrap_or_default()))
        }
        (None, None, None, None) => Err(format!("{about} is waiting to start - no logs yet")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(name: &str, state: Value, last: Value, restarts: u32, expected: [Result<(u32, bool), &str>; 2]) {
        let status = json!({"name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": restarts,
            "state": state, "lastState": last});
        let status = serde_json::from_value(json!({"containerStatuses": [status]})).expect("a status");
        for (previous, expected) in [false, true].into_iter().zip(expected) {
            let found = find("web", &status, "app", previous).map(|run| (run.attempt, run.is_running));
            assert_eq!(found, expected.map_err(str::to_owned), "{name}, previous: {previous}");
        }
    }

    #[test]
    fn the_run_is_found_or_the_reason_told() {
        let ended = json!({"terminated": {"exitCode": 1}});
        let no_previous = Err("previous terminated container \"app\" in pod \"web\" not found");
        check("running", json!({"running": {}}), json!({}), 0, [Ok((0, true)), no_previous]);
        check("running again", json!({"running": {}}), ended.clone(), 3, [Ok((3, true)), Ok((2, false))]);
        check("ended", ended.clone(), json!({}), 0, [Ok((0, false)), no_previous]);
        let backing_off = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        check("waiting to run again", backing_off, ended, 2, [Ok((2, false)), Ok((2, false))]);
        let creating = json!({"waiting": {"reason": "ContainerCreating"}});
        let waits = "container \"app\" in pod \"web\" is waiting to start: ContainerCreating";
        check("not yet started", creating, json!({}), 0, [Err(waits), no_previous]);
        let unknown = "container \"app\" in pod \"web\" is waiting to start - no logs yet";
        check("in no state", json!({}), json!({}), 0, [Err(unknown), no_previous]);
    }

    #[test]
    fn a_container_without_status_is_not_available() {
        let found = find("web", &PodStatus::default(), "app", false);
        assert_eq!(found, Err("container \"app\" in pod \"web\" is not available".to_owned()));
    }
}
