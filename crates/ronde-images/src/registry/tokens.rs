//! Answers the challenges of registries: passwords as they are, or a token from the server that the challenge names.
//!
//! Tokens are kept for as long as they last, by host, repository and login. A secret goes to the host that it is for,
//! or to the token server that this host names, and never without TLS, except where the host itself is configured
//! without it or the server is this machine.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::Full;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use super::{
    backoff::Failure,
    challenge::Challenge,
    client::{Answer, Client},
    error::RegistryError,
    hosts::is_loopback,
    keyring::Login,
    tls::TlsSettings,
};
use crate::Digest;

/// What servers mean that do not say how long a token lasts.
const LIFETIME_DEFAULT: Duration = Duration::from_secs(60);
/// A token that is about to end would end on the way.
const LIFETIME_MARGIN: Duration = Duration::from_secs(5);
/// Tokens with many claims have some 10 kB.
const ANSWER_SIZE_MAX: u64 = 1 << 20;
/// Images of one machine come from fewer repositories than that; after it the cache begins anew.
const CACHE_MAX: usize = 1000;
const CLIENT_ID: &str = "ronde";

/// Whom a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TokenKey {
    origin: String,
    repository: String,
    /// The digest of the login: the cache itself need not have it.
    login: Option<Digest>,
}

impl TokenKey {
    pub(super) fn new(base: &Url, repository: &str, login: Option<&Login>) -> Self {
        let login = login.map(|login| {
            let parts = match login {
                Login::Password { username, password } => ["password", username, password],
                Login::IdentityToken(token) => ["identity", "", token],
                Login::RegistryToken(token) => ["registry", "", token],
            };
            Digest::of_bytes(parts.join("\0").as_bytes())
        });
        Self { origin: base.origin().ascii_serialization(), repository: repository.to_owned(), login }
    }
}

/// The proofs that registries have accepted, by whom they are for.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<TokenKey, Proof>>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tokens").field(&self.0.lock().len()).finish()
    }
}

/// The value of `Authorization`, which is never shown.
#[derive(Clone)]
struct Proof {
    header: HeaderValue,
    ends: Option<Instant>,
}

impl Tokens {
    /// Returns what was accepted before and still lasts.
    pub(super) fn find(&self, key: &TokenKey) -> Option<HeaderValue> {
        let tokens = self.0.lock();
        let proof = tokens.get(key)?;
        let is_good = proof.ends.is_none_or(|ends| Instant::now() < ends);
        is_good.then(|| proof.header.clone())
    }

    /// Forgets what was refused.
    pub(super) fn remove(&self, key: &TokenKey) {
        self.0.lock().remove(key);
    }

    fn insert(&self, key: TokenKey, proof: Proof) {
        let mut tokens = self.0.lock();
        if tokens.len() >= CACHE_MAX {
            tokens.clear();
        }
        tokens.insert(key, proof);
    }
}

/// Who asks whom for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub client: &'a Client,
    pub tokens: &'a Tokens,
    /// The registry, with the scheme that it is reached by.
    pub base: &'a Url,
    pub tls: &'a TlsSettings,
    pub repository: &'a str,
    pub login: Option<&'a Login>,
}

