//! What the types of the kinds do not say: limits, defaults, words and rules, by path.
//!
//! Everything here is also in [`crate::rules`], in more words; a cluster's API server knows only this. The limits on
//! lengths are what keeps the cost of the rules fixed, as the API server demands.

use serde_json::{Value, json};

use crate::{
    Action, AttachMode, CleanPodPolicy, ConcurrencyPolicy, DequeueStrategy, Event, Iteration, MemberType, PodPhase,
    RestartPolicy, RetainPolicy, TopologyMode, TopologyPolicy,
    names::{elastic::JOB_NAME_MAX, plugins},
    rules::{PODS_MAX, job::MUTABLE_FIELDS, job_flow::FLOWS_MAX},
};

/// The most items of lists, far above what anyone uses.
const TASKS_MAX: u32 = 256;
const VOLUMES_MAX: u32 = 64;
const POLICIES_MAX: u32 = 32;
const DEPENDENCIES_MAX: u32 = TASKS_MAX;
const RESOURCES_MAX: u32 = 64;
const PROBES_MAX: u32 = 64;
const ARGUMENTS_MAX: u32 = 64;
const EXPRESSIONS_MAX: u32 = 16;
/// As long as a name may be, several times.
const PATTERN_LENGTH_MAX: u32 = 512;
/// Room for a key in an argument.
const ARGUMENT_LENGTH_MAX: u32 = 16384;
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Adds the constraints of a kind to its schema.
///
/// # Panics
/// If a path leads nowhere: the tables and the types are changed together.
pub(super) fn apply(kind: &str, schema: &mut Value) {
    let rows = match kind {
        "Job" => job_spec("spec", true),
        "CronJob" => cron_job(),
        "JobFlow" => job_flow(),
        "JobTemplate" => job_spec("spec", false),
        "PodGroup" => pod_group(),
        "Queue" => queue(),
        "HyperNode" => hyper_node(),
        "TrainingJob" => training_job(),
        "ScaleOut" => scaler(&["toAdd"], [("toAdd", json!({"required": ["count"]})), ("toAdd.count", pods(1))]),
        "ScaleIn" => scaler(
            &["toDelete"],
            [("toDelete.count", at_least(1)), ("toDelete.podNames", json!({"maxItems": PODS_MAX}))],
        ),
        "Command" => vec![("action".to_owned(), words(Action::ALL.iter().map(|word| word.as_str())))],
        _ => Vec::new(),
    };
    for (path, constraint) in rows {
        let place = find(schema, &path).unwrap_or_else(|| panic!("{kind} has no field {path}"));
        for (key, value) in constraint.as_object().into_iter().flatten() {
            place[key] = value.clone();
        }
    }
}

/// `spec.tasks[].name`: `[]` stands for the items of a list, `{}` for the values of a map.
fn find<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut at = schema;
    for part in path.split('.') {
        let end = part.find(['[', '{']).unwrap_or(part.len());
        at = at.get_mut("properties")?.get_mut(&part[..end])?;
        for bracket in part[end..].chars() {
            match bracket {
                '[' => at = at.get_mut("items")?,
                '{' => at = at.get_mut("additionalProperties")?,
                _ => {}
            }
        }
    }
    Some(at)
}

type Row = (String, Value);

