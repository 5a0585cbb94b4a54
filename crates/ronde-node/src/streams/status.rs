//! How a command ended, in the words that clients take it from. Pure.

use serde_json::{Value, json};

/// How a command, or an attachment to one, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It ran, and this is its exit code.
    Exit(i32),
    /// It could not be run or reached, and this is why.
    Failed(String),
}

/// How an end is written on the error stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusForm {
    /// A `Status` object: version 4 and later.
    Object,
    /// A sentence, or nothing if all is well.
    Text,
}

impl Ended {
    /// Returns what the client is told.
    pub fn encode(&self, form: StatusForm) -> Vec<u8> {
        let status = self.status();
        match (form, self) {
            (StatusForm::Object, _) => status.to_string().into_bytes(),
            (StatusForm::Text, Self::Exit(0)) => Vec::new(),
            (StatusForm::Text, _) => status["message"].as_str().unwrap_or_default().into(),
        }
    }

    fn status(&self) -> Value {
        match self {
            Self::Exit(0) => json!({"metadata": {}, "status": "Success"}),
            Self::Exit(code) => json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "message": format!("command terminated with non-zero exit code: exit status {code}"),
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(why) => json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
                "message": format!("Internal error occurred: {why}"), "details": {"causes": [{"message": why}]},
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_in_the_form_they_know() {
        let check = |ended: Ended, form, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&ended.encode(form)), expected, "{ended:?}");
        };
        check(Ended::Exit(0), StatusForm::Object, r#"{"metadata":{},"status":"Success"}"#);
        check(Ended::Exit(0), StatusForm::Text, "");
        check(
            Ended::Exit(3),
            StatusForm::Object,
            r#"{"details":{"causes":[{"message":"3","reason":"ExitCode"}]},"message":"command terminated with non-zero exit code: exit status 3","metadata":{},"reason":"NonZeroExitCode","status":"Failure"}"#,
        );
        check(Ended::Exit(3), StatusForm::Text, "command terminated with non-zero exit code: exit status 3");
        check(Ended::Failed("no such file".into()), StatusForm::Text, "Internal error occurred: no such file");
    }
}
