//! Requests for resources: from path and method to a verb.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
};
use futures::StreamExt as _;
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use super::{
    ApiRequest,
    negotiate::Form,
    page_not_found,
    query::{Query, parse_revision},
    reply::{self, Encoder, Reply},
};
use crate::{
    api::Api,
    error::{ApiError, Cause, Subject},
    nodes::{self, What},
    registry::Resource,
    target::Target,
    tls::StallExemption,
    verbs::{
        Call, Done, Shown,
        body::decode_as,
        delete::DeleteOptions,
        filter::Filter,
        list, meta,
        options::{ListOptions, WriteOptions},
        review, watch,
    },
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
        return reply::error(&ApiError::no_such_method());
    }
    let resource = api.registry().find(&target.group, &target.version, &target.plural).cloned();
    if leads_nowhere(&api, &target, resource.as_deref()) {
        return page_not_found();
    }
    let deprecation = resource.as_ref().and_then(|resource| resource.deprecation()).map(str::to_owned);
    let answer = if nodes::is_for_node(&target) {
        ask_node(api, resource, method, target, request).await
    } else {
        match ApiRequest::read(request).await {
            Ok(asked) => dispatch(api, resource, method, target, &asked).await,
            Err(error) => Err(error),
        }
    };
    let mut answer = answer.unwrap_or_else(|error| reply::error(&error));
    reply::warn_first(&mut answer, deprecation);
    answer
}

/// Whether nobody at all is behind a path: its group is unknown, or is one of custom resources, which have no handler
/// of their own for what they do not serve.
fn leads_nowhere(api: &Api, target: &Target, resource: Option<&Resource>) -> bool {
    match resource {
        Some(resource) => resource.is_custom() && !resource.info.namespaced && !target.namespace.is_empty(),
        None => {
            let (registry, group) = (api.registry(), target.group.as_str());
            registry.is_custom_group(group) || (!registry.has_group(group) && !review::has_group(group))
        }
    }
}

async fn dispatch(
    api: Api,
    resource: Option<Arc<Resource>>,
    method: &Method,
    target: Target,
    asked: &ApiRequest,
) -> Result<Reply, ApiError> {
    if target.group.is_empty() && target.plural == "bindings" && *method == Method::POST {
        return bind(api, target, asked).await;
    }
    if let Some(review) = review::find(&target) {
        if method != Method::POST || !target.name.is_empty() {
            return Err(ApiError::no_such_method());
        }
        let question = decode_as(asked.content_type(), &asked.body, review.kind())?.value;
        let answer = review::answer(&api, review, &target, &asked.user, question)?;
        return Ok(reply::json_bytes(StatusCode::CREATED, answer.to_string().into_bytes()));
    }
    let call = call(api, resource, target, asked)?;
    match (call.target.subresource.as_str(), call.target.name.is_empty()) {
        ("", true) => on_collection(call, method, asked).await,
        ("", false) => on_object(call, method, asked).await,
        _ => on_subresource(call, method, asked).await,
    }
}

/// Joins a request with the resource that its path names, if the path fits that resource.
fn call(api: Api, resource: Option<Arc<Resource>>, target: Target, asked: &ApiRequest) -> Result<Call, ApiError> {
    let resource = resource.ok_or_else(ApiError::no_such_resource)?;
    let in_namespace = !target.namespace.is_empty();
    let misplaced = if resource.info.namespaced { !in_namespace && !target.name.is_empty() } else { in_namespace };
    let unknown = !target.subresource.is_empty() && resource.info.subresource(&target.subresource).is_none();
    if misplaced || (unknown && !resource.is_custom()) {
        return Err(ApiError::no_such_resource());
    }
    if unknown {
        let info = &resource.info;
        return Err(ApiError::not_found(Subject { group: &info.group, what: &info.plural, name: &target.name }));
    }
    Ok(Call { api, resource, target, user: asked.user.clone(), options: WriteOptions::default() })
}

async fn on_collection(mut call: Call, method: &Method, asked: &ApiRequest) -> Result<Reply, ApiError> {
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
        _ => Err(ApiError::no_such_method()),
    }
}

async fn on_object(mut call: Call, method: &Method, asked: &ApiRequest) -> Result<Reply, ApiError> {
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
        _ => return Err(ApiError::no_such_method()),
    };
    Ok(encoder.done(&call.resource, &done))
}

