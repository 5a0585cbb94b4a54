//! The server on the network, with clients that are strangers, clumsy, hostile or asleep.

use std::{io::Read as _, io::Write as _, net::TcpStream, os::unix::fs::PermissionsExt as _, time::Duration};

use anyhow::Context as _;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, Config, client::Body};
use ronde_apiserver::{Options, Server};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Running {
    folder: tempfile::TempDir,
    endpoint: std::net::SocketAddr,
    ca_pem: String,
    token: String,
    stop: CancellationToken,
}

impl Running {
    async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let options =
            Options { data_dir: folder.path().to_owned(), listen: "127.0.0.1:0".parse()?, admission: Vec::new() };
        let server = Server::open(options).await?;
        let (endpoint, ca_pem) = (server.endpoint(), server.ca_pem().to_owned());
        let token = server.admin_token().to_owned();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        Ok(Self { folder, endpoint, ca_pem, token, stop })
    }

    fn client(&self, token: Option<&str>) -> anyhow::Result<Client> {
        let mut config = Config::new(format!("https://{}", self.endpoint).parse()?);
        config.root_cert = Some(vec![pem_to_der(&self.ca_pem)?]);
        config.auth_info.token = token.map(|token| SecretString::from(token.to_owned()));
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    fn admin(&self) -> anyhow::Result<Client> {
        self.client(Some(&self.token))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn pem_to_der(pem: &str) -> anyhow::Result<Vec<u8>> {
    use base64::Engine as _;
    let lines: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    Ok(base64::engine::general_purpose::STANDARD.decode(lines)?)
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> anyhow::Result<(StatusCode, Value)> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = client.send(request.body(Body::from(body.into()))?).await?;
    let status = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())))
}

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
    for name in ["admin.token", "ca.key", "tokens.key"] {
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
    for query in [
        "labelSelector=a%20in",
        "labelSelector=%00",
        "fieldSelector=x",
        "limit=x",
        "continue=%%%",
        "resourceVersion=-1",
    ] {
        let (status, answer) = send(&admin, "GET", &format!("/api/v1/configmaps?{query}"), "").await?;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {answer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_never_reads_holds_nobody_up() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let (admin, sleeper) = (server.admin()?, server.admin()?);
    let maps = "/api/v1/namespaces/default/configmaps";
    send(&admin, "POST", maps, json!({"metadata": {"name": "big"}}).to_string()).await?;
    let watch = Request::get(format!("{maps}?watch=1")).body(Body::empty())?;
    let asleep = sleeper.send(watch).await?;
    let before = resident_bytes()?;
    // Three hundred updates of 500 KB each: a queue per watcher would hold 150 MB. The log keeps 16 MB.
    for number in 0..300 {
        let data = json!({"metadata": {"name": "big"}, "data": {"n": number.to_string(), "x": "y".repeat(500_000)}});
        let (status, answer) = send(&admin, "PUT", &format!("{maps}/big"), data.to_string()).await?;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let grown = resident_bytes()?.saturating_sub(before);
    assert!(grown < 120 << 20, "the server grew by {} MB", grown >> 20);
    drop(asleep);
    Ok(())
}

fn resident_bytes() -> anyhow::Result<usize> {
    let pages: usize =
        fs_err::read_to_string("/proc/self/statm")?.split_whitespace().nth(1).context("no size")?.parse()?;
    Ok(pages * 4096)
}
