//! Kubernetes' own PodGroups, as far as they are of use here, and which of them a pod names.
//!
//! `scheduling.k8s.io` is served in one version or the other, or not at all; the fields that count are the same in both, but
//! for how they are spelt. Newer than the types of our Kubernetes library, so that these views are our own: they read, and
//! are never written whole.

use std::{borrow::Cow, fmt::Debug, marker::PhantomData};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use kube::{
    Api, Resource, ResourceExt as _,
    core::{ApiResource, NotUsed, Object},
};
use ronde_runtime::{
    runner::Ctx,
    watch::{Caches, Kinds},
};
use serde::Deserialize;
use serde_json::Value;

pub const GROUP: &str = "scheduling.k8s.io";
pub const KIND: &str = "PodGroup";

/// A version in which clusters serve PodGroups.
pub trait Version: Debug + Clone + Send + Sync + 'static {
    const NAME: &'static str;
    /// The controller that looks after them.
    const CONTROLLER: &'static str;
    /// The condition that says whether they found room.
    const SCHEDULED: &'static str;
}

/// The version of Kubernetes 1.36.
#[derive(Debug, Clone)]
pub struct V1Alpha2;

impl Version for V1Alpha2 {
    const NAME: &'static str = "v1alpha2";
    const CONTROLLER: &'static str = "podgroup-v1alpha2-controller";
    const SCHEDULED: &'static str = "PodGroupScheduled";
}

/// The version of Kubernetes 1.37.
#[derive(Debug, Clone)]
pub struct V1Beta1;

impl Version for V1Beta1 {
    const NAME: &'static str = "v1beta1";
    const CONTROLLER: &'static str = "podgroup-v1beta1-controller";
    const SCHEDULED: &'static str = "PodGroupInitiallyScheduled";
}

/// A PodGroup of Kubernetes.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound = "")]
pub struct NativeGroup<V> {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NativeSpec,
    #[serde(default)]
    pub status: NativeStatus,
    #[serde(skip)]
    version: PhantomData<V>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSpec {
    pub scheduling_policy: SchedulingPolicy,
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// `PodGroup` in v1alpha2, `{all: {}}` in v1beta1; anything else lets pods go one by one.
    disruption_mode: Value,
    pub priority_class_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SchedulingPolicy {
    /// None if the pods do not have to start together.
    pub gang: Option<GangPolicy>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GangPolicy {
    pub min_count: i32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SchedulingConstraints {
    pub topology: Vec<TopologyConstraint>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TopologyConstraint {
    pub key: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NativeStatus {
    pub conditions: Vec<Condition>,
}

impl NativeSpec {
    /// Returns how many pods start together or not at all.
    pub fn min_member(&self) -> i32 {
        self.scheduling_policy.gang.as_ref().map_or(1, |gang| gang.min_count.max(1))
    }

    /// Returns the label of nodes that all pods must have the same value of. There is one at most, so far.
    pub fn topology_key(&self) -> Option<&str> {
        let constraints = self.scheduling_constraints.as_ref()?;
        constraints.topology.first().map(|constraint| &*constraint.key).filter(|key| !key.is_empty())
    }

    /// Tells whether the pods are evicted together or not at all.
    pub fn leaves_whole(&self) -> bool {
        self.disruption_mode == "PodGroup" || self.disruption_mode.get("all").is_some()
    }
}

impl<V: Version> Resource for NativeGroup<V> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        V::NAME.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "podgroups".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Names the kinds that [`group_of_pod`] reads.
pub fn kinds(kinds: &mut Kinds) {
    kinds.add_optional::<NativeGroup<V1Alpha2>>().add_optional::<NativeGroup<V1Beta1>>();
}

fn are_served(caches: &Caches) -> bool {
    caches.is_served::<NativeGroup<V1Alpha2>>() || caches.is_served::<NativeGroup<V1Beta1>>()
}

/// What a pod says about its group, which the cached one does not have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MemberSpec {
    scheduling_group: SchedulingGroup,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SchedulingGroup {
    pod_group_name: String,
}

/// Returns the PodGroup of Kubernetes that this very pod names. Costs a request, where the cluster serves the kind.
///
/// # Errors
/// If the pod cannot be read.
pub async fn group_of_pod(ctx: &Ctx, pod: &Pod) -> Result<Option<String>, kube::Error> {
    if !are_served(&ctx.caches) {
        return Ok(None);
    }
    let kind = ApiResource::erase::<Pod>(&());
    let namespace = pod.namespace().unwrap_or_default();
    let pods: Api<Object<MemberSpec, NotUsed>> = Api::namespaced_with(ctx.client.clone(), &namespace, &kind);
    let found = pods.get_opt(&pod.name_any()).await?.filter(|found| found.metadata.uid == pod.metadata.uid);
    Ok(found.map(|found| found.spec.scheduling_group.pod_group_name).filter(|name| !name.is_empty()))
}
