//! Tables of questions and answers, on small clusters.

use serde_json::{Value, json};

use super::{aggregate::aggregate, *};

/// Roles and bindings by their namespace (empty for the cluster) and name.
fn policy(objects: &[Value]) -> Policy {
    let mut policy = Policy::default();
    for object in objects {
        let kind = match object["kind"].as_str() {
            Some("Role") => Kind::Role,
            Some("ClusterRole") => Kind::ClusterRole,
            Some("RoleBinding") => Kind::RoleBinding,
            _ => Kind::ClusterRoleBinding,
        };
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        policy.set(kind, text("namespace"), text("name"), Some(object));
    }
    policy
}

fn role(place: &str, rules: Value) -> Value {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

/// As in `binding("a/x", "ClusterRole/r", "ServiceAccount/a/robot")`.
fn binding(place: &str, role: &str, subject: &str) -> Value {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let (role_kind, role) = role.split_once('/').expect("kind and name of a role");
    let subject = match subject.split('/').collect::<Vec<_>>()[..] {
        [kind, namespace, name] => json!({"kind": kind, "namespace": namespace, "name": name}),
        [kind, name] => json!({"kind": kind, "name": name}),
        _ => Value::Null,
    };
    json!({
        "kind": kind, "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": role_kind, "name": role}, "subjects": [subject],
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs, "resourceNames": names})
}

fn user(name: &str, groups: &[&str]) -> User {
    User::named(name, groups)
}

/// Reads `get apps deployments/scale a/x`, with `-` for the core group and `/x` for the cluster scope; or `get /path`.
fn attributes(question: &str) -> Attributes<'_> {
    match question.split(' ').collect::<Vec<_>>()[..] {
        [verb, path] => Attributes { verb, requested: Requested::Path(path) },
        [verb, group, resource, place] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (namespace, name) = place.split_once('/').unwrap_or((place, ""));
            let group = if group == "-" { "" } else { group };
            let of = ResourceAttributes { group, resource, subresource, namespace, name };
            Attributes { verb, requested: Requested::Resource(of) }
        }
        _ => panic!("no question: {question}"),
    }
}

#[track_caller]
fn check(policy: &Policy, user: &User, rows: &[(&str, bool)]) {
    for (question, expected) in rows {
        let verdict = policy.decide(user, &attributes(question));
        assert_eq!(verdict.allowed, *expected, "{} asks: {question} ({})", user.name, verdict.reason);
    }
}

