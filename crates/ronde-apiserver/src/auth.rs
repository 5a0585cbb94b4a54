//! Who asks: bearer tokens of the administrator and of service accounts.
//!
//! There is one administrator token per data directory. Service-account tokens are JWTs signed with the directory's own
//! key (ES256), bound to the account's uid, and checked against the store, so that they end with their account. What
//! somebody may do is for [`crate::rbac`] to say; the administrator may do everything.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
    },
};
use serde_json::{Value, json};

/// The issuer named in service-account tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// The first word of the `User-Agent`, which names the field manager of clients that do not give one.
    pub agent: String,
}

/// A service account as a token names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// What a token is to say.
pub struct Claims<'a> {
    pub account: &'a Account,
    pub audiences: &'a [String],
    pub issued: Timestamp,
    pub expires: Timestamp,
    pub id: String,
}

/// The secrets that tokens are checked with.
pub struct Keys {
    admin: String,
    signing: EcdsaKeyPair,
    random: SystemRandom,
}

/// The signing key is not one that we wrote.
#[derive(Debug, thiserror::Error)]
#[error("the key for service-account tokens is damaged")]
pub struct BadKey;

/// The group whose members may do everything.
const MASTERS: &str = "system:masters";
/// The group of everybody who is known.
pub const AUTHENTICATED: &str = "system:authenticated";

impl User {
    /// The administrator: requests in process, and those with the administrator's token.
    pub fn admin() -> Self {
        Self::named("ronde-admin", &[MASTERS, AUTHENTICATED])
    }

    /// Who shows no token, where none is needed.
    pub fn anonymous() -> Self {
        Self::named("system:anonymous", &["system:unauthenticated"])
    }

    /// A user by name, with nothing but these groups.
    pub fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { name: name.to_owned(), uid: String::new(), groups, agent: "unknown".into() }
    }

    /// Whether nothing is refused to this user.
    pub fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    pub fn service_account(account: &Account) -> Self {
        let Account { namespace, name, uid } = account;
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let groups = ["system:serviceaccounts", &of_namespace, AUTHENTICATED];
        Self { uid: uid.clone(), ..Self::named(&format!("system:serviceaccount:{namespace}:{name}"), &groups) }
    }

    /// Takes the name of the client program from its `User-Agent`.
    pub fn with_agent(mut self, user_agent: &str) -> Self {
        let agent = user_agent.split('/').next().unwrap_or_default();
        if !agent.is_empty() {
            self.agent = agent.chars().filter(|c| !c.is_control()).take(128).collect();
        }
        self
    }

    /// The user as `SelfSubjectReview` shows it.
    pub fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        info
    }
}

impl Keys {
    /// Makes a new signing key, in the form [`Keys::new`] takes.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> Result<Vec<u8>, BadKey> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(made.map_err(|_| BadKey)?.as_ref().to_vec())
    }

    /// # Errors
    /// If the signing key cannot be read.
    pub fn new(admin: String, signing_pkcs8: &[u8]) -> Result<Self, BadKey> {
        let random = SystemRandom::new();
        let signing = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, signing_pkcs8, &random);
        Ok(Self { admin, signing: signing.map_err(|_| BadKey)?, random })
    }

    pub fn admin_token(&self) -> &str {
        &self.admin
    }

    /// Whether this is the administrator's token.
    pub fn is_admin(&self, token: &str) -> bool {
        // Digests are compared, so that the time this takes tells nothing about the token.
        let digest = |text: &str| ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        digest(&self.admin).as_ref() == digest(token).as_ref()
    }

    /// Signs a token for a service account.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn sign(&self, claims: &Claims<'_>) -> Result<String, BadKey> {
        let Account { namespace, name, uid } = claims.account;
        let payload = json!({
            "iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": claims.audiences,
            "iat": claims.issued.as_second(), "nbf": claims.issued.as_second(), "exp": claims.expires.as_second(),
            "jti": claims.id,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        });
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","typ":"JWT"}"#);
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(payload.to_string()));
        let signature = self.signing.sign(&self.random, signed.as_bytes()).map_err(|_| BadKey)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Checks a token of a service account; none if it is not ours, is out of date, or is meant for somebody else.
    pub fn verify(&self, token: &str, audience: &str, now: Timestamp) -> Option<Account> {
        let (signed, signature) = token.rsplit_once('.')?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.signing.public_key().as_ref());
        key.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let payload = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let about = &claims["kubernetes.io"];
        let in_time = claims["exp"].as_i64()? > now.as_second() && claims["nbf"].as_i64()? <= now.as_second() + 60;
        let account = Account {
            namespace: text(&about["namespace"])?,
            name: text(&about["serviceaccount"]["name"])?,
            uid: text(&about["serviceaccount"]["uid"])?,
        };
        let is_for = claims["aud"].as_array()?.iter().any(|aud| aud == audience);
        (in_time && is_for).then_some(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let signing = Keys::generate().expect("randomness");
        Keys::new("secret".into(), &signing).expect("a key just made")
    }

    #[test]
    fn tokens_hold_until_they_expire_and_only_as_signed() {
        let (keys, other) = (keys(), keys());
        let account = Account { namespace: "a".into(), name: "b".into(), uid: "c".into() };
        let at = |second| Timestamp::from_second(second).expect("a time");
        let audiences = ["here".to_owned()];
        let claims =
            Claims { account: &account, audiences: &audiences, issued: at(1000), expires: at(2000), id: "x".into() };
        let token = keys.sign(&claims).expect("randomness");
        assert_eq!(keys.verify(&token, "here", at(1500)), Some(account));
        assert_eq!(keys.verify(&token, "there", at(1500)), None, "for somebody else");
        assert_eq!(keys.verify(&token, "here", at(2000)), None, "expired");
        assert_eq!(keys.verify(&token, "here", at(0)), None, "not yet");
        assert_eq!(other.verify(&token, "here", at(1500)), None, "another key");
        for garbage in ["", ".", "..", "a.b.c", &token[1..], &format!("{token}x")] {
            assert_eq!(keys.verify(garbage, "here", at(1500)), None, "{garbage}");
        }
    }

    #[test]
    fn only_the_whole_admin_token_is_the_admin_token() {
        let keys = keys();
        assert!(keys.is_admin("secret"));
        assert!(!keys.is_admin("secre") && !keys.is_admin("") && !keys.is_admin("secret2"));
    }
}
