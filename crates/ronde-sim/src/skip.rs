//! Skips a test with a printed reason, never silently.
//!
//! Cargo has no word for "skipped": the test passes, and a line goes to the file that `$RONDE_SKIPS` names. `make test`
//! prints those lines and their count after cargo's own results; CI takes any of them for a failure.

use std::{
    env,
    ffi::OsString,
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
};

/// Records that the running test is skipped, and why. The test should return after it.
pub fn skip(reason: &str) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED: {name}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = variable("RONDE_SKIPS") {
        // One write of one line: tests of several processes append to the same file.
        let written = OpenOptions::new().append(true).create(true).open(&file);
        written.and_then(|mut file| file.write_all(line.as_bytes())).expect("$RONDE_SKIPS can be written");
    }
}

/// Returns where a program is, or skips the test.
pub fn program(name: &str) -> Option<PathBuf> {
    let found = find_program(name);
    if found.is_none() {
        skip(&format!("`{name}` is not installed"));
    }
    found
}

/// Tells whether this is root, or skips the test.
pub fn is_root() -> bool {
    let root = Path::new("/proc/self").metadata().is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root {
        skip("needs root");
    }
    root
}

/// Looks for a program in the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    env::split_paths(&variable("PATH")?).map(|directory| directory.join(name)).find(is_program)
}

#[expect(clippy::disallowed_methods, reason = "this is where the tests read the environment")]
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find_program("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }
}
