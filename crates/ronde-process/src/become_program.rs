//! The last step of a new process: it becomes the program that was asked for.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

/// Where programs are looked for when the environment does not say.
pub const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image without the C library that a program was built for is where most people meet it.
const INTERPRETER_MISSING: &str = " (the file is there, but not the interpreter or dynamic loader that it needs)";

/// A program with its arguments and its whole environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The folder it starts in.
    pub folder: String,
}

/// Replaces this process by a program. Returns only if that fails, with the words of a container runtime.
pub fn become_program(program: &Program) -> io::Error {
    let name = program.argv.first().map_or("", String::as_str);
    if let Err(error) = std::env::set_current_dir(&program.folder) {
        return io::Error::new(
            error.kind(),
            format!("chdir to cwd (\"{}\") failed: {}", program.folder, plain(&error)),
        );
    }
    match find(name, &program.env) {
        Ok(path) => {
            let mut command = Command::new(&path);
            command.arg0(name).args(program.argv.get(1..).unwrap_or_default()).env_clear();
            command.envs(program.env.iter().map(|(name, value)| (name, value)));
            let error = command.exec();
            // The program was found just now: what is missing is what runs it.
            let hint = if error.kind() == io::ErrorKind::NotFound { INTERPRETER_MISSING } else { "" };
            io::Error::new(error.kind(), format!("exec: \"{name}\": {}{hint}", plain(&error)))
        }
        Err(error) => error,
    }
}

fn find(name: &str, env: &[(String, String)]) -> io::Result<PathBuf> {
    if name.contains('/') {
        let found = check(Path::new(name));
        return found.map_err(|error| io::Error::new(error.kind(), format!("exec: \"{name}\": stat {name}: {error}")));
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map_or(PATH_DEFAULT, |(_, value)| value.as_str());
    let found = std::env::split_paths(OsStr::new(path)).find_map(|folder| check(&folder.join(name)).ok());
    found.ok_or_else(|| {
        let text = format!("exec: \"{name}\": executable file not found in $PATH");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

fn check(path: &Path) -> io::Result<PathBuf> {
    let stat =
        rustix::fs::stat(path).map_err(|error| io::Error::new(io::Error::from(error).kind(), plain(&error.into())))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "is a directory"));
    }
    if stat.st_mode & 0o111 == 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "permission denied"));
    }
    Ok(path.to_owned())
}

/// Returns the system's words without the number that Rust adds.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let cut = text.split(" (os error").next().unwrap_or(&text);
    cut.to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_missing_interpreter_is_told_from_a_missing_program() {
        let script = std::env::temp_dir().join(format!("ronde-process-{}-script", std::process::id()));
        fs_err::write(&script, "#!/nowhere/sh\n").unwrap();
        fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let name = script.to_str().unwrap();
        let said = |name: &str| {
            let argv = vec![name.to_owned()];
            become_program(&Program { argv, env: Vec::new(), folder: ".".to_owned() }).to_string()
        };
        assert_eq!(said(name), format!("exec: \"{name}\": no such file or directory{INTERPRETER_MISSING}"));
        fs_err::remove_file(&script).unwrap();
        assert_eq!(said(name), format!("exec: \"{name}\": stat {name}: no such file or directory"));
    }
}
