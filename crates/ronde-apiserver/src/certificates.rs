//! The server's papers in its data directory: certificate authority, server certificate, tokens' key, admin token.
//!
//! Made on the first start and kept, so that clients go on working after a restart. All files are 0600. A new server
//! certificate is signed at every start: it costs a millisecond and never expires under a running server.

use std::{
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

use crate::auth::Keys;

/// The administrator's token once more, in the form that clients take from a credential plugin.
pub const ADMIN_CREDENTIAL: &str = "admin.credential";
const CA_KEY: &str = "ca.key";
const CA_CERTIFICATE: &str = "ca.crt";
const ADMIN_TOKEN: &str = "admin.token";
const TOKENS_KEY: &str = "tokens.key";

/// The files that clients and tokens depend on: with them another data directory is the same cluster.
pub const IDENTITY_FILES: [&str; 4] = [CA_KEY, CA_CERTIFICATE, ADMIN_TOKEN, TOKENS_KEY];

/// Why the papers could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot make a certificate")]
    Certificate(#[source] rcgen::Error),
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("`{0}` is damaged")]
    Damaged(PathBuf),
    #[error("the system has no random numbers")]
    Randomness,
}

/// What the server shows and checks.
pub struct Identity {
    pub ca_pem: String,
    pub tls: Arc<rustls::ServerConfig>,
    pub keys: Keys,
}

impl Identity {
    /// Reads the papers from a directory, or makes them there.
    ///
    /// # Errors
    /// If a file cannot be read or written, or is not what we wrote.
    pub fn open(directory: &Path, addresses: &[IpAddr]) -> Result<Self, IdentityError> {
        let ca_key = keep(&directory.join(CA_KEY), || {
            Ok(KeyPair::generate().map_err(IdentityError::Certificate)?.serialize_pem())
        })?;
        let ca_key = KeyPair::from_pem(&ca_key).map_err(|_| IdentityError::Damaged(directory.join(CA_KEY)))?;
        let ca_pem = keep(&directory.join(CA_CERTIFICATE), || {
            Ok(ca_params().self_signed(&ca_key).map_err(IdentityError::Certificate)?.pem())
        })?;
        let token = keep(&directory.join(ADMIN_TOKEN), new_token)?;
        write_private(&directory.join(ADMIN_CREDENTIAL), &credential(token.trim()))?;
        let signing = keep(&directory.join(TOKENS_KEY), || {
            Ok(URL_SAFE_NO_PAD.encode(Keys::generate().map_err(|_| IdentityError::Randomness)?))
        })?;
        let damaged = || IdentityError::Damaged(directory.join(TOKENS_KEY));
        let signing = URL_SAFE_NO_PAD.decode(signing.trim()).map_err(|_| damaged())?;
        let keys = Keys::new(token.trim().to_owned(), &signing).map_err(|_| damaged())?;
        Ok(Self { tls: Arc::new(tls(&ca_key, addresses)?), ca_pem, keys })
    }
}

/// Returns what is in a file; makes it, readable for us alone, if there is none.
fn keep(path: &Path, make: impl FnOnce() -> Result<String, IdentityError>) -> Result<String, IdentityError> {
    match fs_err::read_to_string(path) {
        Ok(text) => return Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(IdentityError::Read { path: path.to_owned(), source }),
    }
    let text = make()?;
    write_private(path, &text)?;
    Ok(text)
}

/// Writes a file that is readable for us alone: beside and renamed, so that a crash leaves the whole file or none.
fn write_private(path: &Path, text: &str) -> Result<(), IdentityError> {
    let beside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs_err::rename(&beside, path)
    };
    write().map_err(|source| IdentityError::Write { path: path.to_owned(), source })
}

/// A token as a credential plugin prints it.
fn credential(token: &str) -> String {
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token},
    });
    credential.to_string()
}

fn new_token() -> Result<String, IdentityError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| IdentityError::Randomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "ronde-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn tls(ca_key: &KeyPair, addresses: &[IpAddr]) -> Result<rustls::ServerConfig, IdentityError> {
    let names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut params = CertificateParams::new(names.map(str::to_owned)).map_err(IdentityError::Certificate)?;
    params.distinguished_name.push(DnType::CommonName, "ronde-apiserver");
    params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(IdentityError::Certificate)?;
    // The name and the key are all that the issuer's certificate has to match.
    let ca = ca_params();
    let issuer = Issuer::from_params(&ca, ca_key);
    let certificate = params.signed_by(&key, &issuer).map_err(IdentityError::Certificate)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = builder
        .map_err(IdentityError::Tls)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .map_err(IdentityError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
