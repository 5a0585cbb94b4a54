//! Label selectors inside objects (`matchLabels`, `matchExpressions`): whether they are valid and what they match.
//!
//! The selectors of requests are text and not handled here.

use serde_json::Value;

use super::{
    errors::Errors,
    meta,
    path::Path,
    read::{entries, items, text},
};
use crate::names::{is_qualified_name, is_valid_label_value};

/// Checks a selector; one that is not there is valid.
pub fn validate(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    meta::labels(&selector["matchLabels"], &path.child("matchLabels"), errors);
    let list = path.child("matchExpressions");
    for (index, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        requirement(expression, &list.index(index), errors);
    }
}

fn requirement(expression: &Value, path: &Path<'_>, errors: &mut Errors) {
    let values = items(&expression["values"]);
    let values_path = path.child("values");
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values_path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
    let key = text(&expression["key"]);
    errors.names(&path.child("key"), key, is_qualified_name(key));
    for (index, value) in values.iter().map(text).enumerate() {
        errors.names(&values_path.index(index), value, is_valid_label_value(value));
    }
}

/// Tells whether a selector has nothing in it and thus matches everything.
pub fn is_empty(selector: &Value) -> bool {
    super::read::is_empty(&selector["matchLabels"]) && items(&selector["matchExpressions"]).is_empty()
}

/// Tells whether a selector can be evaluated at all.
pub fn is_valid(selector: &Value) -> bool {
    let mut errors = Errors::new();
    validate(selector, &Path::new(""), &mut errors);
    errors.is_empty()
}

/// Tells whether the labels match. A selector that is not there matches nothing, an empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    !selector.is_null()
        && entries(&selector["matchLabels"]).all(|(key, value)| labels.get(key) == Some(value))
        && items(&selector["matchExpressions"]).iter().all(|expression| expression_matches(expression, labels))
}

fn expression_matches(expression: &Value, labels: &Value) -> bool {
    let label = labels.get(text(&expression["key"]));
    let is_listed = || label.is_some_and(|label| items(&expression["values"]).contains(label));
    match text(&expression["operator"]) {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::matches;

    fn check(name: &str, selector: &Value, expected: bool) {
        assert_eq!(matches(selector, &json!({"app": "web", "tier": "front"})), expected, "{name}: {selector}");
    }

    fn expression(operator: &str, key: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn selectors_match_labels() {
        check("no selector matches nothing", &Value::Null, false);
        check("an empty one matches everything", &json!({}), true);
        check("a label", &json!({"matchLabels": {"app": "web"}}), true);
        check("another value", &json!({"matchLabels": {"app": "db"}}), false);
        check("in the list", &expression("In", "app", &["db", "web"]), true);
        check("not in the list", &expression("In", "app", &["db"]), false);
        check("a label that is not there is not in any list", &expression("NotIn", "zone", &["a"]), true);
        check("a listed value", &expression("NotIn", "app", &["web"]), false);
        check("there", &expression("Exists", "tier", &[]), true);
        check("not there", &expression("DoesNotExist", "tier", &[]), false);
    }
}
