//! What the demo shows, act by act. Nothing has a fixed length: each act waits for what it is about.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
};

use fs_err as fs;
use tokio::process::Command;

use super::{
    DemoError,
    processes::{kill, of_worker, ranks, worker_of},
    python::Python,
    stage::{Stage, text},
};
use crate::{client, failure::Failure, jobs::any, submit::sight};

/// The training, as the workers call it.
pub const SCRIPT: &str = "numpy_elastic.py";
const TRAINING: &str = include_str!("../../../../examples/numpy_elastic.py");
/// More than anybody waits for: the story ends the training, however fast the machine is.
const STEPS: &str = "1000000";
const JOB: &str = "demo";
const IMAGE: &str = "this-machine";
const VICTIM: &str = "demo-worker-1";

type Act<T = ()> = Result<T, Box<dyn Failure>>;

/// Starts the cluster. Whoever interrupts it has to wait: what has half begun could not be stopped.
pub async fn begin(stage: &Stage) -> Act {
    stage.title("A cluster on this machine: one process, nothing to install.");
    let words = ["up", "--detach", "--listen=127.0.0.1:0", "--nodes=3", "--cpus=4", "--memory=2Gi"];
    Ok(stage.run_shielded(&words).await?)
}

/// Tells the rest of the story.
pub async fn tell(stage: &Stage, python: &Python, picture: &Path) -> Act {
    let story = Story { stage, python, end: stage.path("job/end") };
    stage.title("An elastic job: three workers to begin with, at least one, at most nine.");
    story.submit().await?;
    stage.run(&["get", JOB]).await?;

    stage.title("One more worker. It joins while the others train; none of them starts again.");
    story.scale_out().await?;

    stage.title("One less. It leaves at a commit.");
    stage.run(&["scalein", "etjob", "--name=demo", "--count=1", "--timeout=1m", "--wait"]).await?;

    stage.title("Kill a worker. The others go back to their last commit, in memory, and on; another takes its place.");
    story.replace_worker().await?;

    stage.title("It ends as if nothing had happened.");
    let log = story.finish().await?;
    story.compare(&log).await?;
    story.draw(picture).await?;

    stage.title("Stop it. Pods, links, mounts and control groups are gone.");
    stage.run(&["down", "--delete-data"]).await?;
    Ok(())
}

struct Story<'a> {
    stage: &'a Stage,
    python: &'a Python,
    /// The file that ends the training.
    end: PathBuf,
}

