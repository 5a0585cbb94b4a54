//! The job's secret: where it comes from, and how a side of a channel proves that it knows it.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use ring::hmac;

/// What the channel gives both sides, and no other channel has.
pub type Binding = [u8; 32];
/// A proof, as it travels.
pub type Proof = [u8; 32];

/// Names a file with the secret.
pub const SECRET_FILE_VARIABLE: &str = "RONDE_SECRET_FILE";
/// The secret itself, where there is no file.
pub const SECRET_VARIABLE: &str = "RONDE_SECRET";
/// Nobody has a longer one; the file may be anything.
const SECRET_BYTES_MAX: usize = 4096;

/// The job's secret.
#[derive(Clone)]
pub struct Secret(hmac::Key);

/// Who proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Caller,
    Agent,
}

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("no secret given")]
    Missing,
    #[error("cannot read the secret")]
    Read { source: io::Error },
    #[error("the secret in {0} is empty")]
    Empty(String),
    #[error("the secret in {0} has more than {SECRET_BYTES_MAX} bytes")]
    TooLong(String),
}

impl SecretError {
    pub fn hint(&self) -> String {
        format!(
            "write one to a file, for example with `openssl rand -hex 32`, and set {SECRET_FILE_VARIABLE} to its path"
        )
    }
}

/// Where a secret may come from: the first that is given counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretSource {
    pub file: Option<PathBuf>,
    pub text: Option<String>,
}

impl SecretSource {
    pub fn is_given(&self) -> bool {
        self.file.is_some() || self.text.is_some()
    }

    pub fn read(&self) -> Result<Secret, SecretError> {
        match (&self.file, &self.text) {
            (Some(file), _) => {
                let bytes = fs::read(file).map_err(|source| SecretError::Read { source })?;
                Secret::parse(&bytes, || shown(file))
            }
            (None, Some(text)) => Secret::parse(text.as_bytes(), || format!("`{SECRET_VARIABLE}`")),
            (None, None) => Err(SecretError::Missing),
        }
    }
}

fn shown(file: &Path) -> String {
    format!("`{}`", file.display())
}

impl Secret {
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// White space around it is what editors and `echo` leave; it does not count.
    fn parse(bytes: &[u8], from: impl Fn() -> String) -> Result<Self, SecretError> {
        match bytes.trim_ascii() {
            [] => Err(SecretError::Empty(from())),
            secret if secret.len() > SECRET_BYTES_MAX => Err(SecretError::TooLong(from())),
            secret => Ok(Self::new(secret)),
        }
    }

    /// Returns the proof of one side for one channel.
    pub fn prove(&self, side: Side, binding: &Binding) -> Proof {
        let mut proof = Proof::default();
        proof.copy_from_slice(hmac::sign(&self.0, &words(side, binding)).as_ref());
        proof
    }

    /// Tells, in the same time for every proof, whether it is the one of that side for that channel.
    pub fn is_proof(&self, side: Side, binding: &Binding, proof: &Proof) -> bool {
        hmac::verify(&self.0, &words(side, binding), proof).is_ok()
    }
}

fn words(side: Side, binding: &Binding) -> Vec<u8> {
    let role: &[u8] = match side {
        Side::Caller => b"ronde agent: caller\0",
        Side::Agent => b"ronde agent: agent\0",
    };
    [role, binding].concat()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_secret_one_side_and_one_channel() {
        let (ours, other) = (Secret::new(b"ours"), Secret::new(b"other"));
        let proof = ours.prove(Side::Caller, &[1; 32]);
        assert!(ours.is_proof(Side::Caller, &[1; 32], &proof));
        assert!(!ours.is_proof(Side::Agent, &[1; 32], &proof), "a proof cannot be sent back");
        assert!(!ours.is_proof(Side::Caller, &[2; 32], &proof), "nor be passed on to another channel");
        assert!(!other.is_proof(Side::Caller, &[1; 32], &proof));
    }

    #[test]
    fn a_file_goes_before_the_variable_and_may_end_with_a_newline() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "from the file\n").unwrap();
        let source = SecretSource { file: Some(file.clone()), text: Some("from the variable".to_owned()) };
        let proof = source.read().unwrap().prove(Side::Caller, &[0; 32]);
        assert_eq!(proof, Secret::new(b"from the file").prove(Side::Caller, &[0; 32]));
        fs::write(&file, " \n").unwrap();
        assert!(matches!(source.read(), Err(SecretError::Empty(_))));
        assert!(matches!(SecretSource::default().read(), Err(SecretError::Missing)));
        let missing = SecretSource { file: Some(folder.path().join("none")), ..SecretSource::default() };
        assert!(matches!(missing.read(), Err(SecretError::Read { .. })));
    }
}
