//! Documents about the server itself: health, version, metrics, discovery, OpenAPI.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Path, Request, State};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use super::{
    ApiRequest, page_not_found,
    reply::{self, Reply},
};
use crate::{
    api::Api,
    backup,
    discovery::{self, ResourceInfo},
    error::ApiError,
    metrics,
    openapi::{self, Described, Document, v2},
    registry::{Registry, Resource},
    verbs::review,
};

/// The Kubernetes version that clients are told; behaviour follows that release.
const VERSION: (&str, &str, &str) = ("1", "34", "v1.34.4+ronde");

/// The names of checks that clients ask for. Only the one of the store, which is etcd to clients, can fail: who gets an
/// answer at all has passed the others.
const CHECKS: [&str; 3] = ["ping", "log", STORE_CHECK];
const STORE_CHECK: &str = "etcd";
const STORE_FAILED: &str = "cannot write to the store";

pub async fn healthy(State(api): State<Api>) -> Reply {
    if api.store().is_writable().await {
        return plain(StatusCode::OK, "ok");
    }
    let line = |check: &str| match check {
        STORE_CHECK => format!("[-]{check} failed: {STORE_FAILED}\n"),
        check => format!("[+]{check} ok\n"),
    };
    let lines: String = CHECKS.map(line).concat();
    plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{lines}health check failed\n"))
}

/// One of the checks that make up the health of the server, by name.
pub async fn health_check(State(api): State<Api>, Path(check): Path<String>) -> Reply {
    match check.as_str() {
        STORE_CHECK if !api.store().is_writable().await => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {STORE_FAILED}\n"))
        }
        check if CHECKS.contains(&check) => plain(StatusCode::OK, "ok"),
        _ => page_not_found(),
    }
}

fn plain(status: StatusCode, text: &str) -> Reply {
    reply::with_type(status, "text/plain; charset=utf-8", text.as_bytes().to_vec())
}

pub async fn version() -> Reply {
    let (major, minor, git) = VERSION;
    json_document(&json!({
        "major": major, "minor": minor, "gitVersion": git, "gitCommit": "", "gitTreeState": "clean", "buildDate": "",
        "goVersion": "none", "compiler": "rustc", "platform": format!("linux/{}", go_architecture()),
    }))
}

/// The processor's name as Go, and so every client, spells it.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub async fn metrics(State(api): State<Api>) -> Reply {
    let text = metrics::render(api.store(), api.requests()).await + &api.more_metrics();
    reply::with_type(StatusCode::OK, ronde_text::metrics::CONTENT_TYPE, text.into_bytes())
}

/// All objects at one revision, secrets too, as lines of a backup.
pub async fn backup(State(api): State<Api>, request: Request) -> Reply {
    if *request.method() != Method::GET {
        return reply::error(&ApiError::no_such_method());
    }
    let user = ApiRequest::without_body(request.into_parts().0).user;
    if !user.is_admin() {
        let message = format!("User \"{}\" cannot get path \"{}\"", user.name, super::BACKUP_PATH);
        return reply::error(&ApiError::new(403, "Forbidden", &message));
    }
    let lines = backup::lines(api.store().snapshot()).map(|mut line| {
        line.push(b'\n');
        Ok::<_, std::convert::Infallible>(line)
    });
    let body = axum::body::Body::from_stream(futures::stream::iter(lines));
    let mut answer = Reply::new(body);
    answer.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/x-ndjson"));
    answer
}

pub async fn api(State(api): State<Api>, request: Request) -> Reply {
    document(&api, request, |infos, aggregated, host| {
        Some(if aggregated { discovery::aggregated_core(infos) } else { discovery::core_versions(host) })
    })
}

pub async fn apis(State(api): State<Api>, request: Request) -> Reply {
    document(&api, request, |infos, aggregated, _| {
        Some(if aggregated { discovery::aggregated_groups(infos) } else { discovery::group_list(infos) })
    })
}

pub async fn api_version(State(api): State<Api>, Path(version): Path<String>, request: Request) -> Reply {
    document(&api, request, |infos, _, _| discovery::resource_list(infos, "", &version))
}

pub async fn group(State(api): State<Api>, Path(group): Path<String>, request: Request) -> Reply {
    if !is_served(&api, &group) {
        return page_not_found();
    }
    document(&api, request, |infos, _, _| discovery::group(infos, &group))
}

pub async fn group_version(
    State(api): State<Api>,
    Path((group, version)): Path<(String, String)>,
    request: Request,
) -> Reply {
    if !is_served(&api, &group) {
        return page_not_found();
    }
    document(&api, request, |infos, _, _| discovery::resource_list(infos, &group, &version))
}

fn is_served(api: &Api, group: &str) -> bool {
    api.registry().has_group(group) || review::has_group(group)
}

/// Answers with what `make` gives for everything that is served; the flag says that the aggregated form is wanted.
fn document(api: &Api, request: Request, make: impl FnOnce(&[&ResourceInfo], bool, &str) -> Option<Value>) -> Reply {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return reply::error(&ApiError::no_such_method());
    }
    let asked = ApiRequest::without_body(request.into_parts().0);
    let registry = api.registry();
    let reviews = review::infos();
    let infos: Vec<&ResourceInfo> = registry.all().map(|resource| &resource.info).chain(&reviews).collect();
    let aggregated = wants_aggregated(asked.header(header::ACCEPT));
    let Some(value) = make(&infos, aggregated, asked.header(header::HOST)) else {
        return reply::error(&ApiError::no_such_resource());
    };
    let mut answer = json_document(&value);
    if value["kind"] == "APIGroupDiscoveryList" {
        let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        answer.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(form));
    }
    answer.headers_mut().insert(header::VARY, http::HeaderValue::from_static("Accept"));
    answer
}

