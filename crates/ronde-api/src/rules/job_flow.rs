//! Flows of jobs and the templates they are made from: rules, and how a patch changes a template.

use std::collections::BTreeSet;

use ronde_text::names::{is_dns1123_subdomain, is_http_header_name, is_valid_port_num};
use serde_json::{Map, Value};

use super::{
    Fault, Stage,
    dependencies::{Node, check_graph},
    fault::Faults,
    job,
};
use crate::{Flow, FlowHttpGet, FlowProbe, Job, JobFlow, JobSpec, JobTemplate, PodPhase, RetainPolicy, names};

/// The most jobs of one flow: its status says something about each, and an object has a megabyte and a half at most.
pub const FLOWS_MAX: usize = 1000;
/// The most targets of all jobs of a flow together: every look at it goes through them.
const TARGETS_MAX: usize = 10_000;
/// The name of a job is part of host names.
const JOB_NAME_MAX: usize = 63;

/// Returns what is wrong with a flow.
pub fn validate(flow: &JobFlow) -> Vec<Fault> {
    let mut faults = Faults::default();
    let policies = RetainPolicy::ALL.iter().map(|word| word.as_str());
    faults.one_of("spec.jobRetainPolicy", &flow.spec.job_retain_policy, policies);
    if flow.spec.flows.is_empty() {
        faults.required("spec.flows", "must name at least one JobTemplate");
    }
    if flow.spec.flows.len() > FLOWS_MAX {
        faults.invalid("spec.flows", format!("has {} jobs, at most {FLOWS_MAX} are allowed", flow.spec.flows.len()));
    }
    let targets: usize = flow.spec.flows.iter().map(|one| one.targets().len()).sum();
    if targets > TARGETS_MAX {
        faults.invalid("spec.flows", format!("names {targets} targets in all, at most {TARGETS_MAX} are allowed"));
        return faults.into_vec();
    }
    check_names(flow, &mut faults);
    for (at, one) in flow.spec.flows.iter().enumerate() {
        if let Some(probe) = one.probe() {
            check_probe(one, probe, &format!("spec.flows[{at}].dependsOn.probe"), &mut faults);
        }
    }
    let nodes = flow.spec.flows.iter().enumerate().map(|(at, one)| {
        let path = format!("spec.flows[{at}].dependsOn");
        Node { name: &one.name, list: format!("{path}.targets"), path, waits_for: one.targets() }
    });
    let nodes: Vec<Node<'_>> = nodes.collect();
    check_graph(("flow", "jobflow Flow is not DAG"), &nodes, &mut faults);
    faults.into_vec()
}

fn check_names(flow: &JobFlow, faults: &mut Faults) {
    let name = flow.metadata.name.as_deref().unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (at, one) in flow.spec.flows.iter().enumerate() {
        let path = format!("spec.flows[{at}].name");
        if one.name.is_empty() {
            faults.required(path, "must be the name of a JobTemplate");
            continue;
        }
        faults.name(&path, &one.name, is_dns1123_subdomain);
        if !seen.insert(&one.name) {
            faults.duplicate(&path, format!("{:?} is in the flow already", one.name));
        }
        let job = names::flow_job(name, &one.name);
        if job.len() > JOB_NAME_MAX {
            let why = format!("its job would be named {job:?}, which has {} characters", job.len());
            faults.invalid(path, format!("{why}; at most {JOB_NAME_MAX} are allowed"));
        }
    }
}

fn check_probe(flow: &Flow, probe: &FlowProbe, path: &str, faults: &mut Faults) {
    if flow.targets().is_empty() {
        faults.invalid(path, "has nothing to ask: dependsOn.targets is empty");
    }
    for (at, get) in probe.http_get_list.iter().enumerate() {
        check_http(get, &format!("{path}.httpGetList[{at}]"), faults);
    }
    for (at, tcp) in probe.tcp_socket_list.iter().enumerate() {
        check_port(tcp.port, format!("{path}.tcpSocketList[{at}].port"), faults);
    }
    for (at, status) in probe.task_status_list.iter().enumerate() {
        let path = format!("{path}.taskStatusList[{at}].phase");
        if status.phase.is_empty() {
            faults.required(path, "must be a phase of pods, such as Running");
        } else {
            faults.one_of(path, &status.phase, PodPhase::ALL.iter().map(|word| word.as_str()));
        }
    }
}

fn check_http(get: &FlowHttpGet, path: &str, faults: &mut Faults) {
    check_port(get.port, format!("{path}.port"), faults);
    // They stand in the first lines of a request as they are.
    if get.path.chars().any(|c| c.is_control() || c == ' ') {
        faults.invalid(format!("{path}.path"), "must not have spaces or control characters");
    }
    let Some(header) = get.header() else { return };
    faults.name(&format!("{path}.httpHeader.name"), &header.name, is_http_header_name);
    if header.value.chars().any(char::is_control) {
        faults.invalid(format!("{path}.httpHeader.value"), "must not have control characters");
    }
}

