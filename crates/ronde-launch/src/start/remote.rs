//! A rank on another machine, through a program that runs a line of shell there: ssh, srun, or a command of the user's.
//!
//! The line is always the same: it reads one more line from its stdin and obeys it. So what the rank is to run and the
//! secret among its variables never stand on a command line, here or there. What is read starts the program and beside
//! it a watchdog on the same stdin: signals are passed on as numbers, and when the stream ends, because the launcher
//! or ssh is gone or the program has ended, the whole process group is ended, within [`super::NOTICED_WITHIN`]. So it is
//! when the watchdog is killed: another one waits for its end. What has left the group is found by a variable.

use std::{io, time::Duration};

use futures::future::BoxFuture;
use tokio::{
    io::AsyncWriteExt as _,
    sync::{mpsc, oneshot},
    time,
};

use super::{
    Ended, Order, Program, StartError, Started, Starter,
    local::{Input, Local, ORDERS_MAX, Output},
    slurm,
    ssh::Ssh,
};
use crate::{environment, threads};

/// What is run on the other side. No word of it depends on the rank, and every shell reads it alike.
pub const LINE: &str = r#"exec /bin/sh -c 'IFS= read -r ronde_code && eval "$ronde_code"'"#;
/// For the other side to end after it was told to; then our own side is cut off.
const CUT_AFTER: Duration = Duration::from_millis(1500);
/// ssh's own code for trouble.
const TROUBLE: i32 = 255;
const KILL: i32 = 9;

/// How another machine is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remote {
    Ssh(Ssh),
    /// Words of a command; the host goes where `{host}` stands, or to the end.
    Command(Vec<String>),
    Srun,
}

impl Remote {
    /// The command that runs a line of shell on a host.
    pub fn words(&self, host: &str, line: &str) -> Vec<String> {
        let mut words = match self {
            Self::Ssh(ssh) => ssh.words(host, None),
            Self::Command(words) if words.iter().any(|word| word.contains("{host}")) => {
                words.iter().map(|word| word.replace("{host}", host)).collect()
            }
            Self::Command(words) => words.iter().cloned().chain([host.to_owned()]).collect(),
            Self::Srun => slurm::words(host),
        };
        words.push(line.to_owned());
        words
    }

    /// The command has a keeper: it may wait for a host that does not answer when the launcher is killed.
    fn spawn(&self, host: &str, program: &Program) -> io::Result<Started> {
        let words = self.words(host, LINE);
        let name = words.first().cloned().unwrap_or_default();
        let command = Program { words, environment: environment::variables(), directory: environment::folder()? };
        if !environment::has_program(command.environment.get("PATH"), &name) {
            return Err(io::Error::other(format!("cannot run `{name}`: program not found")));
        }
        let input = Input::new()?;
        let connection = Local::default().spawn(&command, &input.path(), Output::Piped)?;
        let Started { stdout, stderr, orders: keeper, ended } = connection;
        let (orders, given) = mpsc::channel(ORDERS_MAX);
        let (end, told) = oneshot::channel();
        let code = code(program);
        tokio::spawn(async move {
            // The receiver may have lost interest.
            let _ = end.send(watch(&name, Connection { input, keeper, ended }, &code, given).await);
        });
        Ok(Started { stdout, stderr, orders, ended: told })
    }
}

/// A command that runs; its keeper ends it when dropped.
struct Connection {
    input: Input,
    keeper: mpsc::Sender<Order>,
    ended: oneshot::Receiver<Ended>,
}

impl Starter for Remote {
    fn start<'a>(&'a self, host: &'a str, program: &'a Program) -> BoxFuture<'a, Result<Started, StartError>> {
        Box::pin(async move {
            self.spawn(host, program).map_err(|error| StartError { host: host.to_owned(), why: error.to_string() })
        })
    }
}

/// Passes orders on until the end.
async fn watch(name: &str, connection: Connection, code: &str, mut orders: mpsc::Receiver<Order>) -> Ended {
    let Connection { input: Input { reader: _reader, mut writer }, keeper, mut ended } = connection;
    let mut write = std::pin::pin!(async {
        // Nobody there to read: the process has ended, or is about to.
        let _ = writer.write_all(code.as_bytes()).await;
        while let Some(Order::Signal(number)) = orders.recv().await {
            let _ = writer.write_all(format!("{number}\n").as_bytes()).await;
        }
        let _ = writer.write_all(b"9\n").await;
        drop(writer);
        time::sleep(CUT_AFTER).await;
    });
    tokio::select! {
        ended = &mut ended => read_end(name, ended.unwrap_or_else(|_| Ended::Lost("nobody watched it".to_owned()))),
        () = &mut write => {
            let _ = keeper.send(Order::Kill).await;
            Ended::Signal(KILL)
        }
    }
}

fn read_end(name: &str, ended: Ended) -> Ended {
    match ended {
        Ended::Code(TROUBLE) => Ended::Lost(format!("`{name}` exited with {TROUBLE}: the connection failed")),
        // As shells tell of a signal.
        Ended::Code(code @ 129..=192) => Ended::Signal(code - 128),
        other => other,
    }
}

/// Signals that a launcher may pass on: the shells there wait for the program's end instead of dying themselves.
const PASSED: &str = "HUP INT QUIT USR1 USR2 TERM";

