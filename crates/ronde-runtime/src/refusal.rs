//! Why the API refuses a request, as a type: decisions are made by codes, reasons and causes, never by the words of a
//! message, which are for people and differ between servers.

use kube::core::Status;

/// Why the API refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such object.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// Another version of the object, or another object of its name, is there by now.
    Conflict,
    /// Nothing can be made in the namespace any more.
    NamespaceTerminating,
    /// Policy is against it: rights, Pod Security, quotas.
    Forbidden,
    /// The object is wrong.
    Invalid,
    /// Anything else, such as a server that is busy.
    Other,
}

impl Refusal {
    /// Reads an error; one that is no answer of the API is no refusal.
    pub fn of_error(error: &kube::Error) -> Option<Self> {
        let kube::Error::Api(status) = error else { return None };
        Some(Self::of_status(status))
    }

    fn of_status(status: &Status) -> Self {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        match (status.code, status.reason.as_str()) {
            _ if causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating") => Self::NamespaceTerminating,
            (404, _) => Self::NotFound,
            (409, "AlreadyExists") => Self::AlreadyExists,
            (409, _) => Self::Conflict,
            (403, _) => Self::Forbidden,
            (422, _) => Self::Invalid,
            _ => Self::Other,
        }
    }

    /// Tells whether somebody else was first: part of the game, and worth no event.
    pub fn is_lost_race(self) -> bool {
        matches!(self, Self::NotFound | Self::AlreadyExists | Self::Conflict)
    }

    /// Tells whether the same request is refused until somebody changes something: the object, or what is allowed.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::Forbidden | Self::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_code_reason_and_cause() {
        let check = |code: u16, reason: &str, expected: Refusal| {
            let error = kube::Error::Api(Status::failure("UID in precondition", reason).with_code(code).boxed());
            assert_eq!(Refusal::of_error(&error), Some(expected), "{code} {reason}");
        };
        check(404, "NotFound", Refusal::NotFound);
        check(409, "AlreadyExists", Refusal::AlreadyExists);
        check(409, "Conflict", Refusal::Conflict);
        check(403, "Forbidden", Refusal::Forbidden);
        check(422, "Invalid", Refusal::Invalid);
        check(500, "InternalError", Refusal::Other);
        let mut terminating = Status::failure("", "Forbidden").with_code(403);
        let details = serde_json::json!({"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]});
        terminating.details = serde_json::from_value(details).expect("details");
        let terminating = kube::Error::Api(terminating.boxed());
        assert_eq!(Refusal::of_error(&terminating), Some(Refusal::NamespaceTerminating));
        assert_eq!(Refusal::of_error(&kube::Error::LinesCodecMaxLineLengthExceeded), None);
    }
}
