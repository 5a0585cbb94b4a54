//! What service accounts may do, over the network: nothing by itself, and exactly what roles and bindings give them.

#[expect(dead_code, reason = "other tests look at the files")]
mod running;

use anyhow::Context as _;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use self::running::{Running, send, send_as};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Makes a service account in `default` and returns a client with its token.
async fn account(server: &Running, name: &str) -> anyhow::Result<Client> {
    let admin = server.admin()?;
    send(&admin, "POST", ACCOUNTS, json!({"metadata": {"name": name}}).to_string()).await?;
    let (status, request) = send(&admin, "POST", &format!("{ACCOUNTS}/{name}/token"), "{}").await?;
    anyhow::ensure!(status == StatusCode::CREATED, "{request}");
    server.client(Some(request["status"]["token"].as_str().context("a token")?))
}

async fn create(client: &Client, path: &str, object: Value) -> anyhow::Result<()> {
    let (status, answer) = send(client, "POST", path, object.to_string()).await?;
    anyhow::ensure!(status == StatusCode::CREATED, "{path}: {answer}");
    Ok(())
}

/// Gives an account a role of its own in `default`; each rule is `group resource verb,verb`, `-` is the core group.
async fn allow(server: &Running, name: &str, rules: &[&str]) -> anyhow::Result<()> {
    let rule = |rule: &&str| {
        let words: Vec<&str> = rule.split(' ').collect();
        let (group, verbs) = (words[0].replace('-', ""), words[2].split(',').collect::<Vec<_>>());
        json!({"apiGroups": [group], "resources": [words[1]], "verbs": verbs})
    };
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    let roles = format!("{RBAC}/namespaces/default/roles");
    create(&server.admin()?, &roles, json!({"metadata": {"name": name}, "rules": rules})).await?;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&server.admin()?, &bindings, binding(name, "Role", name, name)).await
}

fn binding(name: &str, kind: &str, role: &str, account: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    })
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    for (key, value) in spec.as_object().cloned().unwrap_or_default() {
        pod["spec"][key] = value;
    }
    pod
}

/// A pod that is root on the machine.
fn root_pod(name: &str) -> Value {
    let container = json!({"name": "c", "image": "x", "securityContext": {"privileged": true}});
    pod(name, json!({"containers": [container], "volumes": [{"name": "machine", "hostPath": {"path": "/"}}]}))
}

