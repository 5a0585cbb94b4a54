//! Asks a registry for the documents and the content of one repository, by the distribution protocol.
//!
//! Every request goes to the mirrors in turn and then to the registry's own server. What a mirror cannot give is no
//! error; what the server says at last is. Redirects are followed by hand, so that credentials stay with their host.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RANGE, WWW_AUTHENTICATE},
};
use tokio::sync::mpsc;
use url::Url;

use super::{
    Registries,
    backoff::{Backoff, Failure, TRIES_MAX},
    challenge::Challenge,
    client::{Answer, SendError},
    download::{Download, Piece},
    error::{RegistryError, protocol},
    hosts::Endpoint,
    keyring::{Keyring, Login},
    tokens::{Asker, request},
};
use crate::{
    Descriptor, Digest, Reference, digest,
    manifest::{ACCEPTED, DOCUMENT_SIZE_MAX, Document},
};

/// Registries redirect once, to where the content is.
const REDIRECTS_MAX: usize = 5;
/// More of an error is not read.
const ERROR_SIZE_MAX: u64 = 64 << 10;
/// A connection that brought this much before it broke was worth it, and tries are counted anew.
const PROGRESS_MIN: u64 = 1 << 20;
const DOCKER_CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A document, verified.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub digest: Digest,
    pub bytes: Bytes,
    pub document: Document,
}

/// What a document is asked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Tag(String),
    Digest(Digest),
}

impl Wanted {
    /// Returns what a name asks for: its digest if it has one, because a tag beside it is only for people.
    pub fn of_name(name: &Reference) -> Self {
        match (name.digest(), name.tag()) {
            (Some(digest), _) => Self::Digest(digest),
            (None, tag) => Self::Tag(tag.unwrap_or("latest").to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Tag(tag) => tag.clone(),
            Self::Digest(digest) => digest.to_string(),
        }
    }
}

/// Who is asked for content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sources {
    All,
    /// Without the mirrors.
    ServerOnly,
}

/// One repository of one registry, and who may answer for it.
#[derive(Debug)]
pub struct Repository {
    registries: Registries,
    registry: String,
    path: String,
    hosts: Vec<RepositoryHost>,
}

/// A host, and who we are to it.
#[derive(Debug)]
struct RepositoryHost {
    endpoint: Endpoint,
    /// Never empty: nothing is a login too.
    logins: Vec<Option<Login>>,
    /// The login that was not refused yet.
    login: AtomicUsize,
}

impl Repository {
    pub(super) async fn new(
        registries: Registries,
        keyring: &Keyring,
        name: &Reference,
    ) -> Result<Self, RegistryError> {
        let mut hosts = Vec::new();
        for endpoint in registries.endpoints(name.registry())? {
            // A mirror is not told who we are to the registry that it stands for.
            let host = if endpoint.is_mirror { endpoint.authority() } else { name.registry() };
            let mut logins: Vec<_> = keyring.logins_at(host, name.repository()).await?.into_iter().map(Some).collect();
            if logins.is_empty() {
                logins.push(None);
            }
            hosts.push(RepositoryHost { endpoint, logins, login: AtomicUsize::new(0) });
        }
        let (registry, path) = (name.registry().to_owned(), name.repository().to_owned());
        Ok(Self { registries, registry, path, hosts })
    }

