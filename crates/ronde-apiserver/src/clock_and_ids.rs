//! The two things that are not in the store: the time and chance. Handlers take them from here, so that a test can
//! run on its own clock and repeat itself to the byte.

use std::{fmt, sync::Arc};

use jiff::{Timestamp, fmt::strtime};

/// A source of time and randomness.
#[derive(Clone)]
pub struct ClockAndIds {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> u128 + Send + Sync>,
}

/// Letters of generated names: no vowels, so that no words appear; nothing that looks like something else.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl ClockAndIds {
    /// The machine's clock and randomness.
    #[expect(clippy::disallowed_methods, reason = "this is the rim: everything else gets them from here")]
    pub fn real() -> Self {
        Self::new(Timestamp::now, || uuid::Uuid::new_v4().as_u128())
    }

    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl Fn() -> u128 + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), random: Arc::new(random) }
    }

    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Returns the time as objects carry it: RFC 3339 in whole seconds.
    pub fn now_text(&self) -> String {
        rfc3339(self.now())
    }

    pub fn random(&self) -> u128 {
        (self.random)()
    }

    pub fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(self.random().to_be_bytes()).into_uuid().to_string()
    }

    /// Returns five letters to end a generated name.
    pub fn name_suffix(&self) -> String {
        let mut chance = self.random();
        let count = NAME_LETTERS.len() as u128;
        let mut letter = || {
            let index = usize::try_from(chance % count).expect("less than the number of letters");
            chance /= count;
            char::from(NAME_LETTERS[index])
        };
        (0..5).map(|_| letter()).collect()
    }
}

/// Formats a time as Kubernetes does in `metadata`.
pub fn rfc3339(time: Timestamp) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%SZ", time).expect("a timestamp in UTC has all of these parts")
}

impl fmt::Debug for ClockAndIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockAndIds").finish_non_exhaustive()
    }
}
