//! Whom we trust: the certificates of this machine, and those that are configured for a registry.
//!
//! ring is the one provider of rustls in this project, and is handed over explicitly: nothing relies on a provider
//! of the whole process.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use fs_err as fs;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

use super::error::RegistryError;

/// How a host proves who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TlsSettings {
    /// Files of certificates that are trusted besides those of this machine.
    pub ca: Vec<PathBuf>,
    /// Any certificate will do.
    pub skip_verify: bool,
}

impl TlsSettings {
    /// Returns the settings for a host that this one refers to: trust in names is not passed on.
    pub(super) fn for_other_host(&self) -> Self {
        Self { ca: self.ca.clone(), skip_verify: false }
    }

    /// Reads the certificates and makes the configuration of connections.
    pub(super) fn build(&self) -> Result<Arc<ClientConfig>, RegistryError> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = with_provider(provider)?;
        let config = if self.skip_verify {
            let verifier = Arc::new(AnyCertificate { algorithms });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        } else {
            builder.with_root_certificates(self.roots()?).with_no_client_auth()
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, RegistryError> {
        let mut roots = RootCertStore::empty();
        // Certificates of the machine that cannot be read are passed over, as every other program does.
        roots.add_parsable_certificates(of_machine().iter().cloned());
        for path in &self.ca {
            add_file(&mut roots, path).map_err(|cause| RegistryError::File { path: path.clone(), cause })?;
        }
        Ok(roots)
    }
}

type Builder = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;

fn with_provider(provider: Arc<CryptoProvider>) -> Result<Builder, RegistryError> {
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.map_err(|error| RegistryError::Tls { host: "any host".to_owned(), cause: error.to_string() })
}

/// Reads the certificates of this machine once: about 140 files or one of 200 kB.
fn of_machine() -> &'static [CertificateDer<'static>] {
    static CERTIFICATES: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    CERTIFICATES.get_or_init(|| rustls_native_certs::load_native_certs().certs)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| error.kind().to_string())?;
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    certificates.into_iter().try_for_each(|one| roots.add(one)).map_err(|error| error.to_string())
}

/// Accepts whoever answers, as `skip_verify` asks for; the handshake itself must still be sound.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
