//! What the API server has written down about every binding: whether two operators ever wanted a pod on different nodes.

use std::{collections::BTreeMap, fmt, io::BufRead as _, path::Path};

use fs_err as fs;
use serde_json::Value;

/// Bindings of the whole run.
#[derive(Default)]
pub struct Bindings {
    made: BTreeMap<String, String>,
    /// Asked for again, with the same node: the first answer was lost.
    repeated: u64,
    /// The pod was gone, or another one of the same name had come.
    late: u64,
    wrong: Vec<String>,
}

/// Reads the log. Panics if a pod was bound twice, or was to be bound to a second node.
pub fn verdict(log: &Path) -> Bindings {
    let mut bindings = Bindings::default();
    for line in std::io::BufReader::new(fs::File::open(log).unwrap()).lines() {
        // The last line of a server that was killed may be cut off.
        if let Ok(event) = serde_json::from_str::<Value>(&line.unwrap()) {
            bindings.note(&event);
        }
    }
    assert!(!bindings.made.is_empty(), "no binding is in {}", log.display());
    assert!(bindings.wrong.is_empty(), "bound twice: {:#?}", bindings.wrong);
    bindings
}

impl Bindings {
    fn note(&mut self, event: &Value) {
        let request = &event["requestObject"];
        if event["objectRef"]["subresource"] != "binding" || event["stage"] != "ResponseComplete" {
            return;
        }
        let words = [&request["metadata"]["uid"], &request["target"]["name"], &request["metadata"]["name"]];
        let [uid, node, name] = words.map(|word| word.as_str().unwrap_or_default().to_owned());
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        match (code, self.made.get(&uid)) {
            (201, None) => drop(self.made.insert(uid, node)),
            (201, Some(first)) => self.wrong.push(format!("{name}: {first}, then {node}")),
            (409, Some(first)) if *first != node => self.wrong.push(format!("{name}: {first}, and {node} was refused")),
            (409, Some(_)) => self.repeated += 1,
            _ => self.late += 1,
        }
    }
}

impl fmt::Display for Bindings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (made, repeated, late) = (self.made.len(), self.repeated, self.late);
        write!(formatter, "{made} pods bound once, {repeated} bindings asked for again, {late} refused or not answered")
    }
}
