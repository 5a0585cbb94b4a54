//! One at a time: a Lease says which of several operators is at work.
//!
//! The holder renews it; the others watch it, take it at once when it is given up, and otherwise when it has not moved for its
//! whole duration. What counts is when a change was seen here, so that clocks of different machines need not agree. A holder
//! that cannot renew in time has lost it before anybody else may take it: its [`Term`] is over by the clock alone, whether or
//! not anything of the process runs at that moment, and who sends a request asks the term first. A machine that is its own
//! cluster takes the lease for good.

use std::{future::pending, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{PostParams, WatchEvent, WatchParams},
    core::ObjectMeta,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{causes::Causes, runner::Clock};

/// How long a lease is good without a renewal, if nobody says otherwise.
pub const DURATION: Duration = Duration::from_secs(15);
/// How long a lease is good that is never renewed: 68 years.
const FOR_GOOD_SECONDS: i32 = i32::MAX;
/// How often a lease that changes under the hand is tried to be given up.
const RELEASES_MAX: usize = 3;

/// The time for which a process may write; longer with every renewal of its lease, and over by the clock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    pub(crate) fn until(end: Instant) -> Self {
        Self(Arc::new(Mutex::new(Some(end))))
    }

    /// Tells whether the process may still write.
    pub fn holds(&self) -> bool {
        self.0.lock().is_some_and(|end| Instant::now() < end)
    }

    fn extend(&self, end: Instant) {
        *self.0.lock() = Some(end);
    }

    fn end(&self) {
        *self.0.lock() = None;
    }
}

/// Takes part in the choice of a holder.
pub struct Election {
    leases: Api<Lease>,
    clock: Clock,
    name: String,
    /// Tells this process from all others.
    identity: String,
    duration_seconds: i32,
    /// The last change of the lease, and when it was seen.
    seen: Option<(LeaseSpec, Instant)>,
    /// The version of the lease that was seen last, and what the server tells of it since.
    version: Option<String>,
    news: Option<BoxStream<'static, kube::Result<WatchEvent<Lease>>>>,
    /// When the request was sent that took or renewed the lease last: others count from later on.
    renewed: Instant,
}

/// Whose a lease is after it was tried to take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Ours,
    Anothers,
    /// It changed meanwhile, perhaps by an earlier request of our own.
    Unknown,
}

/// What to do about a lease.
#[derive(Debug, Clone, PartialEq)]
enum Move {
    /// Make it, or make it ours.
    Take,
    Renew,
    /// Somebody else has it.
    Wait,
}

impl Election {
    pub fn new(client: Client, clock: Clock, lease: (&str, &str), identity: String) -> Self {
        let (namespace, name) = lease;
        let (leases, name) = (Api::namespaced(client, namespace), name.to_owned());
        let (seen, version, news, renewed) = (None, None, None, Instant::now());
        Self { leases, clock, name, identity, duration_seconds: 0, seen, version, news, renewed }.lasting(DURATION)
    }

    /// Takes the lease for so long at a time, in whole seconds.
    #[must_use]
    pub fn lasting(self, duration: Duration) -> Self {
        Self { duration_seconds: i32::try_from(duration.as_secs()).unwrap_or(FOR_GOOD_SECONDS), ..self }
    }

    /// Takes the lease for good: it need not be kept.
    #[must_use]
    pub fn for_good(self) -> Self {
        Self { duration_seconds: FOR_GOOD_SECONDS, ..self }
    }

    /// Returns how often the lease is renewed or tried: every two seconds of fifteen, also by who takes it for good.
    fn pace(&self) -> Duration {
        self.duration().min(DURATION) * 2 / 15
    }

