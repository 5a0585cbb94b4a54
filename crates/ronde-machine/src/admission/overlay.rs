//! Carries what a default changed in a typed object over to the JSON that it was read from.
//!
//! A round trip through types would drop empty lists and the like, which a client has set and will set again.

use serde_json::Value;

/// Makes in `raw` the changes that lead from `before` to `after`; both are forms of `raw`.
pub(super) fn carry_over(raw: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (&mut *raw, before, after) {
        (Value::Object(fields), Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                match (fields.get_mut(key), old.get(key)) {
                    (Some(field), Some(old)) => carry_over(field, old, value),
                    (None, Some(old)) if old == value => {}
                    _ => _ = fields.insert(key.clone(), value.clone()),
                }
            }
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                fields.remove(key);
            }
        }
        (Value::Array(items), Value::Array(old), Value::Array(new))
            if items.len() == new.len() && old.len() == new.len() =>
        {
            for (item, (old, new)) in items.iter_mut().zip(old.iter().zip(new)) {
                carry_over(item, old, new);
            }
        }
        _ => *raw = after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_is_carried_over() {
        let mut raw = json!({"a": 1, "empty": [], "unknown": {"x": 1}, "list": [{"k": "v", "none": {}}, {"k": "w"}]});
        let before = json!({"a": 1, "zero": 0, "gone": 2, "list": [{"k": "v"}, {"k": "w"}], "other": [1]});
        let after = json!({"a": 2, "zero": 0, "new": "n", "list": [{"k": "v", "d": 3}, {"k": "w"}], "other": [1, 2]});
        raw["gone"] = 2.into();
        carry_over(&mut raw, &before, &after);
        assert_eq!(
            raw,
            json!({
                "a": 2, "empty": [], "unknown": {"x": 1}, "new": "n", "other": [1, 2],
                "list": [{"k": "v", "none": {}, "d": 3}, {"k": "w"}],
            })
        );
    }
}
