//! Commands: how a person asks the controllers to do something to a job or a queue, once.

use k8s_openapi::{
    Resource,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Client;
use ronde_api::{Action, Command};

use crate::{
    failure::Failure,
    objects::{self, watch_one},
    watch::Watch,
};

/// Gives a command and returns a watch of it: the controller that takes it deletes it.
pub async fn give<T: Resource>(
    client: &Client,
    namespace: &str,
    action: Action,
    target: &ObjectMeta,
) -> Result<Watch, Box<dyn Failure>> {
    let command = build::<T>(namespace, action, target);
    let given = objects::create(client, Some(namespace), &command).await?;
    let name = given["metadata"]["name"].as_str().unwrap_or_default();
    watch_one::<Command>(client, Some(namespace), name).await
}

/// Says that nobody has taken a command, if that is so.
pub fn untaken(command: &Watch) -> Option<&'static str> {
    (!command.objects().is_empty()).then_some("no controller has taken the command yet")
}

/// Builds a command as `vcctl` does, which goes with its target.
fn build<T: Resource>(namespace: &str, action: Action, target: &ObjectMeta) -> Command {
    let name = target.name.clone().unwrap_or_default();
    let reference = OwnerReference {
        api_version: T::API_VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        name: name.clone(),
        uid: target.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{name}-{}-", action.as_str().to_lowercase())),
        namespace: Some(namespace.to_owned()),
        owner_references: Some(vec![reference.clone()]),
        ..ObjectMeta::default()
    };
    Command { metadata, action: action.to_string(), target: Some(reference), ..Command::default() }
}

#[cfg(test)]
mod tests {
    use ronde_api::{Job, rules};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_names_its_target_and_goes_with_it() {
        let target = ObjectMeta { name: Some("mnist".to_owned()), uid: Some("u1".to_owned()), ..ObjectMeta::default() };
        let command = build::<Job>("ml", Action::AbortJob, &target);
        assert_eq!(rules::command::validate(&command), []);
        let reference = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "mnist", "uid": "u1",
            "controller": true, "blockOwnerDeletion": true});
        let metadata = json!({"generateName": "mnist-abortjob-", "namespace": "ml", "ownerReferences": [reference]});
        let expected = json!({"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata,
            "action": "AbortJob", "target": reference});
        assert_eq!(serde_json::to_value(command).unwrap(), expected);
    }
}
