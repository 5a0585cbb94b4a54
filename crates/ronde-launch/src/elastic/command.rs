//! `ronde run` for jobs whose ranks come and go: from the arguments to the exit code.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    discovery::{HostList, INTERVAL, Script, Source},
    driver::counted,
    model::{ElasticOutcome, Failure, HostSlots, Settings},
    run::{self, ElasticEnd, ElasticJob},
};
use crate::{
    agent::dial::HOSTS_VARIABLE,
    args::{Arguments, parameters::Parameters},
    environment,
    error::LaunchError,
    hosts::Host,
    run as command_line,
    signals::{self, Stops},
    start::{Ended, Program},
};

/// After so long without a sign of life a worker counts as gone: twice what it goes on by itself.
const SILENCE: Duration = Duration::from_secs(20);
const RESET_LIMIT: &str = "Horovod was shutdown because number of resets during elastic job exceeded limit";

/// Runs an elastic job to its end; returns the exit code.
pub async fn run(arguments: &Arguments, parameters: &Parameters) -> Result<u8, LaunchError> {
    let variables = environment::variables();
    let settings = settings(arguments, &variables)?;
    let start_timeout = command_line::start_timeout(arguments, &variables);
    let allocation = command_line::allocation(arguments, &variables);
    let source = source(arguments, &variables, allocation.as_deref(), start_timeout)?;
    if arguments.command.is_empty() {
        return Err(LaunchError::NoCommand);
    }
    let job = ElasticJob {
        settings,
        source,
        starter: Arc::new(command_line::starter(arguments, allocation.is_some())?.by_host),
        secret: environment::secret().map_err(LaunchError::Prepare)?,
        start_timeout,
        silence: SILENCE,
        program: Program {
            words: arguments.command.clone(),
            environment: environment(arguments, parameters, variables)?,
            directory: environment::folder().map_err(LaunchError::Prepare)?,
        },
    };
    let output = command_line::output(arguments)?;
    let (quit, mut asked) = mpsc::channel(2);
    let stops = command_line::stops(arguments)?;
    let listening = tokio::spawn(pass_on(stops, quit));
    let end = run::run(job, &output, &mut asked).await.map_err(LaunchError::Prepare)?;
    tokio::select! {
        () = output.close() => {}
        // Whoever reads our output has stopped reading.
        _ = asked.recv() => {}
    }
    listening.abort();
    if end.outcome != ElasticOutcome::Done {
        let _ = writeln!(io::stderr(), "error: {end}");
    }
    report(arguments, &end)?;
    Ok(end.exit_code())
}

/// For a caller that wants to know more than the exit code.
fn report(arguments: &Arguments, end: &ElasticEnd) -> Result<(), LaunchError> {
    let Some(path) = &arguments.report else { return Ok(()) };
    let text = match &end.outcome {
        ElasticOutcome::Failed(failure) => serde_json::json!({
            "rank": failure.rank.unwrap_or(0), "host": failure.host, "exit_code": end.exit_code(),
        }),
        _ => serde_json::json!({ "exit_code": end.exit_code() }),
    };
    fs_err::write(path, text.to_string()).map_err(|source| LaunchError::Output { path: path.clone(), source })
}

/// Every signal asks for the end.
async fn pass_on(mut stops: Stops, quit: mpsc::Sender<i32>) {
    while quit.send(stops.next().await).await.is_ok() {}
}

fn settings(arguments: &Arguments, variables: &BTreeMap<String, String>) -> Result<Settings, LaunchError> {
    let elastic = &arguments.elastic;
    let min = elastic.min_np.or(arguments.num_proc).ok_or(LaunchError::NoNumber)?;
    let max = elastic.max_np.unwrap_or(usize::MAX);
    let mut settings = Settings::new(min, max);
    let by_variable = || variables.get("HOROVOD_ELASTIC_TIMEOUT")?.parse().ok();
    if let Some(seconds) = elastic.elastic_timeout.map(|seconds| seconds as u64).or_else(by_variable) {
        settings.elastic_timeout = Duration::from_secs(seconds);
    }
    settings.reset_limit = elastic.reset_limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
    if let Some([first, longest]) = elastic.blacklist_cooldown_range.as_deref() {
        if first > longest {
            let text = format!(
                "--blacklist-cooldown-range {first} {longest}: the first number must not be greater than the second"
            );
            return Err(LaunchError::Parameter(text));
        }
        settings.cooldown = (Duration::from_secs(*first as u64), Duration::from_secs(*longest as u64));
    }
    Ok(settings)
}

