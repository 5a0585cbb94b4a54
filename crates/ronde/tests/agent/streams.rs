//! What passes between a client and a program: input, output, exit codes, signals.

use std::{
    io::{Read as _, Write as _},
    process::Stdio,
};

use fs_err as fs;
use rustix::process::Signal;

use crate::job::{Job, Running, inner, mark, sleepers, text, wait_for_sleepers};

#[test]
fn a_command_has_input_output_and_an_exit_code() {
    let job = Job::new();
    let _agent = job.agent("127.0.0.2", &[]);
    let mut child = job
        .ronde(&["rsh", "-x", "-o", "BatchMode=yes", "me@127.0.0.2", "cat;", "echo oh >&2;", "exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("one\ntwo\n", "oh\n"));
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(job.rsh("127.0.0.2", "kill -9 $$").status.code(), Some(137));
    assert_eq!(job.rsh("127.0.0.2", "no-such-program").status.code(), Some(127));
    assert_eq!(job.rsh("127.0.0.2", "exit 0").status.code(), Some(0));
}

#[test]
fn a_line_as_horovodrun_writes_it_works_through_the_shim() {
    let job = Job::new();
    let kube = job.path("kube");
    assert!(job.ronde(&["agent", "install", kube.to_str().unwrap()]).status().unwrap().success());
    let _agent = job.agent("127.0.0.2", &[]);
    let line = format!("cd {} > /dev/null 2>&1 ; env A=b 'C=d e' sh -c 'echo $A $C; pwd'", job.dir.path().display());
    let options = ["-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"];
    let output = job.command(kube.join("bin/ssh")).args(options).args(["127.0.0.2", &line]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    let folder = job.dir.path().canonicalize().unwrap();
    assert_eq!(text(&output.stdout), format!("b d e\n{}\n", folder.display()));
    // Without a secret it is not meant: the ssh of the machine is.
    fs::create_dir_all(job.path("real")).unwrap();
    fs::write(job.path("real/ssh"), "#!/bin/sh\necho real ssh \"$@\"\n").unwrap();
    fs::set_permissions(job.path("real/ssh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", kube.join("bin").display(), job.path("real").display());
    let mut ssh = job.command(kube.join("bin/ssh"));
    let output = ssh.args(["-x", "a", "ls"]).env("PATH", path).env_remove("RONDE_SECRET_FILE").output().unwrap();
    assert_eq!(text(&output.stdout), "real ssh -x a ls\n", "{}", text(&output.stderr));
}

#[test]
fn a_hundred_megabytes_pass_and_nobody_swells() {
    let job = Job::new();
    let agent = job.agent("127.0.0.2", &[]);
    let line = "head -c 100000000 /dev/zero; head -c 1000000 /dev/zero >&2";
    let mut child =
        job.ronde(&["rsh", "127.0.0.2", line]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut count = 0;
    while let Ok(read @ 1..) = stdout.read(&mut buffer) {
        count += read;
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(count, 100_000_000);
    let status = fs::read_to_string(format!("/proc/{}/status", inner(&agent))).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 100_000, "the agent took {kilobytes} kB");
}

#[test]
fn a_reader_that_goes_away_ends_the_program() {
    let job = Job::new();
    let _agent = job.agent("127.0.0.2", &[]);
    let mut child = job.ronde(&["rsh", "127.0.0.2", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!(Running(child).code(), 128 + 13, "SIGPIPE");
}

#[test]
fn signals_are_passed_on_and_the_second_kills() {
    let job = Job::new();
    let _agent = job.agent("127.0.0.2", &[]);
    let start = |line: String| Running(job.ronde(&["rsh", "127.0.0.2", &line]).spawn().unwrap());
    let polite = mark();
    let mut client = start(format!("trap 'exit 3' TERM; sleep {polite} & wait"));
    wait_for_sleepers(&polite, 1);
    client.signal(Signal::TERM);
    assert_eq!(client.code(), 3);
    let stubborn = mark();
    let mut client = start(format!("trap '' TERM INT; sleep {stubborn}"));
    wait_for_sleepers(&stubborn, 1);
    client.signal(Signal::TERM);
    client.signal(Signal::INT);
    assert_eq!(client.code(), 128 + 9);
    assert!(sleepers(&stubborn).is_empty());
}
