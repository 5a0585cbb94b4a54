//! The CustomResourceDefinitions of our kinds, generated from their types.
//!
//! [`all`] is what `make generate` writes to `crds/` and what `ronde up` installs. The form of fields comes from the
//! types ([`structural`]); what the types cannot say, such as limits, defaults and rules, from [`constraints`]. A pod
//! template is checked field by field too, as in any workload of the cluster.

mod constraints;
mod structural;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use self::structural::structural;
use crate::{
    Command, CronJob, CronJobSpec, CronJobStatus, HyperNode, HyperNodeSpec, HyperNodeStatus, Job, JobFlow, JobFlowSpec,
    JobFlowStatus, JobSpec, JobStatus, JobTemplate, JobTemplateStatus, PodGroup, PodGroupSpec, PodGroupStatus, Queue,
    QueueSpec, QueueStatus, ScaleIn, ScaleInSpec, ScaleOut, ScaleOutSpec, ScalerStatus, TrainingJob, TrainingJobSpec,
    TrainingJobStatus,
};

/// The first line of the file of a definition.
pub const HEAD: &str = "# Generated from crates/ronde-api by `make generate`.\n";

/// The committed definitions as (name, YAML): who only wants to know whether anything is new need not generate them.
pub const COMMITTED: [(&str, &str); 11] = [
    ("commands.bus.volcano.sh", include_str!("../../crds/commands.bus.volcano.sh.yaml")),
    ("cronjobs.batch.volcano.sh", include_str!("../../crds/cronjobs.batch.volcano.sh.yaml")),
    ("hypernodes.topology.volcano.sh", include_str!("../../crds/hypernodes.topology.volcano.sh.yaml")),
    ("jobflows.flow.volcano.sh", include_str!("../../crds/jobflows.flow.volcano.sh.yaml")),
    ("jobs.batch.volcano.sh", include_str!("../../crds/jobs.batch.volcano.sh.yaml")),
    ("jobtemplates.flow.volcano.sh", include_str!("../../crds/jobtemplates.flow.volcano.sh.yaml")),
    ("podgroups.scheduling.volcano.sh", include_str!("../../crds/podgroups.scheduling.volcano.sh.yaml")),
    ("queues.scheduling.volcano.sh", include_str!("../../crds/queues.scheduling.volcano.sh.yaml")),
    ("scaleins.kai.alibabacloud.com", include_str!("../../crds/scaleins.kai.alibabacloud.com.yaml")),
    ("scaleouts.kai.alibabacloud.com", include_str!("../../crds/scaleouts.kai.alibabacloud.com.yaml")),
    ("trainingjobs.kai.alibabacloud.com", include_str!("../../crds/trainingjobs.kai.alibabacloud.com.yaml")),
];

/// Returns the definitions of all kinds, in the order of their names.
pub fn all() -> Vec<Value> {
    vec![
        command(),
        cron_job(),
        hyper_node(),
        job_flow(),
        job(),
        job_template(),
        pod_group(),
        queue(),
        scaler::<ScaleIn, ScaleInSpec>("Asks workers of a training job to leave."),
        scaler::<ScaleOut, ScaleOutSpec>("Asks for more workers of a training job."),
        training_job(),
    ]
}

fn command() -> Value {
    definition::<Command>(
        properties(command_fields),
        About {
            what: "Asks for an action on a job or a queue, once.",
            required: &["action", "target"],
            ..About::default()
        },
    )
}

fn cron_job() -> Value {
    definition::<CronJob>(
        properties(parts::<CronJobSpec, CronJobStatus>),
        About {
            what: "Jobs that start at the times of a schedule.",
            short: &["cronvcjob", "cronvj"],
            status: true,
            required: &["spec"],
            columns: &[
                ("Schedule", "string", ".spec.schedule", 0),
                ("TimeZone", "string", ".spec.timeZone", 0),
                ("Suspend", "boolean", ".spec.suspend", 0),
                ("LastSchedule", "date", ".status.lastScheduleTime", 0),
                ("Age", "date", ".metadata.creationTimestamp", 0),
                ("Missed", "integer", ".status.missedRuns", 1),
                ("Message", "string", ".status.message", 1),
            ],
            ..About::default()
        },
    )
}

