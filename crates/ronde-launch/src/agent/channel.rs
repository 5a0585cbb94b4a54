//! The way between a caller and an agent: TLS 1.3, and over it a proof by both that they know the job's secret.
//!
//! The agent's certificate is its own invention and says nothing. What counts are the proofs: each is bound to the
//! channel by its exported keying material, so somebody in the middle, who has two channels, can pass none of them on.
//! Nothing else is read before; everything until then has one deadline ([`GREETING_WITHIN`]).

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, ConnectionCommon, DigitallySignedStruct, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
    version::TLS13,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::secret::{Binding, Proof, Secret, Side};

/// Goes up with every change of the frames; both sides must name the same.
pub const PROTOCOL: &[u8] = b"ronde-agent/1";
/// From the connection to the second proof. Three round trips, and the work of a busy machine.
pub const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// Separates our keying material from that of anybody else on the same channel.
const EXPORT_LABEL: &[u8] = b"EXPORTER-ronde-agent";
/// The agent's answer to a proof that holds; otherwise it answers [`REFUSED`] and hangs up.
const WELCOME: u8 = 1;
const REFUSED: u8 = 0;

/// A connection on which both sides have proved the secret.
pub type Channel = TlsStream<TcpStream>;

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("the other side does not know the secret of this job")]
    Secret,
    #[error("the agent rejected our secret")]
    Refused,
    #[error("timed out after {} s", GREETING_WITHIN.as_secs())]
    Slow,
    #[error("not an agent of this version: {0}")]
    Tls(io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot create a key: {0}")]
    Key(String),
}

/// The agent's end.
#[derive(Clone)]
pub struct Listening {
    tls: TlsAcceptor,
    secret: Secret,
}

impl Listening {
    /// Makes a key and a certificate that live as long as this process.
    pub fn new(secret: Secret) -> Result<Self, ChannelError> {
        let key = |error: &dyn std::error::Error| ChannelError::Key(error.to_string());
        let made = rcgen::generate_simple_self_signed(vec!["ronde-agent".to_owned()]).map_err(|error| key(&error))?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| key(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], private)
            .map_err(|error| key(&error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A channel has one life: nothing to resume.
        config.send_tls13_tickets = 0;
        Ok(Self { tls: TlsAcceptor::from(Arc::new(config)), secret })
    }

    /// Makes a channel of a connection that came in.
    pub async fn accept(&self, connection: TcpStream) -> Result<Channel, ChannelError> {
        within(async {
            connection.set_nodelay(true)?;
            let mut tls = self.tls.accept(connection).await.map_err(ChannelError::Tls)?;
            let binding = binding(tls.get_ref().1)?;
            let mut proof = Proof::default();
            tls.read_exact(&mut proof).await?;
            if !self.secret.is_proof(Side::Caller, &binding, &proof) {
                tls.write_all(&[REFUSED]).await?;
                tls.shutdown().await?;
                return Err(ChannelError::Secret);
            }
            tls.write_all(&[WELCOME]).await?;
            tls.write_all(&self.secret.prove(Side::Agent, &binding)).await?;
            tls.flush().await?;
            Ok(TlsStream::Server(tls))
        })
        .await
    }
}

/// Makes a channel to the agent at an address.
pub async fn connect(address: SocketAddr, secret: &Secret) -> Result<Channel, ChannelError> {
    within(async {
        let connection = TcpStream::connect(address).await?;
        connection.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(caller_config()?));
        let name = ServerName::IpAddress(address.ip().into());
        let mut tls = connector.connect(name, connection).await.map_err(ChannelError::Tls)?;
        let binding = binding(tls.get_ref().1)?;
        tls.write_all(&secret.prove(Side::Caller, &binding)).await?;
        tls.flush().await?;
        if tls.read_u8().await? != WELCOME {
            return Err(ChannelError::Refused);
        }
        let mut proof = Proof::default();
        tls.read_exact(&mut proof).await?;
        if !secret.is_proof(Side::Agent, &binding, &proof) {
            return Err(ChannelError::Secret);
        }
        Ok(TlsStream::Client(tls))
    })
    .await
}

async fn within(greeting: impl Future<Output = Result<Channel, ChannelError>>) -> Result<Channel, ChannelError> {
    timeout(GREETING_WITHIN, greeting).await.unwrap_or(Err(ChannelError::Slow))
}

fn binding<Data>(tls: &ConnectionCommon<Data>) -> Result<Binding, ChannelError> {
    tls.export_keying_material(Binding::default(), EXPORT_LABEL, None).map_err(tls_error)
}

fn tls_error(error: rustls::Error) -> ChannelError {
    ChannelError::Tls(io::Error::other(error))
}

fn caller_config() -> Result<ClientConfig, ChannelError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(tls_error)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unnamed(provider())))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Takes every certificate whose key the agent has: who it is, the proof says.
#[derive(Debug)]
struct Unnamed(Arc<CryptoProvider>);

impl ServerCertVerifier for Unnamed {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
