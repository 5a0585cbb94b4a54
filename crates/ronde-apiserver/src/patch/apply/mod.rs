//! Server-side apply, and the bookkeeping of field owners in `metadata.managedFields`.
//!
//! [`apply`] merges a configuration into an object; [`track_update`] follows every other write. Both are pure: the
//! caller decodes before, and defaults, validates and stores after. The semantics are those of the real server's field
//! manager, with one simplification: an owner's fields are the same in all versions of a kind, since nothing is
//! converted here.
//!
//! Sets of fields stay in the form of `fieldsV1` throughout (`fieldset.rs`), and all walks ask `place.rs` how the
//! schema divides a value.

mod compare;
mod conflict;
mod element;
mod fieldset;
mod last_applied;
mod managed;
mod merge;
mod place;
mod prune;
mod scale;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::LazyLock;

use serde_json::{Value, json};

pub use self::scale::{from_scale, to_scale};
use self::{
    compare::{Diff, compare, leaves, same},
    conflict::Conflict,
    fieldset::FieldSet,
    managed::{Entry, Managed, Operation},
    merge::merge,
    place::Place,
};
use crate::{error::ApiError, schema::Node};

/// What is written to, as far as owners of fields are concerned: a resource or a subresource in one version.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Of the whole object, with the fields of `metadata`.
    pub schema: Node<'a>,
    /// As in `apps/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// `status`, `scale` …, or empty.
    pub subresource: &'a str,
    /// The fields that a write here cannot change, as in `status` or `metadata.labels`: nobody comes to own them.
    pub reset_fields: &'a [&'a str],
    /// What an object of this kind is before anything is set: the parts that are always there (`spec`, `status`) in
    /// built-in kinds, `{}` for custom resources.
    pub empty: &'a Value,
}

/// Who writes, when, and how insistently.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// RFC 3339 in seconds, with `Z`.
    pub now: &'a str,
    /// For [`apply`]: takes fields over from other owners instead of failing.
    pub force: bool,
}

/// The manager of what was there before the first apply to an object without owners.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The fields that nobody owns.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let fields = json!({
        "f:apiVersion": {}, "f:kind": {},
        "f:metadata": {
            ".": {}, "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {}, "f:uid": {},
            "f:clusterName": {}, "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {},
        },
    });
    FieldSet::from_wire(fields.as_object().cloned().unwrap_or_default())
});

/// Applies a configuration to an object (none: creates it) and returns the object with its new owners.
///
/// The result is neither defaulted nor validated; nulls of the configuration may stand in it.
///
/// # Errors
/// `Conflict` if others own fields that would change; otherwise what is wrong with the configuration.
pub fn apply(
    target: &Target<'_>,
    writer: &Writer<'_>,
    live: Option<&Value>,
    applied: &Value,
) -> Result<Value, ApiError> {
    check(target, applied)?;
    let place = Place::new(target.schema);
    let live = live.unwrap_or(target.empty);
    let mut managed = Managed::stored(live);
    if managed.is_empty() {
        let diff = changes(target, target.empty, live);
        managed.record_update(&diff, target.entry(BEFORE_FIRST_APPLY, Operation::Update, writer.now));
    }
    managed.reconcile(place);

    // 1. Own what is applied now, let go what was applied before.
    let mut own = target.entry(writer.manager, Operation::Apply, writer.now);
    own.fields = target.ownable(leaves(applied, place));
    let last = managed.0.iter().position(|entry| entry.is_same_manager(&own)).map(|at| managed.0.remove(at));

    // 2. Merge.
    let mut object = merge(managed::without_managed_fields(live), applied, place);
    if let Some(last) = &last {
        let mut owned = managed.union();
        owned.add(&own.fields);
        object = prune::prune(object, &last.fields, &owned, place);
    }

    // 3. Settle with the others.
    let diff = changes(target, live, &object);
    if !writer.force {
        let conflicts = conflict::find(&managed, &diff);
        refuse(target, writer, live, conflicts)?;
    }
    managed.release(&diff);

    // 4. Write down who owns what.
    if is_unchanged(live, &object) {
        own.time = last.and_then(|last| last.time);
    }
    own.fields.subtract(&UNOWNED);
    managed.0.push(own);
    managed.0.retain(|entry| !entry.fields.is_empty());
    managed::set_managed_fields(&mut object, managed.into_value());
    last_applied::refresh(writer, &mut object, applied);
    Ok(object)
}

