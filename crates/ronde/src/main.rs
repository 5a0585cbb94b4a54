//! The `ronde` command: reads the arguments, runs one verb, prints how it went.
//!
//! Each verb is a file of its own name. Everything that decides lives in the library crates; this one only meets
//! the terminal, the files and the signals of one machine.

mod agent;
mod apply;
mod args;
mod client;
mod commands;
mod data_dir;
mod delete;
mod down;
mod environment;
mod failure;
mod get;
mod install;
mod job;
mod jobs;
mod kubeconfig;
mod list;
mod lock;
mod logging;
mod logs;
mod manifest;
mod mirror;
mod objects;
mod operator;
mod printer;
mod queue;
mod refusals;
mod resources;
mod rsh;
mod run;
mod show;
mod signals;
mod status;
mod table;
mod up;
mod wait;

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
    let words: Vec<String> = std::env::args().collect();
    // The helpers of the node and the keepers of ranks fork: they come before everything else.
    if let Some(code) = ronde_node::helper::run(&words).or_else(|| ronde_launch::keep::run(&words)) {
        return code;
    }
    let other_name = run::as_horovodrun(&words).or_else(|| rsh::as_ssh(&words));
    let args = other_name.unwrap_or_else(Args::parse);
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
        Verb::Delete(args) => delete::run(&args, context),
        Verb::Get(args) => get::run(&args, context),
        Verb::List(args) => list::run(&args, context),
        Verb::Logs(args) => logs::run(&args, context),
        Verb::Job(args) => job::run(&args, context),
        Verb::Queue(args) => queue::run(&args, context),
        Verb::Install(args) => install::install(&args, context),
        Verb::Uninstall(args) => install::uninstall(&args, context),
        Verb::Operator(args) => operator::run(&args, context),
        Verb::Run(args) => run::run(&args),
        Verb::Agent(args) => agent::run(&args, context),
        Verb::Rsh(args) => rsh::run(&args, context),
    }
}
