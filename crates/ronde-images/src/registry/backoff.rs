//! How often and how long something is tried again.
//!
//! Only what may pass is tried again: too many requests, failures of the server, broken connections. The wait doubles
//! each time, or is what the registry asks for, and the sum of all waits is bounded.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};

use super::error::RegistryError;

/// The last try is 4 s after the one before it if the registry says nothing.
pub(super) const TRIES_MAX: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Whoever asks has a wait of their own above this one: the kubelet's begins with 10 s.
const WAIT_SUM_MAX: Duration = Duration::from_secs(60);

/// An error, and whether it is worth another try.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: RegistryError,
    pub again: Again,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    Never,
    Soon,
    /// What `Retry-After` says.
    After(Duration),
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let again = if matches!(error, RegistryError::Broken { .. }) { Again::Soon } else { Again::Never };
        Self { error, again }
    }
}

impl Failure {
    /// Makes the failure of an answer that is no success.
    pub(super) fn of_answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let may_pass = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED);
        let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let again = match (may_pass, asked.and_then(|text| parse_retry_after(text, now()))) {
            (false, _) => Again::Never,
            (true, Some(wait)) => Again::After(wait),
            (true, None) => Again::Soon,
        };
        Self { error: RegistryError::of_answer(status, body), again }
    }

    /// Tells that it was the token server that refused: whatever its status, that is no image that is not there.
    pub(super) fn of_token_server(self) -> Self {
        match self.error {
            RegistryError::NotFound => Self {
                error: RegistryError::Status { status: StatusCode::NOT_FOUND, reason: "token server".to_owned() },
                ..self
            },
            RegistryError::Status { status: status @ StatusCode::BAD_REQUEST, reason } => {
                let reason = if reason.is_empty() { status.to_string() } else { reason };
                Self { error: RegistryError::Denied { reason }, ..self }
            }
            _ => self,
        }
    }

    /// Makes an error worth another try.
    pub(super) fn passing(error: RegistryError) -> Self {
        Self { error, again: Again::Soon }
    }
}

#[expect(clippy::disallowed_methods, reason = "a date in a header is compared with the clock of this machine")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Reads seconds or a date.
fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Counts tries and waits of one request.
#[derive(Debug)]
pub(super) struct Backoff {
    tries_max: u32,
    tries: u32,
    waited: Duration,
}

impl Backoff {
    pub(super) fn new(tries_max: u32) -> Self {
        Self { tries_max, tries: 0, waited: Duration::ZERO }
    }

    /// Something came through: begin to count anew.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.tries_max);
    }

    /// Waits before the next try, or returns the error if there should be none.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<(), RegistryError> {
        match self.next(failure.again) {
            Some(wait) => {
                tracing::debug!(error = %failure.error, wait_ms = wait.as_millis(), "registry: trying again");
                tokio::time::sleep(wait).await;
                Ok(())
            }
            None => Err(failure.error),
        }
    }

    /// Decides how long to wait; nothing means to give up.
    fn next(&mut self, again: Again) -> Option<Duration> {
        self.tries += 1;
        let own = FIRST_WAIT.saturating_mul(1 << (self.tries - 1).min(8));
        let wait = match again {
            Again::Never => return None,
            Again::Soon => own,
            Again::After(asked) => asked.max(own),
        };
        self.waited = self.waited.saturating_add(wait);
        (self.tries < self.tries_max && self.waited <= WAIT_SUM_MAX).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(again: Again) -> Vec<u128> {
        let mut backoff = Backoff::new(TRIES_MAX);
        std::iter::from_fn(|| backoff.next(again)).map(|wait| wait.as_millis()).collect()
    }

    #[test]
    fn waits_double_and_end() {
        assert_eq!(waits(Again::Soon), [250, 500, 1000, 2000]);
        assert_eq!(waits(Again::Never), [0_u128; 0]);
    }

    #[test]
    fn the_registry_may_ask_for_longer_waits_up_to_a_bound() {
        assert_eq!(waits(Again::After(Duration::from_secs(20))), [20_000, 20_000, 20_000]);
        assert_eq!(waits(Again::After(Duration::from_secs(61))), [0_u128; 0]);
        assert_eq!(waits(Again::After(Duration::ZERO)), waits(Again::Soon));
        assert_eq!(waits(Again::After(Duration::MAX)), [0_u128; 0]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(parse_retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        };
        check("7", Some(7));
        check(" 0 ", Some(0));
        check("Sun, 09 Sep 2001 01:46:50 GMT", Some(10));
        check("Sun, 09 Sep 2001 01:46:30 GMT", Some(0));
        check("soon", None);
        check("-1", None);
        check("99999999999999999999999999", None);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let again = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            Failure::of_answer(status, &HeaderMap::new(), b"").again == Again::Soon
        };
        assert_eq!([408, 429, 500, 502, 503, 504].map(again), [true; 6]);
        assert_eq!([400, 401, 403, 404, 416, 501].map(again), [false; 6]);
    }
}
