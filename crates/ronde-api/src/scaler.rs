//! ScaleIn and ScaleOut: ask for fewer or more workers of a training job, once.

use std::collections::BTreeMap;

use k8s_openapi::{
    Metadata,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ReplicaStatus;

kind! {
    /// Asks for more workers: all of them within the timeout, or none.
    ScaleOut: NamespaceResourceScope "scaleouts" in "kai.alibabacloud.com" / "v1alpha1" {
        #[serde(default)]
        spec: ScaleOutSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ScalerStatus>,
    }
}

kind! {
    /// Asks workers to leave: all of them within the timeout, or the job stays as it is.
    ScaleIn: NamespaceResourceScope "scaleins" in "kai.alibabacloud.com" / "v1alpha1" {
        #[serde(default)]
        spec: ScaleInSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ScalerStatus>,
    }
}

/// Which workers a job shall get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleOutSpec {
    /// The job.
    pub selector: JobSelector,
    /// How many workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_add: Option<ToAdd>,
    /// Seconds until it is given up; 60 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i32>,
    /// Not supported: the list of hosts needs no script.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// Variables for the script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<ScriptVariable>,
    /// Has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// Which workers shall leave a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleInSpec {
    /// The job.
    pub selector: JobSelector,
    /// Which workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_delete: Option<ToDelete>,
    /// Seconds until it is given up; 60 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i32>,
    /// Not supported: the list of hosts needs no script.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// Variables for the script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<ScriptVariable>,
    /// Has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// The job that a scale operation is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSelector {
    /// The name of a TrainingJob in the same namespace.
    pub name: String,
}

/// How many workers to add.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToAdd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// Which workers to let go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToDelete {
    /// How many, those with the highest indexes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// These very pods, whatever the count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_names: Vec<String>,
}

/// A variable for a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScriptVariable {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// How far a scale operation has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalerStatus {
    /// `Scaling`, then `ScaleSucceeded` or `ScaleFailed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What has been reached, the newest at the end.
    pub conditions: Vec<ElasticCondition>,
    /// Has no meaning here; clients of et-operator want it.
    pub replica_statuses: BTreeMap<String, ReplicaStatus>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Has no meaning here; clients of et-operator want it.
    pub restart_count: i32,
    /// The workers that were chosen to be added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_pods: Vec<String>,
    /// The workers that were chosen to leave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to_delete_pods: Vec<String>,
}

/// Something that a job or a scale operation has reached, or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ElasticCondition {
    /// What.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Since when it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// A change of size that is under way, as the status of the job remembers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// In which direction.
    pub way: ScalingWay,
    /// The object that asks for it; none if the controller does so itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The uid of that object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The `replicas` of the job, if that is what asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<i32>,
    /// The workers that come or go.
    pub workers: Vec<String>,
    /// When it began.
    pub since: Time,
    /// Seconds until it is given up.
    pub timeout: i32,
    /// Set when it has ended; the object that asked is told before this record goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ScalingOutcome>,
    /// Why it ended so, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

words! {
    /// In which direction a job is scaled.
    ScalingWay {
        Out = "ScaleOut",
        In = "ScaleIn",
    }
}

words! {
    /// How a change of size ended; also the condition that says so.
    ScalingOutcome {
        Succeeded = "ScaleSucceeded",
        Failed = "ScaleFailed",
    }
}

/// What a scale operation that sets no timeout waits for, in seconds.
const TIMEOUT_SECONDS: i32 = 60;

/// What both kinds of scale operations are.
pub trait Scaler: Metadata<Ty = ObjectMeta> {
    const WAY: ScalingWay;

    fn job_name(&self) -> &str;
    fn given_timeout(&self) -> Option<i32>;
    fn script(&self) -> &str;
    fn status(&self) -> Option<&ScalerStatus>;

    /// Seconds until it is given up.
    fn timeout(&self) -> i32 {
        self.given_timeout().unwrap_or(TIMEOUT_SECONDS)
    }

    /// How it ended, if it has.
    fn outcome(&self) -> Option<ScalingOutcome> {
        self.status()?.phase.parse().ok()
    }
}

macro_rules! scaler {
    ($kind:ident, $way:ident) => {
        impl Scaler for $kind {
            const WAY: ScalingWay = ScalingWay::$way;

            fn job_name(&self) -> &str {
                &self.spec.selector.name
            }

            fn given_timeout(&self) -> Option<i32> {
                self.spec.timeout
            }

            fn script(&self) -> &str {
                &self.spec.script
            }

            fn status(&self) -> Option<&ScalerStatus> {
                self.status.as_ref()
            }
        }
    };
}

scaler!(ScaleOut, Out);
scaler!(ScaleIn, In);

impl ScaleOutSpec {
    /// How many workers it adds; 0 if that is not said.
    pub fn count(&self) -> i32 {
        self.to_add.as_ref().and_then(|add| add.count).unwrap_or(0)
    }
}
