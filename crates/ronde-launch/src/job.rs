//! A job with a fixed number of ranks: starts them all, waits for them, and ends them together.
//!
//! The hosts are tried, a rendezvous is opened, the ranks are started and then watched until the last has ended.
//! The first that fails ends the others: SIGTERM, and SIGKILL after a grace. So does Ctrl-C, and a second one at once.

mod watch;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, future, stream};
use ronde_collective::{Secret, Server};
use tokio::time;

pub use self::watch::{Ending, Failed};
use self::watch::{Rank, stop_now};
use crate::{
    environment,
    error::LaunchError,
    output::{Output, Stream},
    signals::Stops,
    slots::Slot,
    start::{Program, StartError, Starter as _, remote::Remote, starters::Starters},
    threads,
};

/// Ranks that are started at a time.
const STARTS_AT_ONCE: usize = 64;

/// What is to run, and where.
#[derive(Debug, Clone)]
pub struct Job {
    pub slots: Vec<Slot>,
    pub command: Vec<String>,
    /// What all ranks have in common; the secret and each one's place are added.
    pub environment: BTreeMap<String, String>,
    pub directory: PathBuf,
    pub start_timeout: Duration,
}

/// How other machines are reached, and how that is tried before.
pub struct RankStarter {
    pub by_host: Starters,
    /// For those that can be tried before they are needed.
    pub tried: Option<Remote>,
}

/// Runs a job to its end.
pub async fn run(job: &Job, starter: &RankStarter, output: Output, mut stops: Stops) -> Result<Ending, LaunchError> {
    let started = tokio::select! {
        started = time::timeout(job.start_timeout, start(job, starter, &output)) => started,
        number = stops.next() => return Ok(Ending::Stopped(number)),
    };
    let late = || LaunchError::Late { seconds: job.start_timeout.as_secs() };
    let (ranks, failed, server) = started.map_err(|_| late())??;
    if let Some(error) = failed {
        stop_now(ranks, &output).await;
        return Err(error.into());
    }
    let ending = watch::watch(ranks, &output, &mut stops).await;
    drop(server);
    tokio::select! {
        () = output.close() => {}
        // Whoever reads our output has stopped reading.
        _ = stops.next() => {}
    }
    Ok(ending)
}

type Everything = (Vec<Rank>, Option<StartError>, Server);

async fn start(job: &Job, starter: &RankStarter, output: &Output) -> Result<Everything, LaunchError> {
    let hosts = Hosts::look(job, starter).await?;
    let secret = environment::secret().map_err(LaunchError::Prepare)?;
    let server = serve(&secret, hosts.all_local()).map_err(LaunchError::Prepare)?;
    let common = common_environment(&job.environment, &secret, server.address().port());
    if let Some(notice) = hosts.notice_of_threads(job) {
        output.print_notice(&notice);
    }
    let (ranks, failed) = Stage { job, starter, output, hosts, common }.start_all().await?;
    Ok((ranks, failed, server))
}

/// Where this machine is reached from each host; nothing for a host that is this machine.
struct Hosts(BTreeMap<String, Option<IpAddr>>);

impl Hosts {
    async fn look(job: &Job, starter: &RankStarter) -> Result<Self, LaunchError> {
        let look = |slot: &Slot| {
            let host = slot.host.clone();
            async move {
                let is_local = starter.by_host.is_local(&host).await;
                let address = if is_local { None } else { Some(environment::own_address(&host).await) };
                (host, address)
            }
        };
        let looks = job.slots.iter().filter(|slot| slot.local_rank == 0).map(look);
        let hosts: BTreeMap<String, Option<IpAddr>> = future::join_all(looks).await.into_iter().collect();
        let remote: Vec<&str> = hosts.iter().filter(|(_, it)| it.is_some()).map(|(name, _)| name.as_str()).collect();
        if let Some(Remote::Ssh(ssh)) = &starter.tried {
            let out_of_reach = ssh.check(&remote).await;
            if !out_of_reach.is_empty() {
                return Err(LaunchError::Unreachable(out_of_reach));
            }
        }
        Ok(Self(hosts))
    }

