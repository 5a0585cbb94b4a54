//! Those who have no business with an agent.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use fs_err as fs;

use crate::job::{Job, LIMIT, text};

#[test]
fn a_wrong_secret_is_refused_by_both_sides() {
    let job = Job::new();
    let _agent = job.agent("127.0.0.2", &[]);
    fs::write(job.path("wrong"), "guess").unwrap();
    let wrong = job.ronde(&["rsh", "127.0.0.2", "echo in"]).env("RONDE_SECRET_FILE", job.path("wrong")).output();
    let wrong = wrong.unwrap();
    assert_eq!((wrong.status.code(), text(&wrong.stdout).as_str()), (Some(255), ""));
    let expected = format!(
        "error: cannot reach the agent of host `127.0.0.2` at 127.0.0.2:{}: the agent rejected our secret\n\n\
         hint: both sides need the same secret; see RONDE_SECRET_FILE\n",
        job.port
    );
    assert_eq!(text(&wrong.stderr), expected);
    let none = job.ronde(&["rsh", "127.0.0.2", "echo in"]).env_remove("RONDE_SECRET_FILE").output().unwrap();
    assert_eq!(none.status.code(), Some(255));
    assert!(text(&none.stderr).starts_with("error: cannot use the job's secret\n  cause: no secret given\n"));
    assert_eq!(text(&job.rsh("127.0.0.2", "echo in").stdout), "in\n");
    let missing = job.ronde(&["agent"]).env_remove("RONDE_SECRET_FILE").output().unwrap();
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

#[test]
fn garbage_and_silence_do_not_keep_others_out() {
    let job = Job::new();
    let _agent = job.agent("127.0.0.2", &[]);
    let connect = || TcpStream::connect(("127.0.0.2", job.port)).unwrap();
    let _silent: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    for garbage in ["GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\u{16}\u{3}\u{1}\0\u{5}hello"] {
        let mut stream = connect();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(garbage.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Closed after an alert, or reset, or given up when no more comes: in any case, within the deadline.
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(answer.len() < 100, "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(text(&job.rsh("127.0.0.2", "echo in").stdout), "in\n");
}

#[test]
fn a_host_without_an_agent_is_named() {
    let job = Job::new();
    let refused = job.rsh("127.0.0.9", "true");
    assert_eq!(refused.status.code(), Some(255));
    let said = text(&refused.stderr);
    assert!(said.starts_with("error: cannot reach the agent of host `127.0.0.9` at 127.0.0.9:"), "{said}");
    assert!(said.contains("hint: run `ronde agent` there"), "{said}");
    let unknown = job.rsh("no-such-host.invalid", "true");
    assert_eq!(unknown.status.code(), Some(255));
    assert!(text(&unknown.stderr).starts_with("error: cannot find host `no-such-host.invalid`: "));
    let nothing = job.ronde(&["rsh", "127.0.0.9"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(255));
    assert!(text(&nothing.stderr).starts_with("error: no command given"), "{}", text(&nothing.stderr));
}
