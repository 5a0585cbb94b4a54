//! Checks that an applied configuration fits the schema.
//!
//! This is what server-side apply checks before it merges: types, unknown fields, list keys and duplicates. Values are
//! checked by the kind's validation, later and on the merged object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    element::Element,
    place::{NoElement, Place},
};
use crate::{
    decode::described,
    schema::{Format, ListType, Node, Type},
};

/// Returns what is wrong with the configuration, as one text.
///
/// # Errors
/// One line per mistake; a single one stands alone.
pub fn validate(config: &Value, place: Place<'_>) -> Result<(), String> {
    let mut checker = Checker::default();
    checker.check(config, place);
    match checker.errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(many.iter().fold("errors:".to_owned(), |text, error| text + "\n  " + error)),
    }
}

#[derive(Default)]
struct Checker {
    path: String,
    errors: Vec<String>,
}

impl Checker {
    fn check(&mut self, value: &Value, place: Place<'_>) {
        let Some(node) = place.node() else { return };
        match (node.kind, value) {
            (_, Value::Null) => {}
            (Type::Object | Type::Any, Value::Object(fields)) => self.check_fields(fields, place),
            (Type::Array | Type::Any, Value::Array(items)) => self.check_items(items, place),
            (Type::Object, other) => self.error(&format!("expected an object, got {}", described(other))),
            (Type::Array, other) => self.error(&format!("expected a list, got {}", described(other))),
            (Type::Integer | Type::Number, other) if !other.is_number() => {
                self.error(&format!("expected a number, got {}", described(other)));
            }
            (Type::Boolean, other) if !other.is_boolean() => {
                self.error(&format!("expected a boolean, got {}", described(other)));
            }
            // Formats other than bytes (times, quantities, ports by name) take any scalar.
            (Type::String, other) if !other.is_string() && !takes_any_scalar(node) => {
                self.error(&format!("expected a string, got {}", described(other)));
            }
            (Type::String | Type::IntOrString, other @ (Value::Array(_) | Value::Object(_))) => {
                self.error(&format!("expected a scalar, got {}", described(other)));
            }
            _ => {}
        }
    }

    fn check_fields(&mut self, fields: &Map<String, Value>, place: Place<'_>) {
        for (name, value) in fields {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(name);
            let known = place.field(name);
            match known {
                Some(place) => self.check(value, place),
                None => self.error("field not declared in schema"),
            }
            self.path.truncate(length);
            if known.is_none() {
                return;
            }
        }
    }

    fn check_items(&mut self, items: &[Value], place: Place<'_>) {
        let is_atomic = place.node().is_none_or(|node| node.list == ListType::Atomic);
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let mut step = format!("[{index}]");
            if !is_atomic {
                let element = match place.element(item) {
                    Ok(element) => element,
                    Err(why) => return self.error(&format!("element {index}: {}", words(why))),
                };
                step = Element::parse(&element).map_or(step, |element| element.to_string());
                if !seen.insert(element) {
                    self.error(&format!("duplicate entries for key {step}"));
                }
            }
            let length = self.path.len();
            self.path.push_str(&step);
            self.check(item, place.items());
            self.path.truncate(length);
        }
    }

    fn error(&mut self, what: &str) {
        let path = &self.path;
        self.errors.push(if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") });
    }
}

fn takes_any_scalar(node: Node<'_>) -> bool {
    let custom = node.data().checks.as_ref().and_then(|checks| checks.format.as_deref());
    node.format.is_some_and(|format| format != Format::Byte) || custom.is_some_and(|format| format != "byte")
}

fn words(why: NoElement<'_>) -> String {
    let fixed = match why {
        NoElement::NoKeys(keys) => {
            let quoted: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
            return format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                quoted.join(" ")
            );
        }
        NoElement::NullItem => "associative list with keys may not have a null element",
        NoElement::NotAMap => "associative list with keys may not have non-map elements",
        NoElement::NullInSet => "associative list without keys has an element that's an explicit null",
        NoElement::MapInSet => "associative list without keys has an element that's a map type",
        NoElement::ListInSet => "not supported: associative list with lists as elements",
    };
    fixed.to_owned()
}
