//! What is found in which cluster: one that is in order, and each row with something wrong in it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod, flowcontrol::v1::FlowSchema};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    judge::{Finding, Report, Severity, Skipped, judge},
    render,
    rights::Right,
    seen::{Looked, Seen, Webhook},
};

const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn deployment(namespace: &str, name: &str, labels: Value, args: &[&str]) -> Deployment {
    let container = json!({"name": "main", "image": "x", "args": args});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"serviceAccountName": name, "containers": [container]}});
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
    }))
    .unwrap()
}

fn operator(name: &str, args: &[&str]) -> Deployment {
    deployment("ronde-system", name, json!({"helm.sh/chart": "ronde-0.2.0"}), &[&["operator"], args].concat())
}

fn lease(name: &str, holder: Option<&str>, renewed: i64, written: i64) -> Lease {
    let at = |seconds: i64| now() + SignedDuration::from_secs(seconds);
    let spec =
        json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{:.6}", at(renewed))});
    let manager = json!({"manager": "m", "operation": "Update", "time": at(written)});
    serde_json::from_value(json!({"metadata": {"name": name, "managedFields": [manager]}, "spec": spec})).unwrap()
}

fn schema(subject: Value) -> FlowSchema {
    serde_json::from_value(json!({
        "metadata": {"name": "ronde"},
        "spec": {"priorityLevelConfiguration": {"name": "workload-high"}, "rules": [{"subjects": [subject]}]},
    }))
    .unwrap()
}

fn account(namespace: &str, name: &str) -> FlowSchema {
    schema(json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}))
}

fn webhook(name: &str, groups: &[&str], resources: &[&str], must_answer: bool) -> Webhook {
    let rule = json!({"apiGroups": groups, "apiVersions": ["*"], "operations": ["*"], "resources": resources});
    Webhook {
        kind: "validatingwebhookconfiguration",
        configuration: "policies".to_owned(),
        name: name.to_owned(),
        rules: vec![serde_json::from_value(rule).unwrap()],
        must_answer,
    }
}

/// The init container that brings the agent waits, or has ended.
fn pod(name: &str, state: Value) -> Pod {
    let init = json!({"name": "init-agent", "image": "example.test/ronde:1"});
    let status =
        json!({"name": "init-agent", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ml", "labels": {"training-job-role": "launcher"}},
        "spec": {"containers": [], "initContainers": [init]},
        "status": {"initContainerStatuses": [status]},
    }))
    .unwrap()
}

