//! Events, which the core group and `events.k8s.io` show in two forms of one object.
//!
//! Converting between the forms is the caller's; the rules here are for the form in which a client wrote it, since the
//! newer group is stricter.

use serde_json::Value;

use super::{
    Rules,
    errors::Errors,
    meta,
    path::Path,
    read::{number, text},
};
use crate::names::{is_dns1123_subdomain, is_qualified_name};

/// What is particular about events as the core group shows them.
pub const CORE: Rules =
    Rules { create_on_update: true, validate: |event, _, errors| legacy(event, &CORE_NAMES, errors), ..Rules::PLAIN };

/// What is particular about events as `events.k8s.io` shows them.
pub const EVENTS: Rules = Rules { validate: validate_events, ..CORE };

/// How the two groups call what is the same.
struct Names {
    object: &'static str,
    message: &'static str,
    controller: &'static str,
    /// The name of the controller in messages.
    shown_controller: &'static str,
    count: &'static str,
    first: &'static str,
    last: &'static str,
    source: &'static str,
}

const CORE_NAMES: Names = Names {
    object: "involvedObject",
    message: "message",
    controller: "reportingComponent",
    shown_controller: "reportingComponent",
    count: "count",
    first: "firstTimestamp",
    last: "lastTimestamp",
    source: "source",
};

const EVENTS_NAMES: Names = Names {
    object: "regarding",
    message: "note",
    controller: "reportingController",
    shown_controller: "reportingController",
    count: "deprecatedCount",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    source: "deprecatedSource",
};

const SHORT_MAX: usize = 128;
const MESSAGE_MAX: usize = 1024;

fn legacy(event: &Value, names: &Names, errors: &mut Errors) {
    let namespace = text(&event["metadata"]["namespace"]);
    let object = text(&event[names.object]["namespace"]);
    let is_old = event["eventTime"].is_null();
    let fits = match (is_old, object.is_empty()) {
        (true, true) => matches!(namespace, "" | "default"),
        (true, false) => namespace == object,
        (false, true) => matches!(namespace, "default" | "kube-system"),
        (false, false) => true,
    };
    if !fits {
        errors.invalid(&Path::new("involvedObject.namespace"), object, "does not match event.namespace");
    }
    if !is_old {
        new_style(event, names, errors);
    }
    errors.names(&Path::new("namespace"), namespace, is_dns1123_subdomain(namespace));
}

fn new_style(event: &Value, names: &Names, errors: &mut Errors) {
    let controller = text(&event[names.controller]);
    let at = Path::new(names.shown_controller);
    if controller.is_empty() {
        errors.required(&at, "");
    }
    errors.names(&at, controller, is_qualified_name(controller));
    for field in ["reportingInstance", "action", "reason"] {
        let value = text(&event[field]);
        if value.is_empty() {
            errors.required(&Path::new(field), "");
        }
        at_most(value, SHORT_MAX, field, errors);
    }
    at_most(text(&event[names.message]), MESSAGE_MAX, "message", errors);
}

fn at_most(value: &str, bytes_max: usize, field: &str, errors: &mut Errors) {
    if value.len() > bytes_max {
        errors.invalid(&Path::new(field), "", format!("can have at most {bytes_max} characters"));
    }
}

fn validate_events(event: &Value, old: Option<&Value>, errors: &mut Errors) {
    let names = &EVENTS_NAMES;
    legacy(event, names, errors);
    if let Some(old) = old {
        meta::updated(event, old, errors);
        meta::standard_finalizers(event, errors);
        if event["series"] != old["series"] {
            series(&event["series"], errors);
        }
        unchanged(event, old, names, errors);
        return;
    }
    meta::created(event, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(event, errors);
    series(&event["series"], errors);
    if event["eventTime"].is_null() {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
    }
    let source = &event[names.source];
    let set = [
        ("firstTimestamp", !event[names.first].is_null()),
        ("lastTimestamp", !event[names.last].is_null()),
        ("count", number(&event[names.count]) != 0),
        ("source", ["component", "host"].iter().any(|field| !text(&source[*field]).is_empty())),
    ];
    for (field, _) in set.iter().filter(|(_, is_set)| *is_set) {
        errors.invalid(&Path::new(field), "", "needs to be unset");
    }
}

fn series(series: &Value, errors: &mut Errors) {
    if series.is_null() {
        return;
    }
    if number(&series["count"]) < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// Only the series of an event may change.
fn unchanged(new: &Value, old: &Value, names: &Names, errors: &mut Errors) {
    let fixed = [
        ("involvedObject", names.object),
        ("reason", "reason"),
        ("message", names.message),
        ("source", names.source),
        ("firstTimestamp", names.first),
        ("lastTimestamp", names.last),
        ("count", names.count),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", names.controller),
        ("reportingInstance", "reportingInstance"),
    ];
    for (shown_name, field) in fixed {
        if new[field] != old[field] {
            errors.invalid(&Path::new(shown_name), new[field].clone(), super::errors::IMMUTABLE);
        }
    }
}
