//! Whether a release has to adopt custom resource definitions that are in the cluster already.
//!
//! `ronde operator` by hand installs them too, and Helm refuses objects that it has not made itself unless it is told to
//! take them. It is told only for definitions that are ours, or that the user wants to be: anything else that is in the
//! way of a release is somebody's.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
};
use ronde_api::crd;
use ronde_control::install::DIGEST;
use tokio::runtime::Runtime;

use crate::{
    args::InstallArgs,
    client::{self, ClientError},
};

/// By this Helm knows whose an object is.
const RELEASE: &str = "meta.helm.sh/release-name";

type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// Asks the cluster, unless the user has said it.
pub fn is_needed(args: &InstallArgs) -> Result<bool, ClientError> {
    if !args.take_over.is_empty() {
        return Ok(true);
    }
    let runtime = Runtime::new().map_err(|source| ClientError::Runtime { source })?;
    runtime.block_on(async {
        let cluster = &args.cluster;
        let client = client::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
        let api: Api<CustomResourceDefinition> = Api::all(client);
        let found = api.list_metadata(&ListParams::default()).await.map_err(client::explain)?;
        Ok(found.items.iter().any(is_orphan))
    })
}

/// Tells whether a definition is ours and of no release.
fn is_orphan(definition: &Definition) -> bool {
    let is_ours = definition.annotations().contains_key(DIGEST);
    let is_one_of_them = crd::COMMITTED.iter().any(|(name, _)| *name == definition.name_any());
    is_one_of_them && is_ours && !definition.annotations().contains_key(RELEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_that_an_operator_has_made_by_hand_are_adopted() {
        let check = |what: &str, name: &str, annotations: &[&str], expected: bool| {
            let mut definition = Definition::default();
            definition.metadata.name = Some(name.to_owned());
            let texts = annotations.iter().map(|key| ((*key).to_owned(), "x".to_owned()));
            definition.metadata.annotations = Some(texts.collect());
            assert_eq!(is_orphan(&definition), expected, "{what}");
        };
        check("ours, by hand", "jobs.batch.volcano.sh", &[DIGEST], true);
        check("ours, of a release", "jobs.batch.volcano.sh", &[DIGEST, RELEASE], false);
        check("Volcano's", "jobs.batch.volcano.sh", &[], false);
        check("Volcano's, of its release", "jobs.batch.volcano.sh", &[RELEASE], false);
        check("somebody's", "things.example.com", &[DIGEST], false);
    }
}
