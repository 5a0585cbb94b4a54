//! Makes pairs of RSA keys for the ssh of jobs: 2048 bits, the private one as PKCS#1, as users of Volcano's `ssh` plugin
//! expect.
//!
//! The primes come from a crate whose whole business they are; here is only the arithmetic around them and the
//! form. Every key is read back by another implementation (`ring`, which checks it) before it is given away.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crypto_bigint::{NonZero, U1024, U2048};
use crypto_primes::{
    Flavor,
    hazmat::{SetBits, SmallFactorsSieveFactory},
    is_prime, sieve_and_find,
};
use rand::{CryptoRng, rand_core::UnwrapErr, rngs::SysRng};

const EXPONENT: u32 = 65537;
const PRIME_BITS: u32 = 1024;
const LINE: usize = 64;

/// A pair of keys as files contain them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// PEM, PKCS#1.
    pub private: String,
    /// One line, as in `authorized_keys`.
    pub public: String,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a key: {0}")]
pub struct KeyError(String);

/// Where the keys of jobs come from.
#[derive(Clone)]
pub struct KeySource(Arc<dyn Fn() -> Result<KeyPair, KeyError> + Send + Sync>);

impl KeySource {
    pub fn new(make: impl Fn() -> Result<KeyPair, KeyError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Returns the source that makes keys from the machine's randomness.
    pub fn real() -> Self {
        Self::new(|| generate(&mut UnwrapErr(SysRng)))
    }

    /// Makes a key where it holds nobody up.
    pub async fn make(&self) -> Result<KeyPair, kube::Error> {
        let make = self.0.clone();
        let made = tokio::task::spawn_blocking(move || make()).await;
        made.map_err(|error| kube::Error::Service(error.into()))?.map_err(|error| kube::Error::Service(error.into()))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

/// Makes a pair of keys. Takes a tenth of a second of processor time.
///
/// # Errors
/// If the key does not pass the check; nothing is known that leads to it.
pub fn generate(random: &mut impl CryptoRng) -> Result<KeyPair, KeyError> {
    let (p, q) = (prime(random)?, prime(random)?);
    let one = U1024::ONE;
    let wide = |number: &U1024| number.resize::<{ U2048::LIMBS }>();
    let modulus: U2048 = p.concatenating_mul(&q);
    let order: U2048 = p.wrapping_sub(&one).concatenating_mul(&q.wrapping_sub(&one));
    let exponent = U2048::from(EXPONENT);
    let inverse = exponent.invert_mod(&non_zero(order)?);
    let private = Option::<U2048>::from(inverse).ok_or_else(|| KeyError("the exponent has no inverse".to_owned()))?;
    let rest = |prime: &U1024| Ok(private.rem(&non_zero(wide(&prime.wrapping_sub(&one)))?));
    let coefficient = Option::<U1024>::from(q.invert_mod(&non_zero(p)?));
    let coefficient = coefficient.ok_or_else(|| KeyError("the primes are equal".to_owned()))?;
    let numbers =
        [U2048::ZERO, modulus, exponent, private, wide(&p), wide(&q), rest(&p)?, rest(&q)?, wide(&coefficient)];
    let numbers: Vec<Vec<u8>> = numbers.iter().map(bytes).collect();
    let der = sequence(&numbers);
    ring::rsa::KeyPair::from_der(&der).map_err(|rejected| KeyError(rejected.to_string()))?;
    Ok(KeyPair { private: pem(&der), public: public_line(&numbers[2], &numbers[1]) })
}

/// Returns a prime with its two highest bits set, so that the product of two has its full length.
fn prime(random: &mut impl CryptoRng) -> Result<U1024, KeyError> {
    let failed = |error: crypto_primes::Error| KeyError(error.to_string());
    let one = U1024::ONE;
    let exponent = NonZero::new(U1024::from(EXPONENT)).expect("the exponent is not zero");
    let fits = |candidate: &U1024| candidate.wrapping_sub(&one).rem(&exponent) != U1024::ZERO;
    let sieve = SmallFactorsSieveFactory::new(Flavor::Any, PRIME_BITS, SetBits::TwoMsb).map_err(failed)?;
    let found = sieve_and_find(random, sieve, |_, candidate| fits(candidate) && is_prime(Flavor::Any, candidate));
    found.map_err(failed)?.ok_or_else(|| KeyError("no prime was found".to_owned()))
}

fn non_zero<const LIMBS: usize>(
    number: crypto_bigint::Uint<LIMBS>,
) -> Result<NonZero<crypto_bigint::Uint<LIMBS>>, KeyError> {
    Option::from(NonZero::new(number)).ok_or_else(|| KeyError("a number is zero".to_owned()))
}

/// Returns a number as DER and ssh write it: the fewest bytes, the first below 128.
fn bytes(number: &U2048) -> Vec<u8> {
    let all = number.to_be_bytes();
    let all: &[u8] = all.as_ref();
    let digits = all.iter().skip_while(|byte| **byte == 0).copied();
    let mut bytes: Vec<u8> = digits.collect();
    if bytes.first().is_none_or(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    bytes
}

/// Writes a sequence of integers in DER.
fn sequence(numbers: &[Vec<u8>]) -> Vec<u8> {
    let content = numbers.iter().flat_map(|number| tagged(0x02, number)).collect::<Vec<u8>>();
    tagged(0x30, &content)
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut written = vec![tag];
    match (content.len(), u8::try_from(length.len())) {
        (0..0x80, _) => written.push(length.first().copied().unwrap_or(0)),
        (_, Ok(bytes)) => {
            written.push(0x80 | bytes);
            written.extend(length);
        }
        (_, Err(_)) => unreachable!("the length of a slice has at most eight bytes"),
    }
    written.extend_from_slice(content);
    written
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = "-----BEGIN RSA PRIVATE KEY-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END RSA PRIVATE KEY-----\n");
    pem
}

fn public_line(exponent: &[u8], modulus: &[u8]) -> String {
    let mut blob = Vec::new();
    for part in [b"ssh-rsa".as_slice(), exponent, modulus] {
        let length = u32::try_from(part.len()).expect("a number of 2048 bits is short");
        blob.extend(length.to_be_bytes());
        blob.extend(part);
    }
    format!("ssh-rsa {}\n", STANDARD.encode(blob))
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, process::Command};

    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn numbers_are_written_as_der_wants_them() {
        let check = |number: u64, expected: &[u8]| assert_eq!(bytes(&U2048::from(number)), expected, "{number}");
        check(0, &[0]);
        check(1, &[1]);
        check(127, &[127]);
        check(128, &[0, 128]);
        check(65537, &[1, 0, 1]);
        assert_eq!(tagged(2, &[7; 3]), [2, 3, 7, 7, 7]);
        assert_eq!(tagged(2, &[7; 200])[..3], [2, 0x81, 200]);
        assert_eq!(tagged(2, &[7; 300])[..4], [2, 0x82, 1, 44]);
    }

    #[test]
    fn ssh_keygen_derives_the_public_key_from_the_private_one() {
        let pair = generate(&mut StdRng::seed_from_u64(1)).expect("a key");
        assert_eq!(pair, generate(&mut StdRng::seed_from_u64(1)).expect("a key"), "chance is an argument");
        let Some(program) = ronde_sim::program("ssh-keygen") else { return };
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(pair.private.as_bytes()).expect("is written");
        let output = Command::new(program).args(["-y", "-f"]).arg(file.path()).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), pair.public, "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(pair.private.lines().map(str::len).max(), Some(LINE));
    }
}
