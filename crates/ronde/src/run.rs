//! `ronde run`, and this program under the name `horovodrun`: everything is in `ronde-launch`.

use std::path::Path;

use ronde_launch::LaunchError;

use crate::{
    args::{Args, RunArgs, Verb},
    failure::{Answer, Blame, Failure, Outcome},
};

const HOROVODRUN: &str = "horovodrun";

/// Reads the command line of `horovodrun`, if this program was called so.
pub fn as_horovodrun(words: &[String]) -> Option<Args> {
    let (name, rest) = words.split_first()?;
    let is_horovodrun = Path::new(name).file_name()? == HOROVODRUN;
    is_horovodrun.then(|| Args { quiet: false, verb: Verb::Run(RunArgs { words: rest.to_vec(), is_horovodrun }) })
}

pub fn run(args: &RunArgs) -> Outcome {
    let name = if args.is_horovodrun { HOROVODRUN } else { "ronde run" };
    Ok(Answer::Code(ronde_launch::run(name, &args.words)?))
}

impl Failure for LaunchError {
    fn blame(&self) -> Blame {
        if self.is_input() { Blame::User } else { Blame::Environment }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
