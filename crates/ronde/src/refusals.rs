//! What becomes of a command for many objects when some are refused: the others are not kept back.

use crate::{
    failure::{Answer, Blame, Failure, Outcome},
    printer::Printer,
};

/// Some of many objects were refused; each has been shown already.
#[derive(Debug, thiserror::Error)]
#[error("{refused} of {total} objects could not be {done}")]
pub struct SomeRefused {
    refused: usize,
    total: usize,
    /// As in `applied`.
    done: &'static str,
    blame: Blame,
}

impl Failure for SomeRefused {
    fn blame(&self) -> Blame {
        self.blame
    }
}

/// Ends a command for `total` objects: shows what was refused, and sums it up if there was more than one object.
pub fn outcome<E: Failure>(mut refused: Vec<E>, total: usize, done: &'static str, printer: Printer) -> Outcome {
    match refused.len() {
        0 => Ok(Answer::Done),
        1 if total == 1 => Err(refused.remove(0).into()),
        count => {
            for error in &refused {
                printer.failure(error);
            }
            Err(SomeRefused { refused: count, total, done, blame: refused[0].blame() }.into())
        }
    }
}