fn definitions(change: impl Fn(&mut Value)) -> Vec<DynamicObject> {
    let changed = |mut definition: Value| {
        if definition["metadata"]["name"] == "trainingjobs.kai.alibabacloud.com" {
            change(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        }
        serde_json::from_value(definition).unwrap()
    };
    ronde_api::crd::all().into_iter().map(changed).collect()
}

/// A cluster on which everything is as it should be.
fn healthy() -> Seen {
    let page = "ronde_operator_active 1\nronde_client_requests_total{verb=\"get\",code=\"200\"} 999\n\
                ronde_client_requests_total{verb=\"get\",code=\"429\"} 1\n";
    let standby = page.replace("active 1", "active 0");
    Seen {
        user: "ann".to_owned(),
        namespace: "ml".to_owned(),
        denied: Ok(Vec::new()),
        deployments: Ok(vec![
            operator("ronde", &["--agent-image=example.test/ronde:1"]),
            deployment("web", "shop", json!({"app": "shop"}), &["operator"]),
        ]),
        operators_denied: Ok(vec![("ronde-system".to_owned(), "ronde".to_owned(), Vec::new())]),
        unserved: Ok(Vec::new()),
        definitions: Ok(definitions(|_| ())),
        lease: Ok(Some(lease("ronde-operator", Some("ronde-1"), -14, -14))),
        metrics: Ok(vec![("ronde-1".to_owned(), page.to_owned()), ("ronde-2".to_owned(), standby)]),
        pods: Ok(vec![pod("fine", json!({"waiting": {"reason": "PodInitializing"}}))]),
        node_leases: Ok(vec![lease("n0", Some("n0"), -300, -302), lease("n1", Some("n1"), -9, -5)]),
        flow_schemas: Ok(Some(vec![account("ronde-system", "ronde")])),
        webhooks: Ok(vec![
            webhook("pods.example.test", &[""], &["pods"], true),
            webhook("all.example.test", &["*"], &["*/*"], false),
        ]),
        server_time: now(),
        own_time: now(),
    }
}

/// Compares findings, each as `check: message | command`.
fn check(what: &str, change: impl FnOnce(&mut Seen), expected: &[&str]) {
    let mut seen = healthy();
    change(&mut seen);
    let show = |it: &Finding| format!("{} {:?}: {} | {}", it.check, it.severity, it.message, it.command);
    let found: Vec<String> = judge(&seen).findings.iter().map(show).collect();
    assert_eq!(found, expected, "{what}");
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    check("a cluster that is in order", |_| (), &[]);
    check("one machine", one_machine, &[]);
    let report = judge(&healthy());
    assert_eq!((report.checked.len(), report.skipped), (10, Vec::new()));
}

fn one_machine(seen: &mut Seen) {
    seen.deployments = Ok(Vec::new());
    seen.operators_denied = Ok(Vec::new());
    seen.lease = Ok(Some(lease("ronde-operator", Some("ronde up"), -1, -1)));
    seen.flow_schemas = Ok(None);
    seen.metrics = Ok(vec![("ronde up".to_owned(), "ronde_client_requests_total{code=\"200\"} 5\n".to_owned())]);
}

#[test]
fn rights_that_are_lacking_are_named() {
    let rights = || {
        let right = |verb: &str| Right {
            verb: verb.to_owned(),
            group: "kai.alibabacloud.com".to_owned(),
            resource: "trainingjobs".to_owned(),
            ..Right::default()
        };
        vec![right("create"), right("delete")]
    };
    check(
        "of the user",
        |seen| seen.denied = Ok(rights()),
        &["access Error: `ann` may not do in namespace `ml` what users of jobs do: create and delete \
           trainingjobs.kai.alibabacloud.com | kubectl create rolebinding ronde-ann --namespace ml --clusterrole edit \
           --user ann"],
    );
    check(
        "of an account that is the user",
        |seen| (seen.user, seen.denied) = ("system:serviceaccount:ml:ci".to_owned(), Ok(rights())),
        &[
            "access Error: `system:serviceaccount:ml:ci` may not do in namespace `ml` what users of jobs do: create and \
           delete trainingjobs.kai.alibabacloud.com | kubectl create rolebinding ronde-ci --namespace ml --clusterrole \
           edit --user system:serviceaccount:ml:ci",
        ],
    );
    check(
        "of the operator",
        |seen| seen.operators_denied = Ok(vec![("ronde-system".to_owned(), "ronde".to_owned(), rights())]),
        &["operator-access Error: the operator's account `ronde-system/ronde` lacks rights of its chart: create and \
           delete trainingjobs.kai.alibabacloud.com | ronde install operator --wait"],
    );
}

#[test]
fn definitions_of_another_version_are_found() {
    let jobs = || Ok(["jobs (batch.volcano.sh/v1alpha1)".to_owned()].into());
    check(
        "a kind that is not served",
        |seen| seen.unserved = jobs(),
        &["kinds Error: the cluster does not serve `jobs (batch.volcano.sh/v1alpha1)` | ronde install operator --wait"],
    );
    check(
        "the same on one machine, which brings its kinds itself",
        |seen| {
            one_machine(seen);
            seen.unserved = jobs();
        },
        &[
            "kinds Error: the cluster does not serve `jobs (batch.volcano.sh/v1alpha1)` | ronde down && ronde up --detach",
        ],
    );
    check(
        "many kinds",
        |seen| seen.unserved = Ok(["a", "b", "c", "d", "e"].map(str::to_owned).into()),
        &["kinds Error: the cluster does not serve `a`, `b`, `c` and 2 more resources | ronde install operator --wait"],
    );
    let without = |schema: &mut Value| {
        drop(schema["properties"]["spec"]["properties"].as_object_mut().unwrap().remove("launcherAttachMode"));
    };
    check(
        "an older definition",
        |seen| seen.definitions = Ok(definitions(without)),
        &["definitions Error: the definition `trainingjobs.kai.alibabacloud.com` is older than this program, or \
           another's: it lacks `spec.launcherAttachMode` | ronde install operator --wait"],
    );
    check(
        "a newer one",
        |seen| {
            seen.definitions =
                Ok(definitions(|schema| schema["properties"]["spec"]["properties"]["dance"] = json!({})));
        },
        &["definitions Warning: the definition `trainingjobs.kai.alibabacloud.com` is newer than this program, or \
           another's: it also has `spec.dance` | ronde --version"],
    );
    let any = |schema: &mut Value| {
        schema["properties"]["spec"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    };
    check("one that takes anything lacks nothing", |seen| seen.definitions = Ok(definitions(any)), &[]);
}

#[test]
fn exactly_one_operator_is_to_be_active() {
    let nobody = "leader Error: no operator is active, so nobody runs jobs and places pods: nobody has the lease \
                  `kube-system/ronde-operator` |";
    check(
        "it is installed, and nobody has the lease",
        |seen| seen.lease = Ok(None),
        &[&format!("{nobody} kubectl logs --namespace ronde-system deployment/ronde")],
    );
    check(
        "it is not installed",
        |seen| {
            seen.deployments = Ok(Vec::new());
            seen.lease = Ok(Some(lease("ronde-operator", None, 0, 0)));
        },
        &[&format!("{nobody} ronde install operator --wait")],
    );
    check(
        "the holder is gone",
        |seen| seen.lease = Ok(Some(lease("ronde-operator", Some("ronde-1"), -26, -26))),
        &[
            "leader Error: no operator is active, so nobody runs jobs and places pods: `ronde-1` has the lease and has not \
           renewed it for 26 seconds | kubectl logs --namespace ronde-system deployment/ronde",
        ],
    );
    check(
        "two at once",
        |seen| seen.metrics.as_mut().unwrap()[1].1.push_str("ronde_operator_active 1\n"),
        &[
            "leader Error: `ronde-1` and `ronde-2` are active at once | kubectl rollout restart --namespace ronde-system \
           deployment/ronde",
        ],
    );
    check(
        "two releases",
        |seen| seen.deployments.as_mut().unwrap().push(operator("other", &["--agent-image", "x"])),
        &[
            "leader Warning: the operator is installed 2 times, as `ronde-system/ronde` and `ronde-system/other`, and only \
           one is ever active | helm list --namespace ronde-system",
            "priority Warning: no FlowSchema is for the operator's account `ronde-system/other`, so its requests wait behind \
           those of all other accounts | ronde install operator --set apiPriority.enabled=true",
        ],
    );
    check(
        "an operator on a machine that runs its jobs itself",
        |seen| {
            let deployments = seen.deployments.clone();
            one_machine(seen);
            seen.deployments = deployments;
        },
        &[
            "leader Warning: `ronde up` runs the jobs of this cluster, so deployment `ronde` never will | kubectl delete \
           --namespace ronde-system deployment/ronde",
        ],
    );
}

#[test]
fn others_that_do_the_same_are_found() {
    let volcano = |replicas: i32| {
        let mut it = deployment("volcano-system", "volcano-scheduler", json!({"app": "volcano-scheduler"}), &[]);
        it.spec.as_mut().unwrap().replicas = Some(replicas);
        it
    };
    let add = |it: Deployment| move |seen: &mut Seen| seen.deployments.as_mut().unwrap().push(it);
    check(
        "Volcano",
        add(volcano(1)),
        &[
            "rivals Error: Volcano's deployment `volcano-system/volcano-scheduler` is at work, and fights with Ronde over the \
           same objects | kubectl scale --namespace volcano-system deployment volcano-scheduler --replicas=0",
        ],
    );
    check("Volcano, stopped", add(volcano(0)), &[]);
    check(
        "et-operator",
        add(deployment("kube-ai", "et-operator", json!({}), &[])),
        &[
            "rivals Error: et-operator's deployment `kube-ai/et-operator` is at work, and fights with Ronde over the same \
           objects | kubectl scale --namespace kube-ai deployment et-operator --replicas=0",
        ],
    );
    let add = |it: Webhook| move |seen: &mut Seen| seen.webhooks.as_mut().unwrap().push(it);
    check(
        "Volcano's webhook",
        add(webhook("mutatepod.volcano.sh", &[""], &["pods"], true)),
        &[
            "webhooks Error: Volcano's webhook `mutatepod.volcano.sh` is asked before objects are written, and refuses or \
           changes what Ronde takes | kubectl delete validatingwebhookconfiguration policies",
        ],
    );
    check(
        "somebody's webhook for a kind of ours",
        add(webhook("jobs.example.test", &["batch.volcano.sh"], &["jobs"], true)),
        &[
            "webhooks Warning: writes of `jobs.batch.volcano.sh` fail whenever webhook `jobs.example.test` does not answer | \
           kubectl get validatingwebhookconfiguration policies --output yaml",
        ],
    );
    check("one that need not answer", add(webhook("jobs.example.test", &["batch.volcano.sh"], &["jobs"], false)), &[]);
    check("one for the jobs of others", add(webhook("jobs.example.test", &["batch"], &["jobs"], true)), &[]);
}

#[test]
fn pods_without_agent_are_found() {
    check(
        "the operator brings none",
        |seen| seen.deployments = Ok(vec![operator("ronde", &[])]),
        &[
            "agent-image Warning: the operator `ronde-system/ronde` has no `--agent-image`, so training jobs only start from \
           images that have `ronde` | ronde install operator --set agent.inject=true",
        ],
    );
    check(
        "a file may say it",
        |seen| seen.deployments = Ok(vec![operator("ronde", &["--config=/etc/ronde.yaml"])]),
        &[],
    );
    let pulls = || json!({"waiting": {"reason": "ImagePullBackOff"}});
    check(
        "pods that cannot pull it",
        |seen| seen.pods = Ok(vec![pod("a-launcher", pulls()), pod("b-launcher", pulls())]),
        &[
            "agent-image Error: launcher `ml/a-launcher` and 1 more cannot get the agent from image `example.test/ronde:1`: \
           ImagePullBackOff | kubectl describe pod --namespace ml a-launcher",
        ],
    );
    check(
        "an image that has no such program",
        |seen| seen.pods = Ok(vec![pod("a", json!({"terminated": {"exitCode": 128, "reason": "StartError"}}))]),
        &[
            "agent-image Error: launcher `ml/a` cannot get the agent from image `example.test/ronde:1`: StartError | kubectl \
           describe pod --namespace ml a",
        ],
    );
}

#[test]
fn clocks_that_are_off_are_found() {
    check(
        "nodes",
        |seen| seen.node_leases = Ok(vec![lease("n0", Some("n0"), 0, -11), lease("n1", Some("n1"), -400, -300)]),
        &[
            "clocks Warning: the clock of node `n0` is 11 seconds ahead of that of the API server | kubectl describe node n0",
            "clocks Warning: the clock of node `n1` is 100 seconds behind that of the API server | kubectl describe node n1",
        ],
    );
    check(
        "this machine",
        |seen| seen.own_time = now() - SignedDuration::from_secs(60),
        &["clocks Warning: the clock of this machine is 60 seconds behind that of the API server | timedatectl status"],
    );
}

#[test]
fn requests_that_are_held_back_are_found() {
    check(
        "many",
        |seen| {
            seen.metrics.as_mut().unwrap()[0]
                .1
                .push_str("ronde_client_requests_total{verb=\"list\",code=\"429\"} 20\n");
        },
        &[
            "priority Warning: the API server has held back 21 of 1020 requests of `ronde-1` (code 429) | kubectl get --raw \
           /debug/api_priority_and_fairness/dump_priority_levels",
        ],
    );
    check(
        "no schema for the account",
        |seen| seen.flow_schemas = Ok(Some(vec![account("ronde-system", "other"), account("web", "*")])),
        &[
            "priority Warning: no FlowSchema is for the operator's account `ronde-system/ronde`, so its requests wait behind \
           those of all other accounts | ronde install operator --set apiPriority.enabled=true",
        ],
    );
    for subject in [
        json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "ronde-system", "name": "*"}}),
        json!({"kind": "User", "user": {"name": "system:serviceaccount:ronde-system:ronde"}}),
        json!({"kind": "Group", "group": {"name": "system:serviceaccounts:ronde-system"}}),
    ] {
        check(&subject.to_string(), |seen| seen.flow_schemas = Ok(Some(vec![schema(subject.clone())])), &[]);
    }
}