    /// Tells whether others are asked before the registry's own server.
    pub fn has_mirrors(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Fetches a manifest or an index, and verifies it.
    pub async fn document(&self, wanted: &Wanted) -> Result<Fetched, RegistryError> {
        let can = |endpoint: &Endpoint| match wanted {
            Wanted::Tag(_) => endpoint.can_resolve,
            Wanted::Digest(_) => endpoint.can_pull,
        };
        let mut last = RegistryError::NoHost(self.registry.clone());
        for (host, tries_max) in self.hosts_that(can) {
            let mut backoff = Backoff::new(tries_max);
            loop {
                let failure = match self.document_of(host, wanted).await {
                    Ok(found) => return Ok(found),
                    Err(failure) => failure,
                };
                if let Err(error) = backoff.wait(failure).await {
                    last = error;
                    break;
                }
            }
            tracing::debug!(host = host.endpoint.authority(), error = %last, "registry: no document");
        }
        Err(last)
    }

    /// Downloads content from where it was left, and sends it on as it comes. Nothing is verified here but the size.
    ///
    /// # Errors
    ///
    /// [`RegistryError::Stopped`] if nobody takes what comes.
    pub async fn blob(
        &self,
        part: &Descriptor,
        offset: u64,
        pieces: &mpsc::Sender<Piece>,
        sources: Sources,
    ) -> Result<(), RegistryError> {
        let can = |endpoint: &Endpoint| endpoint.can_pull && (sources == Sources::All || !endpoint.is_mirror);
        let mut download = Download::new(part, offset, pieces);
        let mut last = RegistryError::NoHost(self.registry.clone());
        for (host, tries_max) in self.hosts_that(can) {
            match self.blob_with_retries(host, Backoff::new(tries_max), &mut download).await {
                Ok(()) => return Ok(()),
                Err(RegistryError::Stopped) => return Err(RegistryError::Stopped),
                Err(error) => last = error,
            }
            tracing::debug!(host = host.endpoint.authority(), error = %last, "registry: no content");
        }
        Err(last)
    }

    /// Returns who is asked, and how often: a mirror is no reason to wait.
    fn hosts_that(&self, can: impl Fn(&Endpoint) -> bool) -> impl Iterator<Item = (&RepositoryHost, u32)> {
        let able: Vec<_> = self.hosts.iter().filter(|host| can(&host.endpoint)).collect();
        let count = able.len();
        let tries = move |at| if at + 1 == count { TRIES_MAX } else { 1 };
        able.into_iter().enumerate().map(move |(at, host)| (host, tries(at)))
    }

    async fn document_of(&self, host: &RepositoryHost, wanted: &Wanted) -> Result<Fetched, Failure> {
        let accepted = HeaderValue::try_from(ACCEPTED.join(", ")).ok();
        let headers: HeaderMap = accepted.map(|accepted| (ACCEPT, accepted)).into_iter().collect();
        let mut answer = self.ask(host, &format!("manifests/{}", wanted.text()), &headers).await?;
        if answer.response.status() != StatusCode::OK {
            return Err(refused(&mut answer).await);
        }
        let bytes = answer.read_all("a manifest", DOCUMENT_SIZE_MAX).await?;
        let header = |name| answer.response.headers().get(name).and_then(|value| value.to_str().ok());
        let digest = verify(&bytes, wanted, header(DOCKER_CONTENT_DIGEST)).map_err(RegistryError::from)?;
        let document = Document::parse(&bytes, header(CONTENT_TYPE)).map_err(RegistryError::from)?;
        Ok(Fetched { digest, bytes, document })
    }

    async fn blob_with_retries(
        &self,
        host: &RepositoryHost,
        mut backoff: Backoff,
        download: &mut Download<'_>,
    ) -> Result<(), RegistryError> {
        while !download.is_whole() {
            let before = download.at();
            let Err(mut failure) = self.blob_of(host, download).await else { return Ok(()) };
            if download.at().saturating_sub(before) >= PROGRESS_MIN {
                backoff.reset();
            }
            // The manifest came over the same network, which may be gone for a moment.
            if failure.error.is_unreachable() {
                failure = Failure::passing(failure.error);
            }
            backoff.wait(failure).await?;
        }
        Ok(())
    }

    async fn blob_of(&self, host: &RepositoryHost, download: &mut Download<'_>) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        if download.at() > 0 {
            let range = HeaderValue::try_from(format!("bytes={}-", download.at()));
            headers.extend(range.ok().map(|range| (RANGE, range)));
        }
        let mut answer = self.ask(host, &format!("blobs/{}", download.part().digest), &headers).await?;
        match answer.response.status() {
            StatusCode::OK => download.restart().await?,
            StatusCode::PARTIAL_CONTENT => download.check_range(&answer).await?,
            StatusCode::RANGE_NOT_SATISFIABLE => {
                download.restart().await?;
                return Err(Failure::passing(protocol(&answer.host, "it has no such range of the content")));
            }
            _ => return Err(refused(&mut answer).await),
        }
        while let Some(bytes) = answer.next_bytes().await? {
            download.add(bytes).await?;
        }
        download.check_end(&answer.host)
    }

    /// Sends a request with the login that works, or with each in turn.
    async fn ask(&self, host: &RepositoryHost, path: &str, headers: &HeaderMap) -> Result<Answer, Failure> {
        loop {
            let at = host.login.load(Ordering::Relaxed);
            let login = host.logins.get(at).and_then(Option::as_ref);
            match self.ask_as(host, login, path, headers).await {
                Err(failure) if matches!(failure.error, RegistryError::Denied { .. }) && at + 1 < host.logins.len() => {
                    // Another download may have gone on already.
                    let _ = host.login.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
                }
                other => return other,
            }
        }
    }