/// Kills all that the program has started, wherever it went: it has a variable of its own. Whatever this needs and is
/// not there (`grep`, `/proc`), the process group is ended anyway.
const SWEEP: &str = "ronde_sweep() { for ronde_p in $(grep -lszFx \"RONDE_TREE=$RONDE_TREE\" /proc/[0-9]*/environ); do \
                     ronde_p=${ronde_p#/proc/}; kill -9 ${ronde_p%/environ}; done; }";
/// The watchdog: passes signals on, and ends everything with the stream.
const WATCHDOG: &str = "exec <&3 3<&- 2>/dev/null; \
                        while read -r s; do [ \"$s\" = 9 ] && ronde_sweep; kill -\"$s\" 0; done; \
                        kill -15 0; sleep 1; ronde_sweep; kill -9 0";
/// Reads from the watchdog, which writes nothing, and does the last part in its stead.
const SECOND: &str = "exec 3<&- >/dev/null 2>&1; read -r s; ronde_sweep; kill -9 0";

/// The one line that is read on the other side.
///
/// The process group is that of the shell: sshd and srun give it one of its own. The watchdogs have no hold on the
/// program's streams, so that ssh ends with the program.
fn code(program: &Program) -> String {
    let exports: Vec<String> =
        program.environment.iter().map(|(name, value)| format!(" {name}={}", quoted(value))).collect();
    let words: Vec<String> = program.words.iter().map(|word| quoted(word)).collect();
    let words = words.join(" ");
    let directory = quoted(&program.directory.display().to_string());
    format!(
        "ronde_n=$(printf \"\\nx\"); ronde_n=${{ronde_n%x}}; export{} RONDE_TREE=$$-$(date +%s); {}; set -- {words}; \
         cd {directory} >/dev/null 2>&1; unset ronde_n ronde_code; exec 3<&0 </dev/null; \
         {SWEEP}; trap : {PASSED}; \
         ( trap \"\" {PASSED}; {WATCHDOG} ) | ( trap \"\" {PASSED}; {SECOND} ) & \
         \"$@\" 3<&-; ronde_c=$?; ronde_sweep 2>/dev/null; exit $ronde_c\n",
        exports.concat(),
        threads::SHELL
    )
}

/// A word as a shell reads it, in one line: `ronde_n` holds a newline there.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r#"'"'"'"#).replace('\n', r#"'"$ronde_n"'"#))
}

/// Whether a variable may go to another machine: what belongs to this one alone stays.
pub fn is_exportable(name: &str) -> bool {
    // Some shells refuse to have these set, and end.
    const SHELLS_OWN: [&str; 6] = ["UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO"];
    const HERE: [&str; 3] = ["OLDPWD", "_HOROVOD_SECRET_KEY", "PWD"];
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit();
    is_word
        && !name.starts_with("BASH_FUNC_")
        && !name.ends_with("CUDA_VISIBLE_DEVICES")
        && !SHELLS_OWN.contains(&name)
        && !HERE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_goes_where_the_command_wants_it() {
        let check = |remote: Remote, expected: &str| assert_eq!(remote.words("h", "line").join(" "), expected);
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        check(Remote::Command(words("rsh -x")), "rsh -x h line");
        check(Remote::Command(words("kubectl exec -i {host} -- sh -c")), "kubectl exec -i h -- sh -c line");
        check(
            Remote::Ssh(Ssh { port: Some(22), identity: Some("k".into()) }),
            "ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no -o ControlMaster=no h -p 22 -i k line",
        );
    }

    #[test]
    fn variables_of_this_machine_stay_here() {
        for name in ["PATH", "A_1", "HOROVOD_RANK", "RONDE_SECRET"] {
            assert!(is_exportable(name), "{name}");
        }
        for name in
            ["BASH_FUNC_x%%", "OLDPWD", "CUDA_VISIBLE_DEVICES", "X_CUDA_VISIBLE_DEVICES", "a-b", "", "1a", "UID"]
        {
            assert!(!is_exportable(name), "{name}");
        }
    }

    #[test]
    fn a_shell_reads_what_was_meant() {
        let program = Program {
            words: ["printf", "%s|", "it's", "two\nlines\n", "$HOME `x` \"q\" \\", "", "$A"].map(str::to_owned).into(),
            environment: [("A".to_owned(), "a'b\nc $x".to_owned())].into(),
            directory: "/".into(),
        };
        let shell = |words: &[&str], input: &str| {
            let mut child = std::process::Command::new(words[0])
                .args(&words[1..])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            // Held to the end: the watchdog takes the end of the stream for the launcher's.
            let mut stdin = child.stdin.take().unwrap();
            io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            drop(stdin);
            String::from_utf8(output.stdout).unwrap()
        };
        let start = ["setsid", "/bin/sh", "-c", LINE];
        assert_eq!(shell(&start, &code(&program)), "it's|two\nlines\n|$HOME `x` \"q\" \\||$A|");
        let shows = Program { words: ["sh", "-c", "printf %s \"$A\"; pwd"].map(str::to_owned).into(), ..program };
        assert_eq!(shell(&start, &code(&shows)), "a'b\nc $x/\n");
    }
}
