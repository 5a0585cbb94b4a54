//! Pods that use their tokens against the API all the while: one with no rights at all, one with a role.
//!
//! Whatever is killed around them, the one is always refused, and the other may do what its role says and no more.

use fs_err as fs;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use ronde_sim::program;
use serde_json::{Value, json};

use crate::{deeds::create, instance::Instance};

const PROGRAM: &str = include_str!("askers.py");
const SECRETS: &str = "GET /api/v1/namespaces/default/secrets";
const MAPS: &str = "GET /api/v1/namespaces/default/configmaps";
const PODS: &str = "POST /api/v1/namespaces/default/pods";

/// The pods that ask.
pub struct Askers {
    names: Vec<&'static str>,
}

impl Askers {
    /// Starts them; none where pods find no Python.
    pub async fn begin(instance: &Instance) -> Self {
        if program("python3").is_none() {
            return Self { names: Vec::new() };
        }
        let client = &instance.client;
        create::<ConfigMap>(client, json!({"metadata": {"name": "askers"}, "data": {"ask.py": PROGRAM}})).await;
        create::<ServiceAccount>(client, json!({"metadata": {"name": "reader"}})).await;
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
        create::<Role>(client, json!({"metadata": {"name": "reader"}, "rules": [rule]})).await;
        let binding = json!({
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
        });
        create::<RoleBinding>(client, binding).await;
        let refused = [SECRETS, MAPS, PODS].map(|what| format!("403 {what}"));
        create::<Deployment>(client, asker(instance, "default", &refused)).await;
        let read = [format!("403 {SECRETS}"), format!("200 {MAPS}"), format!("403 {PODS}")];
        create::<Deployment>(client, asker(instance, "reader", &read)).await;
        Self { names: vec!["asked-by-default", "asked-by-reader"] }
    }

    /// What they were answered otherwise than they must be; also that they were not answered yet.
    pub fn contradictions(&self, instance: &Instance) -> Vec<String> {
        let wrong = fs::read_to_string(instance.notes().join("wrong-answers")).unwrap_or_default();
        let is_silent = |name: &&&str| !instance.notes().join(name).exists();
        let silent = self.names.iter().filter(is_silent).map(|name| format!("{name}: nobody has answered yet"));
        wrong.lines().map(str::to_owned).chain(silent).collect()
    }
}

fn asker(instance: &Instance, account: &str, questions: &[String]) -> Value {
    let command = ["python3".to_owned(), "/program/ask.py".to_owned(), format!("asked-by-{account}")];
    let command: Vec<&String> = command.iter().chain(questions).collect();
    let labels = json!({"asker": account});
    json!({"metadata": {"name": format!("asker-{account}")}, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "serviceAccountName": account, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "none", "command": command,
                "volumeMounts": [
                    {"name": "notes", "mountPath": "/notes"}, {"name": "program", "mountPath": "/program"},
                ],
            }],
            "volumes": [
                {"name": "notes", "hostPath": {"path": instance.notes()}},
                {"name": "program", "configMap": {"name": "askers"}},
            ],
        }},
    }})
}
