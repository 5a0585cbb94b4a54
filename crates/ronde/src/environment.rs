//! What the process finds around itself: variables, user, clock. Read here and nowhere else, passed on as values.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use jiff::Timestamp;
use ronde_launch::agent::{
    dial::PORT_VARIABLE,
    secret::{SECRET_FILE_VARIABLE, SECRET_VARIABLE, SecretSource},
};

/// The variables and the user that decide where files go.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub home: Option<PathBuf>,
    /// `$XDG_DATA_HOME`, if absolute, as its specification asks.
    pub data_home: Option<PathBuf>,
    /// `$KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    pub is_root: bool,
    /// `$RONDE_LOG`: which log lines are wanted.
    pub log_filter: Option<String>,
    /// `$NO_COLOR`, when set to anything.
    pub no_color: bool,
    /// What programs in pods inherit, as from an image.
    pub for_pods: Vec<(String, String)>,
    /// `$RONDE_SECRET_FILE` and `$RONDE_SECRET`.
    pub secret: SecretSource,
    /// `$RONDE_AGENT_PORT`.
    pub agent_port: Option<String>,
}

/// Where the user's programs and libraries are, and how they speak: pods see the same files, so they need the same.
const FOR_PODS: [&str; 10] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "CUDA_HOME",
];

impl Environment {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "this is the place where the environment is read")]
    pub fn read() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            data_home: variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            kubeconfig: variable("KUBECONFIG"),
            is_root: rustix::process::geteuid().is_root(),
            log_filter: variable("RONDE_LOG").and_then(|value| value.into_string().ok()),
            no_color: variable("NO_COLOR").is_some(),
            secret: SecretSource {
                file: variable(SECRET_FILE_VARIABLE).map(PathBuf::from),
                text: variable(SECRET_VARIABLE).and_then(|value| value.into_string().ok()),
            },
            agent_port: variable(PORT_VARIABLE).and_then(|value| value.into_string().ok()),
            for_pods: FOR_PODS
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), variable(name)?.into_string().ok()?)))
                .collect(),
        }
    }
}

/// Returns the folder that the user is in, if there is one still.
pub fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "this is the place where the clock is read")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns a name that no other process has, on this machine or elsewhere.
pub fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}_{:x}", std::process::id(), now().as_microsecond())
}

/// Returns a point in time to measure from.
#[expect(clippy::disallowed_methods, reason = "this is the place where the clock is read")]
pub fn stopwatch() -> Instant {
    Instant::now()
}

/// Makes a path absolute without following links or asking whether it exists.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}