fn check_port(port: i32, path: String, faults: &mut Faults) {
    for complaint in is_valid_port_num(i64::from(port)) {
        faults.invalid(&path, complaint);
    }
}

/// Returns what would be wrong with a job that is made from a template as it is. A flow may patch it, so that it is
/// stored nevertheless.
pub fn template_warnings(template: &JobTemplate) -> Vec<String> {
    let mut job = Job { metadata: template.metadata.clone(), spec: template.spec.clone(), status: None };
    job::default(&mut job, Stage::Create, None);
    job::validate_accepted(&job)
        .iter()
        .map(|fault| format!("{fault}; jobs of flows that do not patch it are refused"))
        .collect()
}

/// Returns the spec of the job that a flow makes from a template.
///
/// # Errors
/// If what comes out is not the spec of a job, in words.
pub fn patched(template: &JobSpec, flow: &Flow) -> Result<JobSpec, String> {
    let Some(patch) = flow.patch.as_ref().filter(|patch| !patch.job_spec.is_empty()) else {
        return Ok(template.clone());
    };
    let mut spec = serde_json::to_value(template).map_err(|error| error.to_string())?;
    merge_fields(&mut spec, &patch.job_spec);
    serde_json::from_value(spec).map_err(|error| format!("the patch does not fit: {error}"))
}

/// Merges field by field; null takes a field away.
fn merge_fields(into: &mut Value, patch: &Map<String, Value>) {
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (key, value) in patch {
        match value {
            Value::Null => _ = into.as_object_mut().and_then(|into| into.remove(key)),
            Value::Object(fields) => merge_fields(&mut into[key.as_str()], fields),
            Value::Array(items) if is_named(items) => merge_named(&mut into[key.as_str()], items),
            other => into[key.as_str()] = other.clone(),
        }
    }
}

/// Whether a list consists of things with names, such as tasks, containers and variables.
fn is_named(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item["name"].is_string())
}

