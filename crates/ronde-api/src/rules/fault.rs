//! Something wrong with an object: where, and what.

use std::fmt;

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The field, as `spec.tasks[1].minAvailable`.
    pub path: String,
    /// What is wrong, without the path.
    pub message: String,
}

/// The classes of faults, as clients tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    Required,
    Invalid,
    Unsupported,
    Duplicate,
    NotFound,
    Forbidden,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A list of faults that only grows.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub fn into_vec(self) -> Vec<Fault> {
        self.0
    }

    pub fn extend(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.0.extend(faults);
    }

    pub fn add(&mut self, kind: FaultKind, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault { kind, path: path.into(), message: message.into() });
    }

    pub fn required(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(FaultKind::Required, path, message);
    }

    pub fn invalid(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(FaultKind::Invalid, path, message);
    }

    pub fn duplicate(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(FaultKind::Duplicate, path, message);
    }

    pub fn not_found(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(FaultKind::NotFound, path, message);
    }

    pub fn forbidden(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(FaultKind::Forbidden, path, message);
    }

    /// Checks the least value of a number.
    pub fn at_least(&mut self, path: impl Into<String>, value: i32, least: i32) {
        if value < least {
            self.invalid(path, format!("{value} should be greater than or equal to {least}"));
        }
    }

    /// Checks the largest value of a number.
    pub fn at_most(&mut self, path: impl Into<String>, value: impl Into<i64>, most: i32) {
        let value = value.into();
        if value > i64::from(most) {
            self.invalid(path, format!("{value} should be less than or equal to {most}"));
        }
    }

    /// Checks a word that may be left out.
    pub fn one_of(&mut self, path: impl Into<String>, given: &str, words: impl IntoIterator<Item = &'static str>) {
        self.word("", path, given, words);
    }

    /// The same for a word that is called something if it is wrong.
    pub fn word(
        &mut self,
        called: &str,
        path: impl Into<String>,
        given: &str,
        words: impl IntoIterator<Item = &'static str>,
    ) {
        let words: Vec<&str> = words.into_iter().collect();
        if !given.is_empty() && !words.contains(&given) {
            let called = if called.is_empty() { String::new() } else { format!("{called}: ") };
            self.add(FaultKind::Unsupported, path, format!("{called}{given:?} is not one of {}", words.join(", ")));
        }
    }

    /// Adds what one of the rules for names has found wrong with a text, of patterns in the words of schemas.
    pub fn name(&mut self, path: &str, given: &str, rule: fn(&str) -> Vec<String>) {
        for complaint in rule(given) {
            let complaint = complaint.replace("regex used for validation is", "should match");
            self.invalid(path, format!("{given:?}: {complaint}"));
        }
    }
}
