//! The list of built-in kinds: which compiled-in type stands for which group, version and kind.

use k8s_openapi::{
    Resource,
    api::{
        apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, networking::v1 as networking, policy::v1 as policy,
        rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::apis::meta::v1 as meta,
};
use schemars::JsonSchema;

use super::Kind;

/// Every built-in kind, also those that are only bodies of subresources and reviews.
pub const KINDS: &[Kind] = &[
    kind::<core::Binding>("io.k8s.api.core.v1.Binding"),
    kind::<core::ConfigMap>("io.k8s.api.core.v1.ConfigMap"),
    kind::<core::Endpoints>("io.k8s.api.core.v1.Endpoints"),
    kind::<core::Event>("io.k8s.api.core.v1.Event"),
    kind::<core::Namespace>("io.k8s.api.core.v1.Namespace"),
    kind::<core::Node>("io.k8s.api.core.v1.Node"),
    kind::<core::PersistentVolume>("io.k8s.api.core.v1.PersistentVolume"),
    kind::<core::PersistentVolumeClaim>("io.k8s.api.core.v1.PersistentVolumeClaim"),
    kind::<core::Pod>("io.k8s.api.core.v1.Pod"),
    kind::<core::ResourceQuota>("io.k8s.api.core.v1.ResourceQuota"),
    kind::<core::Secret>("io.k8s.api.core.v1.Secret"),
    kind::<core::Service>("io.k8s.api.core.v1.Service"),
    kind::<core::ServiceAccount>("io.k8s.api.core.v1.ServiceAccount"),
    kind::<meta::Status>("io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
    Kind {
        group: "",
        version: "v1",
        kind: "DeleteOptions",
        definition: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        register: register::<meta::DeleteOptions>,
    },
    kind::<apiextensions::CustomResourceDefinition>(
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ),
    kind::<apps::ControllerRevision>("io.k8s.api.apps.v1.ControllerRevision"),
    kind::<apps::Deployment>("io.k8s.api.apps.v1.Deployment"),
    kind::<apps::ReplicaSet>("io.k8s.api.apps.v1.ReplicaSet"),
    kind::<apps::StatefulSet>("io.k8s.api.apps.v1.StatefulSet"),
    kind::<authentication::SelfSubjectReview>("io.k8s.api.authentication.v1.SelfSubjectReview"),
    kind::<authentication::TokenRequest>("io.k8s.api.authentication.v1.TokenRequest"),
    kind::<authentication::TokenReview>("io.k8s.api.authentication.v1.TokenReview"),
    kind::<authorization::LocalSubjectAccessReview>("io.k8s.api.authorization.v1.LocalSubjectAccessReview"),
    kind::<authorization::SelfSubjectAccessReview>("io.k8s.api.authorization.v1.SelfSubjectAccessReview"),
    kind::<authorization::SelfSubjectRulesReview>("io.k8s.api.authorization.v1.SelfSubjectRulesReview"),
    kind::<authorization::SubjectAccessReview>("io.k8s.api.authorization.v1.SubjectAccessReview"),
    kind::<autoscaling::Scale>("io.k8s.api.autoscaling.v1.Scale"),
    kind::<batch::Job>("io.k8s.api.batch.v1.Job"),
    kind::<coordination::Lease>("io.k8s.api.coordination.v1.Lease"),
    kind::<discovery::EndpointSlice>("io.k8s.api.discovery.v1.EndpointSlice"),
    kind::<events::Event>("io.k8s.api.events.v1.Event"),
    kind::<networking::Ingress>("io.k8s.api.networking.v1.Ingress"),
    kind::<networking::IngressClass>("io.k8s.api.networking.v1.IngressClass"),
    kind::<networking::NetworkPolicy>("io.k8s.api.networking.v1.NetworkPolicy"),
    kind::<policy::Eviction>("io.k8s.api.policy.v1.Eviction"),
    kind::<policy::PodDisruptionBudget>("io.k8s.api.policy.v1.PodDisruptionBudget"),
    kind::<rbac::ClusterRole>("io.k8s.api.rbac.v1.ClusterRole"),
    kind::<rbac::ClusterRoleBinding>("io.k8s.api.rbac.v1.ClusterRoleBinding"),
    kind::<rbac::Role>("io.k8s.api.rbac.v1.Role"),
    kind::<rbac::RoleBinding>("io.k8s.api.rbac.v1.RoleBinding"),
    kind::<scheduling::PriorityClass>("io.k8s.api.scheduling.v1.PriorityClass"),
    kind::<storage::StorageClass>("io.k8s.api.storage.v1.StorageClass"),
];

const fn kind<T: Resource + JsonSchema>(definition: &'static str) -> Kind {
    Kind { group: T::GROUP, version: T::VERSION, kind: T::KIND, definition, register: register::<T> }
}

fn register<T: JsonSchema>(generator: &mut schemars::SchemaGenerator) {
    generator.subschema_for::<T>();
}
