//! Who ends with whom: programs with their clients and agents, agents with their commands and jobs.

use std::{path::Path, process::Stdio};

use fs_err::{self as fs, os::unix::fs::symlink};
use ronde_sim::wait_until;
use rustix::process::Signal;

use crate::job::{
    Job, LIMIT, Running, inner, mark, send, sleepers, start_agent, text, wait_for_sleepers, wait_until_gone,
};

/// A tree that does not go by itself: one that ignores SIGTERM, and one that left its session.
fn stubborn(mark: &str) -> String {
    format!("trap '' TERM; setsid sleep {mark} & sleep {mark} & sleep {mark}")
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let job = Job::new();
    let _agent = job.agent("127.0.0.2", &[]);
    let mark = mark();
    let client = Running(job.ronde(&["rsh", "127.0.0.2", &stubborn(&mark)]).spawn().unwrap());
    wait_for_sleepers(&mark, 3);
    client.signal(Signal::KILL);
    wait_until_gone(&mark);
}

#[test]
fn a_killed_agent_leaves_nothing_behind_and_the_client_says_so() {
    let victims: [fn(&Running) -> u32; 2] = [Running::pid, inner];
    for victim in victims {
        let job = Job::new();
        let mut agent = job.agent("127.0.0.2", &[]);
        let mark = mark();
        let client = job.ronde(&["rsh", "127.0.0.2", &stubborn(&mark)]).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_sleepers(&mark, 3);
        send(victim(&agent), Signal::KILL);
        wait_until_gone(&mark);
        assert_eq!(agent.code(), 137);
        let output = client.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(255));
        assert!(text(&output.stderr).starts_with("error: lost host `127.0.0.2`: "), "{}", text(&output.stderr));
    }
}

#[test]
fn an_agent_passes_sigterm_on_and_ends_with_its_programs() {
    let job = Job::new();
    let mut agent = job.agent("127.0.0.2", &[]);
    let mark = mark();
    let line = format!("trap 'exit 5' TERM; sleep {mark} & wait");
    let mut client = Running(job.ronde(&["rsh", "127.0.0.2", &line]).spawn().unwrap());
    wait_for_sleepers(&mark, 1);
    agent.signal(Signal::TERM);
    assert_eq!(client.code(), 5);
    assert_eq!(agent.code(), 128 + 15);
    wait_until_gone(&mark);
}

#[test]
fn an_agent_with_a_command_ends_with_its_code() {
    let job = Job::new();
    let end = |words: &[&str]| job.agent("127.0.0.2", words).code();
    assert_eq!(end(&["--", "sh", "-c", "exit 9"]), 9);
    assert_eq!(end(&["--", "no-such-program"]), 127);
    // The log of a launcher is its own.
    let listen = format!("127.0.0.2:{}", job.port);
    let alone = job.ronde(&["agent", "--listen", &listen, "--", "sh", "-c", "echo first >&2"]).output().unwrap();
    assert_eq!(text(&alone.stderr), "first\n");
    let mark = mark();
    let line = format!("trap 'exit 4' TERM; sleep {mark} & wait");
    let mut agent = job.agent("127.0.0.2", &["--", "sh", "-c", &line]);
    wait_for_sleepers(&mark, 1);
    agent.signal(Signal::TERM);
    assert_eq!(agent.code(), 4);
    wait_until_gone(&mark);
}

#[test]
fn a_killed_keeper_leaves_nothing_behind() {
    let job = Job::new();
    let agent = job.agent("127.0.0.2", &[]);
    // A keeper is two processes: the child of the agent, and the child of that.
    for depth in [1, 2] {
        let mark = mark();
        let mut client = Running(job.ronde(&["rsh", "127.0.0.2", &stubborn(&mark)]).spawn().unwrap());
        wait_for_sleepers(&mark, 3);
        let keeper = (0..depth).fold(inner(&agent), |pid, _| children(pid)[0]);
        send(keeper, Signal::KILL);
        wait_until_gone(&mark);
        assert!(client.code() > 128);
        wait_until("nobody is left below the agent", LIMIT, || {
            (children(inner(&agent)).is_empty() && children(agent.pid()) == [inner(&agent)]).then_some(())
        });
    }
}