impl Story<'_> {
    async fn submit(&self) -> Act {
        let folder = self.stage.path("job");
        fs::create_dir(&folder).map_err(files)?;
        fs::write(folder.join(SCRIPT), TRAINING).map_err(files)?;
        let (folder, end) = (folder.display(), self.end.display());
        let mut words: Vec<String> = "submit etjob --name=demo --cpu-only --workers=3 --min-workers=1 --max-workers=9"
            .split(' ')
            .map(str::to_owned)
            .collect();
        words.extend([format!("--image={IMAGE}"), format!("--working-dir={folder}"), format!("--data-dir={folder}")]);
        words.extend(self.hidden_folders().await?.iter().map(|folder| format!("--data-dir={}", folder.display())));
        words.push("--wait".to_owned());
        words.push(format!(
            "horovodrun -np ${{workers}} --min-np ${{minWorkers}} --max-np ${{maxWorkers}} \
             --host-discovery-script /etc/edl/discover_hosts.sh \
             {} {SCRIPT} --steps {STEPS} --pause 0.02 --until {end}",
            self.python.executable.display()
        ));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.stage.run(&words).await?;
        self.watch(3).await
    }

    /// Returns the folders of Python that pods see only if they are mounted.
    async fn hidden_folders(&self) -> Act<Vec<PathBuf>> {
        let client = client::connect(Some(&self.stage.kubeconfig()), None).await?;
        let Some(machine) = sight::machine_of(&client).await else { return Ok(Vec::new()) };
        let mut hidden: Vec<PathBuf> = Vec::new();
        for folder in &self.python.folders {
            let real = fs::canonicalize(folder).map_err(files)?;
            if machine.files.private_folder_of(&real).is_some() && !hidden.iter().any(|other| folder.starts_with(other))
            {
                hidden.push(folder.clone());
            }
        }
        Ok(hidden)
    }

    /// Shows the training until each of so many ranks has said something twice. The number before a line is a worker's
    /// own; whoever takes the place of a dead one has its number.
    async fn watch(&self, count: usize) -> Act {
        let mut said = vec![0; count];
        let is_last = |line: &str| {
            let spoke = (0..count).find(|rank| line.starts_with(&format!("[{rank}]<stdout>:Step")));
            spoke.into_iter().for_each(|rank| said[rank] += 1);
            said.iter().all(|lines| *lines >= 2)
        };
        let what = format!("steps of {count} ranks");
        Ok(self.stage.follow(&["logs", JOB, "--follow", "--tail=0"], &what, is_last).await?)
    }

    async fn scale_out(&self) -> Act {
        let before = ranks(&self.end);
        self.stage.run(&["scaleout", "etjob", "--name=demo", "--count=1", "--timeout=1m", "--wait"]).await?;
        self.watch(4).await?;
        let kept = before.intersection(&ranks(&self.end)).count();
        self.stage.line(&format!("{kept} of the {} processes of before still train", before.len()));
        Ok(())
    }

    async fn replace_worker(&self) -> Act {
        let before = ranks(&self.end);
        let victims = of_worker(VICTIM, &before);
        if victims.is_empty() {
            return Err(DemoError::NoWorker { name: VICTIM }.into());
        }
        let shown: Vec<String> = victims.iter().map(i32::to_string).collect();
        self.stage.line(&format!("$ kill -9 {}   # all processes of {VICTIM}", shown.join(" ")));
        kill(&victims);
        let mut new = BTreeSet::new();
        let is_replaced = async || {
            let now = ranks(&self.end);
            new = now.difference(&before).copied().collect();
            Ok(now.len() == before.len() && !new.is_empty())
        };
        self.stage.until("another worker to take its place", is_replaced).await?;
        self.watch(3).await?;
        for pid in new {
            let worker = worker_of(pid).unwrap_or_default();
            self.stage.line(&format!("{worker} has taken the place of {VICTIM}: process {pid}"));
        }
        Ok(())
    }

    /// Ends the training, and returns its log.
    async fn finish(&self) -> Act<String> {
        fs::write(&self.end, "").map_err(files)?;
        let client = client::connect(Some(&self.stage.kubeconfig()), None).await?;
        let namespace = client.default_namespace().to_owned();
        let has_ended = async || {
            let found = any::find_all(&client, &namespace, JOB).await;
            Ok(found.is_ok_and(|jobs| jobs.iter().any(|job| job.state().is_final())))
        };
        self.stage.until("the job to end", has_ended).await?;
        self.stage.run(&["get", JOB]).await?;
        Ok(self.stage.ask(&["logs", JOB]).await?)
    }

    /// Trains again with one process, which has to come to the same result.
    async fn compare(&self, log: &str) -> Act {
        let elastic = log.lines().find_map(|line| Some(&line[line.find("steps: ")?..])).ok_or(DemoError::Training)?;
        let steps = elastic["steps: ".len()..].split(',').next().unwrap_or_default();
        let alone = self.run_python(&[SCRIPT, "--steps", steps]).await?;
        let alone = alone.lines().last().unwrap_or_default();
        self.stage.line(&format!("\n{elastic}\nalone, without any of this:\n{alone}\n"));
        if elastic == alone {
            return Ok(());
        }
        Err(DemoError::Different { elastic: elastic.to_owned(), alone: alone.to_owned() }.into())
    }

    /// Shows the story of the job, also as a picture.
    async fn draw(&self, picture: &Path) -> Act {
        self.stage.run(&["story", JOB]).await?;
        let drawn = self.stage.ask(&["story", JOB, "--output=svg"]).await?;
        let fail = |source| DemoError::Picture { path: picture.to_owned(), source };
        fs::write(picture, drawn).map_err(fail)?;
        self.stage.line(&format!("\nits picture: {}", picture.display()));
        Ok(())
    }

    async fn run_python(&self, words: &[&str]) -> Result<String, DemoError> {
        let program = self.python.executable.display();
        let mut command = Command::new(&self.python.executable);
        command.args(words).current_dir(self.stage.path("job")).stdin(Stdio::null()).kill_on_drop(true);
        // What Python complains of belongs to the failure that follows.
        command.stderr(Stdio::inherit());
        let output = command.output().await;
        let output = output.map_err(|source| DemoError::Spawn { program: program.to_string(), source })?;
        text(output, || format!("{program} {}", words.join(" ")))
    }
}

fn files(source: std::io::Error) -> DemoError {
    DemoError::Files { source }
}
