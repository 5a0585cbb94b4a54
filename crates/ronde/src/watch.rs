//! A copy of some objects that follows those of the API: for verbs that wait for a state, not for an event.
//!
//! A list, then a watch from its version on; when the version is no longer kept, a list again. Knows nothing of kinds.
//! Not the cache of controllers: that one knows its kinds, and tries for ever where a command must end with what the
//! server said.

use std::{collections::BTreeMap, io, pin::Pin};

use futures::{Stream, StreamExt as _, future};
use http::StatusCode;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::{self, ClientError, encode};

const JSON: &str = "application/json";

/// Namespace and name.
pub type Key = (String, String);

/// Follows the objects of one path.
pub struct Watch {
    client: Client,
    path: String,
    /// `?` and what follows it; empty if all objects are wanted.
    selectors: String,
    held: Held,
    events: Option<Events>,
}

type Events = Pin<Box<dyn Stream<Item = Result<Value, ClientError>> + Send>>;

/// What is known of the objects.
#[derive(Debug, Default, PartialEq)]
struct Held {
    objects: BTreeMap<Key, Value>,
    version: String,
}

/// What an event has done.
#[derive(Debug, PartialEq)]
enum Took {
    Change,
    Nothing,
    /// The version is no longer kept.
    Expired,
    /// The API ends the watch with these words.
    Refused(String),
}

impl Watch {
    /// Lists the objects. The selectors are parameters of the API: `("labelSelector", "app=web")`.
    pub async fn start(client: &Client, path: &str, selectors: &[(&str, &str)]) -> Result<Self, ClientError> {
        let selectors: Vec<String> =
            selectors.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let mut watch = Self {
            client: client.clone(),
            path: path.to_owned(),
            selectors: selectors.join("&"),
            held: Held::default(),
            events: None,
        };
        watch.list().await?;
        Ok(watch)
    }

    /// Returns the objects, by namespace and name.
    pub fn objects(&self) -> &BTreeMap<Key, Value> {
        &self.held.objects
    }

    /// Returns all objects by their type.
    pub fn all<T: DeserializeOwned>(&self) -> Result<Vec<T>, ClientError> {
        let objects = self.held.objects.values();
        objects.map(|object| T::deserialize(object).map_err(|source| ClientError::NotJson { source })).collect()
    }

    /// Returns the one object that the selectors leave, if it is there.
    pub fn one<T: DeserializeOwned>(&self) -> Result<Option<T>, ClientError> {
        Ok(self.all()?.into_iter().next())
    }

    /// Waits until something is another than before.
    pub async fn changed(&mut self) -> Result<(), ClientError> {
        loop {
            let Some(events) = &mut self.events else {
                if self.watch().await? {
                    continue;
                }
                return self.list().await;
            };
            // The server ends a watch now and then; the next one goes on where it was.
            let Some(event) = events.next().await else {
                self.events = None;
                continue;
            };
            match self.held.take(event?) {
                Took::Change => return Ok(()),
                Took::Nothing => {}
                Took::Expired => return self.list().await,
                Took::Refused(message) => {
                    return Err(ClientError::Unreachable { source: io::Error::other(message).into() });
                }
            }
        }
    }

    async fn list(&mut self) -> Result<(), ClientError> {
        let path = format!("{}?{}", self.path, self.selectors);
        let answer = client::send(&self.client, client::get(&path, JSON), Vec::new()).await?;
        self.held = Held::of(answer.json()?);
        self.events = None;
        Ok(())
    }

    /// Begins a watch; tells whether the version is still kept.
    async fn watch(&mut self) -> Result<bool, ClientError> {
        let version = encode(&self.held.version);
        let path =
            format!("{}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&{}", self.path, self.selectors);
        match client::stream(&self.client, client::get(&path, JSON)).await {
            Ok(events) => self.events = Some(Box::pin(events)),
            Err(ClientError::Refused { code: StatusCode::GONE, .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

/// Waits until something in any of the watches is another than before.
pub async fn any_changed(watches: &mut [Watch]) -> Result<(), ClientError> {
    let changes = watches.iter_mut().map(|watch| Box::pin(watch.changed()));
    future::select_all(changes).await.0
}

impl Held {
    fn of(mut list: Value) -> Self {
        let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default().to_owned();
        let api_version = list["apiVersion"].take();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let Value::Array(items) = list["items"].take() else { return Self { objects: BTreeMap::new(), version } };
        let complete = |mut object: Value| {
            // Items of lists of the built-in kinds do not say what they are.
            if object["kind"].is_null() {
                object["kind"] = kind.clone().into();
                object["apiVersion"] = api_version.clone();
            }
            strip(&mut object);
            (key(&object), object)
        };
        Self { objects: items.into_iter().map(complete).collect(), version }
    }

    fn take(&mut self, mut event: Value) -> Took {
        let mut object = event["object"].take();
        let word = event["type"].as_str().unwrap_or_default();
        if word == "ERROR" {
            let message = object["message"].as_str().unwrap_or("the Kubernetes API ended the watch").to_owned();
            return if object["code"] == 410 { Took::Expired } else { Took::Refused(message) };
        }
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            version.clone_into(&mut self.version);
        }
        strip(&mut object);
        match word {
            "BOOKMARK" => return Took::Nothing,
            "DELETED" => self.objects.remove(&key(&object)),
            _ => self.objects.insert(key(&object), object),
        };
        Took::Change
    }
}

fn key(object: &Value) -> Key {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (field("namespace"), field("name"))
}

/// Drops the bookkeeping of server-side apply, as kubectl does.
pub fn strip(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "resourceVersion": version, "managedFields": []}})
    }

    fn held() -> Held {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"},
            "items": [pod("a", "3"), pod("b", "4")]});
        Held::of(list)
    }

    fn check(name: &str, event: Value, expected: (Took, &str, &str)) {
        let mut held = held();
        let took = held.take(event);
        let names: Vec<&str> = held.objects.keys().map(|(_, name)| name.as_str()).collect();
        assert_eq!((took, names.join(" ").as_str(), held.version.as_str()), expected, "{name}");
    }

    #[test]
    fn events_change_what_is_held() {
        let event = |kind: &str, object: Value| json!({"type": kind, "object": object});
        check("a new object", event("ADDED", pod("c", "6")), (Took::Change, "a b c", "6"));
        check("a changed object", event("MODIFIED", pod("b", "7")), (Took::Change, "a b", "7"));
        check("an object that has gone", event("DELETED", pod("a", "8")), (Took::Change, "b", "8"));
        let bookmark = json!({"metadata": {"resourceVersion": "9"}});
        check("a bookmark is only a version", event("BOOKMARK", bookmark), (Took::Nothing, "a b", "9"));
        let expired = json!({"kind": "Status", "code": 410, "message": "too old"});
        check("a version that is not kept", event("ERROR", expired), (Took::Expired, "a b", "5"));
        let refused = json!({"kind": "Status", "code": 500, "message": "no"});
        check("any other end", event("ERROR", refused), (Took::Refused("no".to_owned()), "a b", "5"));
    }

    #[test]
    fn items_of_a_list_are_whole_objects() {
        let held = held();
        let first = &held.objects[&("n".to_owned(), "a".to_owned())];
        assert_eq!((&first["kind"], &first["apiVersion"]), (&json!("Pod"), &json!("v1")));
        assert!(first["metadata"].get("managedFields").is_none());
    }
}
