//! What differs between two specs, field by field, for rules that say what may change.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the paths of the fields that differ by name, the deepest that say so. Lists of other lengths differ as a whole.
pub(super) fn differences(old: &Value, new: &Value, path: &str) -> Vec<String> {
    if old == new {
        return Vec::new();
    }
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().flat_map(|key| differences(&old[key], &new[key], &format!("{path}.{key}"))).collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.flat_map(|(at, (old, new))| differences(old, new, &format!("{path}[{at}]"))).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// A path with the indexes left out: `spec.tasks[].replicas`.
pub(super) fn without_indexes(path: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for c in path.chars() {
        inside = (inside || c == '[') && c != ']';
        if !inside || c == '[' {
            plain.push(c);
        }
    }
    plain
}
