//! `metadata.managedFields`: who owns which fields, since when, through which operation.
//!
//! Reads, changes and writes the list; which fields a write claims is computed elsewhere.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{compare::Diff, element::write_json, fieldset::FieldSet, place::Place, prune::reconcile};

/// The number of entries of updates that an object keeps; older ones are merged.
const UPDATE_MANAGERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// The entries of one object.
#[derive(Debug, Default)]
pub struct Managed(pub Vec<Entry>);

/// What one manager owns through one kind of operation.
#[derive(Debug, Clone)]
pub struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<String>,
    pub fields: FieldSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Managed {
    /// Reads the entries of a stored object, which this module has written.
    pub fn stored(object: &Value) -> Self {
        let entries = managed_fields(object).and_then(Value::as_array);
        Self(entries.into_iter().flatten().filter_map(Entry::stored).collect())
    }

    /// Reads what a client sent; none if any of it is malformed.
    pub fn sent(entries: &[Value]) -> Option<Self> {
        let mut managed = Self::default();
        for entry in entries {
            let entry = Entry::sent(entry)?;
            managed.0.retain(|other| !other.is_same_manager(&entry));
            managed.0.push(entry);
        }
        Some(managed)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the list as it stands in an object, none if there is nothing to say.
    pub fn into_value(mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        Some(self.0.into_iter().map(Entry::into_value).collect())
    }

    /// Follows changes of the schema: what has become atomic is owned as a whole.
    pub fn reconcile(&mut self, place: Place<'_>) {
        for entry in &mut self.0 {
            reconcile(&mut entry.fields, place);
        }
    }

    /// Returns the union of what all managers own.
    pub fn union(&self) -> FieldSet {
        let mut union = FieldSet::default();
        for entry in &self.0 {
            union.add(&entry.fields);
        }
        union
    }

    /// Takes the changed fields from all managers.
    pub fn release(&mut self, diff: &Diff) {
        for entry in &mut self.0 {
            for changed in [&diff.removed, &diff.modified, &diff.added] {
                entry.fields.subtract(changed);
            }
        }
    }

    /// Gives the changed fields to the one who made the update.
    pub fn record_update(&mut self, diff: &Diff, mut update: Entry) {
        self.release(diff);
        update.fields.add(&diff.modified);
        update.fields.add(&diff.added);
        if !update.fields.is_empty() {
            match self.0.iter_mut().find(|entry| entry.is_same_manager(&update)) {
                Some(entry) => {
                    entry.fields.add(&update.fields);
                    entry.time = update.time;
                }
                None => self.0.push(update),
            }
        }
        self.0.retain(|entry| !entry.fields.is_empty());
        self.cap_updates();
    }

    /// Merges the oldest updates, per version, until no more than [`UPDATE_MANAGERS_MAX`] are left.
    fn cap_updates(&mut self) {
        let updates = self.0.iter().filter(|entry| entry.operation == Operation::Update).count();
        let Some(mut excess) = updates.checked_sub(UPDATE_MANAGERS_MAX).filter(|excess| *excess > 0) else { return };
        let age = |entry: &Entry| (entry.operation, entry.manager != ANCIENT, entry.time.clone(), entry.identity());
        self.0.sort_by_cached_key(age);
        let mut kept: Vec<Entry> = Vec::with_capacity(self.0.len());
        for mut entry in std::mem::take(&mut self.0) {
            let is_update = entry.operation == Operation::Update && excess > 0;
            let same_version =
                |other: &&mut Entry| other.operation == Operation::Update && other.api_version == entry.api_version;
            match kept.iter_mut().find(same_version).filter(|_| is_update) {
                Some(bucket) => {
                    ANCIENT.clone_into(&mut bucket.manager);
                    bucket.subresource.clear();
                    bucket.time = entry.time.take();
                    bucket.fields.add(&entry.fields);
                    excess -= 1;
                }
                None => kept.push(entry),
            }
        }
        self.0 = kept;
    }
}

impl Entry {
    /// Whether a write by `other` goes into this entry. One who applies keeps one entry through all versions.
    pub fn is_same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// What the real server identifies and sorts managers by.
    pub fn identity(&self) -> String {
        let mut text = "{\"manager\":".to_owned();
        write_json(&Value::from(self.manager.as_str()), &mut text);
        let _ = write!(text, ",\"operation\":\"{}\"", self.operation.name());
        if self.operation == Operation::Update {
            let _ = write!(text, ",\"apiVersion\":\"{}\"", self.api_version);
        }
        if !self.subresource.is_empty() {
            let _ = write!(text, ",\"subresource\":\"{}\"", self.subresource);
        }
        text + "}"
    }

    /// As in error messages: `"kubectl" with subresource "status" using apps/v1`.
    pub fn shown(&self) -> String {
        let mut text = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            let _ = write!(text, " with subresource \"{}\"", self.subresource);
        }
        if self.operation == Operation::Update {
            let _ = write!(text, " using {}", self.api_version);
        }
        text
    }

    fn sort_key(&self) -> (Operation, Option<&str>, &str, &str, &str) {
        (self.operation, self.time.as_deref(), &self.manager, &self.api_version, &self.subresource)
    }

    fn stored(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        Some(Self {
            manager: text("manager").unwrap_or_default().to_owned(),
            operation: Operation::parse(text("operation")?)?,
            api_version: text("apiVersion")?.to_owned(),
            subresource: text("subresource").unwrap_or_default().to_owned(),
            time: text("time").map(str::to_owned),
            fields: FieldSet::from_wire(entry.get("fieldsV1").and_then(Value::as_object).cloned().unwrap_or_default()),
        })
    }

    fn sent(entry: &Value) -> Option<Self> {
        let text = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Some(""),
            Some(other) => other.as_str(),
        };
        let (api_version, time) = (text("apiVersion")?, text("time")?);
        if api_version.is_empty() || text("fieldsType")? != "FieldsV1" {
            return None;
        }
        Some(Self {
            manager: text("manager")?.to_owned(),
            operation: Operation::parse(text("operation")?)?,
            api_version: api_version.to_owned(),
            subresource: text("subresource")?.to_owned(),
            time: if time.is_empty() { None } else { Some(whole_second(time)?) },
            fields: match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::parse(fields).ok()?,
            },
        })
    }

    fn into_value(self) -> Value {
        let mut entry = json!({
            "operation": self.operation.name(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.into_wire(),
        });
        for (name, text) in [("manager", self.manager), ("subresource", self.subresource)] {
            if !text.is_empty() {
                entry[name] = text.into();
            }
        }
        if let Some(time) = self.time {
            entry["time"] = time.into();
        }
        entry
    }
}

impl Operation {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "Apply" => Some(Self::Apply),
            "Update" => Some(Self::Update),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Returns `metadata.managedFields` of an object.
pub fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Takes `metadata.managedFields` out of an object.
pub fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Puts `metadata.managedFields` into an object; none removes it.
pub fn set_managed_fields(object: &mut Value, managed_fields: Option<Value>) {
    let Some(entries) = managed_fields else {
        take_managed_fields(object);
        return;
    };
    let Some(fields) = object.as_object_mut() else { return };
    let metadata = fields.entry("metadata").or_insert(Value::Null);
    // An applier may just have given up all there was.
    if metadata.is_null() {
        *metadata = json!({});
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

/// Returns a copy of an object without its `managedFields`, which may be its larger half.
pub fn without_managed_fields(object: &Value) -> Value {
    let Some(fields) = object.as_object() else { return object.clone() };
    let keep = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let rest = metadata.iter().filter(|(name, _)| *name != "managedFields");
            let rest: Map<String, Value> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
            (name.clone(), Value::Object(rest))
        }
        _ => (name.clone(), value.clone()),
    };
    Value::Object(fields.iter().map(keep).collect())
}

fn whole_second(time: &str) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Some(Timestamp::from_second(time.as_second()).ok()?.to_string())
}