const BASELINE: &str = r#"violates PodSecurity "baseline:latest": hostPath volumes (volume "machine"), privileged (container "c" must not set securityContext.privileged=true)"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_a_role_may_look_around_and_nothing_else() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let robot = account(&server, "robot").await?;
    create(&server.admin()?, PODS, pod("victim", json!({}))).await?;
    for path in ["/version", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/healthz"] {
        assert_eq!(send(&robot, "GET", path, "").await?.0, StatusCode::OK, "{path}");
    }
    for (verb, method, path) in [
        ("list", "GET", "pods"),
        ("list", "GET", "pods?watch=0"),
        ("watch", "GET", "pods?watch=1"),
        ("get", "GET", "pods/victim"),
        ("create", "POST", "pods"),
        ("update", "PUT", "pods/victim"),
        ("patch", "PATCH", "pods/victim"),
        ("delete", "DELETE", "pods/victim"),
        ("deletecollection", "DELETE", "pods"),
        ("get", "GET", "pods/victim/log"),
        ("create", "POST", "pods/victim/exec?command=sh&stdin=1"),
        ("get", "GET", "pods/victim/exec?command=sh&stdin=1"),
        ("create", "POST", "pods/victim/attach"),
        ("create", "POST", "pods/victim/portforward"),
        ("create", "POST", "pods/victim/binding"),
        ("create", "POST", "pods/victim/eviction"),
        ("patch", "PATCH", "pods/victim/status"),
        ("get", "GET", "pods/victim/proxy"),
        ("create", "POST", "bindings"),
        ("create", "POST", "serviceaccounts/robot/token"),
        ("get", "GET", "secrets/x"),
    ] {
        let (status, answer) = send(&robot, method, &format!("/api/v1/namespaces/default/{path}"), "{}").await?;
        let what = path.split(['?', '/']).next().unwrap_or_default();
        let part = path.split('?').next().and_then(|path| path.split('/').nth(2));
        let resource = part.map_or_else(|| what.to_owned(), |part| format!("{what}/{part}"));
        let why = format!(
            r#"User "system:serviceaccount:default:robot" cannot {verb} resource "{resource}" in API group "" in the namespace "default""#
        );
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!((status, answer["reason"].as_str()), (StatusCode::FORBIDDEN, Some("Forbidden")), "{path}: {answer}");
        assert!(message.ends_with(&format!("is forbidden: {why}")), "{path}: {message}");
    }
    let (status, _) = send(&server.admin()?, "GET", &format!("{PODS}/victim"), "").await?;
    assert_eq!(status, StatusCode::OK, "nothing has happened to it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_past_the_question() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let robot = account(&server, "robot").await?;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    create(
        &server.admin()?,
        definitions,
        json!({"metadata": {"name": "things.x.test"}, "spec": {
            "group": "x.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        }}),
    )
    .await?;
    for (method, path, cannot) in [
        ("GET", "/metrics", r#"forbidden: User "system:serviceaccount:default:robot" cannot get path "/metrics""#),
        ("GET", "/logs/", r#"forbidden: User "system:serviceaccount:default:robot" cannot get path "/logs/""#),
        ("GET", "//api/v1/nodes", r#"cannot list resource "nodes" in API group "" at the cluster scope"#),
        ("GET", "/%61pi/v1/secrets", r#"cannot list resource "secrets" in API group "" at the cluster scope"#),
        ("GET", "/api/v1/watch/secrets", r#"cannot watch resource "secrets" in API group "" at the cluster scope"#),
        ("GET", "/api/v1/namespaces", r#"cannot list resource "namespaces" in API group "" at the cluster scope"#),
        ("GET", "/api/v1/namespaces/a", r#"cannot get resource "namespaces" in API group "" in the namespace "a""#),
        ("PUT", "/api/v1/namespaces/a/finalize", r#"cannot update resource "namespaces/finalize""#),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/x/scale", r#"cannot patch resource "deployments/scale""#),
        ("GET", "/apis/x.test/v1/namespaces/a/things", r#"cannot list resource "things" in API group "x.test""#),
        ("GET", "/apis/nothing.test/v1/nothings", r#"cannot list resource "nothings" in API group "nothing.test""#),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", r#"cannot create resource "tokenreviews""#),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "cannot create"),
    ] {
        let (status, answer) = send(&robot, method, path, "{}").await?;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == StatusCode::FORBIDDEN && message.contains(cannot), "{path}: {status} {message}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_may_do_what_its_role_says_until_it_is_taken_away() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let (admin, robot) = (server.admin()?, account(&server, "robot").await?);
    allow(&server, "robot", &["- pods get,list,create"]).await?;
    create(&robot, PODS, pod("a", json!({}))).await?;
    for (method, path, expected) in [
        ("GET", PODS.to_owned(), StatusCode::OK),
        ("GET", format!("{PODS}/a"), StatusCode::OK),
        ("DELETE", format!("{PODS}/a"), StatusCode::FORBIDDEN),
        ("GET", format!("{PODS}?watch=1"), StatusCode::FORBIDDEN),
        ("GET", format!("{PODS}/a/log"), StatusCode::FORBIDDEN),
        ("GET", "/api/v1/pods".to_owned(), StatusCode::FORBIDDEN),
        ("GET", "/api/v1/namespaces/kube-system/pods".to_owned(), StatusCode::FORBIDDEN),
    ] {
        assert_eq!(send(&robot, method, &path, "").await?.0, expected, "{method} {path}");
    }
    let bindings = format!("{RBAC}/namespaces/default/rolebindings/robot");
    send(&admin, "DELETE", &bindings, "").await?;
    assert_eq!(send(&robot, "GET", PODS, "").await?.0, StatusCode::FORBIDDEN, "with the very next request");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_change_may_not_create_by_changing() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let robot = account(&server, "robot").await?;
    allow(&server, "robot", &["coordination.k8s.io leases patch,update", "- configmaps patch"]).await?;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x";
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}).to_string();
    let (status, answer) = send(&robot, "PUT", lease, body.clone()).await?;
    assert!(answer["message"].as_str().unwrap_or_default().contains("cannot create resource"), "{status} {answer}");
    let map = "/api/v1/namespaces/default/configmaps/x?fieldManager=me";
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}).to_string();
    let (status, answer) = send_as(&robot, "PATCH", map, "application/apply-patch+yaml", body).await?;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        answer["message"].as_str().unwrap_or_default().contains("cannot create resource \"configmaps\""),
        "{answer}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_a_rule_holds_for_lists_that_select_it() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let robot = account(&server, "robot").await?;
    let rule =
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"], "resourceNames": ["mine"]});
    let admin = server.admin()?;
    create(&admin, &format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "mine"}, "rules": [rule]})).await?;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&admin, &bindings, binding("mine", "ClusterRole", "mine", "robot")).await?;
    let secrets = "/api/v1/namespaces/default/secrets";
    for (query, expected) in [
        ("", StatusCode::FORBIDDEN),
        ("/mine", StatusCode::NOT_FOUND),
        ("/yours", StatusCode::FORBIDDEN),
        ("?fieldSelector=metadata.name%3Dmine", StatusCode::OK),
        ("?fieldSelector=metadata.name%3Dyours", StatusCode::FORBIDDEN),
        ("?fieldSelector=metadata.name!%3Dmine", StatusCode::FORBIDDEN),
        ("?fieldSelector=metadata.name%3Dyours&fieldSelector=metadata.name%3Dmine", StatusCode::FORBIDDEN),
    ] {
        assert_eq!(send(&robot, "GET", &format!("{secrets}{query}"), "").await?.0, expected, "{query}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gives_away_rights_that_they_do_not_have() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let robot = account(&server, "robot").await?;
    let group = "rbac.authorization.k8s.io";
    let rights = [
        "- pods get,list".to_owned(),
        format!("{group} roles create,update,patch"),
        format!("{group} rolebindings create"),
    ];
    allow(&server, "robot", &rights.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let role = |name: &str, verb: &str| {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        json!({"metadata": {"name": name}, "rules": [rule]})
    };
    create(&robot, &roles, role("less", "list")).await?;
    let (status, answer) = send(&robot, "POST", &roles, role("more", "create").to_string()).await?;
    let expected = concat!(
        r#"roles.rbac.authorization.k8s.io "more" is forbidden: user "system:serviceaccount:default:robot" "#,
        r#"(groups=["system:serviceaccounts" "system:serviceaccounts:default" "system:authenticated"]) "#,
        "is attempting to grant RBAC permissions not currently held:\n",
        r#"{APIGroups:[""], Resources:["pods"], Verbs:["create"]}"#
    );
    assert_eq!((status, answer["message"].as_str()), (StatusCode::FORBIDDEN, Some(expected)));
    let wider = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}).to_string();
    let (status, _) = send_as(&robot, "PATCH", &format!("{roles}/less"), "application/merge-patch+json", wider).await?;
    assert_eq!(status, StatusCode::FORBIDDEN, "nor by changing a role");
    create(&robot, &bindings, binding("less", "Role", "less", "robot")).await?;
    for role in ["cluster-admin", "edit"] {
        let body = binding("me", "ClusterRole", role, "robot").to_string();
        assert_eq!(send(&robot, "POST", &bindings, body).await?.0, StatusCode::FORBIDDEN, "{role}");
    }
    let body = binding("me", "ClusterRole", "nothing", "robot").to_string();
    assert_eq!(send(&robot, "POST", &bindings, body).await?.0, StatusCode::NOT_FOUND);
    // The verb `bind` is the way to let somebody give what they do not have.
    let bind = format!("{group} clusterroles bind");
    allow_more(&server, "binder", &bind).await?;
    create(&robot, &bindings, binding("me", "ClusterRole", "edit", "robot")).await?;
    create(&robot, PODS, pod("mine-to-make", json!({}))).await?;
    Ok(())
}

/// Gives `robot` one more rule.
async fn allow_more(server: &Running, name: &str, rule: &str) -> anyhow::Result<()> {
    allow(server, name, &[rule]).await?;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&server.admin()?, &bindings, binding(&format!("{name}-robot"), "Role", name, "robot")).await
}

/// Sends a request in somebody else's name.
async fn send_for(client: &Client, user: &str, groups: &[&str], path: &str) -> anyhow::Result<(StatusCode, Value)> {
    let mut request = Request::get(path).header("impersonate-user", user);
    for group in groups {
        request = request.header("impersonate-group", *group);
    }
    let response = client.send(request.body(Body::empty())?).await?;
    let status = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_somebody_else_is_none_here() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    send(&admin, "POST", ACCOUNTS, json!({"metadata": {"name": "robot"}}).to_string()).await?;
    let body = json!({"spec": {"audiences": ["vault"]}}).to_string();
    let (_, request) = send(&admin, "POST", &format!("{ACCOUNTS}/robot/token"), body).await?;
    let token = request["status"]["token"].as_str().context("a token")?;
    let stranger = server.client(Some(token))?;
    assert_eq!(send(&stranger, "GET", "/version", "").await?.0, StatusCode::UNAUTHORIZED);
    for (audiences, expected) in [(json!(["vault"]), true), (json!(["other"]), false), (json!([]), false)] {
        let review = json!({"spec": {"token": token, "audiences": audiences}}).to_string();
        let (_, answer) = send(&admin, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).await?;
        assert_eq!(answer["status"]["authenticated"].as_bool().unwrap_or(false), expected, "{audiences}: {answer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_spoken_for_by_who_may() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let (admin, robot) = (server.admin()?, account(&server, "robot").await?);
    allow(&server, "robot", &["- pods list"]).await?;
    let name = "system:serviceaccount:default:robot";
    for (client, user, groups, path, expected) in [
        (&admin, name, &[][..], PODS, StatusCode::OK),
        (&admin, name, &[], "/api/v1/pods", StatusCode::FORBIDDEN),
        (&admin, "ann", &["system:masters"], "/api/v1/pods", StatusCode::OK),
        (&admin, "ann", &[], PODS, StatusCode::FORBIDDEN),
        (&robot, "ronde-admin", &["system:masters"], PODS, StatusCode::FORBIDDEN),
        (&robot, name, &[], PODS, StatusCode::FORBIDDEN),
    ] {
        let (status, answer) = send_for(client, user, groups, path).await?;
        assert_eq!(status, expected, "{user} {groups:?} {path}: {answer}");
    }
    let (_, answer) = send_for(&robot, "ann", &[], PODS).await?;
    let expected = r#"users "ann" is forbidden: User "system:serviceaccount:default:robot" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!(answer["message"], expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_tell_the_truth() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let (admin, robot) = (server.admin()?, account(&server, "robot").await?);
    allow(&server, "robot", &["- pods get,list"]).await?;
    let base = "/apis/authorization.k8s.io/v1";
    let pods = |verb: &str, namespace: &str| json!({"verb": verb, "resource": "pods", "namespace": namespace});
    let user = "system:serviceaccount:default:robot";
    for (client, path, spec, expected) in [
        (&robot, "selfsubjectaccessreviews", json!({"resourceAttributes": pods("list", "default")}), true),
        (&robot, "selfsubjectaccessreviews", json!({"resourceAttributes": pods("create", "default")}), false),
        (&robot, "selfsubjectaccessreviews", json!({"resourceAttributes": pods("list", "")}), false),
        (
            &robot,
            "selfsubjectaccessreviews",
            json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
            false,
        ),
        (&robot, "selfsubjectaccessreviews", json!({"nonResourceAttributes": {"verb": "get", "path": "/apis"}}), true),
        (&admin, "selfsubjectaccessreviews", json!({"resourceAttributes": pods("dance", "")}), true),
        (&admin, "subjectaccessreviews", json!({"user": user, "resourceAttributes": pods("get", "default")}), true),
        (&admin, "subjectaccessreviews", json!({"user": user, "resourceAttributes": pods("get", "other")}), false),
        (
            &admin,
            "subjectaccessreviews",
            json!({"groups": ["system:masters"], "resourceAttributes": pods("x", "")}),
            true,
        ),
        (
            &admin,
            "namespaces/default/localsubjectaccessreviews",
            json!({"user": user, "resourceAttributes": pods("get", "default")}),
            true,
        ),
    ] {
        let (_, answer) = send(client, "POST", &format!("{base}/{path}"), json!({"spec": spec}).to_string()).await?;
        assert_eq!(answer["status"]["allowed"], expected, "{path}: {answer}");
    }
    let spec = json!({"spec": {"user": user, "resourceAttributes": pods("get", "default")}}).to_string();
    let (_, answer) = send(&admin, "POST", &format!("{base}/subjectaccessreviews"), spec).await?;
    let reason = r#"RBAC: allowed by RoleBinding "robot/default" of Role "robot" to ServiceAccount "robot/default""#;
    assert_eq!(answer["status"]["reason"], reason);
    let (_, answer) = send(
        &robot,
        "POST",
        &format!("{base}/selfsubjectrulesreviews"),
        json!({"spec": {"namespace": "default"}}).to_string(),
    )
    .await?;
    let rules = answer["status"]["resourceRules"].as_array().context("rules")?;
    let own = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]});
    assert!(rules.contains(&own) && !rules.iter().any(|rule| rule["resources"] == json!(["*"])), "{answer}");
    for (path, spec) in [
        ("subjectaccessreviews", json!({"resourceAttributes": pods("get", "default")})),
        ("namespaces/default/localsubjectaccessreviews", json!({"user": "a", "resourceAttributes": pods("get", "x")})),
    ] {
        let (status, answer) =
            send(&admin, "POST", &format!("{base}/{path}"), json!({"spec": spec}).to_string()).await?;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {answer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_others_than_the_administrator_stay_off_the_machine() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let (admin, robot) = (server.admin()?, account(&server, "robot").await?);
    let rights = ["- pods *", "apps deployments,replicasets,statefulsets,controllerrevisions *", "batch jobs *"];
    let rights: Vec<String> = rights
        .iter()
        .flat_map(|rule| {
            let words: Vec<&str> = rule.split(' ').collect();
            words[1].split(',').map(|one| format!("{} {one} *", words[0])).collect::<Vec<_>>()
        })
        .collect();
    allow(&server, "robot", &rights.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let (status, answer) = send(&robot, "POST", PODS, root_pod("root").to_string()).await?;
    let message = answer["message"].as_str().unwrap_or_default();
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        message.starts_with(&format!("pods \"root\" is forbidden: {BASELINE}; the namespace has no label")),
        "{message}"
    );
    create(&robot, PODS, pod("harmless", json!({}))).await?;
    create(&admin, PODS, root_pod("of-the-user")).await?;
    // Controllers would make such pods in their own name.
    let labels = json!({"app": "x"});
    let mut template = root_pod("");
    template["metadata"] = json!({"labels": labels});
    let workload = json!({
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": labels}, "serviceName": "w", "template": template},
    });
    let mut job = workload.clone();
    job["spec"] = json!({"template": template});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    let revision = json!({"metadata": {"name": "w"}, "revision": 1, "data": {"spec": {"template": template}}});
    for (path, object) in [
        ("apps/v1/namespaces/default/deployments", &workload),
        ("apps/v1/namespaces/default/replicasets", &workload),
        ("apps/v1/namespaces/default/statefulsets", &workload),
        ("apps/v1/namespaces/default/controllerrevisions", &revision),
        ("batch/v1/namespaces/default/jobs", &job),
    ] {
        let path = format!("/apis/{path}");
        let (status, answer) = send(&robot, "POST", &path, object.to_string()).await?;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == StatusCode::FORBIDDEN && message.contains(BASELINE), "{path}: {status} {message}");
        create(&admin, &path, object.clone()).await?;
    }
    let deployment = "/apis/apps/v1/namespaces/default/deployments/w";
    let scale = json!({"spec": {"replicas": 2}}).to_string();
    let (status, answer) = send_as(&robot, "PATCH", deployment, "application/merge-patch+json", scale).await?;
    assert_eq!(status, StatusCode::OK, "the template is the administrator's: {answer}");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "evil"}]}}}}).to_string();
    let (status, _) = send_as(&robot, "PATCH", deployment, "application/strategic-merge-patch+json", image).await?;
    assert_eq!(status, StatusCode::FORBIDDEN, "another program in a privileged template");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_labels_of_a_namespace_hold_for_everybody() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let namespace = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let label = "pod-security.kubernetes.io";
    let (enforce, warn) = (format!("{label}/enforce"), format!("{label}/warn"));
    create(
        &admin,
        "/api/v1/namespaces",
        namespace("held", json!({enforce.as_str(): "baseline", warn.as_str(): "restricted"})),
    )
    .await?;
    create(&admin, "/api/v1/namespaces", namespace("free", json!({enforce.as_str(): "privileged"}))).await?;
    let wrong = namespace("wrong", json!({enforce.as_str(): "none"})).to_string();
    let (status, answer) = send(&admin, "POST", "/api/v1/namespaces", wrong).await?;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let (status, answer) = send(&admin, "POST", "/api/v1/namespaces/held/pods", root_pod("root").to_string()).await?;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(answer["message"], format!("pods \"root\" is forbidden: {BASELINE}"));
    let request = Request::post("/api/v1/namespaces/held/pods").header("content-type", "application/json");
    let response = admin.send(request.body(Body::from(pod("fine", json!({})).to_string().into_bytes()))?).await?;
    assert_eq!(response.status(), StatusCode::CREATED);
    let told = response.headers().get("warning").context("a warning")?.to_str()?;
    assert!(
        told.contains("would violate PodSecurity \\\"restricted:latest\\\": allowPrivilegeEscalation != false"),
        "{told}"
    );
    // Where the label says so, a service account may do it too.
    let robot = account(&server, "robot").await?;
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]});
    create(&admin, &format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "pods"}, "rules": [rule]})).await?;
    create(&admin, &format!("{RBAC}/clusterrolebindings"), binding("pods", "ClusterRole", "pods", "robot")).await?;
    create(&robot, "/api/v1/namespaces/free/pods", root_pod("root")).await?;
    assert_eq!(
        send(&robot, "POST", "/api/v1/namespaces/kube-public/pods", root_pod("r").to_string()).await?.0,
        StatusCode::FORBIDDEN
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_other_kinds_become_part_of_edit() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let (admin, robot) = (server.admin()?, account(&server, "robot").await?);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&admin, &bindings, binding("edit", "ClusterRole", "edit", "robot")).await?;
    let rule = json!({"apiGroups": ["x.test"], "resources": ["things"], "verbs": ["*"]});
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    create(
        &admin,
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": "things", "labels": labels}, "rules": [rule]}),
    )
    .await?;
    // From `view` to `edit`, whose part it is, takes two writes of a loop.
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = json!({"group": "x.test", "resource": "things", "verb": "create", "namespace": "default"});
    let body = json!({"spec": {"resourceAttributes": asked}}).to_string();
    let allowed = async {
        loop {
            let (_, answer) = send(&robot, "POST", path, body.clone()).await?;
            if answer["status"]["allowed"] == true {
                return anyhow::Ok(());
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), allowed).await??;
    create(&robot, PODS, pod("by-edit", json!({}))).await?;
    Ok(())
}