/// Hosts by the script, or the list that it prints; else by the command line, of the allocation of Slurm, this machine.
fn source(
    arguments: &Arguments,
    variables: &BTreeMap<String, String>,
    allocation: Option<&[Host]>,
    patience: Duration,
) -> Result<Source, LaunchError> {
    let slots_default = arguments.elastic.slots_per_host;
    if let Some(command) = &arguments.hosts.host_discovery_script {
        let list = variables.get(HOSTS_VARIABLE).map(|path| HostList { path: path.into(), slots_default });
        if let Some(list) = list.filter(|list| list.is_printed_by(command)) {
            return Ok(Source::List(list));
        }
        return Ok(Source::Script(Script {
            command: command.clone(),
            environment: variables.clone(),
            directory: environment::folder().map_err(LaunchError::Prepare)?,
            slots_default,
            interval: INTERVAL,
            patience,
        }));
    }
    let named = command_line::named_hosts(arguments)?;
    let slots = arguments.elastic.max_np.or(arguments.num_proc).or(arguments.elastic.min_np).unwrap_or(1);
    let here = || vec![HostSlots { host: "localhost".to_owned(), slots }];
    let shown = |hosts: &[Host]| hosts.iter().map(|it| HostSlots { host: it.name.clone(), slots: it.slots }).collect();
    Ok(Source::Fixed(named.as_deref().or(allocation).map_or_else(here, shown)))
}

fn environment(
    arguments: &Arguments,
    parameters: &Parameters,
    variables: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, LaunchError> {
    let mut environment = command_line::environment(arguments, parameters, variables)?;
    environment.remove("_HOROVOD_SECRET_KEY");
    let added = [("PYTHONUNBUFFERED", "1"), ("HOROVOD_CONTROLLER", "gloo"), ("HOROVOD_CPU_OPERATIONS", "gloo")];
    environment.extend(added.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(environment)
}

impl ElasticEnd {
    /// The exit code of the job.
    pub fn exit_code(&self) -> u8 {
        let code = match &self.outcome {
            ElasticOutcome::Done => return 0,
            ElasticOutcome::Failed(failure) => failure.ended.exit_code() & 0xff,
            ElasticOutcome::Short { .. } | ElasticOutcome::NoRing(_) => 3,
            ElasticOutcome::ResetLimit(_) => 1,
            ElasticOutcome::Discovery(_) => 2,
            ElasticOutcome::Interrupted => 128 + self.signal.unwrap_or(signals::SIGINT),
        };
        // No code that says success for what was none.
        u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1)
    }
}

impl fmt::Display for ElasticEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            ElasticOutcome::Done => write!(f, "done"),
            ElasticOutcome::Failed(failure) => self.show_failure(failure, f),
            ElasticOutcome::Short { ready, min, waited } => write!(
                f,
                "{} ready after {} s, at least {min} needed\n\n\
                 hint: add hosts, allow fewer ranks with --min-np, or wait longer with --elastic-timeout",
                counted(*ready, "rank"),
                waited.as_secs()
            ),
            ElasticOutcome::ResetLimit(limit) => write!(f, "{RESET_LIMIT}: {limit}"),
            ElasticOutcome::Discovery(why) => write!(
                f,
                "cannot find the hosts of the job\n  cause: {why}\n\n\
                 hint: the program of --host-discovery-script prints `host:slots` in each line and ends with 0"
            ),
            ElasticOutcome::NoRing(why) => write!(
                f,
                "the ranks cannot form a ring\n  cause: {why}\n\n\
                 hint: hosts must reach each other by TCP; --network-interfaces names the interfaces to use"
            ),
            ElasticOutcome::Interrupted => write!(f, "the job was interrupted"),
        }
    }
}

impl ElasticEnd {
    fn show_failure(&self, failure: &Failure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { number, host, ended, why, .. } = failure;
        write!(f, "{why}: worker {number} on host `{host}` ")?;
        match ended {
            Ended::Code(code) => write!(f, "exited with code {code}")?,
            Ended::Signal(signal) => write!(f, "was killed by {}", signals::name(*signal))?,
            Ended::Lost(why) => write!(f, "was lost: {why}")?,
        }
        if !self.tail.is_empty() {
            write!(f, "\n  its last lines on stderr:")?;
        }
        self.tail.iter().try_for_each(|line| write!(f, "\n    {line}"))?;
        ended.hint().map_or(Ok(()), |hint| write!(f, "\n\nhint: {hint}"))
    }
}
