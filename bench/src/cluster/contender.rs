//! Those who are measured: programs that are started for their turn, or what runs on the cluster already.

use std::{path::Path, process::Stdio, str::FromStr, time::Duration};

use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::node::usage::{Group, group_of};

/// How long a program may take to end.
const END: Duration = Duration::from_secs(20);

/// A program by a name: `volcano=COMMAND`. The shell runs the command; KUBECONFIG leads to the cluster.
#[derive(Debug, Clone)]
pub struct Contender {
    pub name: String,
    /// None: it runs already.
    command: Option<String>,
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, command) = text.split_once('=').ok_or("NAME=COMMAND is expected")?;
        Ok(Self { name: name.to_owned(), command: Some(command.to_owned()) })
    }
}

/// A contender that has its turn.
pub struct Playing {
    shell: Option<Child>,
}

impl Contender {
    /// Our operator.
    pub fn ronde(program: &Path) -> Self {
        let command = format!("exec '{}' operator --kubeconfig \"$KUBECONFIG\"", program.display());
        Self { name: "ronde".to_owned(), command: Some(command) }
    }

    /// Whoever runs on the cluster already.
    pub fn installed(name: &str) -> Self {
        Self { name: name.to_owned(), command: None }
    }

    /// Starts it; what it says is kept in a file.
    pub fn start(&self, kubeconfig: &Path, log: &Path) -> anyhow::Result<Playing> {
        let Some(command) = &self.command else { return Ok(Playing { shell: None }) };
        let log = fs_err::OpenOptions::new().create(true).append(true).open(log)?.into_parts().0;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env("KUBECONFIG", kubeconfig).process_group(0).kill_on_drop(true);
        shell.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Playing { shell: Some(shell.spawn()?) })
    }
}

impl Playing {
    /// Returns what all its processes have used; none if it is not ours to look at.
    pub fn usage(&self) -> Option<Group> {
        self.shell.as_ref().and_then(Child::id).map(group_of)
    }

    /// Ends it as an init system would, so that it gives its lease back.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let Some(mut shell) = self.shell.take() else { return Ok(()) };
        let Some(id) = shell.id() else { return Ok(()) };
        let signal = |name: &str| {
            let mut kill = Command::new("kill");
            kill.args([name, "--", &format!("-{id}")]).stderr(Stdio::null());
            kill
        };
        signal("-TERM").status().await?;
        if timeout(END, shell.wait()).await.is_err() {
            shell.kill().await?;
        }
        // Whatever of its group is left.
        signal("-KILL").status().await?;
        Ok(())
    }
}
