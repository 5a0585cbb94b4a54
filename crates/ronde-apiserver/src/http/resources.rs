//! Requests for resources: from path and method to a verb.

use axum::{
    body::Body,
    extract::{Request, State},
};
use futures::StreamExt as _;
use http::{Method, StatusCode, header};

use super::{
    Asked,
    negotiate::Form,
    no_such_method, no_such_resource, page_not_found,
    query::{ListOptions, WriteOptions, parse_revision},
    reply::{self, Encoder, Reply},
    target::Target,
};
use crate::{
    api::Api,
    error::{ApiError, Subject},
    nodes,
    serve::Patience,
    verbs::{Call, Shown, body::decode_as, delete::DeleteOptions, filter::Filter, list, meta, review, watch},
};

/// Answers every request that is not for a document, and counts it.
pub async fn handle(State(api): State<Api>, request: Request) -> Reply {
    let method = request.method().clone();
    let answer = answer(api.clone(), &method, request).await;
    api.requests().count(&method, answer.status());
    answer
}

async fn answer(api: Api, method: &Method, request: Request) -> Reply {
    let path = request.uri().path().to_owned();
    let Some(target) = Target::parse(&path) else { return page_not_found() };
    if *method == Method::HEAD {
        return reply::error(&no_such_method());
    }
    if !api.registry().has_group(&target.group) && !review::has_group(&target.group) {
        return page_not_found();
    }
    let registry = api.registry();
    let resource = registry.find(&target.group, &target.version, &target.plural);
    // Groups of custom resources have no handler of their own for what they do not serve.
    let misplaced = resource.is_none_or(|resource| !resource.info.namespaced && !target.namespace.is_empty());
    if misplaced && registry.is_custom_group(&target.group) {
        return page_not_found();
    }
    let deprecation = resource.and_then(|resource| resource.deprecation()).map(str::to_owned);
    let answer = if nodes::is_for_node(&target) {
        ask_node(api, method, target, request).await
    } else {
        match Asked::read(request).await {
            Ok(asked) => dispatch(api, method, target, &asked).await,
            Err(error) => Err(error),
        }
    };
    let mut answer = answer.unwrap_or_else(|error| reply::error(&error));
    reply::warn_first(&mut answer, deprecation);
    answer
}

async fn dispatch(api: Api, method: &Method, target: Target, asked: &Asked) -> Result<Reply, ApiError> {
    if target.group.is_empty() && target.plural == "bindings" && *method == Method::POST {
        return bind(api, target, asked).await;
    }
    if let Some(kind) = review::find(&target) {
        if method != Method::POST || !target.name.is_empty() {
            return Err(no_such_method());
        }
        let answer = review::answer(&api, kind, &target, asked)?;
        return Ok(reply::json_bytes(StatusCode::CREATED, answer.to_string().into_bytes()));
    }
    let call = find(api, target, asked)?;
    match (call.target.subresource.as_str(), call.target.name.is_empty()) {
        ("", true) => on_collection(call, method, asked).await,
        ("", false) => on_object(call, method, asked).await,
        _ => on_subresource(call, method, asked).await,
    }
}

/// Finds the resource that a path names.
fn find(api: Api, target: Target, asked: &Asked) -> Result<Call, ApiError> {
    let registry = api.registry();
    let resource = registry.find(&target.group, &target.version, &target.plural).ok_or_else(no_such_resource)?.clone();
    let in_namespace = !target.namespace.is_empty();
    let misplaced = if resource.info.namespaced { !in_namespace && !target.name.is_empty() } else { in_namespace };
    let unknown = !target.subresource.is_empty() && resource.info.subresource(&target.subresource).is_none();
    if misplaced || (unknown && !resource.is_custom()) {
        return Err(no_such_resource());
    }
    if unknown {
        let info = &resource.info;
        return Err(ApiError::not_found(Subject { group: &info.group, what: &info.plural, name: &target.name }));
    }
    Ok(Call { api, resource, target, user: asked.user.clone(), options: WriteOptions::default() })
}