/// Whether the first form in `Accept` that we have is the aggregated one.
fn wants_aggregated(accept: &str) -> bool {
    let is_ours = |clause: &str| {
        let mut parts = clause.split(';').map(str::trim);
        let json = matches!(parts.next(), Some("application/json" | "application/*" | "*/*"));
        let parts: Vec<&str> = parts.collect();
        let aggregated = parts.contains(&"as=APIGroupDiscoveryList") && parts.contains(&"v=v2");
        json.then_some(aggregated).filter(|_| aggregated || !parts.iter().any(|part| part.starts_with("as=")))
    };
    accept.split(',').find_map(is_ours).unwrap_or(false)
}

fn json_document(value: &Value) -> Reply {
    reply::json_bytes(StatusCode::OK, value.to_string().into_bytes())
}

pub async fn openapi_v2(State(api): State<Api>, request: Request) -> Reply {
    let asked = ApiRequest::without_body(request.into_parts().0);
    // Clients write the type with an `@`; one that names it decodes nothing else.
    if asked.header(header::ACCEPT).replace('@', ".").contains(v2::PROTOBUF_TYPE) {
        return reply::with_type(StatusCode::OK, v2::PROTOBUF_TYPE, v2::protobuf());
    }
    let registry = api.registry();
    openapi_document(v2::json(&described(&registry)))
}

pub async fn openapi_v3_index(State(api): State<Api>) -> Reply {
    let registry = api.registry();
    let mut hashes: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for resource in registry.all() {
        let newest = hashes.entry((&resource.info.group, &resource.info.version)).or_default();
        *newest = resource.custom().map_or(*newest, |custom| custom.since.max(*newest));
    }
    // Built-in documents change with the program, those of custom resources with their CRDs.
    let hashes: Vec<_> = hashes
        .into_iter()
        .map(|((group, version), since)| (group, version, format!("{}-{since}", env!("CARGO_PKG_VERSION"))))
        .collect();
    json_document(&openapi::index(hashes.iter().map(|(group, version, hash)| (*group, *version, hash.as_str()))))
}

pub async fn openapi_v3(State(api): State<Api>, Path(path): Path<String>) -> Reply {
    let parts: Vec<&str> = path.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return page_not_found(),
    };
    let registry = api.registry();
    openapi::document(&described(&registry), group, version).map_or_else(page_not_found, openapi_document)
}

fn described(registry: &Registry) -> Vec<Described<'_>> {
    let described = |resource| -> Described<'_> {
        let resource: &Arc<Resource> = resource;
        Described { info: &resource.info, schema: resource.custom().and_then(|custom| custom.openapi.as_ref()) }
    };
    registry.all().map(described).collect()
}

fn openapi_document(document: Document) -> Reply {
    let mut answer = reply::json_bytes(StatusCode::OK, document.body);
    if let Ok(tag) = http::HeaderValue::from_str(&format!("\"{}\"", document.hash)) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        auth::{Account, Keys, User},
        clock_and_ids::ClockAndIds,
        store::{Store, power_loss},
        verbs::ServiceNetwork,
    };

    #[tokio::test]
    async fn who_cannot_write_is_not_healthy() -> anyhow::Result<()> {
        let (store, mend) = power_loss::store_on_a_failed_disk().await?;
        let keys = Keys::new("token".to_owned(), &Keys::generate().map_err(|_| anyhow::anyhow!("no keys"))?)
            .map_err(|_| anyhow::anyhow!("no keys"))?;
        let api = Api::new(store, ClockAndIds::real(), keys, None, Vec::new(), ServiceNetwork::default());
        assert_eq!(healthy(State(api.clone())).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let status = async |check: &str| health_check(State(api.clone()), Path(check.to_owned())).await.status();
        assert_eq!(status("etcd").await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(status("ping").await, StatusCode::OK);
        assert_eq!(status("nonsense").await, StatusCode::NOT_FOUND);
        mend();
        assert_eq!(status("etcd").await, StatusCode::OK);
        assert_eq!(healthy(State(api.clone())).await.status(), StatusCode::OK);
        Ok(())
    }

    #[tokio::test]
    async fn only_the_administrator_gets_a_backup() -> anyhow::Result<()> {
        let keys = Keys::new("token".to_owned(), &Keys::generate()?)?;
        let api = Api::new(Store::in_memory()?, ClockAndIds::real(), keys, None, Vec::new(), ServiceNetwork::default());
        let ask = async |user: User| {
            let request = Request::get("/").extension(user).body(axum::body::Body::empty()).expect("a request");
            backup(State(api.clone()), request).await.status()
        };
        let account = Account { namespace: "default".into(), name: "default".into(), uid: "u".into() };
        assert_eq!(ask(User::admin()).await, StatusCode::OK);
        assert_eq!(ask(User::service_account(&account)).await, StatusCode::FORBIDDEN);
        Ok(())
    }
}
