//! Objects of the kinds that this program knows by type: found, listed, created.
//!
//! The other verbs ask the API which kinds there are, see [`crate::resources`]; these know theirs, and say so when the
//! cluster does not have it.

use http::{Request, StatusCode, header::CONTENT_TYPE};
use k8s_openapi::Resource;
use kube::Client;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    apply::FIELD_MANAGER,
    client::{self, ClientError, encode},
    failure::Failure,
    resources::ResourceError,
    watch::Watch,
};

const JSON: &str = "application/json";

/// Returns the path of one object, of all in a namespace, or of all.
pub fn path<T: Resource>(namespace: Option<&str>, name: Option<&str>) -> String {
    let mut path = if T::GROUP.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", T::GROUP) };
    path.push_str(T::VERSION);
    if let Some(namespace) = namespace {
        path.push_str(&format!("/namespaces/{}", encode(namespace)));
    }
    path.push_str(&format!("/{}", T::URL_PATH_SEGMENT));
    if let Some(name) = name {
        path.push_str(&format!("/{}", encode(name)));
    }
    path
}

/// Returns `job.batch.volcano.sh/mnist`.
pub fn title<T: Resource>(name: &str) -> String {
    let kind = T::KIND.to_lowercase();
    if T::GROUP.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{}/{name}", T::GROUP) }
}

/// Looks for an object.
pub async fn find<T: Resource + DeserializeOwned>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<T>, Box<dyn Failure>> {
    let request = client::get(&path::<T>(namespace, Some(name)), JSON);
    match client::send(client, request, Vec::new()).await {
        Ok(answer) => Ok(Some(serde_json::from_slice(&answer.body).map_err(|source| ClientError::NotJson { source })?)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(explained::<T>(error)),
    }
}

/// Returns all objects of a kind, as far as the selectors go: `("labelSelector", "app=web")`.
pub async fn list<T: Resource + DeserializeOwned>(
    client: &Client,
    namespace: Option<&str>,
    selectors: &[(&str, &str)],
) -> Result<Vec<T>, Box<dyn Failure>> {
    Ok(watch::<T>(client, namespace, selectors).await?.all()?)
}

/// Looks for an object of a kind that a cluster may not have.
pub async fn find_if_served<T: Resource + DeserializeOwned>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<T>, ClientError> {
    let request = client::get(&path::<T>(namespace, Some(name)), JSON);
    match client::send(client, request, Vec::new()).await {
        Ok(answer) => Ok(Some(serde_json::from_slice(&answer.body).map_err(|source| ClientError::NotJson { source })?)),
        Err(ClientError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Watches the objects of a kind, if the cluster has it.
pub async fn watch_if_served<T: Resource>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Option<Watch>, ClientError> {
    match Watch::start(client, &path::<T>(namespace, None), &[]).await {
        Ok(watch) => Ok(Some(watch)),
        Err(ClientError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Watches the objects of a kind.
pub async fn watch<T: Resource>(
    client: &Client,
    namespace: Option<&str>,
    selectors: &[(&str, &str)],
) -> Result<Watch, Box<dyn Failure>> {
    Watch::start(client, &path::<T>(namespace, None), selectors).await.map_err(explained::<T>)
}

/// Watches one object, also one that is not there yet.
pub async fn watch_one<T: Resource>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> Result<Watch, Box<dyn Failure>> {
    watch::<T>(client, namespace, &[("fieldSelector", &format!("metadata.name={name}"))]).await
}

/// Creates an object and returns it as it is stored.
pub async fn create<T: Resource + Serialize>(
    client: &Client,
    namespace: Option<&str>,
    object: &T,
) -> Result<Value, Box<dyn Failure>> {
    let body = serde_json::to_vec(object).expect("our kinds can be written as JSON");
    let path = format!("{}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict", path::<T>(namespace, None));
    let request = Request::post(path).header(CONTENT_TYPE, JSON);
    Ok(client::send(client, request, body).await.map_err(explained::<T>)?.json()?)
}

/// Tells whether the kind is there and the object is not.
pub fn is_missing(error: &ClientError) -> bool {
    // A kind that is not served has no name in the answer.
    matches!(error, ClientError::Refused { code: StatusCode::NOT_FOUND, reason, message }
        if reason == "NotFound" && message.ends_with("not found"))
}

/// Says that a kind is not served where the API only says that there is nothing.
fn explained<T: Resource>(error: ClientError) -> Box<dyn Failure> {
    match error {
        ClientError::Refused { code: StatusCode::NOT_FOUND, .. } if !is_missing(&error) => {
            ResourceError::Kind { kind: T::KIND.to_owned(), api_version: T::API_VERSION.to_owned() }.into()
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use ronde_api::{Job, Queue};

    use super::*;

    #[test]
    fn kinds_know_their_paths() {
        assert_eq!(path::<Pod>(Some("a"), Some("web")), "/api/v1/namespaces/a/pods/web");
        assert_eq!(path::<Job>(None, None), "/apis/batch.volcano.sh/v1alpha1/jobs");
        assert_eq!(path::<Queue>(None, Some("a b")), "/apis/scheduling.volcano.sh/v1beta1/queues/a%20b");
        assert_eq!(title::<Job>("mnist"), "job.batch.volcano.sh/mnist");
        assert_eq!(title::<Pod>("web"), "pod/web");
    }

    fn refusal(reason: &str, message: &str) -> ClientError {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        ClientError::Refused { code: StatusCode::NOT_FOUND, reason, message }
    }

    #[test]
    fn a_missing_object_is_told_from_a_missing_kind() {
        assert!(is_missing(&refusal("NotFound", "jobs.batch.volcano.sh \"x\" not found")));
        assert!(!is_missing(&refusal("NotFound", "the server could not find the requested resource")));
        let page = refusal("", "the Kubernetes API answered 404 Not Found: 404 page not found");
        assert!(!is_missing(&page));
        assert_eq!(explained::<Job>(page).to_string(), "the server has no kind `Job` in `batch.volcano.sh/v1alpha1`");
    }
}
