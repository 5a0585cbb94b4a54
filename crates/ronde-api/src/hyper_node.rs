//! HyperNode: nodes that are close to each other in the network, and groups of such groups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

kind! {
    /// A domain of the network: nodes, or smaller domains.
    HyperNode: ClusterResourceScope "hypernodes" in "topology.volcano.sh" / "v1alpha1" {
        #[serde(default)]
        spec: HyperNodeSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<HyperNodeStatus>,
    }
}

/// What a domain consists of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HyperNodeSpec {
    /// The lower, the closer its nodes are to each other.
    pub tier: i32,
    /// The same by name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tier_name: String,
    /// What it consists of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<HyperNodeMember>,
}

/// Some of the members of a domain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HyperNodeMember {
    /// `Node` or `HyperNode`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Which.
    pub selector: HyperNodeMemberSelector,
}

/// Chooses members in one of three ways.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HyperNodeMemberSelector {
    /// By name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<ExactMatch>,
    /// By a pattern for names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex_match: Option<RegexMatch>,
    /// By labels; for nodes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_match: Option<LabelSelector>,
}

/// One member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactMatch {
    /// Its name.
    pub name: String,
}

/// Members by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegexMatch {
    /// A regular expression that the name matches somewhere.
    pub pattern: String,
}

/// What is known of a domain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HyperNodeStatus {
    /// What is so or not about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How many nodes it has, those of smaller domains included.
    pub node_count: i64,
}

words! {
    /// What a domain consists of.
    MemberType {
        Node = "Node",
        HyperNode = "HyperNode",
    }
}
