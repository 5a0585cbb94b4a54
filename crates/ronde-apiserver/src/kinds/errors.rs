//! The mistakes found in one object, in the order in which the real server would name them.
//!
//! Every validation of this folder writes into one [`Errors`]; the words come from `crate::error` and `crate::names`.

use serde_json::Value;

use super::path::Path;
use crate::error::{FieldError, FieldErrorKind};

/// What an object that may not change says.
pub const IMMUTABLE: &str = "field is immutable";

/// A list of mistakes that only grows.
#[derive(Debug, Default)]
pub struct Errors(Vec<FieldError>);

impl Errors {
    /// Returns an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a mistake.
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Returns how many mistakes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets the mistakes at a path that came after the first `kept` ones.
    pub fn forget(&mut self, path: &str, kept: usize) {
        let mut index = 0;
        self.0.retain(|error| {
            index += 1;
            index <= kept || error.path != path
        });
    }

    /// Returns the mistakes in order.
    pub fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// Adds that a field is missing.
    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(FieldError::required(path, detail));
    }

    /// Adds that a value is wrong.
    pub fn invalid(&mut self, path: &Path<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(path, value.into(), detail));
    }

    /// As `invalid`, for a value that the message leaves out.
    pub fn invalid_omitted(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push(FieldError::invalid(path, Value::Null, detail).verbatim());
    }

    /// Adds that a field may not be set, or not changed.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(path, detail));
    }

    /// Adds that a value is there twice.
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(path, value.into()));
    }

    /// Adds that a value refers to nothing.
    pub fn not_found(&mut self, path: &Path<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::new(FieldErrorKind::NotFound, path, value.into(), detail));
    }

    /// Adds that a value is none of those supported.
    pub fn not_supported(&mut self, path: &Path<'_>, value: impl Into<Value>, supported: &[&str]) {
        self.push(FieldError::not_supported(path, value.into(), supported));
    }

    /// Adds that a text is too long.
    pub fn too_long(&mut self, path: &Path<'_>, bytes_max: usize) {
        self.push(FieldError::too_long(path, bytes_max));
    }

    /// Adds that a list is too long.
    pub fn too_many(&mut self, path: &Path<'_>, items: usize, items_max: usize) {
        self.push(FieldError::too_many(path, items, items_max));
    }

    /// Adds one mistake per message of a rule for names.
    pub fn names(&mut self, path: &Path<'_>, value: &str, messages: Vec<String>) {
        for message in messages {
            self.invalid(path, value, message);
        }
    }

    /// Adds one mistake per message of a rule for numbers.
    pub fn numbers(&mut self, path: &Path<'_>, value: i64, messages: Vec<String>) {
        for message in messages {
            self.invalid(path, value, message);
        }
    }

    /// Checks that a number is not negative.
    pub fn nonnegative(&mut self, path: &Path<'_>, value: i64) {
        if value < 0 {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }

    /// Checks a number that may be left out.
    pub fn nonnegative_optional(&mut self, path: &Path<'_>, value: &Value) {
        if let Some(value) = value.as_i64() {
            self.nonnegative(path, value);
        }
    }

    /// Checks that a number is positive.
    pub fn positive(&mut self, path: &Path<'_>, value: i64) {
        if value <= 0 {
            self.invalid(path, value, "must be greater than zero");
        }
    }

    /// Checks a value that must be one of a few; no value is a mistake of its own.
    pub fn one_of(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    /// Checks a value that may be left out, but else must be one of a few.
    pub fn one_of_optional(&mut self, path: &Path<'_>, value: &Value, supported: &[&str]) {
        if let Some(value) = value.as_str()
            && !supported.contains(&value)
        {
            self.not_supported(path, value, supported);
        }
    }

    /// Checks that a value has not changed.
    pub fn immutable(&mut self, path: &Path<'_>, new: &Value, old: &Value) {
        if new != old {
            self.invalid(path, new.clone(), IMMUTABLE);
        }
    }
}
