//! The `ronde` command: reads the arguments, runs one verb, prints how it went.
//!
//! Each verb is a file of its own name. Everything that decides lives in the library crates; this one only meets
//! the terminal, the files and the signals of one machine.
//!
//! Inside: `args.rs` is the whole command line; `demo/`, `up/`, `down/`, `status.rs`, `doctor/`, `backup/`, `apply.rs`, `delete.rs`,
//! `get.rs` (with `show.rs` for one job), `list.rs`, `logs/`, `story.rs`, `job.rs`, `queue/`, `simulate/` and `install/`
//! (charts, through Helm) are the verbs, and arena's `submit/`, `scale.rs`, `attach.rs`, `suspend.rs`, `prune.rs`, `top.rs`; `arena/`
//! is what the names `arena` and `kubectl-ronde` change (arguments before they are parsed, types of jobs); in `submit/`, `check.rs` finds
//! every fault, `sight.rs` what pods will not see, and `training.rs` and `batch.rs` build, purely; `jobs/any.rs` is a
//! job of either kind, `show/training.rs` and `list/arena.rs` are arena's forms; `objects.rs` reads and writes the
//! kinds that are known by type, `watch.rs` follows them and `wait.rs` waits for a state of them, with words;
//! `jobs.rs` says why a job waits, and `jobs/trouble.rs` what is wrong with its pods; `words.rs` reads kinds and
//! names; `commands.rs` asks controllers for something; `failure.rs` and `printer.rs` say how things go wrong;
//! `lock.rs` and `data_dir.rs` own the data directory, `instances.rs` lists those of a user; `kubeconfig/` edits the
//! user's kubeconfig (`entries.rs` decides, `edit.rs` and `tree.rs` change the text, `file.rs` does the writing).

mod agent;
mod apply;
mod arena;
mod args;
mod attach;
mod backup;
mod client;
mod commands;
mod completion;
mod cron;
mod data_dir;
mod delete;
mod demo;
mod doctor;
#[cfg(test)]
mod documents;
mod down;
mod environment;
mod failure;
mod get;
mod image;
mod install;
mod instances;
mod job;
mod jobs;
mod kubeconfig;
mod list;
mod lock;
mod logging;
mod logs;
mod manifest;
mod objects;
mod operator;
mod partial_failure;
mod printer;
mod prune;
mod queue;
mod registries;
mod resources;
mod rsh;
mod run;
mod scale;
mod show;
mod signals;
mod simulate;
mod status;
mod story;
mod submit;
mod suspend;
mod table;
mod top;
mod up;
mod wait;
mod watch;
mod whoami;
mod words;

use std::{
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::{
    arena::{Caller, arguments},
    args::{Args, TRAINING_VERBS, Verb},
    environment::Environment,
    failure::{Answer, Blame, Outcome},
    printer::{LostOutput, Printer},
};

/// What every verb gets.
#[derive(Debug, Clone)]
pub struct Context {
    pub environment: Environment,
    pub printer: Printer,
    pub caller: Caller,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    // The helpers of the node and the keepers of ranks fork: they come before everything else.
    if let Some(code) = ronde_node::helper::run(&words).or_else(|| ronde_launch::keeper::run(&words)) {
        return code;
    }
    let caller = Caller::of(std::env::args_os().next().as_deref());
    let args = match run::as_horovodrun(&words).or_else(|| rsh::as_ssh(&words)).map_or_else(|| read(words, caller), Ok)
    {
        Ok(args) => args,
        Err(code) => return ExitCode::from(code),
    };
    let has_one_code = caller.is_arena || args.verb.is_of_training();
    let context = Context { environment: Environment::read(), printer: Printer { quiet: args.quiet, caller }, caller };
    panic::set_hook(Box::new(|bug| printer::bug(&bug.to_string())));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(args.verb, &context)));
    let code = match outcome.map(|outcome| or_lost(outcome, context.printer)) {
        Ok(Ok(answer)) => answer.exit_code(),
        Ok(Err(failure)) => match context.printer.failure(&*failure) {
            code if code != Blame::Bug.exit_code() && has_one_code => Answer::No.exit_code(),
            code => code,
        },
        Err(_) => Blame::Bug.exit_code(),
    };
    ExitCode::from(code)
}