impl Asker<'_> {
    pub(super) fn key(&self) -> TokenKey {
        TokenKey::new(self.base, self.repository, self.login)
    }

    /// Finds an answer to one of the challenges, and keeps it. Nothing means that we have none.
    pub(super) async fn answer(&self, challenges: &[Challenge]) -> Result<Option<HeaderValue>, Failure> {
        let bearer = challenges.iter().find(|one| matches!(one, Challenge::Bearer { .. }));
        let proof = match (bearer, self.login) {
            (Some(_), Some(Login::RegistryToken(token))) => Some(bearer_proof(self.base, token, None)?),
            (Some(Challenge::Bearer { realm, service, scope }), _) => {
                Some(self.fetch(realm, service.as_deref(), scope.as_deref()).await?)
            }
            (_, Some(Login::Password { username, password })) if challenges.contains(&Challenge::Basic) => {
                Some(Proof { header: basic(username, password), ends: None })
            }
            _ => None,
        };
        Ok(proof.map(|proof| {
            self.tokens.insert(self.key(), proof.clone());
            proof.header
        }))
    }

    async fn fetch(&self, realm: &str, service: Option<&str>, scope: Option<&str>) -> Result<Proof, Failure> {
        let realm = self.check_realm(realm)?;
        let default_scope = format!("repository:{}:pull", self.repository);
        let scope = scope.unwrap_or(&default_scope);
        let request = match self.login {
            Some(Login::IdentityToken(token)) => exchange(&realm, service, scope, token),
            Some(Login::Password { username, password }) => {
                ask(realm.clone(), service, scope, Some(basic(username, password)))
            }
            _ => ask(realm.clone(), service, scope, None),
        };
        let is_same = realm.host() == self.base.host();
        let tls = if is_same { self.tls.clone() } else { self.tls.for_other_host() };
        // No redirect is followed: it would take the secret elsewhere.
        let answer = self.client.send(&tls, request).await.map_err(RegistryError::from)?;
        read_token(&realm, answer).await
    }

    /// Decides whether a token server may be told secrets.
    fn check_realm(&self, realm: &str) -> Result<Url, RegistryError> {
        let host = self.base.authority().to_owned();
        let invalid =
            || RegistryError::Protocol { host: host.clone(), what: "invalid realm in its challenge".to_owned() };
        let realm = Url::parse(realm).map_err(|_| invalid())?;
        let has_user = !realm.username().is_empty() || realm.password().is_some();
        match realm.scheme() {
            _ if has_user || realm.host().is_none() => Err(invalid()),
            "https" => Ok(realm),
            "http" if self.base.scheme() == "http" || is_loopback(&realm) => Ok(realm),
            "http" => Err(RegistryError::Exposed { host: realm.authority().to_owned() }),
            _ => Err(invalid()),
        }
    }
}

fn basic(username: &str, password: &str) -> HeaderValue {
    let encoded = STANDARD.encode(format!("{username}:{password}"));
    sensitive(format!("Basic {encoded}")).unwrap_or_else(|_| HeaderValue::from_static("Basic"))
}

fn sensitive(text: String) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn bearer_proof(server: &Url, token: &str, ends: Option<Instant>) -> Result<Proof, RegistryError> {
    let what = || "the token has letters that no token has".to_owned();
    let header = sensitive(format!("Bearer {token}"))
        .map_err(|_| RegistryError::Protocol { host: server.authority().to_owned(), what: what() })?;
    Ok(Proof { header, ends })
}

fn ask(mut realm: Url, service: Option<&str>, scope: &str, password: Option<HeaderValue>) -> Request<Full<Bytes>> {
    {
        let mut query = realm.query_pairs_mut();
        service.into_iter().for_each(|service| {
            query.append_pair("service", service);
        });
        scope.split(' ').filter(|one| !one.is_empty()).for_each(|one| {
            query.append_pair("scope", one);
        });
    }
    let mut request = request(Method::GET, &realm, Bytes::new());
    request.headers_mut().extend(password.map(|password| (AUTHORIZATION, password)));
    request
}

fn exchange(realm: &Url, service: Option<&str>, scope: &str, token: &str) -> Request<Full<Bytes>> {
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "refresh_token")
        .append_pair("service", service.unwrap_or_default())
        .append_pair("client_id", CLIENT_ID)
        .append_pair("scope", scope)
        .append_pair("refresh_token", token)
        .finish();
    let mut request = request(Method::POST, realm, form.into());
    let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, form_type);
    request
}

/// Makes a request. A URL that hyper cannot read makes one that no server gets: it has no host.
pub(super) fn request(method: Method, url: &Url, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.as_str().parse().unwrap_or_default();
    request
}

/// What a token server answers. OAuth 2 calls the token so, and Docker's own way otherwise.
#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    expires_in: Option<u64>,
}

