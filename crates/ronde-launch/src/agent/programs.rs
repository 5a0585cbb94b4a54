//! How an agent runs programs: with its own environment and more, each under a keeper ([`crate::keep`]).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    dial::{HOSTS_VARIABLE, PORT_VARIABLE},
    frame::Run,
};
use crate::start::{
    Program, StartError, Started,
    local::{Local, Output},
};

/// Ours, found by the programs of an image before its own.
const SHIMS: &str = "bin";
/// Ours, found by the programs of an image where it has none of its own.
const FALLBACKS: &str = "fallback";
/// Where programs are looked for when the environment does not say.
const PATH_DEFAULT: &str = ronde_process::become_program::PATH_DEFAULT;

/// Starts programs.
#[derive(Debug, Clone)]
pub struct Programs {
    pub local: Local,
    pub environment: BTreeMap<String, String>,
    pub directory: PathBuf,
}

impl Programs {
    /// Starts what a caller asks for; it reads from a file.
    pub fn start(&self, run: Run, stdin: &Path) -> Result<Started, StartError> {
        let mut environment = self.environment.clone();
        environment.extend(run.environment);
        // As over ssh: the caller's folder if it is there, and no complaint if not.
        let asked = Some(PathBuf::from(run.directory)).filter(|asked| asked.is_dir());
        let directory = asked.unwrap_or_else(|| self.directory.clone());
        let program = Program { words: run.words, environment, directory };
        self.local.spawn(&program, stdin, Output::Piped).map_err(refused)
    }

    /// Starts the agent's own command, with the agent's own streams.
    pub fn start_command(&self, words: Vec<String>) -> Result<Started, StartError> {
        let program = Program { words, environment: self.environment.clone(), directory: self.directory.clone() };
        let stdin = PathBuf::from(format!("/proc/{}/fd/0", std::process::id()));
        self.local.spawn(&program, &stdin, Output::Inherited).map_err(refused)
    }
}

fn refused(error: std::io::Error) -> StartError {
    StartError { host: "localhost".to_owned(), why: error.to_string() }
}

/// What programs need to know to start others through agents, if this agent was installed in a folder.
pub fn wiring(
    mut environment: BTreeMap<String, String>,
    folder: Option<&Path>,
    port: u16,
    hosts_file: Option<&Path>,
) -> BTreeMap<String, String> {
    let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
    set(PORT_VARIABLE, port.to_string());
    if let Some(file) = hosts_file {
        set(HOSTS_VARIABLE, file.display().to_string());
    }
    if let Some(folder) = folder {
        let shim = folder.join(SHIMS).join("ssh").display().to_string();
        // Open MPI up to 4, and from 5.
        set("OMPI_MCA_plm_rsh_agent", shim.clone());
        set("PRTE_MCA_plm_ssh_agent", shim);
        // Its daemons must not leave: what leaves its caller is stopped.
        set("OMPI_MCA_orte_leave_session_attached", "1".to_owned());
        set("PRTE_MCA_prte_leave_session_attached", "1".to_owned());
        let path = environment.get("PATH").map_or(PATH_DEFAULT, String::as_str);
        let (shims, fallbacks) = (folder.join(SHIMS), folder.join(FALLBACKS));
        let path = format!("{}:{path}:{}", shims.display(), fallbacks.display());
        environment.insert("PATH".to_owned(), path);
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_agent_puts_its_shims_around_the_path() {
        let before = BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]);
        let after = wiring(before.clone(), Some(Path::new("/opt/kube")), 9009, Some(Path::new("/etc/edl/hostfile")));
        assert_eq!(after["PATH"], "/opt/kube/bin:/usr/bin:/opt/kube/fallback");
        assert_eq!(after["OMPI_MCA_plm_rsh_agent"], "/opt/kube/bin/ssh");
        assert_eq!(after["RONDE_AGENT_PORT"], "9009");
        assert_eq!(after["RONDE_HOSTS_FILE"], "/etc/edl/hostfile");
        let bare = wiring(before, None, 9010, None);
        assert_eq!(bare["PATH"], "/usr/bin");
        assert!(!bare.contains_key("OMPI_MCA_plm_rsh_agent"));
    }
}
