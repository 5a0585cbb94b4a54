//! Label and field selectors: parsed as the real server parses them, matched against labels and fields.
//!
//! Lists, watches and deletecollection take them as query parameters. The structured form (`matchLabels`,
//! `matchExpressions`) is read too, for those who need it as text; validating it in manifests belongs to the kinds.
//! Which fields a kind can be selected by is the caller's knowledge.

mod fields;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use crate::{
    error::{ApiError, FieldError},
    names,
};

pub use fields::{FieldSelector, FieldTerm};

/// A condition on the labels of objects; all requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// In the order of their keys.
    requirements: Vec<Requirement>,
    /// Set where a selector is missing that would otherwise select: it matches no object at all.
    nothing: bool,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// Sorted, each once.
    pub values: Vec<String>,
}

/// How a label and the values of a requirement relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Reads a selector like `app=web,tier in (a,b),!canary`.
    ///
    /// # Errors
    /// If it is malformed, with the words of the real server.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        parse::selector(text).map(Self::from_requirements).map_err(ApiError::bad_request)
    }

    /// Reads the structured form; null selects nothing and an empty object everything.
    ///
    /// # Errors
    /// The text of the first mistake, for the caller to wrap.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        if value.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, label) in value["matchLabels"].as_object().into_iter().flatten() {
            requirements.push(Requirement::new(key, Operator::Equals, vec![text(label)])?);
        }
        for expression in value["matchExpressions"].as_array().into_iter().flatten() {
            requirements.push(Requirement::from_value(expression)?);
        }
        Ok(Self::from_requirements(requirements))
    }

    /// The selector that matches no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Matches against labels that are held in some other way than a map.
    pub fn matches_by<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.accepts(label(&requirement.key)))
    }

    fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }
}

impl Requirement {
    /// Makes a requirement after checking key, values and their number.
    ///
    /// # Errors
    /// All mistakes in one text, with the words of the real server.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        values.sort_unstable();
        values.dedup();
        let errors = requirement_errors(key, operator, &values);
        if !errors.is_empty() {
            return Err(aggregate(&errors));
        }
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// Whether an object fits whose label is `label` (or is missing).
    pub fn accepts(&self, label: Option<&str>) -> bool {
        let named = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(named),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(named),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.numbers(label).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.numbers(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn numbers(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    fn from_value(expression: &Value) -> Result<Self, String> {
        let operator = match expression["operator"].as_str().unwrap_or_default() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("\"{other}\" is not a valid label selector operator")),
        };
        let values = expression["values"].as_array().into_iter().flatten().map(text).collect();
        Self::new(expression["key"].as_str().unwrap_or_default(), operator, values)
    }
}

impl fmt::Display for LabelSelector {
    /// Writes the selector as `status.selector` of the scale subresource has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

fn requirement_errors(key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(key_error(key, "key"));
    let count_is_wrong = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            Some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            Some("values set must be empty for exists and does not exist")
        }
        _ => None,
    };
    if let Some(why) = count_is_wrong {
        errors.push(FieldError::invalid("values", values.into(), why));
    }
    for (index, value) in values.iter().enumerate() {
        let is_order = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if is_order && value.parse::<i64>().is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(format!("values[{index}]"), value.as_str().into(), why));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let messages = names::is_valid_label_value(value);
        if !messages.is_empty() {
            let path = format!("values[{index}][{key}]");
            errors.push(FieldError::invalid(path, value.as_str().into(), messages.join("; ")));
        }
    }
    errors
}

fn key_error(key: &str, path: &str) -> Option<FieldError> {
    let messages = names::is_qualified_name(key);
    (!messages.is_empty()).then(|| FieldError::invalid(path, key.into(), messages.join("; ")))
}

fn aggregate(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