async fn on_subresource(mut call: Call, method: &Method, asked: &ApiRequest) -> Result<Reply, ApiError> {
    let verb = subresource_verb(&call, method)?;
    match (call.target.subresource.as_str(), verb) {
        ("status", _) => on_object(call, method, asked).await,
        ("scale", _) => {
            let encoder = Encoder::new(call.api.clock_and_ids().clone(), form(asked, true)?, &asked.query)?;
            call.options =
                WriteOptions::parse(&asked.query, if verb == "patch" { "PatchOptions" } else { "UpdateOptions" })?;
            let scale = call.scale(verb, asked.content_type(), &asked.body).await?;
            Ok(encoder.scale(&call.resource, scale))
        }
        _ => {
            call.options = WriteOptions::parse(&asked.query, "CreateOptions")?;
            let outcome = call.subresource(asked.content_type(), &asked.body).await?;
            let encoder = Encoder::new(call.api.clock_and_ids().clone(), form(asked, false)?, &asked.query)?;
            Ok(encoder.outcome(&call.resource, &outcome))
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
        _ => return Err(ApiError::no_such_method()),
    };
    let known = call.resource.info.subresource(&call.target.subresource).ok_or_else(ApiError::no_such_resource)?;
    if known.verbs.contains(&verb) { Ok(verb) } else { Err(ApiError::no_such_method()) }
}

/// Hands a request for logs, a terminal or a port to the node of its pod, connection and all.
async fn ask_node(
    api: Api,
    resource: Option<Arc<Resource>>,
    method: &Method,
    target: Target,
    request: Request,
) -> Result<Reply, ApiError> {
    let (parts, body) = request.into_parts();
    let asked = ApiRequest::without_body(parts.clone());
    let stopping = api.stopping().clone();
    let call = call(api, resource, target, &asked)?;
    subresource_verb(&call, method)?;
    let what = question(&call, &asked.query)?;
    let Some((node_api, ask)) = call.for_node(what)? else { return Ok(reply::empty(StatusCode::NO_CONTENT)) };
    ask.what.check_request(&parts.headers)?;
    if let Some(exemption) = parts.extensions.get::<StallExemption>() {
        exemption.grant();
    }
    let answer = node_api.ask(ask, Request::from_parts(parts, body)).await;
    // A log that is followed would otherwise hold the server when it is to stop.
    Ok(answer.map(|body| Body::from_stream(body.into_data_stream().take_until(stopping.cancelled_owned()))))
}

/// Reads what is asked of a node.
fn question(call: &Call, query: &Query) -> Result<What, ApiError> {
    if call.target.subresource != "log" && !query.get("dryRun").is_empty() {
        return Err(ApiError::bad_request("dryRun is not supported"));
    }
    What::parse(&call.target, query, call.api.clock_and_ids().now())
}

/// The older way to bind a pod: the name is in the body.
async fn bind(api: Api, mut target: Target, asked: &ApiRequest) -> Result<Reply, ApiError> {
    let body = decode_as(asked.content_type(), &asked.body, "Binding")?;
    "pods".clone_into(&mut target.plural);
    "binding".clone_into(&mut target.subresource);
    meta::text(&body.value, "name").clone_into(&mut target.name);
    let pods = api.registry().find(&target.group, &target.version, &target.plural).cloned();
    let call = call(api, pods, target, asked)?;
    on_subresource(call, &Method::POST, asked).await
}

async fn patch(call: &mut Call, asked: &ApiRequest) -> Result<Done, ApiError> {
    call.options = WriteOptions::parse(&asked.query, "PatchOptions")?;
    call.patch(asked.content_type(), &asked.body).await
}

async fn read_many(call: Call, asked: &ApiRequest) -> Result<Reply, ApiError> {
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
async fn delete_many(call: Call, asked: &ApiRequest) -> Result<Reply, ApiError> {
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

fn delete_options(asked: &ApiRequest) -> Result<DeleteOptions, ApiError> {
    if asked.body.is_empty() {
        return DeleteOptions::parse(&query_options(&asked.query)?);
    }
    let body = decode_as(asked.content_type(), &asked.body, "DeleteOptions").map_err(delete_options_error)?;
    let kind = body.value["kind"].as_str().unwrap_or("DeleteOptions");
    if kind != "DeleteOptions" {
        return Err(ApiError::new(500, "", format!("the body of a delete must be DeleteOptions, not {kind:?}")));
    }
    DeleteOptions::parse(&body.value)
}

/// The options of a delete as parameters, in the form that a body has.
fn query_options(query: &Query) -> Result<Value, ApiError> {
    let mut options = json!({});
    for name in ["propagationPolicy", "dryRun"] {
        if !query.get(name).is_empty() {
            options[name] = query.get(name).into();
        }
    }
    if let Some(seconds) = query.number("gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if !query.get("orphanDependents").is_empty() {
        options["orphanDependents"] = query.flag("orphanDependents").into();
    }
    Ok(options)
}

/// Malformed options of a delete are an error of the server to the real one, unlike any other malformed body.
fn delete_options_error(error: ApiError) -> ApiError {
    match error.cause {
        Some(Cause::Malformed) => ApiError::new(500, "", error.message),
        _ => error,
    }
}

/// A get may name a version, and then it must be one; whatever it is, the answer is the newest.
fn check_version(asked: &ApiRequest) -> Result<(), ApiError> {
    parse_revision(asked.query.get("resourceVersion")).map(drop).map_err(|error| ApiError::new(500, "", error.message))
}

fn form(asked: &ApiRequest, tables: bool) -> Result<Form, ApiError> {
    Form::choose(asked.accept(), tables)
}

fn encoder(call: &Call, asked: &ApiRequest) -> Result<Encoder, ApiError> {
    Encoder::new(call.api.clock_and_ids().clone(), form(asked, true)?, &asked.query)
}
