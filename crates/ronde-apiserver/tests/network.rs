//! The server on the network, with clients that are strangers, clumsy or hostile.

mod running;

use std::{io::Read as _, io::Write as _, net::TcpStream, os::unix::fs::PermissionsExt as _, time::Duration};

use anyhow::Context as _;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;

use self::running::{Running, send, send_as};

#[tokio::test(flavor = "multi_thread")]
async fn only_those_with_a_token_get_in() -> anyhow::Result<()> {
    let server = Running::start().await?;
    for token in [None, Some("wrong"), Some(""), Some("a.b.c")] {
        let client = server.client(token)?;
        for path in ["/api/v1/namespaces", "/apis", "/openapi/v3", "/metrics", "/version", "/nonsense"] {
            let (status, answer) = send(&client, "GET", path, "").await?;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} with {token:?}");
            assert_eq!(answer["reason"], "Unauthorized");
        }
        for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
            assert_eq!(send(&client, "GET", path, "").await?.0, StatusCode::OK, "{path}");
        }
    }
    assert_eq!(send(&server.admin()?, "GET", "/api/v1/namespaces", "").await?.0, StatusCode::OK);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_token_is_good_as_long_as_its_account() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    send(&admin, "POST", accounts, json!({"metadata": {"name": "robot"}}).to_string()).await?;
    let (status, request) = send(&admin, "POST", &format!("{accounts}/robot/token"), "{}").await?;
    assert_eq!(status, StatusCode::CREATED, "{request}");
    let robot = server.client(Some(request["status"]["token"].as_str().context("a token")?))?;
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, review) = send(&robot, "POST", reviews, "{}").await?;
    assert_eq!(review["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    send(&admin, "DELETE", &format!("{accounts}/robot"), "").await?;
    assert_eq!(send(&robot, "POST", reviews, "{}").await?.0, StatusCode::UNAUTHORIZED);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_on_disk_are_ours_alone() -> anyhow::Result<()> {
    let server = Running::start().await?;
    for name in ["admin.credential", "admin.token", "ca.key", "tokens.key"] {
        let mode = fs_err::metadata(server.folder.path().join(name))?.permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_spoken_in_the_clear() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let mut stream = TcpStream::connect(server.endpoint)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/"), "a plain request got an answer");
    Ok(())
}

/// (what, path, body, expected status)
fn hostile_bodies() -> Vec<(&'static str, &'static str, Vec<u8>, u16)> {
    let maps = "/api/v1/namespaces/default/configmaps";
    let deep =
        format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let wide = format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(4 << 20));
    let large = format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(2 << 20));
    vec![
        ("nothing", maps, Vec::new(), 400),
        ("half an object", maps, b"{\"metadata\":".to_vec(), 400),
        ("a list", maps, b"[1,2,3]".to_vec(), 400),
        ("not UTF-8", maps, b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec(), 422),
        ("a number too large", maps, b"{\"metadata\":{\"name\":\"x\",\"generation\":1e999}}".to_vec(), 400),
        ("too deep", maps, deep.into_bytes(), 400),
        ("too long", maps, wide.into_bytes(), 413),
        ("more than a config map holds", maps, large.into_bytes(), 422),
        (
            "another kind",
            maps,
            b"{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\"}}".to_vec(),
            400,
        ),
        ("a name from hell", maps, b"{\"metadata\":{\"name\":\"../../etc/passwd\"}}".to_vec(), 422),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_get_a_clear_answer_and_change_nothing() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let list = "/api/v1/configmaps?fieldSelector=metadata.name!=kube-root-ca.crt";
    for (what, path, body, expected) in hostile_bodies() {
        let (status, answer) = send(&admin, "POST", path, body).await.with_context(|| what.to_owned())?;
        assert_eq!(status.as_u16(), expected, "{what}: {answer}");
        assert_eq!(answer["kind"], "Status", "{what}: {answer}");
        assert!(!answer["message"].as_str().unwrap_or_default().is_empty(), "{what}");
        let (_, after) = send(&admin, "GET", list, "").await?;
        assert_eq!(after["items"].as_array().map(Vec::len), Some(0), "{what}");
    }
    // One client, one connection: a refused body leaves it usable.
    let (stranger, wide) = (server.client(Some("wrong"))?, vec![b'x'; 8 << 20]);
    for _ in 0..20 {
        for (client, expected) in [(&admin, StatusCode::PAYLOAD_TOO_LARGE), (&stranger, StatusCode::UNAUTHORIZED)] {
            let (status, _) = send(client, "POST", "/api/v1/namespaces/default/configmaps", wide.clone()).await?;
            assert_eq!(status, expected);
        }
        assert_eq!(send(&admin, "GET", list, "").await?.0, StatusCode::OK);
    }
    for query in
        ["labelSelector=a%20in", "labelSelector=!!", "fieldSelector=x", "limit=x", "continue=%%%", "resourceVersion=-1"]
    {
        let (status, answer) = send(&admin, "GET", &format!("/api/v1/configmaps?{query}"), "").await?;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {answer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_numbers_are_numbers_like_others() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let most = i64::MAX;
    for query in ["watch=1&timeoutSeconds", "watch=1&allowWatchBookmarks=1&timeoutSeconds", "limit"] {
        let request = Request::get(format!("/api/v1/configmaps?{query}={most}")).body(Body::empty())?;
        assert_eq!(admin.send(request).await.context(query)?.status(), StatusCode::OK, "{query}");
    }
    let maps = "/api/v1/namespaces/default/configmaps";
    // Nobody counts the generations of this kind, so they are the client's own.
    let map = json!({"metadata": {"name": "x", "generation": most, "finalizers": ["example.com/stay"]}});
    assert_eq!(send(&admin, "POST", maps, map.to_string()).await?.0, StatusCode::CREATED);
    let (status, answer) = send(&admin, "DELETE", &format!("{maps}/x?gracePeriodSeconds={most}"), "").await?;
    assert_eq!((status, &answer["metadata"]["generation"]), (StatusCode::OK, &json!(most)), "{answer}");
    let token = json!({"spec": {"expirationSeconds": most}}).to_string();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (status, answer) = send(&admin, "POST", &format!("{accounts}/default/token"), token).await?;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_definitions_that_come_at_once_one_gets_the_kind() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    // The loop that gives names is busy with the first groups when the others come.
    let posts = (0..60).map(|number| {
        let (group, plural) = (format!("g{}.test", number / 3), format!("r{}", 9 - number % 3));
        let crd = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Cluster", "names": {"plural": plural, "kind": "Reel"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        });
        send(&admin, "POST", definitions, crd.to_string())
    });
    for (status, answer) in futures::future::try_join_all(posts).await? {
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    let accepted = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let (_, list) = send(&admin, "GET", definitions, "").await?;
            let crds = list["items"].as_array().context("a list")?;
            let conditions = crds.iter().flat_map(|crd| crd["status"]["conditions"].as_array().into_iter().flatten());
            let names: Vec<_> = conditions.filter(|condition| condition["type"] == "NamesAccepted").collect();
            if names.len() == 60 {
                return anyhow::Ok(names.iter().filter(|condition| condition["status"] == "True").count());
            }
        }
    });
    assert_eq!(accepted.await??, 20, "one of each group");
    Ok(())
}

/// A kind whose objects may hold anything; returns the path of its collection.
async fn define_anything(client: &kube::Client) -> anyhow::Result<&'static str> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, answer) = send(client, "POST", crds, crd.to_string()).await?;
    anyhow::ensure!(status == StatusCode::CREATED, "{answer}");
    Ok("/apis/example.com/v1/namespaces/default/things")
}

fn thing(name: &str, content: serde_json::Value) -> String {
    let head = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}});
    let mut thing = head;
    thing["content"] = content;
    thing.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_after_patch_an_object_stays_within_bounds() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let things = define_anything(&admin).await?;
    let finalized = json!({"metadata": {"finalizers": ["example.com/stay"]}});
    assert_eq!(send(&admin, "POST", things, thing("x", json!({}))).await?.0, StatusCode::CREATED);
    assert_eq!(patch(&admin, &format!("{things}/x"), &finalized).await?.0, StatusCode::OK);
    let (mut taken, more) = (0, "y".repeat(1 << 20));
    let refused = loop {
        let (status, answer) = patch(&admin, &format!("{things}/x"), &json!({format!("part{taken}"): more})).await?;
        if status != StatusCode::OK {
            break (status, answer);
        }
        taken += 1;
        anyhow::ensure!(taken < 10, "an object of {taken} MiB");
    };
    assert_eq!((refused.0, &refused.1["reason"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("RequestEntityTooLarge")));
    assert_eq!(taken, 2, "parts of one MiB in three");
    // It is as it was before, and can be deleted.
    assert_eq!(send(&admin, "DELETE", &format!("{things}/x"), "").await?.0, StatusCode::OK);
    let (_, left) = send(&admin, "GET", &format!("{things}/x"), "").await?;
    assert!(left["metadata"]["deletionTimestamp"].is_string() && left["part2"].is_null());
    Ok(())
}

async fn patch(
    client: &kube::Client,
    path: &str,
    patch: &serde_json::Value,
) -> anyhow::Result<(StatusCode, serde_json::Value)> {
    send_as(client, "PATCH", path, "application/merge-patch+json", patch.to_string()).await
}

/// What is written of the owners of fields nests deeper than the fields.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_however_deep_can_be_read_again() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let things = define_anything(&admin).await?;
    let mut taken = 0;
    for depth in 100..140 {
        let name = format!("deep-{depth}");
        let content = (2..depth).fold(json!({"end": 1}), |inner, _| json!({"a": inner}));
        let (status, _) = send(&admin, "POST", things, thing(&name, content)).await?;
        if status == StatusCode::CREATED {
            let (status, _) = patch(&admin, &format!("{things}/{name}"), &json!({"more": 1})).await?;
            assert_eq!(status, StatusCode::OK, "{depth} levels");
            taken += 1;
        } else {
            assert_eq!(status, StatusCode::BAD_REQUEST, "{depth} levels");
        }
    }
    assert!((1..40).contains(&taken), "{taken} of them were taken");
    Ok(())
}
