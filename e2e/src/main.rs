//! `ronde-e2e`: records, checks and lists the conformance suite against the server of a kubeconfig.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use futures::{StreamExt, stream};
use kube::config::{KubeConfigOptions, Kubeconfig};
use ronde_e2e::{Case, SuiteError, cases, known_differences};

/// How many scenarios run at the same time; a server on two cores is busy with these.
const AT_ONCE: usize = 6;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Runs API scenarios against a Kubernetes API server.
#[derive(Parser)]
struct Arguments {
    /// The folder of the scenarios.
    #[arg(long, default_value = "e2e/conformance", global = true)]
    suite: PathBuf,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs scenarios and keeps the transcripts as recordings.
    Record {
        #[command(flatten)]
        target: Target,
    },
    /// Runs scenarios and compares the transcripts with the recordings.
    Check {
        #[command(flatten)]
        target: Target,
    },
    /// Runs scenarios on a real server and tells whether the recordings are current.
    Verify {
        #[command(flatten)]
        target: Target,
    },
    /// Runs scenarios and prints the transcripts.
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Writes known-differences.md from the scenarios' annotations.
    Differences,
}

#[derive(clap::Args)]
struct Target {
    /// The kubeconfig of the server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Scenario names, or parts of them; all when none is given.
    names: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
            let mut out = io::stderr().lock();
            while let Some(error) = cause {
                let _ = writeln!(out, "error: {error}");
                cause = error.source();
            }
            ExitCode::from(3)
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, AnyError> {
    let all = cases(&arguments.suite)?;
    match arguments.verb {
        Verb::Record { target } => record(&target, &all).await,
        Verb::Check { target } => compare(&target, &all, async |case, client| case.check(client).await).await,
        Verb::Verify { target } => compare(&target, &all, async |case, client| case.verify(client).await).await,
        Verb::Show { target } => show(&target, &all).await,
        Verb::Differences => write_differences(&arguments.suite, &all),
    }
}

async fn record(target: &Target, all: &[Case]) -> Result<bool, AnyError> {
    let client = target.client().await?;
    let mut out = io::stdout().lock();
    for case in target.select(all) {
        let before = case.recording();
        let after = case.record(&client).await?;
        let word = if before.as_ref() == Some(&after) { "same" } else { "recorded" };
        writeln!(out, "{word}: {}", case.name)?;
        for block in after.blocks.iter().filter(|block| did_not_work(block)) {
            writeln!(out, "  did not work:\n{block}")?;
        }
    }
    Ok(true)
}

/// Tells a step that the runner could not carry out from one that the server refused.
fn did_not_work(block: &str) -> bool {
    block.lines().any(|line| line.starts_with("failed"))
}

/// Runs scenarios a few at a time, which is what makes up for their waits, and tells what is wrong in each.
async fn compare(
    target: &Target,
    all: &[Case],
    wrong_in: impl AsyncFn(&Case, &kube::Client) -> Result<Vec<String>, SuiteError>,
) -> Result<bool, AnyError> {
    let client = target.client().await?;
    let (mut passed, mut failed) = (0, 0);
    let (client, wrong_in) = (&client, &wrong_in);
    let checks = target.select(all).map(|case| async move { (case, wrong_in(case, client).await) });
    let mut checks = stream::iter(checks).buffered(AT_ONCE);
    while let Some((case, wrong)) = checks.next().await {
        let wrong = wrong?;
        let mut out = io::stdout().lock();
        if wrong.is_empty() {
            passed += 1;
            writeln!(out, "ok: {}", case.name)?;
        } else {
            failed += 1;
            writeln!(out, "FAILED: {}\n{}", case.name, wrong.join("\n"))?;
        }
    }
    writeln!(io::stdout().lock(), "{passed} passed, {failed} failed")?;
    Ok(failed == 0)
}

async fn show(target: &Target, all: &[Case]) -> Result<bool, AnyError> {
    let client = target.client().await?;
    for case in target.select(all) {
        write!(io::stdout().lock(), "{}", case.run(&client).await?)?;
    }
    Ok(true)
}

fn write_differences(suite: &Path, all: &[Case]) -> Result<bool, AnyError> {
    fs_err::write(suite.join("known-differences.md"), known_differences(all)?)?;
    Ok(true)
}

impl Target {
    async fn client(&self) -> Result<kube::Client, AnyError> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        // A repeated request would hide an answer such as 429.
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }

    fn select<'a>(&self, all: &'a [Case]) -> impl Iterator<Item = &'a Case> {
        let names = self.names.clone();
        all.iter().filter(move |case| names.is_empty() || names.iter().any(|name| case.name.contains(name.as_str())))
    }
}
