//! Replaces what differs from run to run (uids, versions, times, generated names, addresses) by
//! symbols that are numbered in order of first appearance, so that two transcripts can be compared
//! as text and still show which values are equal. One `Normaliser` per scenario run.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// The letters and digits of generated names; vowels would make words.
const SUFFIX: &str = r"[bcdfghjklmnpqrstvwxz2456789]{5}\b";

static UID: LazyLock<Regex> = LazyLock::new(|| regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static SERVICE_IP: LazyLock<Regex> = LazyLock::new(|| regex(r"\b10\.96\.\d{1,3}\.\d{1,3}\b"));
static TOKEN_VOLUME: LazyLock<Regex> = LazyLock::new(|| regex(r"kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}"));
static VERSION_IN_TEXT: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?i)(resource ?version[a-z \\":(]*|current: )\d{2,}"#));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+[smhdy]){1,2}( ago)?$"));
/// As in `3 (5m ago)`, the restarts of a pod.
static AGO: LazyLock<Regex> = LazyLock::new(|| regex(r"\((\d+[smhdy]){1,2} ago\)$"));

/// The symbols of one run.
pub struct Normaliser {
    /// Absent until it was made.
    namespace: Option<String>,
    /// What the scenario itself says stays as it is.
    scenario: String,
    /// Its words: addresses and ports are compared as a whole.
    words: HashSet<String>,
    uids: Symbols,
    versions: Symbols,
    addresses: Symbols,
    generated: Symbols,
    generated_names: Vec<Regex>,
}

impl Normaliser {
    /// Starts a run; times and addresses that the scenario's text holds are kept.
    pub fn new(scenario: &str) -> Self {
        Normaliser {
            namespace: None,
            scenario: scenario.into(),
            words: scenario.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).map(str::to_owned).collect(),
            uids: Symbols::new("uid"),
            versions: Symbols::new("rv"),
            addresses: Symbols::new("ip"),
            generated: Symbols::new("generated"),
            generated_names: Vec::new(),
        }
    }

    /// Replaces this name from now on.
    pub fn hide_namespace(&mut self, namespace: &str) {
        self.namespace = Some(namespace.into());
    }

    /// Replaces the varying parts of one answer.
    pub fn answer(&mut self, body: &mut Value) {
        self.value(body);
        sort_causes(body);
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => self.object(map),
            Value::Array(list) => list.iter_mut().for_each(|v| self.value(v)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    /// Replaces the varying parts of a piece of text.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = sort_quoted_objects(text);
        if let Some(namespace) = &self.namespace {
            text = text.replace(namespace, "<ns>");
        }
        text = TIME
            .replace_all(&text, |m: &Captures<'_>| {
                if self.scenario.contains(&m[0]) {
                    return m[0].to_owned();
                }
                if m.get(1).is_some() { "<microtime>" } else { "<time>" }.to_owned()
            })
            .into_owned();
        for name in &self.generated_names {
            text = name.replace_all(&text, |m: &Captures<'_>| self.generated.symbol(&m[0])).into_owned();
        }
        text = UID.replace_all(&text, |m: &Captures<'_>| self.uids.symbol(&m[0])).into_owned();
        text = SERVICE_IP
            .replace_all(
                &text,
                |m: &Captures<'_>| {
                    if self.words.contains(&m[0]) { m[0].into() } else { self.addresses.symbol(&m[0]) }
                },
            )
            .into_owned();
        text = TOKEN_VOLUME.replace_all(&text, "kube-api-access-<suffix>").into_owned();
        VERSION_IN_TEXT.replace_all(&text, "$1<rv>").into_owned()
    }

    /// Tells that names which start so and end in a random suffix may appear from now on.
    pub fn expect_generated(&mut self, prefix: &str) {
        let pattern = format!("{}{SUFFIX}", regex::escape(prefix));
        if self.generated_names.iter().all(|known| known.as_str() != pattern) {
            self.generated_names.push(regex(&pattern));
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>) {
        let counts_all = is_collection(map);
        if map.get("type") == Some(&Value::from("BOOKMARK")) {
            hide_bookmark_versions(map.get_mut("object"));
        }
        for (key, value) in map.iter_mut() {
            match (key.as_str(), &mut *value) {
                ("metadata", Value::Object(metadata)) => self.metadata(metadata, counts_all),
                ("cells", Value::Array(cells)) => self.cells(cells),
                ("columnDefinitions", Value::Array(columns)) => self.columns(columns),
                ("resourceVersion", Value::String(version)) => *version = self.version(version),
                ("token", Value::String(token)) if !token.is_empty() => *token = "<token>".into(),
                ("nodePort" | "healthCheckNodePort", Value::Number(port)) => {
                    if port.as_u64() != Some(0) && !self.words.contains(&port.to_string()) {
                        *value = "<node-port>".into();
                    }
                }
                _ => self.value(value),
            }
        }
        self.rename_keys(map);
    }

    fn metadata(&mut self, metadata: &mut Map<String, Value>, of_collection: bool) {
        if let Some(Value::String(prefix)) = metadata.get("generateName") {
            self.expect_generated(prefix);
        }
        if let Some(Value::Array(entries)) = metadata.get_mut("managedFields") {
            sort_managers(entries);
        }
        for (key, word) in [("continue", "<continue>"), ("resourceVersion", "<rv>")] {
            match metadata.get_mut(key) {
                Some(Value::String(text)) if of_collection && !text.is_empty() => *text = word.into(),
                _ => {}
            }
        }
        self.object(metadata);
    }

    fn cells(&mut self, cells: &mut [Value]) {
        for cell in cells {
            match cell {
                Value::String(text) if AGE.is_match(text) => *text = "<age>".into(),
                Value::String(text) if AGO.is_match(text) => *text = AGO.replace(text, "(<age> ago)").into_owned(),
                other => self.value(other),
            }
        }
    }

    /// Each server describes its columns in its own words; those of the scenario's definitions stay.
    fn columns(&mut self, columns: &mut [Value]) {
        for column in columns.iter_mut().filter_map(Value::as_object_mut) {
            let own = column.get("description").and_then(Value::as_str).is_some_and(|d| self.scenario.contains(d));
            if !own {
                column.remove("description");
            }
        }
    }

    /// 0 and 1 have meanings of their own and are never an object's version.
    fn version(&mut self, version: &str) -> String {
        match version {
            "" | "0" | "1" | "<rv>" => version.into(),
            _ => self.versions.symbol(version),
        }
    }

    /// Field sets hold uids and namespaces in their keys.
    fn rename_keys(&mut self, map: &mut Map<String, Value>) {
        let changed: Vec<(String, String)> =
            map.keys().map(|key| (key.clone(), self.text(key))).filter(|(old, new)| old != new).collect();
        for (old, new) in changed {
            if let Some(value) = map.remove(&old) {
                map.insert(new, value);
            }
        }
    }
}

/// Lists and tables carry the version of the whole store, which other tests also move.
fn is_collection(map: &Map<String, Value>) -> bool {
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") || kind == "Table"
}

/// Servers order the entries by time in whole seconds, so that the order depends on the clock.
fn sort_managers(entries: &mut [Value]) {
    let field = |entry: &Value, key| entry[key].as_str().unwrap_or_default().to_owned();
    entries.sort_by_key(|entry| ["operation", "manager", "subresource", "apiVersion"].map(|key| field(entry, key)));
}

/// Servers find some faults in the order of a hash map: the causes are sorted, and with them the
/// list of the same texts in the message.
fn sort_causes(body: &mut Value) {
    let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") else { return };
    let text = |cause: &Value| {
        let field = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", field("field"), field("message"))
    };
    causes.sort_by_key(text);
    let mut texts: Vec<String> = causes.iter().map(text).collect();
    texts.dedup();
    let joined = texts.join(", ");
    if let Some(Value::String(message)) = body.get_mut("message")
        && let Some(start) = message.find("is invalid: [").map(|at| at + "is invalid: [".len())
        && message.len() == start + joined.len() + 1
    {
        message.replace_range(start.., &format!("{joined}]"));
    }
}

/// A message may quote an object as JSON; the order of its keys is the server's own.
fn sort_quoted_objects(text: &str) -> String {
    const START: &str = r#""{\""#;
    let (mut sorted, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(START) {
        let mut quoted = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<String>();
        let object = quoted.next().and_then(Result::ok).and_then(|json| serde_json::from_str::<Value>(&json).ok());
        let end = at + object.as_ref().map_or(START.len(), |_| quoted.byte_offset());
        match object {
            Some(object) => {
                sorted.push_str(&rest[..at]);
                sorted.push_str(&Value::from(object.to_string()).to_string());
            }
            None => sorted.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    sorted + rest
}

/// A bookmark carries the version of the whole store; that of a table carries it in its row too.
fn hide_bookmark_versions(object: Option<&mut Value>) {
    let Some(object) = object else { return };
    for pointer in ["/metadata/resourceVersion", "/rows/0/object/metadata/resourceVersion"] {
        if let Some(version) = object.pointer_mut(pointer) {
            *version = "<rv>".into();
        }
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is well formed")
}

/// Values seen so far, numbered.
struct Symbols {
    word: &'static str,
    seen: HashMap<String, usize>,
}

impl Symbols {
    fn new(word: &'static str) -> Self {
        Symbols { word, seen: HashMap::new() }
    }

    fn symbol(&mut self, value: &str) -> String {
        let next = self.seen.len() + 1;
        let number = *self.seen.entry(value.into()).or_insert(next);
        format!("<{}-{number}>", self.word)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "rows read better without borrows")]
    fn check(mut answers: Value, expected: Value) {
        let mut normaliser = Normaliser::new("at: 2020-01-01T00:00:00Z, ip: [10.96.200.200]");
        normaliser.hide_namespace("e2e-abc");
        normaliser.answer(&mut answers);
        assert_eq!(answers, expected);
    }

    #[test]
    fn equal_values_get_equal_symbols() {
        let a = "11111111-2222-3333-4444-555555555555";
        let b = "11111111-2222-3333-4444-666666666666";
        check(json!([a, b, format!("not {a}")]), json!(["<uid-1>", "<uid-2>", "not <uid-1>"]));
        check(
            json!([{"resourceVersion": "77"}, {"resourceVersion": "78"}, {"resourceVersion": "77"}]),
            json!([{"resourceVersion": "<rv-1>"}, {"resourceVersion": "<rv-2>"}, {"resourceVersion": "<rv-1>"}]),
        );
    }

    #[test]
    fn versions_of_collections_and_bookmarks_are_not_numbered() {
        check(
            json!({"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "abc"}}),
            json!({"kind": "PodList", "metadata": {"resourceVersion": "<rv>", "continue": "<continue>"}}),
        );
        check(
            json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}),
            json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "<rv>"}}}),
        );
    }

    #[test]
    fn times_are_hidden_unless_the_scenario_wrote_them() {
        check(json!(["2026-01-01T00:00:00Z"]), json!(["<time>"]));
        check(json!(["2026-01-01T00:00:00.000000Z"]), json!(["<microtime>"]));
        check(json!(["2020-01-01T00:00:00Z"]), json!(["2020-01-01T00:00:00Z"]));
    }

    #[test]
    fn addresses_are_hidden_unless_the_scenario_wrote_them() {
        check(json!(["10.96.200.2", "10.96.200.200"]), json!(["<ip-1>", "10.96.200.200"]));
    }

    #[test]
    fn causes_are_sorted_in_the_message_too() {
        let status = |message: &str, causes: [&str; 2]| {
            let cause = |field: &str| json!({"field": field, "message": "bad"});
            json!({"message": message, "details": {"causes": causes.map(cause)}})
        };
        check(
            status("x is invalid: [b: bad, a: bad]", ["b", "a"]),
            status("x is invalid: [a: bad, b: bad]", ["a", "b"]),
        );
    }

    #[test]
    fn objects_in_messages_have_sorted_keys() {
        check(
            json!(r#"patch: Invalid value: "{\"b\":{\"d\":1,\"c\":2},\"a\":\"x\"}": no, "{\"b"#),
            json!(r#"patch: Invalid value: "{\"a\":\"x\",\"b\":{\"c\":2,\"d\":1}}": no, "{\"b"#),
        );
    }

    #[test]
    fn only_the_scenarios_own_columns_keep_their_description() {
        let column = |description: &str| json!({"name": "A", "description": description});
        check(
            json!({"columnDefinitions": [column("theirs"), column("at: 2020")]}),
            json!({"columnDefinitions": [{"name": "A"}, column("at: 2020")]}),
        );
    }

    #[test]
    fn generated_names_are_recognised_later() {
        check(
            json!([{"metadata": {"generateName": "web-", "name": "web-x7k2p"}}, "pod web-x7k2p in e2e-abc"]),
            json!([{"metadata": {"generateName": "web-", "name": "<generated-1>"}}, "pod <generated-1> in <ns>"]),
        );
    }
}
