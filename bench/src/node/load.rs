//! The pods that are run, and how long things take with them.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{AttachParams, DeleteParams, ListParams, LogParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, time::timeout};

const EXECS: usize = 50;
/// Ends at the signal: the first process of a container does not unless it asks to.
const UNTIL_SIGNAL: &str = "trap 'exit 0' TERM; sleep 1000 & wait";
/// A few seconds of writing, and many times what the log keeps.
const LOG_BYTES: u64 = LOG_TIMES * LOG_FILE_BYTES;
/// Copied this often, because making lines takes some shells longer than writing them.
const LOG_TIMES: u64 = 10;
const LOG_FILE_BYTES: u64 = 60_000_000;
/// Few enough that the log keeps them all.
const COUNTED_LINES: usize = 200_000;
const LIMIT: Duration = Duration::from_secs(120);

pub struct Load {
    pods: Api<Pod>,
    image: String,
}

/// Times of pods that were run one after the other.
pub struct Times {
    pub started_ms: Vec<f64>,
    pub gone_ms: Vec<f64>,
}

impl Load {
    /// The image has to be on the node already.
    pub fn new(client: Client, image: &str) -> Self {
        Self { pods: Api::default_namespaced(client), image: image.to_owned() }
    }

    pub async fn one_after_the_other(&self, count: usize) -> anyhow::Result<Times> {
        let mut times = Times { started_ms: Vec::new(), gone_ms: Vec::new() };
        for number in 0..count {
            let name = format!("one-{number}");
            let begun = Instant::now();
            let version = self.create(&name, &["sh", "-c", UNTIL_SIGNAL]).await?;
            let running = self.wait_for(&version, 1, |event| has_phase(event, &name, "Running"));
            let version = running.await?;
            times.started_ms.push(begun.elapsed().as_secs_f64() * 1000.0);
            let begun = Instant::now();
            self.pods.delete(&name, &DeleteParams::default()).await?;
            self.wait_for(&version, 1, |event| matches!(event, WatchEvent::Deleted(_))).await?;
            times.gone_ms.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(times)
    }

    /// Returns the seconds until all pods run.
    pub async fn all_at_once(&self, count: usize) -> anyhow::Result<f64> {
        let version = self.pods.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
        let names: Vec<String> = (0..count).map(|number| format!("many-{number}")).collect();
        let begun = Instant::now();
        let creates = try_join_all(names.iter().map(|name| self.create(name, &["sleep", "1000"])));
        let mut seen = std::collections::BTreeSet::new();
        let run = self.wait_for(&version, count, |event| match event {
            WatchEvent::Modified(pod) if phase(pod) == "Running" => seen.insert(pod.name_any()),
            _ => false,
        });
        futures::try_join!(creates, run)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Deletes pods until so many are left, and waits until they are gone. They do not hear the signal everywhere.
    pub async fn delete_down_to(&self, left: usize) -> anyhow::Result<()> {
        let all = self.pods.list(&ListParams::default()).await?;
        let version = all.metadata.resource_version.clone().unwrap_or_default();
        let names: Vec<String> = all.items.iter().skip(left).map(ResourceExt::name_any).collect();
        let params = DeleteParams::default().grace_period(1);
        let deletes = try_join_all(names.iter().map(|name| self.pods.delete(name, &params)));
        let gone = self.wait_for(&version, names.len(), |event| matches!(event, WatchEvent::Deleted(_)));
        let deletes = async { deletes.await.map_err(anyhow::Error::from) };
        futures::try_join!(deletes, gone)?;
        Ok(())
    }

    /// Runs `true` in a pod and waits for its end, again and again.
    pub async fn exec_ms(&self) -> anyhow::Result<Vec<f64>> {
        let pod = self.pods.list(&ListParams::default()).await?.items.first().context("no pod")?.name_any();
        let mut times = Vec::new();
        for _ in 0..EXECS {
            let begun = Instant::now();
            let mut process = self.pods.exec(&pod, ["true"], &AttachParams::default().stderr(false)).await?;
            let mut said = Vec::new();
            process.stdout().context("no stdout")?.read_to_end(&mut said).await?;
            let status = process.take_status().context("no status")?.await.context("no status")?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
            anyhow::ensure!(status.status.as_deref() == Some("Success"), "exec failed: {status:?}");
        }
        Ok(times)
    }

    /// A container writes as fast as it can and measures for itself how long the log took to take it. It ends a
    /// while later: last words may be lost.
    pub async fn log_megabytes_per_second(&self) -> anyhow::Result<f64> {
        let line = "x".repeat(99);
        let script = format!(
            "yes {line} | head -c {LOG_FILE_BYTES} >/tmp/words; \
             now() {{ read now _ </proc/uptime; echo ${{now%.*}}${{now#*.}}; }}; \
             a=$(now); for n in $(seq {LOG_TIMES}); do cat /tmp/words; done; b=$(now); \
             echo $((b - a)) hundredths of a second; sleep 1"
        );
        let words = self.words_of("writer", &script, Some(1)).await?;
        let hundredths: f64 = words.split_whitespace().next().context("no last line")?.parse()?;
        Ok(LOG_BYTES as f64 / hundredths / 10_000.0)
    }

    /// A program writes numbered lines and ends at once: how many of them are not in the log?
    pub async fn lost_lines(&self) -> anyhow::Result<usize> {
        let words = self.words_of("counter", &format!("seq 1 {COUNTED_LINES}"), None).await?;
        let in_order = words.lines().zip(1..=COUNTED_LINES).filter(|(line, number)| **line == number.to_string());
        Ok(COUNTED_LINES - in_order.count())
    }

    /// Runs a script to its end and returns its log.
    async fn words_of(&self, name: &str, script: &str, tail: Option<i64>) -> anyhow::Result<String> {
        let version = self.create(name, &["sh", "-c", script]).await?;
        self.wait_for(&version, 1, |event| has_phase(event, name, "Succeeded")).await?;
        Ok(self.pods.logs(name, &LogParams { tail_lines: tail, ..LogParams::default() }).await?)
    }

    /// Creates a pod and returns its version.
    async fn create(&self, name: &str, command: &[&str]) -> anyhow::Result<String> {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never", "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": self.image, "imagePullPolicy": "Never", "command": command}],
            },
        }))?;
        Ok(self.pods.create(&PostParams::default(), &pod).await?.resource_version().unwrap_or_default())
    }

    /// Waits until so many events since a version are wanted ones; returns the version of the last.
    async fn wait_for(
        &self,
        version: &str,
        count: usize,
        is_wanted: impl FnMut(&WatchEvent<Pod>) -> bool,
    ) -> anyhow::Result<String> {
        timeout(LIMIT, self.watch_for(version, count, is_wanted)).await.context("pods do not get where they should")?
    }

    async fn watch_for(
        &self,
        version: &str,
        count: usize,
        mut is_wanted: impl FnMut(&WatchEvent<Pod>) -> bool,
    ) -> anyhow::Result<String> {
        let (mut found, mut last) = (0, version.to_owned());
        let mut events = self.pods.watch(&WatchParams::default(), &last).await?.boxed();
        while found < count {
            let Some(event) = events.try_next().await? else {
                // A server that is busy ends a watch that falls behind; the next goes on where it ended.
                events = self.pods.watch(&WatchParams::default(), &last).await?.boxed();
                continue;
            };
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) = &event {
                last = pod.resource_version().unwrap_or_default();
            }
            found += usize::from(is_wanted(&event));
        }
        Ok(last)
    }
}

fn has_phase(event: &WatchEvent<Pod>, name: &str, wanted: &str) -> bool {
    matches!(event, WatchEvent::Modified(pod) if pod.name_any() == name && phase(pod) == wanted)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
