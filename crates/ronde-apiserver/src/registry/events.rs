//! Events have two faces, `v1` and `events.k8s.io/v1`, over one store. The stored one is `v1`.

use serde_json::{Map, Value};

/// Field names that differ: (events.k8s.io, core).
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Fields that the core face always has, and the other only if they say something.
const OFTEN_EMPTY: [&str; 2] = ["reportingController", "reportingInstance"];

pub fn from_core(event: Value) -> Value {
    let mut event = rename(event, |name| RENAMED.iter().find(|(_, core)| *core == name).map(|(new, _)| *new));
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, value| !(OFTEN_EMPTY.contains(&name.as_str()) && *value == ""));
    }
    event
}

pub fn to_core(event: Value) -> Value {
    rename(event, |name| RENAMED.iter().find(|(new, _)| *new == name).map(|(_, core)| *core))
}

fn rename(event: Value, renamed: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let rename = |(name, value): (String, Value)| (renamed(&name).map_or(name, str::to_owned), value);
    Value::Object(fields.into_iter().map(rename).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_faces_are_the_same_event() {
        let core = json!({"metadata": {"name": "e"}, "message": "m", "involvedObject": {"kind": "Pod"}, "count": 2,
            "reportingComponent": "c"});
        let new = from_core(core.clone());
        assert_eq!(from_core(json!({"reportingComponent": "", "reportingInstance": ""})), json!({}));
        assert_eq!(new["note"], "m");
        assert_eq!(new["regarding"]["kind"], "Pod");
        assert_eq!(to_core(new), core);
    }
}
