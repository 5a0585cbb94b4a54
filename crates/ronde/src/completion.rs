//! `ronde completion` and `ronde version`: what the program knows of itself.

use clap::CommandFactory as _;

use crate::{
    Context,
    args::{Args, CompletionArgs, VersionArgs},
    failure::{Answer, Outcome},
};

/// Writes the script by which a shell completes commands.
pub fn run(args: &CompletionArgs, context: &Context) -> Outcome {
    let mut script = Vec::new();
    // A shell completes programs, by the names of their files.
    let program = if context.caller.is_kubectl { "kubectl-ronde" } else { context.caller.name() };
    clap_complete::generate(args.shell, &mut Args::command(), program, &mut script);
    context.printer.bytes(&script);
    Ok(Answer::Done)
}

/// Writes the version.
pub fn version(args: &VersionArgs, context: &Context) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    let name = context.caller.name();
    let lines =
        [format!("{name}: v{version}"), format!("  Platform: {}/{}", std::env::consts::OS, std::env::consts::ARCH)];
    context.printer.data(if args.short { format!("v{version}") } else { lines.join("\n") });
    Ok(Answer::Done)
}
