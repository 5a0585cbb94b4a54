//! Errors as a person reads them in a log: what was tried and each cause once, in one line.
//!
//! `kube::Error` shows an answer of the API as the dump of a structure, and repeats its sources in its own text.

use std::{error::Error, fmt, io};

/// Shows an error with its causes.
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        let mut next = Some(self.0);
        while let Some(error) = next {
            let error = unwrapped(error);
            let words = words(error);
            if said.is_empty() {
                f.write_str(&words)?;
            } else if !said.contains(&words) {
                write!(f, ": {words}")?;
            }
            said.push_str(&words);
            next = error.source();
        }
        Ok(())
    }
}

/// An error of the system that only stands for another is that other.
fn unwrapped<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => inner,
        None => error,
    }
}

fn words(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => status.to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused() -> kube::Error {
        let status = Status::failure("cannot write to the store", "InternalError").with_code(500);
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn an_answer_of_the_api_is_no_dump() {
        let expected = "cannot write to the store: InternalError";
        assert_eq!(Causes(&refused()).to_string(), expected);
        assert_eq!(Causes(&io::Error::other(refused())).to_string(), expected, "also when it goes as another");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot bind pod a")]
    struct Bind(#[source] kube::Error);

    #[test]
    fn causes_are_told_once() {
        assert_eq!(Causes(&Bind(refused())).to_string(), "cannot bind pod a: cannot write to the store: InternalError");
        let broken = kube::Error::Service(Box::new(io::Error::other("connection reset")));
        assert_eq!(Causes(&broken).to_string(), "ServiceError: connection reset");
    }
}