fn hyper_node() -> Value {
    definition::<HyperNode>(
        properties(parts::<HyperNodeSpec, HyperNodeStatus>),
        About {
            what: "A domain of the network: nodes that are close to each other, or smaller domains.",
            short: &["hn"],
            status: true,
            required: &["spec"],
            columns: &[
                ("Tier", "integer", ".spec.tier", 0),
                ("TierName", "string", ".spec.tierName", 0),
                ("NodeCount", "integer", ".status.nodeCount", 0),
                ("Age", "date", ".metadata.creationTimestamp", 0),
            ],
            ..About::default()
        },
    )
}

fn job() -> Value {
    definition::<Job>(
        properties(parts::<JobSpec, JobStatus>),
        About {
            what: "A batch job: tasks of pods that start together or not at all.",
            short: &["vcjob", "vj"],
            status: true,
            required: &["spec"],
            columns: &[
                ("STATUS", "string", ".status.state.phase", 0),
                ("minAvailable", "integer", ".status.minAvailable", 0),
                ("RUNNINGS", "integer", ".status.running", 0),
                ("AGE", "date", ".metadata.creationTimestamp", 0),
                ("QUEUE", "string", ".spec.queue", 1),
            ],
            ..About::default()
        },
    )
}

fn job_flow() -> Value {
    definition::<JobFlow>(
        properties(parts::<JobFlowSpec, JobFlowStatus>),
        About {
            what: "Jobs made from templates, each when those that it depends on are complete.",
            short: &["jf"],
            status: true,
            required: &["spec"],
            columns: &[
                ("Status", "string", ".status.state.phase", 0),
                ("Age", "date", ".metadata.creationTimestamp", 0),
                ("Message", "string", ".status.state.message", 1),
            ],
            ..About::default()
        },
    )
}

fn job_template() -> Value {
    definition::<JobTemplate>(
        properties(parts::<JobSpec, JobTemplateStatus>),
        About {
            what: "A job that flows make jobs from.",
            short: &["jt"],
            status: true,
            required: &["spec"],
            columns: &[("Age", "date", ".metadata.creationTimestamp", 0)],
            ..About::default()
        },
    )
}

fn pod_group() -> Value {
    definition::<PodGroup>(
        properties(parts::<PodGroupSpec, PodGroupStatus>),
        About {
            what: "Pods that are placed together or not at all.",
            short: &["pg", "podgroup-v1beta1"],
            // Those who write groups replace them whole, the status with the rest.
            status: false,
            required: &[],
            columns: &[
                ("STATUS", "string", ".status.phase", 0),
                ("minMember", "integer", ".spec.minMember", 0),
                ("RUNNINGS", "integer", ".status.running", 0),
                ("AGE", "date", ".metadata.creationTimestamp", 0),
                ("QUEUE", "string", ".spec.queue", 1),
            ],
            ..About::default()
        },
    )
}

fn queue() -> Value {
    definition::<Queue>(
        properties(parts::<QueueSpec, QueueStatus>),
        About {
            what: "A share of the cluster that pod groups wait for.",
            short: &["q", "queue-v1beta1"],
            status: true,
            required: &[],
            columns: &[("PARENT", "string", ".spec.parent", 0), ("Message", "string", ".status.message", 1)],
            ..About::default()
        },
    )
}

fn scaler<K: Resource<Scope = NamespaceResourceScope>, S: JsonSchema>(what: &'static str) -> Value {
    definition::<K>(
        properties(parts::<S, ScalerStatus>),
        About {
            what,
            status: true,
            required: &["spec"],
            columns: &[
                ("Phase", "string", ".status.conditions[-1:].type", 0),
                ("Age", "date", ".metadata.creationTimestamp", 0),
            ],
            ..About::default()
        },
    )
}

