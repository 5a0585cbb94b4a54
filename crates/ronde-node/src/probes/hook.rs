//! Runs a lifecycle hook once. How long it may take is the caller's to say: dropping the future ends the hook.

use std::time::Duration;

use k8s_openapi::api::core::v1::{HTTPGetAction, LifecycleHandler};
use tokio::time::{sleep, timeout};

use super::{Reach, Target, http, url::Url};

const HOOK_AGENT: &str = "kube-lifecycle/1.34";
/// An HTTP hook that nobody answers ends at last.
const HTTP_TIME_MAX: Duration = Duration::from_secs(30);

/// Runs a handler; returns the message that explains its failure, which may hold what the container wrote.
///
/// # Errors
/// If the command failed or nobody answered.
pub async fn run_hook<R: Reach>(target: &Target<R>, handler: &LifecycleHandler) -> Result<(), String> {
    let of = format!("for Container \"{}\" in Pod \"{}\" failed - error:", target.container.name, target.pod);
    if let Some(action) = &handler.exec {
        let command = action.command.clone().unwrap_or_default();
        let failed = |error: String, output: &[u8]| {
            let output = String::from_utf8_lossy(output);
            format!("Exec lifecycle hook ([{}]) {of} {error}, message: {output:?}", command.join(" "))
        };
        let ended = target.reach.exec(&command).await.map_err(|error| failed(error.to_string(), b""))?;
        if ended.code != 0 {
            let error = format!("command '{}' exited with {}", command.join(" "), ended.code);
            return Err(failed(error, &ended.output));
        }
        return Ok(());
    }
    if let Some(action) = &handler.http_get {
        let path = action.path.as_deref().unwrap_or_default();
        let asked = timeout(HTTP_TIME_MAX, ask(target, action)).await;
        let asked = asked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        return asked.map_err(|error| format!("HTTP lifecycle hook ({path}) {of} {error}"));
    }
    if let Some(action) = &handler.sleep {
        sleep(Duration::from_secs(action.seconds.unsigned_abs())).await;
        return Ok(());
    }
    Err("Cannot run handler: invalid handler".to_owned())
}

/// Any answer will do.
async fn ask<R: Reach>(target: &Target<R>, action: &HTTPGetAction) -> Result<(), String> {
    let url = Url::for_action(action, &target.container, &target.pod_ip)?;
    let headers = http::headers(action.http_headers.as_deref(), HOOK_AGENT)?;
    http::get(&target.reach, &url, &headers).await.map_err(|error| format!("Get \"{}\": {error}", url.text()))?;
    Ok(())
}
