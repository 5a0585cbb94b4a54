//! `ronde run` and `horovodrun` from their words to their exit code: the table of contents of this crate.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use crate::{
    agent::{agent_starter::AgentStarter, dial::HOSTS_VARIABLE},
    args::{Arguments, config, parameters::Parameters},
    elastic, environment,
    error::LaunchError,
    hosts::{self, Host},
    job::{self, Ending, Job, RankStarter},
    output::{Output, OutputOptions, Sinks},
    signals::Stops,
    slots,
    start::{local::Local, remote::Remote, slurm, ssh::Ssh, starters::Starters},
};

/// The version of Horovod whose command line and Python modules ours are, and our own.
pub const VERSION: &str = concat!("0.28.1+ronde", env!("CARGO_PKG_VERSION"));

const CHECK_BUILD: &str = "
Available Frameworks:
    [ ] TensorFlow
    [X] PyTorch
    [ ] MXNet

Available Controllers:
    [ ] MPI
    [X] Gloo

Available Tensor Operations:
    [ ] NCCL
    [ ] DDL
    [ ] CCL
    [ ] MPI
    [X] Gloo";

const START_TIMEOUT_SECONDS: u64 = 30;

/// Runs a job as the words after the command's name say; returns the exit code.
pub fn run(name: &str, words: &[String]) -> Result<u8, LaunchError> {
    let mut arguments = match Arguments::read(name, words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return Ok(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if arguments.version {
        return Ok(show(VERSION));
    }
    if arguments.check_build {
        return Ok(show(&format!("Horovod v{VERSION}:\n{CHECK_BUILD}")));
    }
    let parameters = parameters(&arguments)?;
    if arguments.show_arguments {
        return Ok(show(&shown(&arguments, &parameters)));
    }
    if let Some(fault) = arguments.fault() {
        return Err(LaunchError::Parameter(fault));
    }
    arguments.notices().into_iter().for_each(print_notice);
    if arguments.hosts.is_silent() && !arguments.is_elastic() {
        arguments.hosts.hostfile = hosts_of_the_job(&environment::variables());
    }
    let runtime = tokio::runtime::Runtime::new().map_err(LaunchError::Prepare)?;
    let code = runtime.block_on(async {
        if arguments.is_elastic() {
            elastic::run_command(&arguments, &parameters).await
        } else {
            run_static(&arguments, &parameters).await
        }
    });
    // A thread may still wait for whoever reads our output; the job is over.
    runtime.shutdown_background();
    code
}

/// The list of hosts that an agent keeps for the launcher of a job. Variables go along to ranks, the file does not: elsewhere
/// there is none.
fn hosts_of_the_job(variables: &BTreeMap<String, String>) -> Option<PathBuf> {
    variables.get(HOSTS_VARIABLE).map(PathBuf::from).filter(|path| path.is_file())
}

/// What the flags say, and where they are silent the file.
fn parameters(arguments: &Arguments) -> Result<Parameters, LaunchError> {
    let flags = arguments.parameters();
    let Some(path) = &arguments.config_file else { return checked(flags) };
    let text = fs_err::read_to_string(path).map_err(|source| LaunchError::Read { path: path.clone(), source })?;
    let config = config::parse(&text).map_err(|why| LaunchError::Config { path: path.clone(), why })?;
    config.notices.iter().for_each(|text| print_notice(&format!("{}: {text}", path.display())));
    config.unknown.iter().for_each(|key| print_notice(&format!("{}: unknown key `{key}` is ignored", path.display())));
    checked(flags.or(config.parameters))
}

fn checked(parameters: Parameters) -> Result<Parameters, LaunchError> {
    match parameters.fault() {
        Some(fault) => Err(LaunchError::Parameter(fault)),
        None => Ok(parameters),
    }
}

async fn run_static(arguments: &Arguments, parameters: &Parameters) -> Result<u8, LaunchError> {
    let variables = environment::variables();
    let allocation = allocation(arguments, &variables);
    let slots = slots(arguments, allocation.as_deref())?;
    if arguments.command.is_empty() {
        return Err(LaunchError::NoCommand);
    }
    if arguments.verbose {
        slots.iter().for_each(|slot| print_notice(&format!("rank {} runs on host `{}`", slot.rank, slot.host)));
    }
    let starter = starter(arguments, allocation.is_some())?;
    let job = Job {
        slots,
        command: arguments.command.clone(),
        start_timeout: start_timeout(arguments, &variables),
        environment: environment(arguments, parameters, variables)?,
        directory: environment::folder().map_err(LaunchError::Prepare)?,
    };
    let stops = stops(arguments)?;
    let ending = job::run(&job, &starter, output(arguments)?, stops).await?;
    if let Ending::Failed(failed) = &ending {
        let _ = writeln!(io::stderr(), "error: {failed}");
    }
    report(arguments, &ending)?;
    Ok(ending.exit_code())
}

/// What asks for the end of the job.
pub fn stops(arguments: &Arguments) -> Result<Stops, LaunchError> {
    let mut stops = Stops::listen().map_err(LaunchError::Prepare)?;
    if arguments.until_stdin_ends {
        stops.listen_to_stdin().map_err(LaunchError::Prepare)?;
    }
    Ok(stops)
}

/// The hosts of a Slurm allocation, if this is one and nobody has named others.
pub fn allocation(arguments: &Arguments, variables: &BTreeMap<String, String>) -> Option<Vec<Host>> {
    if !arguments.hosts.is_silent() || !environment::has_program(variables.get("PATH"), "srun") {
        return None;
    }
    slurm::hosts(variables)
}

fn slots(arguments: &Arguments, allocation: Option<&[Host]>) -> Result<Vec<slots::Slot>, LaunchError> {
    let named = named_hosts(arguments)?;
    let found = named.as_deref().or(allocation);
    let all = allocation.map(|hosts| hosts.iter().map(|host| host.slots).sum());
    let np = arguments.num_proc.or(all).ok_or(LaunchError::NoNumber)?;
    let here = [Host { name: "localhost".to_owned(), slots: np }];
    slots::assign(found.unwrap_or(&here), np).map_err(LaunchError::Slots)
}

/// The hosts of the command line or of the hostfile.
pub fn named_hosts(arguments: &Arguments) -> Result<Option<Vec<Host>>, LaunchError> {
    if let Some(list) = &arguments.hosts.hosts {
        return hosts::parse_list(list).map(Some).map_err(LaunchError::Hosts);
    }
    let Some(path) = &arguments.hosts.hostfile else { return Ok(None) };
    let text = fs_err::read_to_string(path).map_err(|source| LaunchError::Read { path: path.clone(), source })?;
    hosts::parse_file(&text).map(Some).map_err(LaunchError::Hosts)
}

/// How hosts are reached: by the user's command, Slurm's own way in an allocation, agents where the environment names
/// them, else ssh.
pub fn starter(arguments: &Arguments, is_slurm: bool) -> Result<RankStarter, LaunchError> {
    let has_wish = arguments.remote.rsh.is_some() || arguments.remote.ssh_port.is_some();
    if !has_wish
        && !is_slurm
        && let Some(agents) = AgentStarter::around(&environment::variables())?
    {
        return Ok(RankStarter { by_host: Starters::new(Some(Local::default()), Box::new(agents)), tried: None });
    }
    let remote = match &arguments.remote.rsh {
        Some(command) => {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() {
                return Err(LaunchError::Rsh(command.clone()));
            }
            Remote::Command(words)
        }
        None if is_slurm => Remote::Srun,
        None => {
            Remote::Ssh(Ssh { port: arguments.remote.ssh_port, identity: arguments.remote.ssh_identity_file.clone() })
        }
    };
    // In an allocation every rank is a step of the job, wherever the launcher itself is.
    let local = (remote != Remote::Srun).then(Local::default);
    Ok(RankStarter { by_host: Starters::new(local, Box::new(remote.clone())), tried: Some(remote) })
}

/// What all ranks find in their environment.
pub fn environment(
    arguments: &Arguments,
    parameters: &Parameters,
    mut variables: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, LaunchError> {
    variables.extend(parameters.variables().into_iter().map(|(name, value)| (name.to_owned(), value)));
    if arguments.remote.tcp {
        variables.insert("NCCL_IB_DISABLE".to_owned(), "1".to_owned());
    }
    let interfaces = arguments.interfaces();
    // Elsewhere only the ranks can tell.
    let is_here = arguments.hosts.is_silent();
    if let Some(unknown) = interfaces.iter().find(|name| is_here && !environment::has_interface(name)) {
        return Err(LaunchError::Interface((*unknown).to_owned()));
    }
    if let Some(first) = interfaces.first() {
        variables.insert("HOROVOD_GLOO_IFACE".to_owned(), (*first).to_owned());
        // Names: what their addresses are is known on each host.
        variables.insert("NCCL_SOCKET_IFNAME".to_owned(), interfaces.join(","));
        variables.insert("RONDE_ADDRESSES".to_owned(), interfaces.join(","));
    }
    Ok(variables)
}

pub fn start_timeout(arguments: &Arguments, variables: &BTreeMap<String, String>) -> Duration {
    let by_variable = || variables.get("HOROVOD_START_TIMEOUT")?.parse().ok();
    let seconds = arguments.start_timeout.map(|seconds| seconds as u64).or_else(by_variable);
    Duration::from_secs(seconds.unwrap_or(START_TIMEOUT_SECONDS))
}

/// Begins to write what ranks say.
pub fn output(arguments: &Arguments) -> Result<Output, LaunchError> {
    let folder = arguments.output_filename.clone();
    let options = OutputOptions { with_time: arguments.logging.prefix_output_with_timestamp, folder: folder.clone() };
    let path = folder.unwrap_or_default();
    Output::start(Sinks::default(), options).map_err(|source| LaunchError::Output { path, source })
}

/// For a caller that wants to know more than the exit code.
fn report(arguments: &Arguments, ending: &Ending) -> Result<(), LaunchError> {
    let Some(path) = &arguments.report else { return Ok(()) };
    let text = match ending {
        Ending::Failed(failed) => serde_json::json!({
            "rank": failed.slot.rank, "host": failed.slot.host, "exit_code": failed.ended.exit_code(),
        }),
        Ending::Done | Ending::Stopped(_) => serde_json::json!({ "exit_code": ending.exit_code() }),
    };
    fs_err::write(path, text.to_string()).map_err(|source| LaunchError::Output { path: path.clone(), source })
}

/// The arguments with the names that Python's `parse_args` gives them.
fn shown(arguments: &Arguments, parameters: &Parameters) -> String {
    let Arguments { elastic, remote, hosts, .. } = arguments;
    let is_silent = !(remote.gloo || remote.mpi || remote.jsrun);
    let is_by_file = |name: &str| is_silent && parameters.controller.as_deref() == Some(name);
    let mut all = serde_json::json!(parameters);
    let rest = serde_json::json!({
        "num_proc": arguments.num_proc, "np": arguments.num_proc, "check_build": arguments.check_build,
        "disable_cache": arguments.disable_cache, "start_timeout": arguments.start_timeout,
        "nics": if arguments.interfaces().is_empty() { None } else { Some(arguments.interfaces()) },
        "output_filename": arguments.output_filename, "verbose": arguments.verbose,
        "config_file": arguments.config_file, "command": arguments.command,
        "min_num_proc": elastic.min_np, "max_num_proc": elastic.max_np, "slots": elastic.slots_per_host,
        "elastic_timeout": elastic.elastic_timeout, "reset_limit": elastic.reset_limit,
        "cooldown_range": elastic.blacklist_cooldown_range,
        "hosts": hosts.hosts, "hostfile": hosts.hostfile, "host_discovery_script": hosts.host_discovery_script,
        "ssh_port": remote.ssh_port, "ssh_identity_file": remote.ssh_identity_file,
        "use_gloo": remote.gloo || is_by_file("gloo"), "use_mpi": remote.mpi || is_by_file("mpi"),
        "use_jsrun": remote.jsrun, "mpi_args": remote.mpi_args,
        "tcp_flag": if remote.tcp { Some(true) } else { None }, "binding_args": remote.binding_args,
        "prefix_output_with_timestamp": arguments.logging.prefix_output_with_timestamp,
    });
    if let (Some(all), serde_json::Value::Object(rest)) = (all.as_object_mut(), rest) {
        all.extend(rest);
    }
    all.to_string()
}

fn print_notice(text: &str) {
    let _ = writeln!(io::stderr(), "notice: {text}");
}

/// Writes data; whoever reads it may have left.
fn show(text: &str) -> u8 {
    let _ = writeln!(io::stdout(), "{text}");
    0
}
