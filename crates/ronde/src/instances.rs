//! The instances of this user on this machine, for `ronde status --all` and `ronde down`.

use std::{io, path::PathBuf};

use jiff::Timestamp;
use ronde_node::{
    instances::{self, Instance, State},
    net::NetworkPlace,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    Context, client,
    failure::{Blame, Failure},
    table::{Layout, View, age},
};

/// Why instances could not be looked for or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstancesError {
    #[error("cannot list the instances")]
    Find { source: io::Error },
    #[error("no instance is named `{name}`")]
    Unknown { name: String },
}

impl Failure for InstancesError {
    fn blame(&self) -> Blame {
        match self {
            Self::Find { .. } => Blame::Environment,
            Self::Unknown { .. } => Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Find { .. } => None,
            Self::Unknown { .. } => Some("list instances with `ronde status --all`".to_owned()),
        }
    }
}

/// Where root's networks are; an ordinary user's are in namespaces of their own.
pub fn place(context: &Context) -> Option<NetworkPlace> {
    context.environment.is_root.then_some(NetworkPlace::Host)
}

/// Finds all instances, by name.
pub fn find(context: &Context) -> Result<Vec<Instance>, Box<dyn Failure>> {
    let found = client::runtime()?.block_on(instances::find(place(context).as_ref()));
    Ok(found.map_err(|source| InstancesError::Find { source })?)
}

/// One instance in the list. This is the format of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    name: String,
    state: &'static str,
    pods: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<PathBuf>,
    #[serde(skip)]
    words: &'static str,
}

impl Listed {
    pub fn new(instance: &Instance) -> Self {
        let (state, words) = match instance.state() {
            State::Running => ("running", "running"),
            State::PodsWithoutDaemon => ("podsWithoutDaemon", "pods without daemon"),
            State::Stopped => ("stopped", "stopped"),
            State::Orphaned => ("orphaned", "orphaned"),
        };
        Self {
            name: instance.name.clone(),
            state,
            pods: instance.pods.len(),
            pid: instance.daemon,
            since: instance.since,
            data_dir: instance.data_dir.clone(),
            words,
        }
    }
}

/// Lays the list out in columns; nothing if it is empty.
pub fn render(listed: &[Listed], now: Timestamp) -> Option<String> {
    let columns = ["Name", "State", "Pods", "Since", "Data"].map(|name| json!({"name": name, "priority": 0}));
    let row = |one: &Listed| {
        let since = one.since.map_or_else(|| "-".to_owned(), |since| age(now.duration_since(since)));
        let data = one.data_dir.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
        json!({"cells": [one.name, one.words, one.pods.to_string(), since, data]})
    };
    let rows: Vec<_> = listed.iter().map(row).collect();
    let mut layout = Layout::new(View { wide: false, namespace: false });
    let lines = layout.render(&json!({"columnDefinitions": columns, "rows": rows}));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// One pod, or several.
pub fn count_pods(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_listed_in_columns_and_as_json() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut running = Instance::default();
        running.name = "1a2b3c4d".into();
        running.data_dir = Some("/var/lib/ronde".into());
        running.daemon = Some(42);
        running.pods = ["p".to_owned()].into();
        running.since = Timestamp::from_second(1_000_000 - 90).ok();
        let mut orphaned = Instance::default();
        orphaned.name = "ronde-49dae580".into();
        let listed = [&running, &orphaned].map(Listed::new);
        let expected = "\
NAME             STATE      PODS   SINCE   DATA
1a2b3c4d         running    1      90s     /var/lib/ronde
ronde-49dae580   orphaned   0      -       -";
        assert_eq!(render(&listed, now).as_deref(), Some(expected));
        assert_eq!(render(&[], now), None);
        let json = serde_json::to_value(&listed).unwrap();
        assert_eq!(
            json[0],
            json!({"name": "1a2b3c4d", "state": "running", "pods": 1, "pid": 42,
                   "since": "1970-01-12T13:45:10Z", "dataDir": "/var/lib/ronde"})
        );
        assert_eq!(json[1], json!({"name": "ronde-49dae580", "state": "orphaned", "pods": 0}));
    }
}