/// A command has failed, whatever it did, if its output did not arrive.
fn or_lost(outcome: Outcome, printer: Printer) -> Outcome {
    match (outcome, printer.lost()) {
        (Ok(_), Some(lost)) => Err(lost.into()),
        (outcome, _) => outcome,
    }
}

/// Reads the arguments; without a good answer, returns the exit code.
fn read(words: Vec<String>, caller: Caller) -> Result<Args, u8> {
    let words = match (caller.is_arena, caller.is_kubectl) {
        (true, _) => arguments::persistent(words, arguments::ARENA),
        (_, true) => arguments::persistent(words, arguments::KUBECTL),
        _ => words,
    };
    let translated = arguments::deprecated(words, &Args::command());
    let printer = Printer { quiet: false, caller };
    translated.notices.iter().for_each(|notice| printer.say(notice));
    let words = submit::file::expand(translated.words).map_err(|error| {
        printer.failure(&error);
        Answer::No.exit_code()
    })?;
    let words = operator::config::expand(words).map_err(|error| printer.failure(&error))?;
    let verb = words.get(1).map(String::as_str).unwrap_or_default();
    let has_one_code = caller.is_arena || TRAINING_VERBS.contains(&verb);
    let mut command = args::with_negative_numbers(Args::command()).name(caller.name()).bin_name(caller.name());
    let found = command.try_get_matches_from_mut(words).and_then(|found| Args::from_arg_matches(&found));
    found.map_err(|error| {
        if let Err(lost) = error.print()
            && let Some(lost) = LostOutput::of(lost)
        {
            return printer.failure(&lost);
        }
        let answer = if error.use_stderr() { Answer::No } else { Answer::Done };
        if answer == Answer::Done || has_one_code { answer.exit_code() } else { Blame::User.exit_code() }
    })
}

fn run(verb: Verb, context: &Context) -> Outcome {
    match verb {
        Verb::Demo(args) => demo::run(&args, context),
        Verb::Up(args) => up::run(&args, context),
        Verb::Doctor(args) => doctor::run(&args, context),
        Verb::Down(args) => down::run(&args, context),
        Verb::Status(args) => status::run(&args, context),
        Verb::Backup(args) => backup::run(&args, context),
        Verb::Restore(args) => backup::restore(&args, context),
        Verb::Apply(args) => apply::run(&args, context),
        Verb::Delete(args) => delete::run(&args, context),
        Verb::Get(args) => get::run(&args, context),
        Verb::List(args) => list::run(&args, context),
        Verb::Logs(args) => logs::run(&args, context),
        Verb::Story(args) => story::run(&args, context),
        Verb::Job(args) => job::run(&args, context),
        Verb::Queue(args) => queue::run(&args, context),
        Verb::Flow(args) => cron::flow(&args, context),
        Verb::Cron(args) => cron::run(&args, context),
        Verb::Image(args) => image::run(&args, context),
        Verb::Install(args) => install::install(&args, context),
        Verb::Uninstall(args) => install::uninstall(&args, context),
        Verb::Operator(args) => operator::run(&args, context),
        Verb::Run(args) => run::run(&args),
        Verb::Agent(args) => agent::run(&args, context),
        Verb::Rsh(args) => rsh::run(&args, context),
        Verb::Submit(args) => submit::run(&args, context),
        Verb::Scaleout(args) => scale::out(&args, context),
        Verb::Scalein(args) => scale::inwards(&args, context),
        Verb::Suspend(args) => suspend::suspend(&args, context),
        Verb::Resume(args) => suspend::resume(&args, context),
        Verb::Attach(args) => attach::run(&args, context),
        Verb::Top(args) => top::run(&args, context),
        Verb::Simulate(args) => simulate::run(&args, context),
        Verb::Prune(args) => prune::run(&args, context),
        Verb::Completion(args) => completion::run(&args, context),
        Verb::Version(args) => completion::version(&args, context),
        Verb::Whoami(args) => whoami::run(&args, context),
    }
}
