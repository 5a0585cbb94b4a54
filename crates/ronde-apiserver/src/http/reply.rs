//! Answers: objects, lists, tables, events and errors as bytes.

use axum::body::{Body, Bytes};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    negotiate::{Form, Shape},
    query::Query,
};
use crate::{
    clock_and_ids::ClockAndIds,
    error::ApiError,
    registry::Resource,
    store::{Event, Object},
    table::{self, Columns, IncludeObject, ListMeta},
    verbs::{
        Done, Shown, WriteOutcome,
        list::Page,
        watch::{EventEncoder, event_line},
    },
};

pub type Reply = Response<Body>;

/// Turns objects of one resource into the form that a client asked for.
pub struct Encoder {
    form: Form,
    pretty: bool,
    include: IncludeObject,
    clock_and_ids: ClockAndIds,
    /// Whether the columns of a table are still to be sent (on a watch only the first event has them).
    header_due: bool,
}

impl Encoder {
    /// # Errors
    /// If the query asks for something that tables do not have.
    pub fn new(clock_and_ids: ClockAndIds, form: Form, query: &Query) -> Result<Self, ApiError> {
        let include = IncludeObject::parse(Some(query.get("includeObject")))?;
        Ok(Self { form, pretty: query.flag("pretty"), include, clock_and_ids, header_due: true })
    }

    pub fn object(&self, status: StatusCode, resource: &Resource, shown: &Shown) -> Reply {
        match (shown, self.form.shape) {
            (Shown::Stored(object), Shape::Whole) if self.is_plain() && resource.serves_raw(object) => {
                let mut bytes = Vec::with_capacity(resource.head.len() + object.raw().len() + 1);
                object.write_json(&resource.head, &mut bytes);
                json_bytes(status, bytes)
            }
            (Shown::Stored(object), _) => self.value(status, &self.shaped(resource, resource.show(object))),
            (Shown::Value(value), Shape::Whole) => self.value(status, value),
            (Shown::Value(value), _) => self.value(status, &self.shaped(resource, value.clone())),
        }
    }

    pub fn list(&self, resource: &Resource, page: &Page) -> Reply {
        if self.is_plain() && self.form.shape == Shape::Whole {
            return json_bytes(StatusCode::OK, plain_list(resource, page));
        }
        let objects: Vec<Value> = page.objects.iter().map(|object| resource.show(object)).collect();
        let revision = page.revision.to_string();
        let meta = ListMeta {
            resource_version: &revision,
            continue_token: &page.resume,
            remaining_item_count: page.remaining.map(|count| count as u64),
        };
        let value = match self.form.shape {
            Shape::Table => self.table(&resource.columns, meta, &objects.iter().collect::<Vec<_>>(), true),
            Shape::Metadata | Shape::MetadataList => {
                let items: Vec<Value> = objects.into_iter().map(|object| self.partial(object)).collect();
                let version = self.form.meta_version();
                json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": meta, "items": items})
            }
            Shape::Whole => {
                let (kind, api_version) = (format!("{}List", resource.info.kind), resource.info.api_version());
                json!({"kind": kind, "apiVersion": api_version, "metadata": meta, "items": objects})
            }
        };
        self.value(StatusCode::OK, &value)
    }

    /// Whether a watch sends an object as it is stored.
    fn sends_raw(&self, resource: &Resource, object: &Object) -> bool {
        self.form.shape == Shape::Whole && resource.serves_raw(object)
    }

    /// The answer to a read or write of a scale.
    pub fn scale(&self, resource: &Resource, scale: Value) -> Reply {
        let value = match self.form.shape {
            Shape::Whole => scale,
            Shape::Metadata | Shape::MetadataList => self.partial(scale),
            Shape::Table => {
                let columns =
                    if resource.is_custom() { Columns::custom_scale() } else { table::columns("autoscaling", "Scale") };
                self.table(&columns, ListMeta::of_object(&scale), &[&scale], true)
            }
        };
        self.value(StatusCode::OK, &value)
    }

    pub fn done(&self, resource: &Resource, done: &Done) -> Reply {
        let mut reply = self.outcome(resource, &done.outcome);
        warn(&mut reply, &done.warnings);
        reply
    }

    pub fn outcome(&self, resource: &Resource, outcome: &WriteOutcome) -> Reply {
        match outcome {
            WriteOutcome::Created(shown) => self.object(StatusCode::CREATED, resource, shown),
            WriteOutcome::Updated(shown) | WriteOutcome::Deleting(shown) => {
                self.object(StatusCode::OK, resource, shown)
            }
            WriteOutcome::Deleted(status) => self.value(StatusCode::OK, status),
        }
    }

