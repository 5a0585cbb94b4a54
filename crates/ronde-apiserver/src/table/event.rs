//! The row of an event, in the words of either group: core and `events.k8s.io` show one and the same event.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age,
    column::{Column, name_column, text_column, wide_column},
    field::{cells, int, name, text, text_or},
};

pub(super) static EVENT: [Column; 10] = [
    text_column("Last Seen", "The time since the event was seen last."),
    text_column("Type", "Normal or Warning."),
    text_column("Reason", "Why it happened, in a word for machines."),
    text_column("Object", "The object that the event is about."),
    wide_column("Subobject", "The part of the object that the event is about."),
    wide_column("Source", "Who reported the event."),
    text_column("Message", "What happened, for people."),
    wide_column("First Seen", "The time since the event was seen first."),
    wide_column("Count", "How often the event was seen."),
    name_column(1),
];

/// The fields whose names differ between the two groups.
struct Fields<'a> {
    first_timestamp: &'a Value,
    last_timestamp: &'a Value,
    count: &'a Value,
    object: &'a Value,
    source: &'a Value,
    controller: &'a Value,
    message: &'a Value,
}

pub(super) fn core(event: &Value, now: Timestamp) -> Vec<Value> {
    let fields = Fields {
        first_timestamp: &event["firstTimestamp"],
        last_timestamp: &event["lastTimestamp"],
        count: &event["count"],
        object: &event["involvedObject"],
        source: &event["source"],
        controller: &event["reportingComponent"],
        message: &event["message"],
    };
    row(event, &fields, now)
}

pub(super) fn events(event: &Value, now: Timestamp) -> Vec<Value> {
    let fields = Fields {
        first_timestamp: &event["deprecatedFirstTimestamp"],
        last_timestamp: &event["deprecatedLastTimestamp"],
        count: &event["deprecatedCount"],
        object: &event["regarding"],
        source: &event["deprecatedSource"],
        controller: &event["reportingController"],
        message: &event["note"],
    };
    row(event, &fields, now)
}

fn row(event: &Value, fields: &Fields<'_>, now: Timestamp) -> Vec<Value> {
    let series = &event["series"];
    let first = age::parse(fields.first_timestamp).map_or(&event["eventTime"], |_| fields.first_timestamp);
    let last = match age::parse(fields.last_timestamp) {
        _ if series.is_object() => &series["lastObservedTime"],
        Some(_) => fields.last_timestamp,
        None => first,
    };
    cells![
        age::since(last, now),
        text(&event["type"]),
        text(&event["reason"]),
        target(fields.object),
        text(&fields.object["fieldPath"]),
        source(fields.source, fields.controller, &event["reportingInstance"]),
        text(fields.message).trim(),
        age::since(first, now),
        count(fields.count, series),
        name(event),
    ]
}

/// A single event of the newer group has no count.
fn count(count: &Value, series: &Value) -> i64 {
    match int(count) {
        _ if series.is_object() => int(&series["count"]),
        0 => 1,
        count => count,
    }
}

fn target(object: &Value) -> String {
    let kind = text(&object["kind"]).to_lowercase();
    match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(source: &Value, controller: &Value, instance: &Value) -> String {
    let component = text_or(&source["component"], text(controller));
    match text_or(&source["host"], text(instance)) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}