fn training_job() -> Value {
    definition::<TrainingJob>(
        properties(parts::<TrainingJobSpec, TrainingJobStatus>),
        About {
            what: "A training job whose number of workers may change while it runs.",
            status: true,
            scale: Some("etReplicaSpecs.worker.replicas"),
            required: &["spec"],
            columns: &[
                ("Phase", "string", ".status.phase", 0),
                ("Age", "date", ".metadata.creationTimestamp", 0),
                ("Reason", "string", ".status.reason", 1),
            ],
            ..About::default()
        },
    )
}

/// The name of a definition, and of the file it is kept in.
pub fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

/// What a definition says beside its schema.
#[derive(Default)]
struct About {
    /// What `kubectl explain` says of the kind.
    what: &'static str,
    short: &'static [&'static str],
    /// Whether the status is written apart from the rest.
    status: bool,
    /// The number of replicas that `kubectl scale` changes, below the spec; the status has `replicas` and `selector` then.
    scale: Option<&'static str>,
    required: &'static [&'static str],
    /// Name, type, path and priority.
    columns: &'static [(&'static str, &'static str, &'static str, i32)],
}

/// The scope of a kind as a definition names it.
trait Scoped {
    const SCOPE: &'static str;
}

impl Scoped for NamespaceResourceScope {
    const SCOPE: &'static str = "Namespaced";
}

impl Scoped for ClusterResourceScope {
    const SCOPE: &'static str = "Cluster";
}

fn definition<K: Resource<Scope: Scoped>>(fields: Map<String, Value>, about: About) -> Value {
    let singular = K::KIND.to_lowercase();
    let mut names = json!({
        "kind": K::KIND, "listKind": format!("{}List", K::KIND), "plural": K::URL_PATH_SEGMENT, "singular": singular,
    });
    if !about.short.is_empty() {
        names["shortNames"] = json!(about.short);
    }
    let mut version = json!({
        "name": K::VERSION, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema::<K>(fields, &about)},
    });
    if about.status {
        version["subresources"] = json!({"status": {}});
    }
    if let Some(path) = about.scale {
        version["subresources"]["scale"] = json!({
            "specReplicasPath": format!(".spec.{path}"),
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        });
    }
    if !about.columns.is_empty() {
        version["additionalPrinterColumns"] = about.columns.iter().map(column).collect();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", K::URL_PATH_SEGMENT, K::GROUP),
            // Who removes the chart keeps the jobs.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": K::GROUP, "names": names, "scope": <K::Scope as Scoped>::SCOPE, "versions": [version],
        },
    })
}

fn column((name, kind, path, priority): &(&str, &str, &str, i32)) -> Value {
    let mut column = json!({"name": name, "type": kind, "jsonPath": path});
    if *priority > 0 {
        column["priority"] = json!(priority);
    }
    column
}

fn schema<K: Resource>(fields: Map<String, Value>, about: &About) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    });
    for (field, schema) in fields {
        properties[field] = schema;
    }
    let mut schema = json!({"type": "object", "description": about.what, "properties": properties});
    if !about.required.is_empty() {
        schema["required"] = json!(about.required);
    }
    constraints::apply(K::KIND, &mut schema);
    schema
}

/// Generates the schemas of fields and brings them into the form that definitions need.
fn properties(fields: impl FnOnce(&mut SchemaGenerator) -> Value) -> Map<String, Value> {
    let mut generator = SchemaGenerator::default();
    let fields = fields(&mut generator);
    let definitions = generator.take_definitions(true);
    let fields = fields.as_object().cloned().unwrap_or_default();
    fields.into_iter().map(|(field, schema)| (field, structural(&schema, &definitions))).collect()
}

fn parts<S: JsonSchema, T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({"spec": generator.subschema_for::<S>(), "status": generator.subschema_for::<T>()})
}

fn command_fields(generator: &mut SchemaGenerator) -> Value {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    let mut fields = json!({"target": generator.subschema_for::<OwnerReference>()});
    for (field, what) in
        [("action", "What the controller shall do."), ("message", "Why, for people."), ("reason", "Why, in one word.")]
    {
        fields[field] = json!({"type": "string", "description": what});
    }
    fields
}