    pub fn value(&self, status: StatusCode, value: &Value) -> Reply {
        if self.form.yaml {
            let text = serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string());
            return with_type(status, "application/yaml", text.into_bytes());
        }
        let bytes = if self.pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
        json_bytes(status, bytes.expect("a JSON value serialises into memory"))
    }

    fn is_plain(&self) -> bool {
        !self.pretty && !self.form.yaml
    }

    fn partial(&self, object: Value) -> Value {
        let metadata = match object {
            Value::Object(mut fields) => fields.remove("metadata").unwrap_or_default(),
            _ => Value::Null,
        };
        json!({"kind": "PartialObjectMetadata", "apiVersion": self.form.meta_version(), "metadata": metadata})
    }

    fn shaped(&self, resource: &Resource, object: Value) -> Value {
        match self.form.shape {
            Shape::Whole => object,
            Shape::Metadata | Shape::MetadataList => self.partial(object),
            Shape::Table => self.table(&resource.columns, ListMeta::of_object(&object), &[&object], self.header_due),
        }
    }

    fn table(&self, columns: &Columns, meta: ListMeta<'_>, objects: &[&Value], with_header: bool) -> Value {
        let options = table::Options { include_object: self.include, with_header, now: self.clock_and_ids.now() };
        let table = table::table(columns, meta, objects, options);
        let table = if self.form.beta { table.in_v1beta1() } else { table };
        serde_json::to_value(table).expect("a table serialises into memory")
    }
}

impl EventEncoder for Encoder {
    fn event(&mut self, kind: &str, resource: &Resource, object: &Object, out: &mut Vec<u8>) {
        if self.sends_raw(resource, object) {
            return raw_line(kind, resource, object, out);
        }
        let shown = self.shaped(resource, resource.show(object));
        self.header_due = false;
        event_line(kind, &shown, out);
    }

    fn line(&mut self, kind: &str, resource: &Resource, event: &Event) -> Bytes {
        let mut line = Vec::new();
        if !self.sends_raw(resource, &event.object) {
            self.event(kind, resource, &event.object, &mut line);
            return line.into();
        }
        let make = || {
            raw_line(kind, resource, &event.object, &mut line);
            line.into()
        };
        event.line(|made| is_raw_line(made, kind, resource), make)
    }

    fn bookmark(&mut self, resource: &Resource, object: Value, out: &mut Vec<u8>) {
        let shown = if self.form.shape == Shape::Whole { object } else { self.shaped(resource, object) };
        event_line("BOOKMARK", &shown, out);
    }
}

const LINE_HEAD: &[u8] = br#"{"type":""#;
const LINE_OBJECT: &[u8] = br#"","object":"#;
const LINE_TAIL: &[u8] = b"}\n";

/// The hot path of watches: stored bytes between a head and a tail.
fn raw_line(kind: &str, resource: &Resource, object: &Object, out: &mut Vec<u8>) {
    let around = LINE_HEAD.len() + kind.len() + LINE_OBJECT.len() + resource.head.len() + LINE_TAIL.len();
    out.reserve(around + object.raw().len());
    out.extend_from_slice(LINE_HEAD);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(LINE_OBJECT);
    object.write_json(&resource.head, out);
    out.extend_from_slice(LINE_TAIL);
}

/// Whether a line of [`raw_line`] is of this kind and of this version of the resource.
fn is_raw_line(line: &[u8], kind: &str, resource: &Resource) -> bool {
    let object = line.strip_prefix(LINE_HEAD).and_then(|line| line.strip_prefix(kind.as_bytes()));
    let object = object.and_then(|line| line.strip_prefix(LINE_OBJECT));
    object.is_some_and(|object| object.starts_with(resource.head.as_bytes()))
}

/// The hot path of lists: stored bytes between a head and a tail.
fn plain_list(resource: &Resource, page: &Page) -> Vec<u8> {
    let size: usize = page.objects.iter().map(|object| object.raw().len() + resource.head.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 512);
    let info = &resource.info;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.resume.is_empty() || resource.is_custom() {
        metadata["continue"] = page.resume.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let head = format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{metadata},"items":["#,
        info.kind,
        info.api_version()
    );
    out.extend_from_slice(head.as_bytes());
    for (index, object) in page.objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match (resource.serves_raw(object), resource.is_custom()) {
            (true, true) => object.write_json(&resource.head, &mut out),
            // Items of built-in lists carry no type: the list's kind says it.
            (true, false) => out.extend_from_slice(object.raw()),
            (false, _) => out.extend_from_slice(resource.show(object).to_string().as_bytes()),
        }
    }
    out.extend_from_slice(b"]}");
    out
}

/// Adds `Warning` headers; clients show them to the user.
pub fn warn(reply: &mut Reply, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            reply.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Puts a warning before those that are there.
pub fn warn_first(reply: &mut Reply, warning: Option<String>) {
    let Some(warning) = warning else { return };
    let others: Vec<HeaderValue> = reply.headers().get_all(header::WARNING).iter().cloned().collect();
    reply.headers_mut().remove(header::WARNING);
    warn(reply, &[warning]);
    for other in others {
        reply.headers_mut().append(header::WARNING, other);
    }
}

pub fn error(error: &ApiError) -> Reply {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = json_bytes(status, error.status().to_string().into_bytes());
    let retry = error.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64());
    if let Some(seconds) = retry {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    reply
}

pub fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

pub fn json_bytes(status: StatusCode, mut bytes: Vec<u8>) -> Reply {
    bytes.push(b'\n');
    with_type(status, "application/json", bytes)
}

pub fn with_type(status: StatusCode, content_type: &'static str, bytes: Vec<u8>) -> Reply {
    let mut reply = Response::new(Body::from(bytes));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}
