//! Counts what somebody asks of the API server, from the server's own log: the same for every scheduler.

use std::{
    collections::BTreeMap,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err::File;
use serde_json::Value;
use tokio::time::sleep;

/// How long the server keeps lines back; the log is written beside its work, not in front of it.
const DELAY: Duration = Duration::from_secs(1);

/// What the server notes: requests of one user, as soon as they are answered.
pub fn policy(user: &str) -> String {
    format!(
        "{{\"apiVersion\": \"audit.k8s.io/v1\", \"kind\": \"Policy\", \"omitStages\": [\"RequestReceived\"], \
         \"rules\": [{{\"level\": \"Metadata\", \"users\": [\"{user}\"]}}, {{\"level\": \"None\"}}]}}"
    )
}

/// Returns the options of the server with such a policy.
pub fn options(policy: &Path, log: &Path) -> String {
    format!(
        "--audit-policy-file {} --audit-log-path {} --audit-log-mode batch --audit-log-batch-max-wait {}ms",
        policy.display(),
        log.display(),
        DELAY.as_millis()
    )
}

/// How often something was asked for, such as `create pods/binding`.
pub type Calls = BTreeMap<String, usize>;

/// The log of a server, from some moment on.
pub struct Log {
    path: PathBuf,
    from: u64,
}

impl Log {
    /// Begins where the log ends by now.
    pub async fn begin(path: &Path) -> Self {
        sleep(2 * DELAY).await;
        Self { path: path.to_owned(), from: fs_err::metadata(path).map(|meta| meta.len()).unwrap_or_default() }
    }

    /// Returns what was asked for since the beginning.
    pub async fn calls(self) -> anyhow::Result<Calls> {
        sleep(2 * DELAY).await;
        let mut text = String::new();
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.from))?;
        file.read_to_string(&mut text)?;
        Ok(count(&text))
    }
}

/// Counts the lines of a log. Watches go on for minutes, and leases are kept by the clock: neither is work.
fn count(log: &str) -> Calls {
    let mut calls = Calls::new();
    for line in log.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (verb, about) = (word(&entry["verb"]), &entry["objectRef"]);
        let (kind, part) = (word(&about["resource"]), word(&about["subresource"]));
        if entry["stage"] != "ResponseComplete" || verb == "watch" || matches!(&*kind, "" | "leases") {
            continue;
        }
        let kind = if part.is_empty() { kind } else { format!("{kind}/{part}") };
        *calls.entry(format!("{verb} {kind}")).or_default() += 1;
    }
    calls
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn work_is_counted() {
        let line = |verb: &str, kind: &str, part: &str| {
            let about = json!({"resource": kind, "subresource": part});
            json!({"stage": "ResponseComplete", "verb": verb, "objectRef": about}).to_string()
        };
        let lines = [
            line("create", "pods", ""),
            line("create", "pods", ""),
            line("create", "pods", "binding"),
            line("watch", "pods", ""),
            line("update", "leases", ""),
            "{half a li".to_owned(),
        ];
        let expected = [("create pods".to_owned(), 2), ("create pods/binding".to_owned(), 1)];
        assert_eq!(count(&lines.join("\n")), Calls::from(expected));
    }
}
