//! The small programs inside the `ronde` binary that the node starts: `supervise`, `enter` and `try-isolation`.
//!
//! `main` asks here first, before it reads arguments or starts a thread: these programs fork.

use std::{path::Path, process::ExitCode};

use ronde_process::Alone;

use crate::{
    machine::probe,
    sandbox::enter::{self, Call},
    supervisor,
};

/// Runs the helper that the arguments name; nothing if they name none.
pub fn run(args: &[String]) -> Option<ExitCode> {
    match args {
        [_, verb, folder] if verb == "supervise" => {
            Some(report(Alone::check().and_then(|alone| supervisor::main(alone, Path::new(folder)))))
        }
        [_, verb, call @ ..] if verb == "enter" => Some(run_enter(call)),
        [_, verb, folder] if verb == "try-isolation" => Some(report(try_isolation(Path::new(folder)))),
        _ => None,
    }
}

fn report(done: std::io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn try_isolation(folder: &Path) -> std::io::Result<()> {
    let tried = Alone::check().and_then(|alone| probe::try_out(alone, folder))?;
    let line = serde_json::to_vec(&tried)?;
    rustix::io::write(rustix::stdio::stdout(), &line)?;
    Ok(())
}

fn run_enter(call: &[String]) -> ExitCode {
    let Some(call) = Call::from_args(call) else {
        print_error("not a call");
        return ExitCode::FAILURE;
    };
    let run = Alone::check().map_err(|error| (enter::CANNOT_START, error.to_string()));
    match run.and_then(|alone| enter::run(alone, &call)) {
        Ok(code) => exit_code(code),
        Err((code, words)) => {
            print_error(&words);
            exit_code(code)
        }
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}

fn print_error(words: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("{words}\n").as_bytes());
}