#[test]
fn what_the_user_may_not_see_is_left_out_and_said() {
    fn refused<T>() -> Looked<T> {
        Err("leases is forbidden".to_owned())
    }
    let report = judge(&Seen { node_leases: refused(), ..healthy() });
    assert_eq!(report.skipped, [Skipped { check: "clocks", reason: "leases is forbidden".to_owned() }]);
    assert_eq!((report.checked.len(), report.findings.len()), (9, 0));
    // Who sees no operators cannot say that nothing is wrong with them.
    let report = judge(&Seen { deployments: refused(), ..healthy() });
    let skipped: Vec<&str> = report.skipped.iter().map(|skipped| skipped.check).collect();
    assert_eq!(skipped, ["operator-access", "rivals", "agent-image", "priority"]);
}

#[test]
fn a_report_is_shown_with_commands_and_counts() {
    let finding = |severity| Finding {
        check: "kinds",
        severity,
        message: "this is wrong".to_owned(),
        command: "ronde install operator --wait".to_owned(),
    };
    let skipped = vec![Skipped { check: "clocks", reason: "leases is forbidden".to_owned() }];
    let findings = vec![finding(Severity::Error), finding(Severity::Warning)];
    let report = Report { findings, skipped, checked: vec!["kinds"; 9] };
    assert_eq!(
        render(&report, "kubectl ronde"),
        "error: this is wrong\n  try: kubectl ronde install operator --wait\n\n\
         warning: this is wrong\n  try: kubectl ronde install operator --wait\n\n\
         not checked: clocks: leases is forbidden\n\
         1 error, 1 warning in 9 of 10 checks"
    );
    let report = Report { checked: vec!["kinds"; 10], ..Report::default() };
    assert_eq!(render(&report, "ronde"), "nothing found in 10 of 10 checks");
}