    /// Returns how long the holder may fail to renew before it has lost: a third of the duration before the others begin, for
    /// what is under way to arrive.
    fn deadline(&self) -> Duration {
        self.duration() * 2 / 3
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.duration_seconds.unsigned_abs().into())
    }

    /// Waits until the lease is ours; asks `waits_for` whenever another one has it. Returns nothing if it is not waited for.
    ///
    /// # Errors
    /// If the server refuses the very first question. Later it is asked again.
    pub async fn win(&mut self, waits_for: impl Fn(&str) -> bool) -> Result<Option<Term>, kube::Error> {
        let mut told = None;
        let mut standing = if self.seen.is_none() { self.try_hold().await? } else { self.try_soon().await };
        while standing != Standing::Ours {
            let holder = self.holder();
            if standing == Standing::Anothers && told.as_ref() != Some(&holder) {
                if !waits_for(&holder) {
                    return Ok(None);
                }
                told = Some(holder);
            }
            let pace = self.pace();
            tokio::select! {
                () = sleep(pace) => {}
                () = self.given_up() => {}
            }
            standing = self.try_soon().await;
        }
        self.news = None;
        Ok(Some(Term::until(self.renewed + self.deadline())))
    }

    /// Returns when the lease is given up, as far as the server tells.
    async fn given_up(&mut self) {
        if self.news.is_none()
            && let Some(version) = &self.version
        {
            let this = WatchParams::default().fields(&format!("metadata.name={}", self.name));
            self.news = self.leases.watch(&this, version).await.ok().map(StreamExt::boxed);
        }
        if let Some(news) = &mut self.news {
            while let Some(Ok(event)) = news.next().await {
                if is_free(&event) {
                    return;
                }
            }
            self.news = None;
        }
        // Without news there are still the questions.
        pending::<()>().await;
    }

    /// Renews the lease, and with it the term, for as long as that goes well; returns when it is lost, which is noticed in time even
    /// if no request is answered.
    pub async fn keep(&mut self, term: &Term) {
        loop {
            let lost_at = self.renewed + self.deadline();
            let renewal = async {
                sleep(self.pace()).await;
                self.try_soon().await
            };
            if !matches!(timeout_at(lost_at, renewal).await, Ok(Standing::Ours | Standing::Unknown)) {
                return term.end();
            }
            term.extend(self.renewed + self.deadline());
        }
    }

    /// Takes or renews the lease; a failure is only logged, since another attempt follows.
    async fn try_soon(&mut self) -> Standing {
        match timeout(self.pace(), self.try_hold()).await {
            Ok(Ok(standing)) => return standing,
            Ok(Err(error)) => tracing::warn!(error = %Causes(&error), lease = self.name, "cannot ask for the lease"),
            Err(_) => tracing::warn!(lease = self.name, "a question about the lease takes too long"),
        }
        Standing::Unknown
    }

    /// Gives the lease up, so that the next one need not wait. Nothing may be written any more by then.
    pub async fn release(&mut self) {
        match timeout(self.pace(), self.try_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = %Causes(&error), lease = self.name, "cannot give the lease up"),
            Err(_) => tracing::debug!(lease = self.name, "giving the lease up takes too long"),
        }
    }

    async fn try_release(&mut self) -> Result<(), kube::Error> {
        for _ in 0..RELEASES_MAX {
            let mut lease = self.leases.get(&self.name).await?;
            if lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) != Some(&self.identity) {
                return Ok(());
            }
            let spec = lease.spec.get_or_insert_default();
            (spec.holder_identity, spec.lease_duration_seconds) = (None, Some(1));
            match self.leases.replace(&self.name, &PostParams::default(), &lease).await {
                // A renewal that was given up has arrived after all.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                released => return released.map(drop),
            }
        }
        Ok(())
    }

    fn holder(&self) -> String {
        let holder = self.seen.as_ref().and_then(|(spec, _)| spec.holder_identity.clone());
        holder.unwrap_or_else(|| "nobody".to_owned())
    }

    /// Takes or renews the lease, if it is free or ours.
    async fn try_hold(&mut self) -> Result<Standing, kube::Error> {
        let asked = Instant::now();
        let found = self.leases.get_opt(&self.name).await?;
        let unchanged = self.unchanged_for(found.as_ref());
        let next = decide(found.as_ref(), &self.identity, unchanged);
        let written = match (next, found) {
            (Move::Wait, _) => return Ok(Standing::Anothers),
            (_, None) => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(self.spec(None)) };
                self.leases.create(&PostParams::default(), &lease).await
            }
            (_, Some(mut lease)) => {
                lease.spec = Some(self.spec(lease.spec.as_ref()));
                self.leases.replace(&lease.name_any(), &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.unchanged_for(Some(&lease));
                self.renewed = asked;
                Ok(Standing::Ours)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Standing::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Returns for how long a lease has been as it is, as seen from here.
    fn unchanged_for(&mut self, lease: Option<&Lease>) -> Duration {
        self.version = lease.and_then(|lease| lease.metadata.resource_version.clone());
        let spec = lease.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if *seen == spec => since.elapsed(),
            _ => {
                self.seen = Some((spec, Instant::now()));
                Duration::ZERO
            }
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let own = before.filter(|before| before.holder_identity.as_ref() == Some(&self.identity));
        let transitions = before.and_then(|before| before.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.duration_seconds),
            acquire_time: own.and_then(|own| own.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if own.is_some() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }
}

fn is_free(event: &WatchEvent<Lease>) -> bool {
    match event {
        WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            holder.unwrap_or_default().is_empty()
        }
        WatchEvent::Deleted(_) => true,
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => false,
    }
}

fn decide(lease: Option<&Lease>, identity: &str, unchanged: Duration) -> Move {
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    let duration = seconds.map_or(DURATION, Duration::from_secs);
    match holder {
        "" => Move::Take,
        holder if holder == identity => Move::Renew,
        _ if unchanged >= duration => Move::Take,
        _ => Move::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_it_is_free() {
        let check = |what: &str, holder: Option<&str>, unchanged: u64, expected: Move| {
            let spec = LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(15),
                ..LeaseSpec::default()
            };
            let lease = Lease { spec: Some(spec), ..Lease::default() };
            assert_eq!(decide(Some(&lease), "me", Duration::from_secs(unchanged)), expected, "{what}");
        };
        assert_eq!(decide(None, "me", Duration::ZERO), Move::Take, "there is none");
        check("nobody has it", None, 0, Move::Take);
        check("it has been given up", Some(""), 0, Move::Take);
        check("it is ours", Some("me"), 3, Move::Renew);
        check("it is ours, after a long sleep that nobody has noticed", Some("me"), 100, Move::Renew);
        check("another one is alive", Some("you"), 14, Move::Wait);
        check("another one has not been heard of", Some("you"), 15, Move::Take);
    }
}
