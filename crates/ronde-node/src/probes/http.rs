//! One HTTP request to a container: HTTP/1.1, with or without TLS. Certificates are not verified: the probe asks
//! whether the server answers, and a pod's own certificate names no address that the node knows it by.

use std::{io, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPHeader;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::{Reach, url::Url};

/// How much of an answer is read.
const BODY_BYTES_MAX: usize = 10 * 1024;

/// An answer; the body is cut off at a few kilobytes.
pub(super) struct HttpAnswer {
    pub status: StatusCode,
    pub location: Option<String>,
    pub body: String,
}

/// Asks once, without following redirects.
pub(super) async fn get<R: Reach>(
    reach: &R,
    url: &Url,
    headers: &[(HeaderName, HeaderValue)],
) -> Result<HttpAnswer, String> {
    let authority = url.authority();
    let stream = reach.connect(&url.host, url.port).await.map_err(|error| dial_error(&authority, &error))?;
    let mut request = Request::get(&url.path).body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    for (name, value) in headers {
        request.headers_mut().append(name.clone(), value.clone());
    }
    if !request.headers().contains_key(header::HOST) {
        let host = HeaderValue::from_str(&authority).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
    }
    if url.is_tls {
        let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
        let stream = connector()?.connect(name, stream).await.map_err(|error| format!("tls: {}", plain(&error)))?;
        exchange(stream, request).await
    } else {
        exchange(stream, request).await
    }
}

/// The headers of a request as the pod wants them, with those that it does not set itself.
pub(super) fn headers(wanted: Option<&[HTTPHeader]>, agent: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for wanted in wanted.unwrap_or_default() {
        let name = HeaderName::try_from(&wanted.name).map_err(|error| error.to_string())?;
        let value = HeaderValue::try_from(&wanted.value).map_err(|error| error.to_string())?;
        headers.push((name, value));
    }
    for (name, value) in [(header::USER_AGENT, agent), (header::ACCEPT, "*/*")] {
        if !headers.iter().any(|(known, _)| *known == name) {
            headers.push((name, HeaderValue::try_from(value).map_err(|error| error.to_string())?));
        }
    }
    // An empty Accept means none.
    headers.retain(|(name, value)| *name != header::ACCEPT || !value.is_empty());
    Ok(headers)
}

/// `dial tcp 10.0.0.1:80: connect: connection refused`.
pub(super) fn dial_error(authority: &str, error: &io::Error) -> String {
    format!("dial tcp {authority}: connect: {}", plain(error))
}

/// The text of a system error as other programs write it: lower case, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<HttpAnswer, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    let asked = async {
        let response = sender.send_request(request).await.map_err(|error| shown(&error))?;
        let location =
            response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = response.status();
        Ok(HttpAnswer { status, location, body: read_some(response.into_body()).await? })
    };
    drive(connection, asked).await
}

/// Keeps a connection going until the question is answered.
pub(super) async fn drive<T>(
    connection: impl Future<Output = hyper::Result<()>>,
    asked: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let mut connection = Box::pin(connection);
    tokio::pin!(asked);
    let ended = tokio::select! {
        biased;
        answer = &mut asked => return answer,
        ended = &mut connection => ended,
    };
    // What came in before the end can still be read; only without the connection is it clear that no more will come.
    drop(connection);
    asked.await.map_err(|error| ended.err().map_or(error, |ended| shown(&ended)))
}

async fn read_some(mut body: Incoming) -> Result<String, String> {
    let mut bytes = Vec::new();
    while bytes.len() < BODY_BYTES_MAX
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame.map_err(|error| shown(&error))?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    bytes.truncate(BODY_BYTES_MAX);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn shown(error: &hyper::Error) -> String {
    let has_ended = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    if has_ended { "EOF".to_owned() } else { error.to_string() }
}

fn connector() -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Takes every certificate, and only checks that the server owns it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