/// Sets the owners of `new` after a create, an update, or a patch other than apply, from what it changed in `old`
/// (none: it is created).
///
/// A client may send `managedFields` of its own: an empty list makes the server forget all owners, a malformed one is
/// ignored. Objects without owners stay so until something is applied to them.
pub fn track_update(target: &Target<'_>, writer: &Writer<'_>, old: Option<&Value>, new: &mut Value) {
    let sent = managed::take_managed_fields(new);
    let old = old.unwrap_or(target.empty);
    let sent = sent.filter(|sent| target.subresource.is_empty() && Some(sent) != managed::managed_fields(old));
    let managed = match sent.as_ref().and_then(Value::as_array) {
        Some(entries) if is_reset(entries) => Some(Managed::default()),
        Some(entries) => Managed::sent(entries),
        None => None,
    };

    let is_untracked = match &managed {
        Some(managed) => managed.is_empty(),
        None => managed::managed_fields(old).and_then(Value::as_array).is_none_or(Vec::is_empty),
    };
    if is_untracked && is_stored(old) {
        return;
    }
    let diff = changes(target, old, new);
    let entries = match managed {
        None if diff.is_empty() => managed::managed_fields(old).cloned(),
        managed => {
            let mut managed = managed.unwrap_or_else(|| Managed::stored(old));
            managed.reconcile(Place::new(target.schema));
            managed.record_update(&diff, target.entry(writer.manager, Operation::Update, writer.now));
            managed.into_value()
        }
    };
    managed::set_managed_fields(new, entries);
}

/// Takes back new times in `managedFields` if nothing else has changed, so that the write is none.
///
/// For the end of an update, after defaulting and admission.
pub fn keep_times_if_unchanged(old: &Value, new: &mut Value) {
    let (Some(Value::Array(before)), Some(Value::Array(after))) =
        (managed::managed_fields(old), managed::managed_fields(new))
    else {
        return;
    };
    let is_same_but_times =
        before.len() == after.len() && before.iter().zip(after).all(|(a, b)| is_same_but_time(a, b));
    if is_same_but_times && before != after && is_unchanged(old, new) {
        let before = Value::Array(before.clone());
        managed::set_managed_fields(new, Some(before));
    }
}

impl Target<'_> {
    fn entry(&self, manager: &str, operation: Operation, now: &str) -> Entry {
        Entry {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: Some(now.to_owned()),
            fields: FieldSet::default(),
        }
    }

    fn ownable(&self, mut fields: FieldSet) -> FieldSet {
        for path in self.reset_fields {
            let path: Vec<&str> = path.split('.').collect();
            fields.remove_tree(&path);
        }
        fields
    }
}

/// Returns what changed between two objects, as far as anyone may own it.
fn changes(target: &Target<'_>, old: &Value, new: &Value) -> Diff {
    let mut diff = compare(old, new, Place::new(target.schema));
    for set in diff.sets_mut() {
        *set = target.ownable(std::mem::take(set));
        set.subtract(&UNOWNED);
    }
    diff
}

/// Checks that a configuration is one for this target.
fn check(target: &Target<'_>, applied: &Value) -> Result<(), ApiError> {
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let named = format!("{group}/{version}, Kind={kind}");
    if (api_version, kind) != (target.api_version, target.kind) {
        return Err(ApiError::bad_request(format!("invalid object type: {named}")));
    }
    if managed::managed_fields(applied).is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    validate::validate(applied, Place::new(target.schema)).map_err(|why| {
        let metadata = |name: &str| applied["metadata"][name].as_str().unwrap_or_default();
        let (namespace, name) = (metadata("namespace"), metadata("name"));
        ApiError::new(500, "", format!("failed to create typed patch object ({namespace}/{name}; {named}): {why}"))
    })
}

/// Fails if conflicts are left after those that `kubectl apply` without `--server-side` has caused itself.
fn refuse(
    target: &Target<'_>,
    writer: &Writer<'_>,
    live: &Value,
    mut conflicts: Vec<Conflict<'_>>,
) -> Result<(), ApiError> {
    if conflicts.is_empty() {
        return Ok(());
    }
    if let Some(allowed) = last_applied::allowed(target, writer, live) {
        for conflict in &mut conflicts {
            conflict.fields.subtract(&allowed);
        }
        conflicts.retain(|conflict| !conflict.fields.is_empty());
    }
    if conflicts.is_empty() { Ok(()) } else { Err(conflict::error(&conflicts)) }
}

/// Whether a client wants all owners forgotten: it sent an empty list, or one empty entry.
fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [Value::Object(entry)] => entry.values().all(|value| value.is_null() || value == ""),
        _ => false,
    }
}

fn is_stored(object: &Value) -> bool {
    object["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// Whether two objects are equal but for their `managedFields`.
fn is_unchanged(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return same(old, new) };
    old.len() == new.len()
        && old.iter().all(|(name, old)| match (new.get(name), name.as_str()) {
            (Some(new), "metadata") => is_same_metadata(old, new),
            (Some(new), _) => same(old, new),
            (None, _) => false,
        })
}

fn is_same_but_time(a: &Value, b: &Value) -> bool {
    let rest = |entry: &Value| entry.as_object().map_or(0, |entry| entry.keys().filter(|name| *name != "time").count());
    let is_same = |(name, value): (&String, &Value)| name == "time" || b.get(name) == Some(value);
    a.as_object().is_some_and(|entry| entry.iter().all(is_same)) && rest(a) == rest(b)
}

fn is_same_metadata(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return same(old, new) };
    let is_one_sided = |name: &String| !old.contains_key(name) && name != "managedFields";
    let kept =
        |(name, old): (&String, &Value)| name == "managedFields" || new.get(name).is_some_and(|new| same(old, new));
    old.iter().all(kept) && !new.keys().any(is_one_sided)
}
