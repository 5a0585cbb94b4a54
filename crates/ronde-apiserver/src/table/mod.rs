//! The answer to `Accept: application/json;as=Table`, which is what `kubectl get` prints.
//!
//! [`columns`] knows the columns of every built-in kind, [`Columns::custom`] makes them from a custom resource
//! definition, and [`table`] joins columns and objects into something that serialises as a `Table`. The handlers of
//! get, list and watch call it. Pure: the time of the request is an argument. Cells of wide columns are always there;
//! it is the client that hides them. Choosing the media type and reading the query are the caller's.

pub mod age;
mod cluster;
mod column;
mod custom;
mod event;
mod field;
mod labels;
mod network;
mod node;
mod pod;
mod rbac;
mod storage;
#[cfg(test)]
mod tests;
mod workload;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::Value;

pub use self::column::Column;
use crate::{error::ApiError, jsonpath::JsonPath};

/// On a bookmark: the initial events of a watch are through.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The columns of a kind, and how a row is made from an object.
#[derive(Debug)]
pub struct Columns {
    definitions: Cow<'static, [Column]>,
    cells: Cells,
    condition: fn(&Value) -> Option<RowCondition>,
}

/// How the cells of a row come about.
#[derive(Debug)]
enum Cells {
    /// A kind without columns of its own: name and time of creation.
    Default,
    BuiltIn(fn(&Value, Timestamp) -> Vec<Value>),
    /// The paths of all columns after the name.
    Custom(Vec<JsonPath>),
}

/// What a row says about its object beyond the cells: `kubectl` leaves out rows of completed pods on some flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct RowCondition {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// What each row carries of its object (`includeObject` of the query).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    #[default]
    Metadata,
    Object,
    None,
}

/// The metadata of a table: that of the list, or the version of the one object.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: &'a str,
    #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
    pub continue_token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<u64>,
}

/// How a table is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub include_object: IncludeObject,
    /// False for every event of a watch after the first: the client knows the columns by then.
    pub with_header: bool,
    pub now: Timestamp,
}

/// A table on its way to the client; rows are made while it is serialised, objects are never copied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta<'a>,
    column_definitions: Option<&'a [Column]>,
    rows: Rows<'a>,
}

#[derive(Debug)]
struct Rows<'a> {
    columns: &'a Columns,
    objects: &'a [&'a Value],
    options: Options,
    api_version: &'static str,
}

#[derive(Serialize)]
struct Row<'a> {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[RowCondition; 1]>,
    object: RowObject<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RowObject<'a> {
    None,
    Object(&'a Value),
    #[serde(rename_all = "camelCase")]
    Metadata {
        kind: &'static str,
        api_version: &'static str,
        metadata: &'a Value,
    },
}

/// Returns the columns of a built-in kind: name and time of creation for one that has none of its own.
pub fn columns(group: &str, kind: &str) -> Columns {
    match (group, kind) {
        ("", "Pod") => Columns { condition: pod::condition, ..built_in(&pod::POD, pod::cells) },
        ("", "Namespace") => built_in(&cluster::NAMESPACE, cluster::namespace),
        ("", "ConfigMap") => built_in(&cluster::CONFIG_MAP, cluster::config_map),
        ("", "Secret") => built_in(&cluster::SECRET, cluster::secret),
        ("", "ServiceAccount") => built_in(&cluster::SERVICE_ACCOUNT, cluster::service_account),
        ("", "ResourceQuota") => built_in(&cluster::RESOURCE_QUOTA, cluster::resource_quota),
        ("", "Node") => built_in(&node::NODE, node::cells),
        ("", "Event") => built_in(&event::EVENT, event::core),
        ("events.k8s.io", "Event") => built_in(&event::EVENT, event::events),
        ("", "Service") => built_in(&network::SERVICE, network::service),
        ("", "Endpoints") => built_in(&network::ENDPOINTS, network::endpoints),
        ("discovery.k8s.io", "EndpointSlice") => built_in(&network::ENDPOINT_SLICE, network::endpoint_slice),
        ("networking.k8s.io", "NetworkPolicy") => built_in(&network::NETWORK_POLICY, network::network_policy),
        ("networking.k8s.io", "Ingress") => built_in(&network::INGRESS, network::ingress),
        ("networking.k8s.io", "IngressClass") => built_in(&network::INGRESS_CLASS, network::ingress_class),
        ("", "PersistentVolume") => built_in(&storage::VOLUME, storage::volume),
        ("", "PersistentVolumeClaim") => built_in(&storage::CLAIM, storage::claim),
        ("storage.k8s.io", "StorageClass") => built_in(&storage::STORAGE_CLASS, storage::storage_class),
        ("apps", "Deployment") => built_in(&workload::DEPLOYMENT, workload::deployment),
        ("apps", "ReplicaSet") => built_in(&workload::REPLICA_SET, workload::replica_set),
        ("apps", "StatefulSet") => built_in(&workload::STATEFUL_SET, workload::stateful_set),
        ("apps", "ControllerRevision") => built_in(&workload::CONTROLLER_REVISION, workload::controller_revision),
        ("batch", "Job") => built_in(&workload::JOB, workload::job),
        ("policy", "PodDisruptionBudget") => built_in(&workload::DISRUPTION_BUDGET, workload::disruption_budget),
        ("autoscaling", "Scale") => built_in(&workload::SCALE, workload::scale),
        ("scheduling.k8s.io", "PriorityClass") => built_in(&cluster::PRIORITY_CLASS, cluster::priority_class),
        ("coordination.k8s.io", "Lease") => built_in(&cluster::LEASE, cluster::lease),
        ("rbac.authorization.k8s.io", "RoleBinding") => built_in(&rbac::ROLE_BINDING, rbac::binding),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => built_in(&rbac::CLUSTER_ROLE_BINDING, rbac::binding),
        _ => Columns { definitions: Cow::Borrowed(&column::DEFAULT), cells: Cells::Default, condition: |_| None },
    }
}

