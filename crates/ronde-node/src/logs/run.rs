//! Which run of a container a question about its log means, in the words of a kubelet. Pure.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, PodStatus};

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
    let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    // A run that never began has said nothing; why it did not is all there is to tell.
    let ended = |attempt, end: Option<&ContainerStateTerminated>| match end.filter(|end| is_start_error(end)) {
        Some(end) => Err(format!("{about}: {}", end.message.as_deref().unwrap_or("failed to start container"))),
        None => Ok(Run { attempt, is_running: false }),
    };
    if previous {
        let last = last.ok_or_else(|| format!("previous terminated {about} not found"))?;
        return ended(last, before);
    }
    match (state.running, state.terminated, last, state.waiting) {
        (Some(_), ..) => Ok(Run { attempt: newest, is_running: true }),
        (None, Some(end), ..) => ended(newest, Some(&end)),
        (None, None, Some(last), _) => ended(last, before),
        (None, None, None, Some(waiting)) => {
            Err(format!("{about} is waiting to start: {}", waiting.reason.unwrap_or_default()))
        }
        (None, None, None, None) => Err(format!("{about} is waiting to start - no logs yet")),
    }
}

fn is_start_error(end: &ContainerStateTerminated) -> bool {
    end.reason.as_deref() == Some("StartError")
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
        check("waiting to run again", backing_off.clone(), ended, 2, [Ok((2, false)), Ok((2, false))]);
        let message = "failed to start container: no such file `nonsense`";
        let failed = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": message}});
        let why = "container \"app\" in pod \"web\": failed to start container: no such file `nonsense`";
        check("never began", failed.clone(), json!({}), 0, [Err(why), no_previous]);
        check("never began, and waits to try again", backing_off, failed, 1, [Err(why), Err(why)]);
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