fn rows(prefix: &str, rows: impl IntoIterator<Item = (&'static str, Value)>) -> Vec<Row> {
    let join = |path: &str| if path.is_empty() { prefix.to_owned() } else { format!("{prefix}.{path}") };
    rows.into_iter().map(|(path, constraint)| (join(path), constraint)).collect()
}

fn words(words: impl Iterator<Item = &'static str>) -> Value {
    json!({"enum": words.collect::<Vec<_>>()})
}

fn at_least(least: i32) -> Value {
    json!({"minimum": least})
}

/// A number of pods of one job.
fn pods(least: i32) -> Value {
    json!({"minimum": least, "maximum": PODS_MAX})
}

fn name(pattern: &str, length_max: u32) -> Value {
    json!({"pattern": pattern, "maxLength": length_max})
}

/// Rules as (expression, message, path of the field that is wrong).
fn checked(rules: &[(&str, &str, &str)]) -> Value {
    let rule = |(rule, message, path): &(&str, &str, &str)| {
        let mut rule = json!({"rule": rule, "message": message});
        if !path.is_empty() {
            rule["fieldPath"] = json!(path);
        }
        rule
    };
    rules.iter().map(rule).collect()
}

/// A rule that a field may not change, also not from nothing or to nothing.
fn fixed(field: &str) -> Value {
    json!({
        "rule": format!(
            "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        ),
        "message": format!("job updates may not change fields other than {MUTABLE_FIELDS}"),
        "fieldPath": format!(".{field}"),
    })
}

fn with(mut constraint: Value, key: &str, value: Value) -> Value {
    constraint[key] = value;
    constraint
}

/// What may not change in a job. Tasks are left to the controller: templates have no fixed size to compare.
const FIXED: [&str; 9] = [
    "queue",
    "schedulerName",
    "maxRetry",
    "ttlSecondsAfterFinished",
    "minSuccess",
    "runningEstimate",
    "networkTopology",
    "policies",
    "plugins",
];

const RULES: &str = "x-kubernetes-validations";

/// The spec of a job; one that is not fixed is that of a template.
fn job_spec(path: &str, is_fixed: bool) -> Vec<Row> {
    let all = [
        rows(
            path,
            [
                ("", json!({"required": ["tasks"], RULES: job_rules(is_fixed)})),
                ("schedulerName", json!({"maxLength": 63})),
                ("minAvailable", at_least(0)),
                ("queue", with(name(SUBDOMAIN, 253), "default", "default".into())),
                ("maxRetry", with(at_least(0), "default", 3.into())),
                ("ttlSecondsAfterFinished", at_least(0)),
                ("priorityClassName", name(SUBDOMAIN, 253)),
                ("minSuccess", at_least(1)),
                ("plugins", json!({"maxProperties": plugins::ALL.len()})),
                ("plugins{}", json!({"maxItems": ARGUMENTS_MAX})),
                ("plugins{}[]", json!({"maxLength": ARGUMENT_LENGTH_MAX})),
                ("volumes", json!({"maxItems": VOLUMES_MAX})),
                (
                    "volumes[]",
                    json!({"required": ["mountPath"], RULES: checked(&[(
                        "has(self.volumeClaimName) || has(self.volumeClaim)",
                        "either VolumeClaim or VolumeClaimName must be specified",
                        ".volumeClaim",
                    )])}),
                ),
                ("volumes[].mountPath", json!({"minLength": 1, "maxLength": 1024, "pattern": "^[^:]*$"})),
                ("volumes[].volumeClaimName", name(SUBDOMAIN, 253)),
                ("tasks", json!({"minItems": 1, "maxItems": TASKS_MAX})),
            ],
        ),
        task(&format!("{path}.tasks[]")),
        policies(&format!("{path}.policies")),
        policies(&format!("{path}.tasks[].policies")),
        topology(&format!("{path}.networkTopology")),
        topology(&format!("{path}.tasks[].partitionPolicy.networkTopology")),
    ];
    all.concat()
}

fn job_rules(is_fixed: bool) -> Value {
    let known = plugins::ALL.map(|name| format!("'{name}'")).join(", ");
    let mut rules = checked(&[
        (
            "!has(self.minAvailable) || self.minAvailable <= self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()",
            "job 'minAvailable' should not be greater than total replicas in tasks",
            ".minAvailable",
        ),
        (
            &format!("self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum() <= {PODS_MAX}"),
            &format!("the tasks have more than {PODS_MAX} pods in total"),
            ".tasks",
        ),
        (
            "self.tasks.all(t, !has(t.name) || self.tasks.exists_one(u, has(u.name) && u.name == t.name))",
            "duplicated task name",
            ".tasks",
        ),
        (
            "!has(self.volumes) || self.volumes.all(v, self.volumes.exists_one(w, w.mountPath == v.mountPath))",
            "duplicated mountPath",
            ".volumes",
        ),
        (
            &format!("!has(self.plugins) || self.plugins.all(p, p in [{known}])"),
            &format!("unable to find job plugin: it is not one of {known}"),
            ".plugins",
        ),
    ]);
    if let Some(rules) = rules.as_array_mut().filter(|_| is_fixed) {
        let tasks = "self.tasks.size() == oldSelf.tasks.size()";
        rules.push(checked(&[(tasks, "job updates may not add or remove tasks", ".tasks")])[0].clone());
        rules.extend(FIXED.into_iter().map(fixed));
    }
    rules
}

/// A schedule is left to the controller: what it takes is more than a pattern says.
fn cron_job() -> Vec<Row> {
    let policies = words(ConcurrencyPolicy::ALL.iter().map(|word| word.as_str()));
    let own = rows(
        "spec",
        [
            ("", json!({"required": ["schedule", "jobTemplate"]})),
            ("schedule", json!({"minLength": 1, "maxLength": 1024})),
            ("timeZone", json!({"minLength": 1, "maxLength": 255})),
            ("startingDeadlineSeconds", at_least(0)),
            ("concurrencyPolicy", with(policies, "default", "Allow".into())),
            ("suspend", json!({"default": false})),
            ("successfulJobsHistoryLimit", with(at_least(0), "default", 3.into())),
            ("failedJobsHistoryLimit", with(at_least(0), "default", 1.into())),
            ("jobTemplate", json!({"required": ["spec"]})),
        ],
    );
    [own, job_spec("spec.jobTemplate.spec", false)].concat()
}

/// What can be said of a flow without looking at all of it: the graph is left to the controller. A patch is no job, and
/// has no defaults.
fn job_flow() -> Vec<Row> {
    let probe = |list: &str| format!("spec.flows[].dependsOn.probe.{list}");
    let mut all = rows(
        "spec",
        [
            ("", json!({"required": ["flows"]})),
            ("flows", json!({"minItems": 1, "maxItems": FLOWS_MAX})),
            ("flows[]", json!({"required": ["name"]})),
            ("flows[].name", with(name(SUBDOMAIN, 253), "minLength", 1.into())),
            ("flows[].dependsOn.targets", json!({"maxItems": FLOWS_MAX})),
            ("jobRetainPolicy", words(RetainPolicy::ALL.iter().map(|word| word.as_str()))),
        ],
    );
    for list in ["httpGetList", "tcpSocketList", "taskStatusList"] {
        all.push((probe(list), json!({"maxItems": PROBES_MAX})));
    }
    for list in ["httpGetList[].port", "tcpSocketList[].port"] {
        all.push((probe(list), json!({"minimum": 1, "maximum": 65535})));
    }
    all.push((probe("taskStatusList[].phase"), words(PodPhase::ALL.iter().map(|word| word.as_str()))));
    all
}

fn task(path: &str) -> Vec<Row> {
    let iteration = words(Iteration::ALL.iter().map(|word| word.as_str()));
    let rules = checked(&[
        (
            "!has(self.minAvailable) || self.minAvailable <= (has(self.replicas) ? self.replicas : 0)",
            "'minAvailable' is greater than 'replicas' in task",
            ".minAvailable",
        ),
        (
            "!has(self.partitionPolicy) || (has(self.replicas) ? self.replicas : 0) == \
             self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize",
            "replicas is not totalPartitions × partitionSize",
            ".replicas",
        ),
        (
            "!has(self.partitionPolicy) || !has(self.minAvailable) || self.partitionPolicy.minPartitions == 0 || \
             self.minAvailable == self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize",
            "minAvailable is not minPartitions × partitionSize",
            ".minAvailable",
        ),
    ]);
    rows(
        path,
        [
            ("", json!({RULES: rules})),
            ("name", name(LABEL, 63)),
            ("replicas", pods(0)),
            ("minAvailable", pods(0)),
            ("maxRetry", with(at_least(0), "default", 3.into())),
            ("topologyPolicy", words(TopologyPolicy::ALL.iter().map(|word| word.as_str()))),
            ("dependsOn.name", json!({"maxItems": DEPENDENCIES_MAX})),
            ("dependsOn.iteration", iteration),
            (
                "partitionPolicy",
                json!({"required": ["totalPartitions", "partitionSize"], RULES: checked(&[(
                    "self.minPartitions <= self.totalPartitions",
                    "minPartitions is more than totalPartitions",
                    ".minPartitions",
                )])}),
            ),
            ("partitionPolicy.totalPartitions", at_least(1)),
            ("partitionPolicy.partitionSize", at_least(1)),
            ("partitionPolicy.minPartitions", with(at_least(0), "default", 0.into())),
        ],
    )
}

fn policies(path: &str) -> Vec<Row> {
    let users_events = Event::ALL.iter().filter(|event| event.is_for_users()).map(|event| event.as_str());
    let events = words(users_events);
    let actions = words(Action::ALL.iter().filter(|action| action.is_for_users()).map(|action| action.as_str()));
    let list_rules = checked(&[
        (
            "self.all(p, !has(p.event) || self.exists_one(q, has(q.event) && q.event == p.event))",
            "duplicate event: an earlier policy has it",
            "",
        ),
        (
            "self.all(p, !has(p.exitCode) || self.exists_one(q, has(q.exitCode) && q.exitCode == p.exitCode))",
            "duplicate exitCode: an earlier policy has it",
            "",
        ),
    ]);
    let rules = checked(&[
        ("has(self.event) || has(self.events) || has(self.exitCode)", "set event, events or exitCode", ".event"),
        (
            "!has(self.exitCode) || !(has(self.event) || has(self.events))",
            "must not specify event and exitCode simultaneously: set one of them",
            ".exitCode",
        ),
    ]);
    let mut list = rows(path, [("", json!({"maxItems": POLICIES_MAX, RULES: list_rules}))]);
    list.extend(rows(
        &format!("{path}[]"),
        [
            ("", json!({"required": ["action"], RULES: rules})),
            ("action", actions),
            ("event", events.clone()),
            ("events", json!({"maxItems": 8})),
            ("events[]", events),
            (
                "exitCode",
                json!({RULES: checked(&[("self != 0", "0 is not a valid error code: it means success", "")])}),
            ),
        ],
    ));
    list
}

fn topology(path: &str) -> Vec<Row> {
    let mode = words(TopologyMode::ALL.iter().map(|word| word.as_str()));
    rows(
        path,
        [
            (
                "",
                json!({RULES: checked(&[(
                    "!has(self.highestTierAllowed) || !has(self.highestTierName)",
                    "highestTierName cannot be combined with highestTierAllowed: set one of them",
                    ".highestTierName",
                )])}),
            ),
            ("mode", with(mode, "default", "hard".into())),
            ("highestTierAllowed", at_least(0)),
            ("highestTierName", json!({"maxLength": 253})),
        ],
    )
}

fn pod_group() -> Vec<Row> {
    let own = rows(
        "spec",
        [
            ("minMember", at_least(0)),
            ("minTaskMember{}", at_least(0)),
            ("queue", with(json!({"maxLength": 253}), "default", "default".into())),
            ("subGroupPolicy", json!({"maxItems": TASKS_MAX})),
            ("subGroupPolicy[].subGroupSize", with(at_least(1), "default", 1.into())),
            ("subGroupPolicy[].minSubGroups", with(at_least(0), "default", 0.into())),
        ],
    );
    [own, topology("spec.networkTopology"), topology("spec.subGroupPolicy[].networkTopology")].concat()
}

fn queue() -> Vec<Row> {
    let strategy = words(DequeueStrategy::ALL.iter().map(|word| word.as_str()));
    let most = json!({"maxProperties": RESOURCES_MAX});
    let rules = checked(&[
        (
            "!has(self.deserved) || !has(self.capability) || self.deserved.all(r, !(r in self.capability) || \
             quantity(string(self.deserved[r])).compareTo(quantity(string(self.capability[r]))) <= 0)",
            "deserved must be <= capability",
            ".deserved",
        ),
        (
            "!has(self.guarantee) || !has(self.guarantee.resource) || (has(self.deserved) && \
             self.guarantee.resource.all(r, r in self.deserved && \
             quantity(string(self.guarantee.resource[r])).compareTo(quantity(string(self.deserved[r]))) <= 0))",
            "deserved must be >= guarantee",
            ".guarantee",
        ),
    ]);
    rows(
        "spec",
        [
            ("", json!({RULES: rules})),
            ("weight", json!({"minimum": 1, "maximum": 65535, "default": 1})),
            ("capability", most.clone()),
            ("deserved", most.clone()),
            ("guarantee.resource", most),
            ("capability{}", json!({"maxLength": 64})),
            ("deserved{}", json!({"maxLength": 64})),
            ("guarantee.resource{}", json!({"maxLength": 64})),
            ("reclaimable", json!({"default": true})),
            ("priority", at_least(0)),
            ("maxRunningJobs", at_least(1)),
            ("dequeueStrategy", with(strategy, "default", "traverse".into())),
        ],
    )
}

fn hyper_node() -> Vec<Row> {
    let one_way = checked(&[(
        "[has(self.exactMatch), has(self.regexMatch), has(self.labelMatch)].filter(is, is).size() == 1",
        "set exactly one of exactMatch, regexMatch and labelMatch",
        "",
    )]);
    let pattern = checked(&[("''.matches(self) in [true, false]", "member regexMatch pattern is invalid", "")]);
    let values = checked(&[(
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        "In and NotIn need values, Exists and DoesNotExist take none",
        ".values",
    )]);
    let of_nodes = checked(&[(
        "self.type == 'Node' || !has(self.selector.labelMatch)",
        "labelMatch selects nodes only, not HyperNodes",
        ".selector.labelMatch",
    )]);
    rows(
        "spec",
        [
            ("tier", at_least(0)),
            ("members", json!({"minItems": 1, "maxItems": 10_000})),
            ("members[]", json!({"required": ["type", "selector"], RULES: of_nodes})),
            ("members[].type", words(MemberType::ALL.iter().map(|word| word.as_str()))),
            ("members[].selector", json!({RULES: one_way})),
            ("members[].selector.exactMatch.name", with(name(SUBDOMAIN, 253), "minLength", 1.into())),
            (
                "members[].selector.regexMatch.pattern",
                json!({"minLength": 1, "maxLength": PATTERN_LENGTH_MAX, RULES: pattern}),
            ),
            ("members[].selector.labelMatch.matchExpressions", json!({"maxItems": EXPRESSIONS_MAX})),
            ("members[].selector.labelMatch.matchExpressions[]", json!({RULES: values})),
            (
                "members[].selector.labelMatch.matchExpressions[].operator",
                words(["In", "NotIn", "Exists", "DoesNotExist"].into_iter()),
            ),
        ],
    )
}

fn training_job() -> Vec<Row> {
    let of_worker = checked(&[
        (
            "!has(self.minReplicas) || self.minReplicas <= (has(self.replicas) ? self.replicas : 1)",
            "minReplicas is more than replicas",
            ".minReplicas",
        ),
        (
            "!has(self.maxReplicas) || self.maxReplicas >= (has(self.replicas) ? self.replicas : 1)",
            "maxReplicas is less than replicas",
            ".maxReplicas",
        ),
    ]);
    let policies = [RestartPolicy::Never, RestartPolicy::OnFailure].map(RestartPolicy::as_str);
    let of_pods = || words(RestartPolicy::ALL.iter().map(|word| word.as_str()));
    let one = json!({"minimum": 1, "maximum": 1});
    rows(
        "spec",
        [
            ("", json!({"required": ["etReplicaSpecs"]})),
            ("cleanPodPolicy", words(CleanPodPolicy::ALL.iter().map(|word| word.as_str()))),
            ("launcherAttachMode", words(AttachMode::ALL.iter().map(|word| word.as_str()))),
            ("slotsPerWorker", at_least(1)),
            ("restartPolicy", with(words(policies.into_iter()), "default", "Never".into())),
            ("backoffLimit", with(at_least(0), "default", 6.into())),
            ("etReplicaSpecs", json!({"required": ["launcher", "worker"]})),
            ("etReplicaSpecs.launcher", json!({"required": ["template"]})),
            ("etReplicaSpecs.launcher.replicas", one),
            ("etReplicaSpecs.launcher.restartPolicy", of_pods()),
            ("etReplicaSpecs.worker", json!({"required": ["template"], RULES: of_worker})),
            // Without a value there would be nothing to read or to change by `kubectl scale`.
            ("etReplicaSpecs.worker.replicas", with(pods(1), "default", 1.into())),
            ("etReplicaSpecs.worker.minReplicas", pods(1)),
            ("etReplicaSpecs.worker.maxReplicas", pods(1)),
            ("etReplicaSpecs.worker.restartPolicy", of_pods()),
        ],
    )
}

fn scaler(required: &[&str], own: [(&'static str, Value); 2]) -> Vec<Row> {
    let required: Vec<&str> = ["selector"].into_iter().chain(required.iter().copied()).collect();
    let common = [
        ("", json!({"required": required})),
        ("selector", json!({"required": ["name"]})),
        ("selector.name", json!({"minLength": 1, "maxLength": JOB_NAME_MAX})),
        ("timeout", at_least(1)),
    ];
    rows("spec", common.into_iter().chain(own))
}
