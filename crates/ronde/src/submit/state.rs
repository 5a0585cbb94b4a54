//! What goes with a job: the ConfigMap by which arena remembers it, the files it takes along, TensorBoard.

use k8s_openapi::{
    Resource,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::check::Plain;
use crate::{arena::JobType, objects};

/// By which arena finds what it made.
pub const CREATED_BY: (&str, &str) = ("createdBy", "arena");
/// The version of arena's chart whose objects an etjob has.
const ETJOB_CHART: &str = "0.3.2";
const TENSORBOARD_PORT: u16 = 6006;

/// An object that goes with a job.
#[derive(Debug, Clone)]
pub struct Companion {
    pub title: String,
    pub body: Value,
    path: fn(Option<&str>, Option<&str>) -> String,
}

impl Companion {
    pub fn new<T: Resource + Serialize>(object: &T) -> Self {
        let body = serde_json::to_value(object).expect("an object can be written as JSON");
        let title = objects::title::<T>(body["metadata"]["name"].as_str().unwrap_or_default());
        Self { title, body, path: objects::path::<T> }
    }

    /// The path that it is created at.
    pub fn collection(&self, namespace: &str) -> String {
        (self.path)(Some(namespace), None)
    }

    /// Its own path.
    pub fn path(&self, namespace: &str) -> String {
        (self.path)(Some(namespace), self.body["metadata"]["name"].as_str())
    }

    /// Makes it go with its owner.
    pub fn owned_by(&mut self, owner: &OwnerReference) {
        self.body["metadata"]["ownerReferences"] = json!([owner]);
    }
}

/// Returns the name of the ConfigMap of a job.
pub fn name(job: &str, job_type: JobType) -> String {
    format!("{job}-{job_type}")
}

/// Returns the name of the ConfigMap with the files of a job.
pub fn files_name(plain: &Plain<'_>) -> String {
    format!("{}-{}-files", plain.name, plain.job_type)
}

/// Returns the value of the label `chart`.
pub fn chart(job_type: JobType) -> String {
    format!("{job_type}-{}", version(job_type))
}

fn version(job_type: JobType) -> &'static str {
    if job_type == JobType::Etjob { ETJOB_CHART } else { env!("CARGO_PKG_VERSION") }
}

/// Builds the ConfigMap that says what was submitted and what was made.
pub fn config_map(plain: &Plain<'_>, values: &impl Serialize, titles: &[String]) -> Companion {
    let values = serde_saphyr::to_string(values).expect("arguments can be written as YAML");
    let data = [
        ("values".to_owned(), values),
        ("app".to_owned(), titles.join("\n")),
        (plain.job_type.to_string(), version(plain.job_type).to_owned()),
    ];
    Companion::new(&ConfigMap {
        metadata: labelled(plain, name(plain.name, plain.job_type)),
        data: Some(data.into()),
        ..ConfigMap::default()
    })
}

fn labelled(plain: &Plain<'_>, name: String) -> ObjectMeta {
    let label = (CREATED_BY.0.to_owned(), CREATED_BY.1.to_owned());
    let namespace = plain.common.namespace.clone();
    ObjectMeta { name: Some(name), namespace, labels: Some([label].into()), ..ObjectMeta::default() }
}

/// Builds the companions of the job that the flags ask for.
pub fn companions(plain: &Plain<'_>) -> Vec<Companion> {
    let files = (!plain.files.is_empty()).then(|| Companion::new(&files(plain)));
    let board = plain.common.tensorboard.then(|| tensorboard(plain));
    files.into_iter().chain(board.into_iter().flatten()).collect()
}

fn files(plain: &Plain<'_>) -> ConfigMap {
    let data = plain.files.iter().map(|file| (file.key.clone(), Value::from(file.base64.clone())));
    let data: serde_json::Map<_, _> = data.collect();
    let metadata = labelled(plain, files_name(plain));
    typed(json!({"metadata": metadata, "binaryData": data}))
}

/// TensorBoard sees the volumes of the job, so logs that are to be seen belong on a claim or a directory of the node.
fn tensorboard(plain: &Plain<'_>) -> [Companion; 2] {
    let name = format!("{}-tensorboard", plain.name);
    let labels = json!({"app": name, "release": plain.name, "createdBy": plain.job_type.name()});
    let image = plain.common.tensorboard_image.as_deref().unwrap_or(plain.image);
    let command = ["tensorboard", "--logdir", &plain.common.logdir, "--bind_all", "--port"];
    let command: Vec<String> = command.iter().map(ToString::to_string).chain([TENSORBOARD_PORT.to_string()]).collect();
    let volumes: Vec<&Value> = plain.mounts.iter().map(|mount| &mount.volume).collect();
    let mounts: Vec<&Value> = plain.mounts.iter().map(|mount| &mount.mount).collect();
    let container = json!({"name": "tensorboard", "image": image, "command": command, "volumeMounts": mounts,
        "imagePullPolicy": plain.common.image_pull_policy, "ports": [{"containerPort": TENSORBOARD_PORT}]});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}});
    let metadata = json!({"name": name, "namespace": plain.common.namespace, "labels": labels});
    let selector = json!({"app": name});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": selector}, "template": pod});
    let deployment: Deployment = typed(json!({"metadata": metadata, "spec": spec}));
    let ports = json!([{"name": "tensorboard", "port": TENSORBOARD_PORT, "targetPort": TENSORBOARD_PORT}]);
    let spec = json!({"type": "NodePort", "selector": selector, "ports": ports});
    let service: Service = typed(json!({"metadata": metadata, "spec": spec}));
    [Companion::new(&deployment), Companion::new(&service)]
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of our own has the form of its kind")
}