async fn read_token(realm: &Url, mut answer: Answer) -> Result<Proof, Failure> {
    let status = answer.response.status();
    let headers = answer.response.headers().clone();
    let body = answer.read_all("a token", ANSWER_SIZE_MAX).await?;
    if status != StatusCode::OK {
        return Err(Failure::of_answer(status, &headers, &body).of_token_server());
    }
    let host = realm.authority().to_owned();
    let fault = || RegistryError::Protocol {
        host: host.clone(),
        what: "no token in the answer to a request for one".to_owned(),
    };
    // Errors of the parser would quote the token.
    let TokenAnswer { token, access_token, expires_in } = serde_json::from_slice(&body).map_err(|_| fault())?;
    let token = if token.is_empty() { access_token } else { token };
    if token.is_empty() {
        return Err(fault().into());
    }
    let lifetime = expires_in.map_or(LIFETIME_DEFAULT, Duration::from_secs).saturating_sub(LIFETIME_MARGIN);
    Ok(bearer_proof(realm, &token, Instant::now().checked_add(lifetime))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Proxies, client::Timeouts, connect::ProxyRules};

    /// What is asked of whom for a secret that goes to `realm`.
    fn check(base: &str, realm: &str, expected: &str) {
        let second = Duration::from_secs(1);
        let client = Client::new(ProxyRules::new(&Proxies::default()), Timeouts { connect: second, stall: second });
        let (tokens, base, tls) = (Tokens::default(), Url::parse(base).unwrap(), TlsSettings::default());
        let asker = Asker { client: &client, tokens: &tokens, base: &base, tls: &tls, repository: "a/b", login: None };
        let told = asker.check_realm(realm).map_or_else(|error| error.to_string(), |url| url.to_string());
        assert_eq!(told, expected, "{base} {realm}");
    }

    #[test]
    fn secrets_go_nowhere_without_tls() {
        check("https://r/v2", "https://auth/token", "https://auth/token");
        check("https://r/v2", "http://auth/token", "will not send credentials to `auth` without TLS");
        check("https://r/v2", "http://r/token", "will not send credentials to `r` without TLS");
        check("http://r/v2", "http://auth/token", "http://auth/token");
        check("https://r/v2", "http://127.0.0.1:1/token", "http://127.0.0.1:1/token");
        let invalid = "`r` does not follow the registry protocol: invalid realm in its challenge";
        for realm in ["", "auth", "/token", "ftp://auth", "file:///etc/passwd", "https://user:secret@auth/"] {
            check("https://r/v2", realm, invalid);
        }
    }

    #[test]
    fn tokens_are_asked_for_with_their_scope() {
        let realm = Url::parse("https://auth/token?x=1").unwrap();
        let asked = ask(realm.clone(), Some("s"), "repository:a/b:pull other", Some(basic("u", "p")));
        let uri = "https://auth/token?x=1&service=s&scope=repository%3Aa%2Fb%3Apull&scope=other";
        assert_eq!(asked.uri().to_string(), uri);
        assert_eq!(asked.headers()[AUTHORIZATION], "Basic dTpw");
        assert!(!format!("{asked:?}").contains("dTpw"));
        let posted = exchange(&realm, None, "s", "secret");
        assert_eq!((posted.method(), posted.uri().to_string()), (&Method::POST, realm.to_string()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_kept_while_it_lasts() {
        let (tokens, base) = (Tokens::default(), Url::parse("https://r/v2").unwrap());
        let key = TokenKey::new(&base, "a", None);
        let ends = Instant::now() + Duration::from_secs(10);
        tokens.insert(key.clone(), bearer_proof(&base, "t", Some(ends)).unwrap());
        assert_eq!(tokens.find(&key).unwrap(), "Bearer t");
        let other = TokenKey::new(&base, "a", Some(&Login::new("u", "p")));
        assert!(tokens.find(&other).is_none() && tokens.find(&TokenKey::new(&base, "b", None)).is_none());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(tokens.find(&key).is_none());
    }
}
