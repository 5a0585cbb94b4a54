//! What becomes of a command for many objects when some are refused: the others are not kept back.

use crate::{
    failure::{Answer, Blame, Failure, Outcome},
    printer::Printer,
};

/// Some of many objects were refused; each has been shown already.
#[derive(Debug, thiserror::Error)]
#[error("{refused} of {total} {what} could not be {done}")]
pub struct SomeRefused {
    refused: usize,
    total: usize,
    what: &'static str,
    /// As in `applied`.
    done: &'static str,
    blame: Blame,
}

impl Failure for SomeRefused {
    fn blame(&self) -> Blame {
        self.blame
    }
}

/// A command for many objects.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    pub total: usize,
    /// As in `objects`.
    pub what: &'static str,
    /// As in `applied`.
    pub done: &'static str,
}

/// Ends a command: shows what was refused, and sums it up if there was more than one object. The worst decides the exit code.
pub fn outcome(mut refused: Vec<Box<dyn Failure>>, batch: Batch, printer: Printer) -> Outcome {
    let Batch { total, what, done } = batch;
    let Some(blame) = refused.iter().map(|failure| failure.blame()).max_by_key(|blame| blame.exit_code()) else {
        return Ok(Answer::Done);
    };
    if total == 1 && refused.len() == 1 {
        return Err(refused.remove(0));
    }
    for failure in &refused {
        printer.failure(&**failure);
    }
    Err(SomeRefused { refused: refused.len(), total, what, done, blame }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Caller;

    #[derive(Debug, thiserror::Error)]
    #[error("no")]
    struct No(Blame);

    impl Failure for No {
        fn blame(&self) -> Blame {
            self.0
        }
    }

    fn check(name: &str, total: usize, blames: &[Blame], expected: Result<(), (&str, Blame)>) {
        let refused = blames.iter().map(|blame| No(*blame).into()).collect();
        let printer = Printer { quiet: true, caller: Caller::of(None) };
        let outcome = outcome(refused, Batch { total, what: "jobs", done: "deleted" }, printer);
        let shown = outcome.map(drop).map_err(|failure| (failure.to_string(), failure.blame()));
        let expected = expected.map_err(|(text, blame)| (text.to_owned(), blame));
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn the_worst_refusal_decides() {
        check("none", 2, &[], Ok(()));
        check("the only one speaks for itself", 1, &[Blame::User], Err(("no", Blame::User)));
        check(
            "an environment error after a mistake",
            3,
            &[Blame::User, Blame::Environment],
            Err(("2 of 3 jobs could not be deleted", Blame::Environment)),
        );
    }
}