/// The children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = Path::new("/proc").join(pid.to_string()).join("task").read_dir().unwrap().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

/// Changes a folder as a ConfigMap volume changes: by a swap of a link.
fn publish(folder: &Path, version: &str, list: &str) {
    fs::create_dir_all(folder.join(version)).unwrap();
    fs::write(folder.join(version).join("hostfile"), list).unwrap();
    fs::write(folder.join(version).join("deepspeed-hostfile"), list.replace(':', " slots=")).unwrap();
    symlink(version, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    for name in
        ["hostfile", "deepspeed-hostfile"].map(Path::new).into_iter().filter(|name| !folder.join(name).is_symlink())
    {
        symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
    }
}

#[test]
fn a_host_that_leaves_the_list_is_let_go_when_its_programs_have_ended() {
    let job = Job::new();
    let (volume, copy, deepspeed) = (job.path("mpi"), job.path("edl/hostfile"), job.path("job/hostfile"));
    fs::create_dir_all(&volume).unwrap();
    publish(&volume, "v1", "127.0.0.2:1\n127.0.0.3:1\n");
    let idle_command = mark();
    let mut busy = job.agent("127.0.0.2", &[]);
    let mut idle = job.agent("127.0.0.3", &["--", "sleep", &idle_command]);
    let mark = mark();
    let listen = format!("127.0.0.4:{}", job.port);
    let words = ["agent", "--listen", &listen, "--hosts-from", volume.to_str().unwrap()];
    let _launcher =
        start_agent(job.ronde(&words).arg("--hosts-to").arg(&copy).arg("--deepspeed-hosts-to").arg(&deepspeed).args([
            "--",
            "sh",
            "-c",
            &format!("cat $RONDE_HOSTS_FILE > {}; sleep {mark}", job.path("seen").display()),
        ]));
    wait_for_sleepers(&mark, 1);
    assert_eq!(fs::read_to_string(job.path("seen")).unwrap(), "127.0.0.2:1\n127.0.0.3:1\n");
    assert_eq!(fs::read_to_string(&deepspeed).unwrap(), "127.0.0.2 slots=1\n127.0.0.3 slots=1\n");
    let mut rank =
        Running(job.ronde(&["rsh", "127.0.0.2", "read line; exit 6"]).stdin(Stdio::piped()).spawn().unwrap());
    wait_until("the rank runs", LIMIT, || (!children(inner(&busy)).is_empty()).then_some(()));
    publish(&volume, "v2", "");
    assert_eq!(idle.code(), 0);
    assert!(sleepers(&idle_command).is_empty(), "its own command goes with it");
    wait_until("the copies are there", LIMIT, || (fs::read_to_string(&copy).unwrap() == "").then_some(()));
    wait_until("both of them", LIMIT, || (fs::read_to_string(&deepspeed).unwrap() == "").then_some(()));
    wait_until("the other takes no more", LIMIT, || {
        text(&job.rsh("127.0.0.2", "true").stderr).contains("released by the job").then_some(())
    });
    assert!(busy.0.try_wait().unwrap().is_none(), "it still has a rank");
    drop(rank.0.stdin.take());
    assert_eq!(rank.code(), 6);
    assert_eq!(busy.code(), 0);
}

#[test]
fn a_command_finds_the_shims_and_the_others() {
    let job = Job::new();
    let kube = job.path("kube");
    assert!(job.ronde(&["agent", "install", kube.to_str().unwrap()]).status().unwrap().success());
    let listen = format!("127.0.0.2:{}", job.port);
    let line = "command -v ssh; echo $OMPI_MCA_plm_rsh_agent $RONDE_AGENT_PORT; ssh -x 127.0.0.2 echo hello";
    let mut agent = job.command(kube.join("ronde"));
    let output = agent.args(["-q", "agent", "--listen", &listen, "--", "sh", "-c", line]).output().unwrap();
    let ssh = kube.join("bin/ssh").display().to_string();
    assert_eq!(text(&output.stdout), format!("{ssh}\n{ssh} {}\nhello\n", job.port), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}
