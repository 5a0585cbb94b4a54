//! The `ronde` command: reads the arguments, runs one verb, prints how it went.
//!
//! Each verb is a file of its own name. Everything that decides lives in the library crates; this one only meets
//! the terminal, the files and the signals of one machine.

mod apply;
mod args;
mod client;
mod data_dir;
mod down;
mod environment;
mod failure;
mod get;
mod kubeconfig;
mod lock;
mod logging;
mod logs;
mod manifest;
mod printer;
mod resources;
mod signals;
mod status;
mod table;
mod up;

use std::{
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};

use clap::Parser as _;

use crate::{
    args::{Args, Verb},
    environment::Environment,
    failure::{Blame, Outcome},
    printer::Printer,
};

/// What every verb gets.
#[derive(Debug, Clone)]
pub struct Context {
    pub environment: Environment,
    pub printer: Printer,
}

fn main() -> ExitCode {
    // The helpers of the node fork: they come before everything else.
    if let Some(code) = ronde_node::helper::run(&std::env::args().collect::<Vec<_>>()) {
        return code;
    }
    let args = Args::parse();
    let context = Context { environment: Environment::read(), printer: Printer { quiet: args.quiet } };
    panic::set_hook(Box::new(|bug| printer::bug(&bug.to_string())));
    let code = match panic::catch_unwind(AssertUnwindSafe(|| run(args.verb, &context))) {
        Ok(Ok(answer)) => answer.exit_code(),
        Ok(Err(failure)) => context.printer.failure(&*failure),
        Err(_) => Blame::Bug.exit_code(),
    };
    ExitCode::from(code)
}

fn run(verb: Verb, context: &Context) -> Outcome {
    match verb {
        Verb::Up(args) => up::run(&args, context),
        Verb::Down(args) => down::run(&args, context),
        Verb::Status(args) => status::run(&args, context),
        Verb::Apply(args) => apply::run(&args, context),
        Verb::Get(args) => get::run(&args, context),
        Verb::Logs(args) => logs::run(&args, context),
    }
}