/// Merges items into those of the same name; others are added at the end.
fn merge_named(into: &mut Value, items: &[Value]) {
    if !into.is_array() {
        *into = Value::Array(Vec::new());
    }
    let Some(list) = into.as_array_mut() else { return };
    for item in items {
        let Some(fields) = item.as_object() else { continue };
        match list.iter_mut().find(|known| known["name"] == item["name"]) {
            Some(known) => merge_fields(known, fields),
            None => list.push(item.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::fixtures::{check, task},
        *,
    };

    fn flow(spec: &Value) -> JobFlow {
        serde_json::from_value(json!({"metadata": {"name": "night"}, "spec": spec})).expect("a flow")
    }

    fn step(name: &str, targets: &[&str]) -> Value {
        json!({"name": name, "dependsOn": {"targets": targets}})
    }

    #[test]
    fn a_graph_of_templates_is_accepted() {
        let flows = json!([{"name": "a"}, step("b", &["a"]), step("c", &["a"]), step("d", &["b", "c"])]);
        check("a diamond", &validate(&flow(&json!({"flows": flows, "jobRetainPolicy": "delete"}))), &[]);
    }

    #[test]
    fn every_fault_of_the_graph_is_told_at_once() {
        let flows = json!([
            step("a", &["c"]), step("b", &["b"]), step("c", &["a", "nobody"]), {"name": "c"}, {"name": ""}, {"name": "X"},
        ]);
        check(
            "all of them",
            &validate(&flow(&json!({"flows": flows, "jobRetainPolicy": "keep"}))),
            &[
                "spec.jobRetainPolicy: \"keep\" is not one of retain, delete",
                "spec.flows[3].name: \"c\" is in the flow already",
                "spec.flows[4].name: must be the name of a JobTemplate",
                "spec.flows[5].name: \"X\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
                 should match '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.flows[2].dependsOn.targets[1]: there is no flow \"nobody\"",
                "spec.flows[0].dependsOn: jobflow Flow is not DAG: \"a\" waits for \"c\" waits for itself",
                "spec.flows[1].dependsOn: jobflow Flow is not DAG: \"b\" waits for itself",
            ],
        );
        check("nothing", &validate(&flow(&json!({}))), &["spec.flows: must name at least one JobTemplate"]);
        let long = json!({"flows": [{"name": "a".repeat(58)}]});
        let expected = format!(
            "spec.flows[0].name: its job would be named \"night-{}\", which has 64 characters; at most 63 are allowed",
            "a".repeat(58)
        );
        check("a long name", &validate(&flow(&long)), &[&expected]);
    }

    #[test]
    fn a_flow_names_not_too_many_targets() {
        let names: Vec<String> = (0..101).map(|at| format!("t{at}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let flows: Vec<Value> = names.iter().map(|name| step(name, &all)).collect();
        let expected = "spec.flows: names 10201 targets in all, at most 10000 are allowed";
        check("everybody waits for everybody", &validate(&flow(&json!({"flows": flows}))), &[expected]);
    }

    #[test]
    fn probes_ask_somebody_something() {
        let probe = json!({
            "httpGetList": [{"port": 0, "path": "/a b", "httpHeader": {"name": "x y", "value": "a\nb"}}],
            "tcpSocketList": [{"port": 70000}], "taskStatusList": [{"phase": "Done"}, {}],
        });
        let flows = json!([{"name": "a", "dependsOn": {"probe": probe}}]);
        let faults = validate(&flow(&json!({"flows": flows})));
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        let path = "spec.flows[0].dependsOn.probe";
        assert_eq!(
            paths,
            [
                path,
                &format!("{path}.httpGetList[0].port"),
                &format!("{path}.httpGetList[0].path"),
                &format!("{path}.httpGetList[0].httpHeader.name"),
                &format!("{path}.httpGetList[0].httpHeader.value"),
                &format!("{path}.tcpSocketList[0].port"),
                &format!("{path}.taskStatusList[0].phase"),
                &format!("{path}.taskStatusList[1].phase"),
            ]
        );
        let probe = json!({"httpGetList": [{"port": 80}], "taskStatusList": [{"phase": "Running"}]});
        let flows = json!([{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]);
        check("a good one", &validate(&flow(&json!({"flows": flows}))), &[]);
    }

    #[test]
    fn an_empty_header_as_clients_in_go_write_it_is_none() {
        let checked = |header: Value| {
            let probe = json!({"httpGetList": [{"port": 80, "httpHeader": header}]});
            let flows = json!([{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]);
            validate(&flow(&json!({"flows": flows}))).len()
        };
        assert_eq!(checked(json!({"name": "", "value": ""})), 0);
        assert_eq!(checked(json!({"name": "", "value": "x"})), 1, "a value without a name is a mistake");
    }

    #[test]
    fn a_template_that_makes_no_job_alone_is_told() {
        let template = |spec: Value| -> JobTemplate {
            serde_json::from_value(json!({"metadata": {"name": "t"}, "spec": spec})).expect("a template")
        };
        assert!(template_warnings(&template(json!({"tasks": [task("w", 1)]}))).is_empty());
        assert_eq!(
            template_warnings(&template(json!({"tasks": [task("w", 1)], "minAvailable": 2}))),
            [
                "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks: 2 > 1; jobs of flows that do not patch \
              it are refused"
            ]
        );
    }

    #[test]
    fn a_patch_changes_what_it_names() {
        let template: JobSpec = serde_json::from_value(json!({
            "queue": "team", "plugins": {"svc": [], "env": ["--a"]},
            "tasks": [task("master", 1), task("worker", 2)],
        }))
        .expect("a spec");
        let merged = |patch: Value| -> Result<Value, String> {
            let flow = serde_json::from_value(json!({"name": "a", "patch": {"jobSpec": patch}})).expect("a flow");
            Ok(serde_json::to_value(patched(&template, &flow)?).expect("JSON"))
        };
        let same = merged(json!({})).expect("a spec");
        assert_eq!(same, serde_json::to_value(&template).expect("JSON"), "what is not said stays");
        let changed = merged(json!({
            "queue": "other", "plugins": {"env": ["--b", "--c"]},
            "tasks": [
                {"name": "worker", "replicas": 4, "template": {"spec": {
                    "containers": [{"name": "c", "command": ["x"]}, {"name": "d", "image": "j"}],
                }}},
                task("extra", 1),
            ],
        }))
        .expect("a spec");
        assert_eq!(
            (&changed["queue"], &changed["plugins"]),
            (&json!("other"), &json!({"svc": [], "env": ["--b", "--c"]}))
        );
        let tasks: Vec<(&Value, &Value)> =
            changed["tasks"].as_array().expect("tasks").iter().map(|task| (&task["name"], &task["replicas"])).collect();
        assert_eq!(tasks, [(&json!("master"), &json!(1)), (&json!("worker"), &json!(4)), (&json!("extra"), &json!(1))]);
        assert_eq!(
            changed["tasks"][1]["template"]["spec"]["containers"],
            json!([{"name": "c", "image": "i", "command": ["x"]}, {"name": "d", "image": "j"}])
        );
        assert!(merged(json!({"queue": null})).expect("a spec")["queue"].is_null(), "null takes away");
        let wrong = merged(json!({"minAvailable": "many"})).expect_err("not a number");
        assert!(wrong.starts_with("the patch does not fit: invalid type"), "{wrong}");
    }
}
