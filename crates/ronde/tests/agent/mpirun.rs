//! A stock Open MPI, and our own launcher, start ranks on two hosts through agents: three network namespaces, no sshd.

use std::process::Command;

use fs_err as fs;
use ronde_sim::{is_root, program};
use rustix::process::Signal;

use crate::{
    job::{Job, Running, inner, mark, send, start_agent, text, wait_for_sleepers, wait_until_gone},
    network::{Network, address},
};

const HOSTS: usize = 3;

/// A job with two hosts that have an agent each, and a third for the launcher.
struct Hosts {
    job: Job,
    network: Network,
    ronde: String,
    _agents: [Running; 2],
}

impl Hosts {
    /// Needs root and `ip`; otherwise the test is skipped.
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        program("ip")?;
        let (job, network) = (Job::new(), Network::new(HOSTS));
        let kube = job.path("kube");
        assert!(job.ronde(&["agent", "install", kube.to_str().unwrap()]).status().unwrap().success());
        let ronde = kube.join("ronde").display().to_string();
        let agents = [2, 3].map(|host| agent(&network, &job, host, &ronde));
        Some(Self { job, network, ronde, _agents: agents })
    }

    /// Returns an agent with a command on the third host, as in a launcher's pod.
    fn launcher(&self, command: &[&str]) -> Command {
        let mut launcher = inside(&self.network, &self.job, 1, &self.ronde);
        launcher.args(["agent", "--listen", &format!("{}:{}", address(1), self.job.port), "--"]).args(command);
        launcher
    }

    /// Runs a launcher whose ranks say where they are.
    fn check_places(&self, command: &[&str], line: &str, expected: [&str; 4]) {
        let output = self.launcher(&[command, &["sh", "-c", line]].concat()).output().unwrap();
        let said = text(&output.stdout);
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected, "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0));
    }

    /// Kills a launcher in the middle: whichever process of it that is, nothing is left anywhere.
    fn check_kills(&self, command: &[&str]) {
        let victims: [fn(&Running) -> u32; 2] = [Running::pid, inner];
        for victim in victims {
            let mark = mark();
            // `ip netns exec` becomes the program: its process is the agent's outer one.
            let launcher = start_agent(&mut self.launcher(&[command, &["sleep", &mark]].concat()));
            wait_for_sleepers(&mark, 4);
            send(victim(&launcher), Signal::KILL);
            wait_until_gone(&mark);
        }
    }
}

/// Returns a command of the job inside one of the hosts.
fn inside(network: &Network, job: &Job, host: usize, program: &str) -> Command {
    let mut command = network.inside(host, job.command("ip"), program);
    // Daemons of Open MPI on several hosts do not expect to meet in one folder.
    let scratch = job.path(&format!("tmp{host}"));
    fs::create_dir_all(&scratch).unwrap();
    command.env("TMPDIR", scratch);
    command
}

fn agent(network: &Network, job: &Job, host: usize, program: &str) -> Running {
    let listen = format!("{}:{}", address(host), job.port);
    start_agent(inside(network, job, host, program).args(["agent", "--listen", &listen]))
}

/// The options that Open MPI needs here; how it reaches other hosts is not among them.
const MPIRUN: [&str; 10] = [
    "mpirun",
    "--allow-run-as-root",
    "--oversubscribe",
    "-np",
    "4",
    "-H",
    "10.98.7.2:2,10.98.7.3:2",
    "--mca",
    "btl",
    "tcp,self",
];

#[test]
fn a_stock_mpirun_starts_ranks_through_agents() {
    let (Some(hosts), Some(_)) = (Hosts::new(), program("mpirun")) else { return };
    let expected =
        ["rank 0 on 10.98.7.2/24", "rank 1 on 10.98.7.2/24", "rank 2 on 10.98.7.3/24", "rank 3 on 10.98.7.3/24"];
    let line = "echo rank $OMPI_COMM_WORLD_RANK on $(ip -4 -o addr show dev eth0 | awk '{print $4}')";
    hosts.check_places(&MPIRUN, line, expected);
    hosts.check_kills(&MPIRUN);
}

#[test]
fn our_launcher_starts_ranks_through_agents() {
    let Some(hosts) = Hosts::new() else { return };
    // By the name that it has for images without a horovodrun of their own.
    let run = hosts.job.path("kube/fallback/horovodrun").display().to_string();
    let run = [run.as_str(), "-np", "4", "-H", "10.98.7.2:2,10.98.7.3:2"];
    let expected = [
        "[0]<stdout>:rank 0 on 10.98.7.2/24",
        "[1]<stdout>:rank 1 on 10.98.7.2/24",
        "[2]<stdout>:rank 2 on 10.98.7.3/24",
        "[3]<stdout>:rank 3 on 10.98.7.3/24",
    ];
    let line = "echo rank $HOROVOD_RANK on $(ip -4 -o addr show dev eth0 | awk '{print $4}')";
    hosts.check_places(&run, line, expected);
    hosts.check_kills(&run);
}