    async fn ask_as(
        &self,
        host: &RepositoryHost,
        login: Option<&Login>,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Answer, Failure> {
        let base = self.registries.base_of(&host.endpoint);
        let tls = &host.endpoint.tls;
        let shared = &self.registries.0;
        let asker =
            Asker { client: &shared.client, tokens: &shared.tokens, base: &base, tls, repository: &self.path, login };
        let known = shared.tokens.find(&asker.key());
        let (mut answer, is_own) = match self.follow(&asker, host, path, headers, known.as_ref()).await {
            Err(SendError::NotTls { host: authority }) if host.endpoint.may_be_plain && base.scheme() == "https" => {
                tracing::debug!(host = authority, "registry: no TLS on this machine, asking without");
                self.registries.remember_plain(&host.endpoint);
                return Box::pin(self.ask_as(host, login, path, headers)).await;
            }
            other => other.map_err(RegistryError::from)?,
        };
        if !is_own || answer.response.status() != StatusCode::UNAUTHORIZED {
            return accepted(answer).await;
        }
        shared.tokens.remove(&asker.key());
        let Some(proof) = asker.answer(&challenges(&answer)).await? else { return Err(refused(&mut answer).await) };
        let (answer, _) = self.follow(&asker, host, path, headers, Some(&proof)).await.map_err(RegistryError::from)?;
        if answer.response.status() == StatusCode::UNAUTHORIZED {
            shared.tokens.remove(&asker.key());
        }
        accepted(answer).await
    }

    /// Sends a request and follows redirects. The proof goes to the registry only, and not to where it points.
    /// Returns also whether the answer is the registry's own.
    async fn follow(
        &self,
        asker: &Asker<'_>,
        host: &RepositoryHost,
        path: &str,
        headers: &HeaderMap,
        proof: Option<&HeaderValue>,
    ) -> Result<(Answer, bool), SendError> {
        let mut url = self.url(asker.base, &host.endpoint, path);
        for _ in 0..=REDIRECTS_MAX {
            let is_own = url.origin() == asker.base.origin();
            let mut request = request(Method::GET, &url, Bytes::new());
            request.headers_mut().extend(headers.clone());
            if let (true, Some(proof)) = (is_own, proof) {
                request.headers_mut().insert(AUTHORIZATION, proof.clone());
            }
            let other_tls = asker.tls.for_other_host();
            let tls = if url.host() == asker.base.host() { asker.tls } else { &other_tls };
            let answer = asker.client.send(tls, request).await?;
            match next_url(&url, &answer)? {
                Some(next) => url = next,
                None => return Ok((answer, is_own)),
            }
        }
        Err(SendError::Other(protocol(url.authority(), "too many redirects")))
    }

    fn url(&self, base: &Url, endpoint: &Endpoint, path: &str) -> Url {
        let mut url = base.clone();
        url.set_path(&format!("{}/{}/{path}", base.path().trim_end_matches('/'), self.path));
        if endpoint.is_mirror {
            // A mirror of several registries cannot know otherwise which of them is meant.
            url.query_pairs_mut().append_pair("ns", &self.registry);
        }
        url
    }
}

/// Checks a document against what it was asked by, or else against what the registry calls it.
fn verify(bytes: &[u8], wanted: &Wanted, said: Option<&str>) -> Result<Digest, digest::Error> {
    let expected = match wanted {
        Wanted::Digest(digest) => Some(*digest),
        Wanted::Tag(_) => said.filter(|text| text.starts_with("sha256:")).map(str::parse).transpose()?,
    };
    expected.map_or_else(|| Ok(Digest::of_bytes(bytes)), |digest| digest.verify(bytes).map(|()| digest))
}

fn next_url(url: &Url, answer: &Answer) -> Result<Option<Url>, SendError> {
    let is_redirect = matches!(answer.response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    if !is_redirect {
        return Ok(None);
    }
    let invalid = |what: &str| SendError::Other(protocol(url.authority(), what));
    let location = answer.response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|text| url.join(text).ok()).ok_or_else(|| invalid("invalid redirect"))?;
    match (url.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(Some(next)),
        ("https", "http") => Err(invalid("it redirects to a host without TLS")),
        _ => Err(invalid("invalid redirect")),
    }
}

fn challenges(answer: &Answer) -> Vec<Challenge> {
    let headers = answer.response.headers().get_all(WWW_AUTHENTICATE);
    headers.iter().filter_map(|value| value.to_str().ok()).flat_map(Challenge::parse).collect()
}

/// Makes a failure of an answer to somebody who may not have what was asked for.
async fn accepted(mut answer: Answer) -> Result<Answer, Failure> {
    match answer.response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(refused(&mut answer).await),
        _ => Ok(answer),
    }
}

/// Makes the failure of an answer that is no success, with the reason in its body.
async fn refused(answer: &mut Answer) -> Failure {
    let (status, headers) = (answer.response.status(), answer.response.headers().clone());
    let body = answer.read_all("an error", ERROR_SIZE_MAX).await.unwrap_or_default();
    Failure::of_answer(status, &headers, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_what_they_were_asked_by() {
        let (right, wrong) = (Digest::of_bytes(b"x"), Digest::of_bytes(b"y").to_string());
        let tag = Wanted::Tag("t".into());
        assert_eq!(verify(b"x", &tag, None), Ok(right));
        assert_eq!(verify(b"x", &tag, Some(&right.to_string())), Ok(right));
        assert!(verify(b"x", &tag, Some(&wrong)).is_err());
        assert!(verify(b"x", &tag, Some("sha256:12")).is_err());
        assert_eq!(verify(b"x", &tag, Some("sha512:12")), Ok(right));
        assert!(verify(b"y", &Wanted::Digest(right), Some(&wrong)).is_err());
        assert_eq!(verify(b"x", &Wanted::Digest(right), Some(&wrong)), Ok(right));
    }
}
