//! Finds the Python that trains: one with NumPy and the `ronde` package.
//!
//! The one beside this program comes first: a wheel puts both into one folder.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use crate::failure::{Blame, Failure};

/// Asks an interpreter where it and its packages are. The folder that the user is in does not count: pods have another.
const QUESTION: &str = "
import importlib, json, os, sys
sys.path = [folder for folder in sys.path if folder]
missing, folders = [], [sys.prefix, sys.base_prefix]
for module, name in ('numpy', 'NumPy'), ('ronde.elastic', 'ronde'):
    try:
        file = importlib.import_module(module).__file__
        folders.append(os.path.dirname(os.path.dirname(os.path.abspath(file))))
    except Exception:
        missing.append(name)
print(json.dumps({'executable': sys.executable, 'folders': folders, 'missing': missing}))
";

/// A Python that was found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Python {
    pub executable: PathBuf,
    /// Where it and its packages are.
    pub folders: Vec<PathBuf>,
    missing: Vec<String>,
}

/// Why there is no Python to train with.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    #[error("there is no Python: tried {}", list(tried))]
    None { tried: Vec<PathBuf> },
    #[error("{} does not have {}", python.executable.display(), python.missing.join(" and "))]
    Lacks { python: Python },
    #[error("cannot run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
}

impl Failure for PythonError {
    fn blame(&self) -> Blame {
        Blame::Environment
    }

    fn hint(&self) -> Option<String> {
        let other = "or name another Python with `--python PATH`";
        match self {
            Self::None { .. } => Some(format!("install Python 3.9 or newer (`apt-get install python3`), {other}")),
            Self::Lacks { python } => Some(format!("{}, {other}", python.installation())),
            Self::Run { .. } => Some("name another Python with `--python PATH`".to_owned()),
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Python {
    /// Finds an interpreter with all that is needed: the named one, or the first of the usual ones.
    pub fn find(named: Option<&Path>) -> Result<Self, PythonError> {
        let candidates = named.map_or_else(usual, |path| vec![path.to_owned()]);
        let mut best: Option<Self> = None;
        for program in &candidates {
            let Some(python) = ask(program)? else { continue };
            if best.as_ref().is_none_or(|best| python.missing.len() < best.missing.len()) {
                best = Some(python);
            }
        }
        match best {
            Some(python) if python.missing.is_empty() => Ok(python),
            Some(python) => Err(PythonError::Lacks { python }),
            None => Err(PythonError::None { tried: candidates }),
        }
    }

    /// Names the command that installs what is missing.
    fn installation(&self) -> String {
        let packages: Vec<&str> =
            self.missing.iter().map(|name| if name == "NumPy" { "numpy" } else { WHEEL }).collect();
        let command = format!("`{} -m pip install {}`", self.executable.display(), packages.join(" "));
        let needs_wheel = packages.contains(&WHEEL);
        if needs_wheel { format!("run {command} (`make wheel` builds the wheel)") } else { format!("run {command}") }
    }
}

const WHEEL: &str = "python/dist/ronde-*.whl";

fn usual() -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("python3"));
    let beside = beside.filter(|path| path.exists());
    beside.into_iter().chain(["python3", "/usr/bin/python3"].map(PathBuf::from)).collect()
}

/// Asks an interpreter what it has; `None` if there is no such program.
fn ask(program: &Path) -> Result<Option<Python>, PythonError> {
    let fail = |source| PythonError::Run { program: program.to_owned(), source };
    let asked = Command::new(program).args(["-c", QUESTION]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    match asked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fail(error)),
        Ok(output) => serde_json::from_slice(&output.stdout)
            .map(Some)
            .map_err(|_| fail(io::Error::other(format!("it did not answer as Python does ({})", output.status)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(missing: &[&str], expected: &str) {
        let missing = missing.iter().map(|name| (*name).to_owned()).collect();
        let python = Python { executable: "/usr/bin/python3".into(), folders: Vec::new(), missing };
        let error = PythonError::Lacks { python };
        assert_eq!(format!("{error}; {}", error.hint().unwrap()), expected);
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_installs_it() {
        check(
            &["NumPy"],
            "/usr/bin/python3 does not have NumPy; run `/usr/bin/python3 -m pip install numpy`, \
             or name another Python with `--python PATH`",
        );
        check(
            &["NumPy", "ronde"],
            "/usr/bin/python3 does not have NumPy and ronde; \
             run `/usr/bin/python3 -m pip install numpy python/dist/ronde-*.whl` (`make wheel` builds the wheel), \
             or name another Python with `--python PATH`",
        );
    }
}