#[test]
fn rules_match_as_on_a_real_server() {
    let everything = [
        rule(&[""], &["pods", "pods/log"], &["get", "list"], &[]),
        rule(&[""], &["secrets"], &["get"], &["mine"]),
        rule(&["apps"], &["*/scale"], &["patch"], &[]),
        rule(&["*"], &["leases"], &["*"], &[]),
        rule(&["x.test"], &["*"], &["watch"], &[]),
        json!({"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]}),
    ];
    let policy = policy(&[role("r", json!(everything)), binding("b", "ClusterRole/r", "User/ann")]);
    check(
        &policy,
        &user("ann", &[]),
        &[
            ("get - pods a/x", true),
            ("list - pods a", true),
            ("list - pods /", true),
            ("watch - pods a", false),
            ("get - pods/log a/x", true),
            ("get - pods/exec a/x", false),
            ("get apps pods a/x", false),
            ("get - secrets a/mine", true),
            ("get - secrets a/yours", false),
            ("list - secrets a", false),
            ("list - secrets a/mine", false),
            ("patch apps statefulsets/scale a/x", true),
            ("patch apps statefulsets a/x", false),
            ("patch apps scale a/x", false),
            ("delete coordination.k8s.io leases a/x", true),
            ("watch x.test things/status a", true),
            ("get x.test things a/x", false),
            ("get /metrics", true),
            ("get /metrics/x", false),
            ("get /logs/x/y", true),
            ("get /logs", false),
            ("post /metrics", false),
        ],
    );
    check(&policy, &user("bob", &["ann"]), &[("get - pods a/x", false), ("get /metrics", false)]);
}

#[test]
fn bindings_hold_for_their_subjects_where_they_are() {
    let pods = || json!([rule(&[""], &["pods"], &["get"], &[])]);
    let policy = policy(&[
        role("everywhere", pods()),
        role("a/here", pods()),
        binding("g", "ClusterRole/everywhere", "Group/team"),
        binding("a/s", "Role/here", "ServiceAccount/robot"),
        binding("a/other", "ClusterRole/everywhere", "ServiceAccount/b/robot"),
        binding("b/u", "ClusterRole/everywhere", "User/ann"),
        binding("b/wrong", "Role/here", "User/carl"),
        binding("nowhere", "ClusterRole/everywhere", "ServiceAccount/robot"),
    ]);
    let (here, there) = (("get - pods a/x", true), ("get - pods b/x", true));
    let (not_here, not_there) = (("get - pods a/x", false), ("get - pods b/x", false));
    check(&policy, &user("u", &["team"]), &[here, there, ("get - pods /", true)]);
    check(&policy, &user("ann", &[]), &[not_here, there, ("get - pods /", false)]);
    check(&policy, &user("carl", &[]), &[not_here, not_there]);
    check(&policy, &user("system:serviceaccount:a:robot", &[]), &[here, not_there]);
    check(&policy, &user("system:serviceaccount:b:robot", &[]), &[here, not_there]);
    check(&policy, &user("system:serviceaccount:a:robot:x", &[]), &[not_here]);
    check(&policy, &user("system:serviceaccount::robot", &[]), &[("get - pods /", false)]);
    check(&policy, &user("root", &["system:masters"]), &[here, ("dance - unicorns /", true), ("get /x", true)]);
}

#[test]
fn verdicts_say_why() {
    let pods = || json!([rule(&[""], &["pods"], &["get"], &[])]);
    let policy = policy(&[
        role("a/r", pods()),
        binding("a/b", "Role/r", "ServiceAccount/robot"),
        binding("c", "ClusterRole/gone", "Group/g"),
        binding("a/d", "Role/gone", "Group/g"),
    ]);
    let robot = user("system:serviceaccount:a:robot", &[]);
    let verdict = policy.decide(&robot, &attributes("get - pods a/x"));
    assert_eq!(verdict.reason, r#"RBAC: allowed by RoleBinding "b/a" of Role "r" to ServiceAccount "robot/a""#);
    let asked = attributes("get - pods a/x");
    let lost = user("lost", &["g"]);
    let verdict = policy.decide(&lost, &asked);
    let expected = r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]"#;
    assert_eq!((verdict.allowed, verdict.reason.as_str()), (false, expected));
}

#[test]
fn refusals_have_the_words_of_a_real_server() {
    let ann = user("ann", &[]);
    for (question, expected) in [
        (
            "list - pods default",
            r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "create - pods/exec a/x",
            r#"pods "x" is forbidden: User "ann" cannot create resource "pods/exec" in API group "" in the namespace "a""#,
        ),
        (
            "get apps deployments /x",
            r#"deployments.apps "x" is forbidden: User "ann" cannot get resource "deployments" in API group "apps" at the cluster scope"#,
        ),
        ("get /metrics", r#"forbidden: User "ann" cannot get path "/metrics""#),
    ] {
        assert_eq!(forbidden(&ann, &attributes(question), "").message, expected);
    }
}

#[test]
fn what_is_removed_is_gone() {
    let mut policy =
        policy(&[role("a/r", json!([rule(&[""], &["pods"], &["get"], &[])])), binding("a/b", "Role/r", "User/ann")]);
    let ann = user("ann", &[]);
    check(&policy, &ann, &[("get - pods a/x", true)]);
    policy.set(Kind::RoleBinding, "a", "b", None);
    check(&policy, &ann, &[("get - pods a/x", false)]);
    policy.set(Kind::RoleBinding, "a", "b", Some(&binding("a/b", "Role/r", "User/ann")));
    policy.clear(Kind::ClusterRole);
    check(&policy, &ann, &[("get - pods a/x", true)]);
    policy.clear(Kind::Role);
    check(&policy, &ann, &[("get - pods a/x", false)]);
}

#[test]
fn rights_cover_others_or_it_is_told_what_is_missing() {
    let rules = |value: Value| rules_of(&json!({"rules": value}));
    let held = rules(json!([
        rule(&["", "apps"], &["pods", "*/scale"], &["get", "list"], &[]),
        rule(&[""], &["secrets"], &["get"], &["mine"]),
        json!({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}),
    ]));
    for (wanted, expected) in [
        (rule(&[""], &["pods"], &["get"], &[]), vec![]),
        (rule(&["apps"], &["deployments/scale"], &["list"], &["x"]), vec![]),
        (rule(&[""], &["secrets"], &["get"], &["mine"]), vec![]),
        (json!({"verbs": ["get"], "nonResourceURLs": ["/logs/x", "/logs/*"]}), vec![]),
        (rule(&[""], &["secrets"], &["get"], &[]), vec![r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#]),
        (
            rule(&[""], &["pods"], &["create", "get", "delete"], &[]),
            vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["create" "delete"]}"#],
        ),
        (rule(&["*"], &["pods"], &["get"], &[]), vec![r#"{APIGroups:["*"], Resources:["pods"], Verbs:["get"]}"#]),
        (rule(&[""], &["*"], &["get"], &[]), vec![r#"{APIGroups:[""], Resources:["*"], Verbs:["get"]}"#]),
        (json!({"verbs": ["get"], "nonResourceURLs": ["/*"]}), vec![r#"{NonResourceURLs:["/*"], Verbs:["get"]}"#]),
    ] {
        assert_eq!(missing(&held, &rules(json!([wanted.clone()]))), expected, "{wanted}");
    }
    let all = rules(json!([rule(&["*"], &["*"], &["*"], &[]), json!({"verbs": ["*"], "nonResourceURLs": ["*"]})]));
    assert!(missing(&all, &held).is_empty() && missing(&all, &all).is_empty());
}

#[test]
fn roles_are_made_of_those_they_select() {
    let labelled = |name: &str, label: &str, resource: &str| {
        let mut role = role(name, json!([rule(&[""], &[resource], &["get"], &[])]));
        role["metadata"]["labels"] = json!({label: "true"});
        role
    };
    let mut whole = labelled("whole", "part", "own");
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [
        {"matchLabels": {"part": "true"}}, {"matchExpressions": [{"key": "also", "operator": "Exists"}]},
    ]});
    let roles = [
        whole.clone(),
        labelled("a", "part", "pods"),
        labelled("b", "also", "nodes"),
        labelled("c", "also", "pods"),
        labelled("d", "other", "secrets"),
    ];
    let resources: Vec<_> = aggregate(&whole, &roles).into_iter().flat_map(|rule| rule.resources).collect();
    assert_eq!(resources, ["pods", "nodes"], "each rule once, and not its own");
}

#[test]
fn service_accounts_may_look_around_and_ask_about_themselves() {
    let mut objects = bootstrap::objects();
    // `view` is part of `edit`, and that of `admin`: each has its turn.
    for _ in 0..3 {
        let roles = objects.clone();
        for role in objects.iter_mut().filter(|object| !object["aggregationRule"].is_null()) {
            role["rules"] = serde_json::to_value(aggregate(role, &roles)).expect("rules");
        }
    }
    objects.push(binding("a/viewers", "ClusterRole/view", "User/viewer"));
    objects.push(binding("a/editors", "ClusterRole/edit", "User/editor"));
    objects.push(binding("a/admins", "ClusterRole/admin", "User/admin"));
    let policy = policy(&objects);
    let account = crate::auth::Account { namespace: "a".into(), name: "default".into(), uid: "u".into() };
    check(
        &policy,
        &User::service_account(&account),
        &[
            ("get /version", true),
            ("get /apis/apps/v1", true),
            ("get /openapi/v3", true),
            ("get /healthz", true),
            ("get /metrics", false),
            ("create authorization.k8s.io selfsubjectaccessreviews /", true),
            ("create authorization.k8s.io selfsubjectrulesreviews /", true),
            ("create authentication.k8s.io selfsubjectreviews /", true),
            ("create authorization.k8s.io subjectaccessreviews /", false),
            ("create authentication.k8s.io tokenreviews /", false),
            ("get - pods a/x", false),
            ("create - pods a", false),
            ("get - secrets a/x", false),
            ("create - serviceaccounts/token a/default", false),
            ("impersonate - users /admin", false),
        ],
    );
    let rows = ["get - pods a/x", "create - pods a", "get - secrets a/x", "create rbac.authorization.k8s.io roles a"];
    for (name, expected) in [
        ("viewer", [true, false, false, false]),
        ("editor", [true, true, true, false]),
        ("admin", [true, true, true, true]),
    ] {
        check(&policy, &user(name, &[]), &rows.into_iter().zip(expected).collect::<Vec<_>>());
    }
}