async fn on_collection(mut call: Call, method: &Method, asked: &Asked) -> Result<Reply, ApiError> {
    match *method {
        Method::GET => read_many(call, asked).await,
        Method::POST if call.resource.info.namespaced != call.target.namespace.is_empty() => {
            call.options = WriteOptions::parse(&asked.query, "CreateOptions")?;
            let encoder = encoder(&call, asked)?;
            let body = call.decode(asked.content_type(), &asked.body)?;
            let done = call.create(body).await?;
            Ok(encoder.done(&call.resource, &done))
        }
        Method::DELETE if call.resource.info.verbs.contains(&"deletecollection") => delete_many(call, asked).await,
        _ => Err(no_such_method()),
    }
}

async fn on_object(mut call: Call, method: &Method, asked: &Asked) -> Result<Reply, ApiError> {
    let encoder = encoder(&call, asked)?;
    let done = match *method {
        Method::GET if call.target.watch => return read_many(call, asked).await,
        Method::GET => {
            check_version(asked)?;
            form(asked, true)?.check_count(false, &call.resource.info.kind)?;
            return Ok(encoder.object(StatusCode::OK, &call.resource, &Shown::Stored(call.find()?)));
        }
        Method::PUT => {
            call.options = WriteOptions::parse(&asked.query, "UpdateOptions")?;
            let body = call.decode(asked.content_type(), &asked.body)?;
            call.update(body).await?
        }
        Method::PATCH => patch(&mut call, asked).await?,
        Method::DELETE => {
            let options = delete_options(asked)?;
            call.delete(&options).await?
        }
        _ => return Err(no_such_method()),
    };
    Ok(encoder.done(&call.resource, &done))
}

async fn on_subresource(mut call: Call, method: &Method, asked: &Asked) -> Result<Reply, ApiError> {
    let verb = subresource_verb(&call, method)?;
    match (call.target.subresource.as_str(), verb) {
        ("status", _) => on_object(call, method, asked).await,
        ("scale", _) => {
            let encoder = Encoder::new(call.api.world().clone(), form(asked, true)?, &asked.query)?;
            call.options =
                WriteOptions::parse(&asked.query, if verb == "patch" { "PatchOptions" } else { "UpdateOptions" })?;
            let scale = call.scale(verb, asked.content_type(), &asked.body).await?;
            Ok(encoder.scale(&call.resource, scale))
        }
        _ => {
            call.options = WriteOptions::parse(&asked.query, "CreateOptions")?;
            let (status, value) = call.subresource(asked.content_type(), &asked.body).await?;
            let encoder = Encoder::new(call.api.world().clone(), form(asked, false)?, &asked.query)?;
            Ok(if value.is_null() { reply::empty(status) } else { encoder.value(status, &value) })
        }
    }
}

/// Returns the verb that a method means, if the subresource has it.
fn subresource_verb(call: &Call, method: &Method) -> Result<&'static str, ApiError> {
    let verb = match *method {
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::POST => "create",
        _ => return Err(no_such_method()),
    };
    let known = call.resource.info.subresource(&call.target.subresource).ok_or_else(no_such_resource)?;
    if known.verbs.contains(&verb) { Ok(verb) } else { Err(no_such_method()) }
}

/// Hands a request for logs, a terminal or a port to the node of its pod, connection and all.
async fn ask_node(api: Api, method: &Method, target: Target, request: Request) -> Result<Reply, ApiError> {
    let (parts, body) = request.into_parts();
    let asked = Asked::without_body(parts.clone());
    let stopping = api.stopping().clone();
    let call = find(api, target, &asked)?;
    subresource_verb(&call, method)?;
    let Some((door, ask)) = call.for_node(&asked.query)? else { return Ok(reply::empty(StatusCode::NO_CONTENT)) };
    ask.what.check_request(&parts.headers)?;
    if let Some(patience) = parts.extensions.get::<Patience>() {
        patience.grant();
    }
    let answer = door.ask(ask, Request::from_parts(parts, body)).await;
    // A log that is followed would otherwise hold the server when it is to stop.
    Ok(answer.map(|body| Body::from_stream(body.into_data_stream().take_until(stopping.cancelled_owned()))))
}