/// Joins columns and objects into a `Table`.
pub fn table<'a>(
    columns: &'a Columns,
    metadata: ListMeta<'a>,
    objects: &'a [&'a Value],
    options: Options,
) -> Table<'a> {
    Table {
        kind: "Table",
        api_version: column::META_V1,
        metadata,
        column_definitions: options.with_header.then_some(&*columns.definitions),
        rows: Rows { columns, objects, options, api_version: column::META_V1 },
    }
}

fn built_in(definitions: &'static [Column], cells: fn(&Value, Timestamp) -> Vec<Value>) -> Columns {
    Columns { definitions: Cow::Borrowed(definitions), cells: Cells::BuiltIn(cells), condition: |_| None }
}

impl Columns {
    /// Makes the columns of a custom resource from the `additionalPrinterColumns` of its version.
    ///
    /// A column whose path cannot be read ends the list; validation of the definition does not let it come to that.
    pub fn custom(printer_columns: &[Value]) -> Self {
        let (definitions, paths) = custom::columns(printer_columns);
        Self { definitions: Cow::Owned(definitions), cells: Cells::Custom(paths), condition: |_| None }
    }

    /// Returns the columns of the subresource `scale` of a custom resource.
    pub fn custom_scale() -> Self {
        built_in(&workload::CUSTOM_SCALE, workload::scale)
    }

    /// Returns what the table shows as `columnDefinitions`.
    pub fn definitions(&self) -> &[Column] {
        &self.definitions
    }

    /// Makes the cells of one row, one for each definition.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.cells {
            Cells::Default => column::default_cells(object),
            Cells::BuiltIn(cells) => cells(object, now),
            Cells::Custom(paths) => custom::cells(&self.definitions, paths, object, now),
        }
    }
}

impl Table<'_> {
    /// Makes it a table of the older version, in which only the names of the versions differ.
    #[must_use]
    pub fn in_v1beta1(mut self) -> Self {
        self.api_version = column::META_V1BETA1;
        self.rows.api_version = column::META_V1BETA1;
        self
    }
}

impl<'a> Rows<'a> {
    fn row(&self, object: &'a Value) -> Row<'a> {
        Row {
            cells: self.columns.cells(object, self.options.now),
            conditions: (self.columns.condition)(object).map(|condition| [condition]),
            object: self.object(object),
        }
    }

    fn object(&self, object: &'a Value) -> RowObject<'a> {
        let is_last_bookmark = object["metadata"]["annotations"][INITIAL_EVENTS_END] == "true";
        match self.options.include_object {
            IncludeObject::Object => RowObject::Object(object),
            IncludeObject::None if !is_last_bookmark => RowObject::None,
            // Clients find the end of the initial events by the annotation, so it always goes out.
            IncludeObject::None | IncludeObject::Metadata => RowObject::Metadata {
                kind: "PartialObjectMetadata",
                api_version: self.api_version,
                metadata: &object["metadata"],
            },
        }
    }
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`; absent and empty mean [`IncludeObject::Metadata`].
    ///
    /// # Errors
    /// Any word but the three is a bad request.
    pub fn parse(parameter: Option<&str>) -> Result<Self, ApiError> {
        match parameter.unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

impl<'a> ListMeta<'a> {
    /// Returns the metadata of a table that shows one object: its version.
    pub fn of_object(object: &'a Value) -> Self {
        Self { resource_version: field::text(&object["metadata"]["resourceVersion"]), ..Self::default() }
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The real server writes no rows of a kind without own columns as null.
        if self.objects.is_empty() && matches!(self.columns.cells, Cells::Default) {
            return serializer.serialize_none();
        }
        let mut rows = serializer.serialize_seq(Some(self.objects.len()))?;
        for object in self.objects {
            rows.serialize_element(&self.row(object))?;
        }
        rows.end()
    }
}
