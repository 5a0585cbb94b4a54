//! A server on a free port, for the tests that come over the network.

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, Config, client::Body};
use ronde_apiserver::{Options, Server, ServiceNetwork};
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub struct Running {
    pub folder: tempfile::TempDir,
    pub endpoint: std::net::SocketAddr,
    ca_pem: String,
    pub token: String,
    stop: CancellationToken,
}

impl Running {
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = Options {
            data_dir: folder.path().to_owned(),
            listen: "127.0.0.1:0".parse()?,
            admission: Vec::new(),
            service_network: ServiceNetwork::default(),
        };
        let server = Server::open(options).await?;
        let (endpoint, ca_pem) = (server.endpoint(), server.ca_pem().to_owned());
        let token = server.admin_token().to_owned();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        Ok(Self { folder, endpoint, ca_pem, token, stop })
    }

    pub fn client(&self, token: Option<&str>) -> anyhow::Result<Client> {
        let mut config = Config::new(format!("https://{}", self.endpoint).parse()?);
        config.root_cert = Some(vec![pem_to_der(&self.ca_pem)?]);
        config.auth_info.token = token.map(|token| SecretString::from(token.to_owned()));
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    pub fn admin(&self) -> anyhow::Result<Client> {
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

pub async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> anyhow::Result<(StatusCode, Value)> {
    send_as(client, method, path, "application/json", body).await
}

pub async fn send_as(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: impl Into<Vec<u8>>,
) -> anyhow::Result<(StatusCode, Value)> {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let response = client.send(request.body(Body::from(body.into()))?).await?;
    let status = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())))
}