    fn all_local(&self) -> bool {
        self.0.values().all(Option::is_none)
    }

    /// What is to be said about ranks that share their host.
    fn notice_of_threads(&self, job: &Job) -> Option<String> {
        let ranks = job.slots.iter().map(|slot| slot.local_size).max()?;
        let is_here = self.0.len() == 1 && self.all_local();
        threads::notice(&job.environment, ranks, is_here.then(threads::cores))
    }

    fn rendezvous(&self, host: &str) -> IpAddr {
        self.0.get(host).copied().flatten().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// Opens the rendezvous: for this machine alone if no rank is elsewhere.
fn serve(secret: &str, is_for_this_machine: bool) -> io::Result<Server> {
    let listen = |address: IpAddr| Server::start(SocketAddr::new(address, 0), Secret::new(secret.as_bytes()));
    if is_for_this_machine {
        return listen(Ipv4Addr::LOCALHOST.into());
    }
    listen(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| listen(Ipv4Addr::UNSPECIFIED.into()))
}

/// All that starting a rank takes.
struct Stage<'a> {
    job: &'a Job,
    starter: &'a RankStarter,
    output: &'a Output,
    hosts: Hosts,
    common: BTreeMap<String, String>,
}

impl Stage<'_> {
    /// Returns the ranks that were started, and the first failure.
    async fn start_all(&self) -> Result<(Vec<Rank>, Option<StartError>), LaunchError> {
        let tries = self.job.slots.iter().map(|slot| self.start_one(slot));
        let tried: Vec<_> =
            stream::iter(tries).buffered(STARTS_AT_ONCE).try_collect().await.map_err(LaunchError::Prepare)?;
        let (mut ranks, mut failed) = (Vec::new(), None);
        for one in tried {
            match one {
                Ok(rank) => ranks.push(rank),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Ok((ranks, failed))
    }

    async fn start_one(&self, slot: &Slot) -> io::Result<Result<Rank, StartError>> {
        let started = match self.starter.by_host.start(&slot.host, &self.program(slot)).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(error)),
        };
        let place = (slot.rank, slot.size);
        let stdout = self.output.attach(place, Stream::Stdout, started.stdout)?;
        let stderr = self.output.attach(place, Stream::Stderr, started.stderr)?;
        Ok(Ok(Rank { slot: slot.clone(), orders: started.orders, ended: started.ended, stdout, stderr }))
    }

    fn program(&self, slot: &Slot) -> Program {
        let mut environment = self.common.clone();
        environment.extend(place(slot));
        let address = self.hosts.rendezvous(&slot.host).to_string();
        environment.insert("HOROVOD_GLOO_RENDEZVOUS_ADDR".to_owned(), address);
        Program { words: self.job.command.clone(), environment, directory: self.job.directory.clone() }
    }
}

/// The variables that tell a rank its place.
pub fn place(slot: &Slot) -> [(String, String); 7] {
    [
        ("HOROVOD_HOSTNAME", slot.host.clone()),
        ("HOROVOD_RANK", slot.rank.to_string()),
        ("HOROVOD_SIZE", slot.size.to_string()),
        ("HOROVOD_LOCAL_RANK", slot.local_rank.to_string()),
        ("HOROVOD_LOCAL_SIZE", slot.local_size.to_string()),
        ("HOROVOD_CROSS_RANK", slot.cross_rank.to_string()),
        ("HOROVOD_CROSS_SIZE", slot.cross_size.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// What all ranks of a job are told.
fn common_environment(given: &BTreeMap<String, String>, secret: &str, port: u16) -> BTreeMap<String, String> {
    let mut environment = given.clone();
    // A secret of somebody else's, of which ranks need to know nothing.
    environment.remove("_HOROVOD_SECRET_KEY");
    let added = [
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("HOROVOD_CONTROLLER", "gloo".to_owned()),
        ("HOROVOD_CPU_OPERATIONS", "gloo".to_owned()),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", port.to_string()),
        ("RONDE_SECRET", secret.to_owned()),
    ];
    environment.extend(added.map(|(name, value)| (name.to_owned(), value)));
    environment
}