/// The older way to bind a pod: the name is in the body.
async fn bind(api: Api, mut target: Target, asked: &Asked) -> Result<Reply, ApiError> {
    let body = decode_as(asked.content_type(), &asked.body, "Binding")?;
    "pods".clone_into(&mut target.plural);
    "binding".clone_into(&mut target.subresource);
    meta::text(&body.value, "name").clone_into(&mut target.name);
    let call = find(api, target, asked)?;
    on_subresource(call, &Method::POST, asked).await
}

async fn patch(call: &mut Call, asked: &Asked) -> Result<crate::verbs::Done, ApiError> {
    call.options = WriteOptions::parse(&asked.query, "PatchOptions")?;
    call.patch(asked.content_type(), &asked.body).await
}

async fn read_many(call: Call, asked: &Asked) -> Result<Reply, ApiError> {
    let mut options = ListOptions::parse(&asked.query)?;
    options.watch |= call.target.watch;
    let filter = Filter::new(&call.resource, &call.target, &options)?;
    let encoder = encoder(&call, asked)?;
    if !options.watch {
        form(asked, true)?.check_count(true, &call.resource.info.kind)?;
        let page = list::list(&call.api, &call.resource, &filter, &options).await?;
        return Ok(encoder.list(&call.resource, &page));
    }
    let stream = watch::watch(call.api, call.resource, filter, &options, encoder).await?;
    let mut answer = Reply::new(Body::from_stream(stream));
    answer.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// Deletes what a list would show, and answers with that list.
async fn delete_many(call: Call, asked: &Asked) -> Result<Reply, ApiError> {
    let list_options = ListOptions::parse(&asked.query)?;
    let filter = Filter::new(&call.resource, &call.target, &list_options)?;
    let encoder = encoder(&call, asked)?;
    let options = delete_options(asked)?;
    let page = list::list(&call.api, &call.resource, &filter, &list_options).await?;
    for object in &page.objects {
        let mut one = call.clone();
        one.target.namespace = object.place.namespace.to_string();
        one.target.name = object.place.name.to_string();
        match one.delete(&options).await {
            Err(error) if error.reason == "NotFound" => {}
            other => drop(other?),
        }
    }
    Ok(encoder.list(&call.resource, &page))
}

fn delete_options(asked: &Asked) -> Result<DeleteOptions, ApiError> {
    if asked.body.is_empty() {
        return DeleteOptions::parse(None, &asked.query);
    }
    let body = decode_as(asked.content_type(), &asked.body, "DeleteOptions").map_err(delete_options_error)?;
    let kind = body.value["kind"].as_str().unwrap_or("DeleteOptions");
    if kind != "DeleteOptions" {
        let version = body.value["apiVersion"].as_str().unwrap_or_default();
        let why =
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\"");
        return Err(ApiError::new(500, "", why));
    }
    DeleteOptions::parse(Some(&body.value), &asked.query)
}

/// The real server says less about a malformed body of a delete than of other requests.
fn delete_options_error(error: ApiError) -> ApiError {
    let start = error.message.find("couldn't get version/kind");
    let end = error.message.rfind(" (");
    match (start, end) {
        (Some(start), Some(end)) if start < end => ApiError::new(500, "", &error.message[start..end]),
        _ => error,
    }
}

/// A get may name a version, and then it must be one; whatever it is, the answer is the newest.
fn check_version(asked: &Asked) -> Result<(), ApiError> {
    parse_revision(asked.query.get("resourceVersion")).map(drop).map_err(|error| ApiError::new(500, "", error.message))
}

fn form(asked: &Asked, tables: bool) -> Result<Form, ApiError> {
    Form::choose(asked.accept(), tables)
}

fn encoder(call: &Call, asked: &Asked) -> Result<Encoder, ApiError> {
    Encoder::new(call.api.world().clone(), form(asked, true)?, &asked.query)
}
