//! `horovodrun`: the launcher alone, without the cluster. The same as `ronde run`.

use std::{
    error::Error as _,
    io::{self, Write as _},
    process::ExitCode,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let Some(code) = ronde_launch::keeper::run(&words) {
        return code;
    }
    let code = ronde_launch::run("horovodrun", words.get(1..).unwrap_or_default()).unwrap_or_else(|error| {
        let cause = error.source().map(|cause| format!("  cause: {cause}\n")).unwrap_or_default();
        let hint = error.hint().map(|hint| format!("\nhint: {hint}\n")).unwrap_or_default();
        let _ = write!(io::stderr(), "error: {error}\n{cause}{hint}");
        error.exit_code()
    });
    ExitCode::from(code)
}
