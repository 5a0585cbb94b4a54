//! The parameters of requests, as the documents list them. What the server does with them is elsewhere.

use serde_json::{Value, json};

/// (name, type, description).
type Row = (&'static str, &'static str, &'static str);

const DRY_RUN: Row = ("dryRun", "string", "With `All`, the request is checked and answered but nothing is stored.");
const FIELD_MANAGER: Row = ("fieldManager", "string", "Who makes this change, for managed fields. Required to apply.");
const FIELD_VALIDATION: Row = (
    "fieldValidation",
    "string",
    "What to do about unknown and duplicate fields: `Ignore`, `Warn` (default) or `Strict`.",
);
const CONTINUE: Row = ("continue", "string", "Where to go on with a list, from the `continue` of its last part.");
const FIELD_SELECTOR: Row = ("fieldSelector", "string", "Which objects to take, by their fields.");
const LABEL_SELECTOR: Row = ("labelSelector", "string", "Which objects to take, by their labels.");
const LIMIT: Row = ("limit", "integer", "How many objects to return at most.");
const RESOURCE_VERSION: Row = ("resourceVersion", "string", "The version to list or watch from.");
const VERSION_MATCH: Row =
    ("resourceVersionMatch", "string", "How `resourceVersion` is meant: `Exact` or `NotOlderThan`.");
const INITIAL_EVENTS: Row = ("sendInitialEvents", "boolean", "Whether a watch begins with what is there already.");
const TIMEOUT: Row = ("timeoutSeconds", "integer", "How long a list or watch may last.");
const GRACE_PERIOD: Row = ("gracePeriodSeconds", "integer", "How long the object has to end; 0 for at once.");
const ORPHAN: Row = ("orphanDependents", "boolean", "Deprecated: use `propagationPolicy`.");
const PROPAGATION: Row =
    ("propagationPolicy", "string", "What becomes of dependents: `Orphan`, `Background` or `Foreground`.");

const LIST: &[Row] = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks."),
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    VERSION_MATCH,
    INITIAL_EVENTS,
    TIMEOUT,
    ("watch", "boolean", "Whether to go on with changes instead of returning a list."),
];
const WRITE: &[Row] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: &[Row] = &[
    DRY_RUN,
    FIELD_MANAGER,
    FIELD_VALIDATION,
    ("force", "boolean", "Whether to apply even where others own the fields."),
];
const DELETE: &[Row] = &[DRY_RUN, GRACE_PERIOD, ORPHAN, PROPAGATION];
const DELETE_COLLECTION: &[Row] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    RESOURCE_VERSION,
    VERSION_MATCH,
    INITIAL_EVENTS,
    TIMEOUT,
];

/// The query parameters of an action (`list`, `post`, …).
pub(super) fn of_action(action: &str) -> Vec<Value> {
    let rows = match action {
        "list" => LIST,
        "post" | "put" => WRITE,
        "patch" => PATCH,
        "delete" => DELETE,
        "deletecollection" => DELETE_COLLECTION,
        _ => &[],
    };
    rows.iter().map(query).collect()
}

/// The parameters that all operations of a path share: `pretty`, and the parts of the path in braces.
pub(super) fn of_path(path: &str) -> Vec<Value> {
    let parts = [("name", "The name of the object."), ("namespace", "The namespace of the object.")];
    let in_path = parts.into_iter().filter(|(name, _)| path.contains(&format!("{{{name}}}")));
    let string = json!({"type": "string", "uniqueItems": true});
    let parameter = |(name, text): (&str, &str)| {
        let schema = &string;
        json!({"name": name, "in": "path", "description": text, "required": true, "schema": schema})
    };
    let pretty = query(&("pretty", "string", "With `true`, the answer is indented."));
    in_path.map(parameter).chain([pretty]).collect()
}

fn query((name, kind, description): &Row) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": true}})
}
