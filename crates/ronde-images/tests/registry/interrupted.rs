//! Connections break, registries are busy or lie; what arrives is right or does not count.

use std::{sync::Arc, time::Duration};

use http::{StatusCode, header};
use ronde_images::{Descriptor, Keyring, store::Progress};
use tokio::sync::Notify;

use crate::{
    front::{Act, Front, Seen},
    world::{reference, world},
};

/// In the middle of a layer, and beyond the configuration.
const MIDDLE: usize = 100_000;

/// Starts a front, and returns it with the name of the image behind it.
async fn front(port: u16, act: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> (String, Front) {
    let front = Front::start(port, act).await;
    (format!("{}/team/app:1", front.host()), front)
}

fn ranges(front: &Front) -> Vec<String> {
    let seen = front.seen_of("/blobs/");
    let mut ranges: Vec<_> = seen.iter().filter_map(|seen| seen.header(header::RANGE)).map(str::to_owned).collect();
    ranges.sort();
    ranges
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_was() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let cut_once = |seen: &Seen| if seen.is_blob() && seen.earlier == 0 { Act::Cut(MIDDLE) } else { Act::Pass };
    let (name, front) = front(registry.port, cut_once).await;
    let pulled = world.pull(&name).await.unwrap();
    assert_eq!(pulled.bytes, world.find(&name).unwrap().size(), "nothing came twice");
    assert_eq!(ranges(&front).len(), 3);
}

#[tokio::test]
async fn a_registry_that_does_not_go_on_begins_anew() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let act = |seen: &Seen| match (seen.is_blob(), seen.earlier) {
        (true, 0) => Act::Cut(MIDDLE),
        _ => Act::IgnoreRange,
    };
    let (name, front) = front(registry.port, act).await;
    let pulled = world.pull(&name).await.unwrap();
    let size = world.find(&name).unwrap().size();
    assert!(pulled.bytes > size, "what came first was of no use: {pulled:?}");
    assert_eq!(ranges(&front).len(), 3);
}

#[tokio::test]
async fn a_range_that_nobody_asked_for_is_not_taken() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let act = |seen: &Seen| match (seen.is_blob(), seen.earlier, seen.header(header::RANGE)) {
        (true, 0, _) => Act::Cut(MIDDLE),
        (true, 1, Some(_)) => {
            let range = (header::CONTENT_RANGE, "bytes 7-8/300000".to_owned());
            Act::Answer(StatusCode::PARTIAL_CONTENT, vec![range], "xx".to_owned())
        }
        _ => Act::Pass,
    };
    let (name, _front) = front(registry.port, act).await;
    world.pull(&name).await.unwrap();
    assert!(world.find(&name).is_some());
}

/// Tells when the first bytes of a layer have arrived.
#[derive(Default)]
struct Arrived(Notify);

impl Progress for Arrived {
    fn downloaded(&self, part: &Descriptor, _: u64) {
        if part.size > MIDDLE as u64 {
            self.0.notify_one();
        }
    }
}

#[tokio::test]
async fn a_pull_that_was_stopped_is_continued_by_the_next() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let stall_once = |seen: &Seen| if seen.is_blob() && seen.earlier == 0 { Act::Stall(MIDDLE) } else { Act::Pass };
    let (name, front) = front(registry.port, stall_once).await;
    let arrived = Arc::new(Arrived::default());
    let (registries, store, reference) = (world.registries(), world.store(), reference(&name));
    let progress: Arc<dyn Progress> = arrived.clone();
    let keyring = Keyring::default();
    let pull = ronde_images::pull(&registries, &keyring, &store, &reference, progress);
    tokio::select! {
        ended = pull => panic!("it must wait for the rest: {ended:?}"),
        () = arrived.0.notified() => {}
    }
    let pulled = world.pull(&name).await.unwrap();
    assert!(pulled.bytes < world.find(&name).unwrap().size());
    assert!(!ranges(&front).is_empty());
}

#[tokio::test]
async fn a_stalled_connection_is_a_broken_one() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let stall_once = |seen: &Seen| if seen.is_blob() && seen.earlier == 0 { Act::Stall(MIDDLE) } else { Act::Pass };
    let (name, front) = front(registry.port, stall_once).await;
    let mut options = world.options();
    options.stall_timeout = Duration::from_millis(1500);
    let registries = ronde_images::Registries::new(options).unwrap();
    let progress = Arc::new(ronde_images::store::Quiet);
    ronde_images::pull(&registries, &Keyring::default(), &world.store(), &reference(&name), progress).await.unwrap();
    assert!(ranges(&front).len() >= 3);
}

#[tokio::test]
async fn a_busy_registry_is_asked_again_when_it_says() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let act = |seen: &Seen| match (seen.path.contains("/manifests/"), seen.earlier) {
        (true, 0) => {
            let wait = (header::RETRY_AFTER, "1".to_owned());
            Act::Answer(StatusCode::TOO_MANY_REQUESTS, vec![wait], String::new())
        }
        (true, 1) => Act::Answer(StatusCode::BAD_GATEWAY, vec![], "<html>".to_owned()),
        (false, 0) if seen.is_blob() => Act::Answer(StatusCode::SERVICE_UNAVAILABLE, vec![], String::new()),
        _ => Act::Pass,
    };
    let (name, front) = front(registry.port, act).await;
    let begun = tokio::time::Instant::now();
    world.pull(&name).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "it asked to wait");
    assert_eq!(front.seen_of("/manifests/").len(), 3);
}

#[tokio::test]
async fn a_registry_that_asks_for_too_much_patience_is_quoted() {
    let Some(world) = world() else { return };
    let body = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"pull rate limit reached"}]}"#;
    let act = move |_: &Seen| {
        let wait = (header::RETRY_AFTER, "86400".to_owned());
        Act::Answer(StatusCode::TOO_MANY_REQUESTS, vec![wait], body.to_owned())
    };
    let (name, front) = front(1, act).await;
    let fault = world.pull(&name).await.unwrap_err();
    let expected = format!("{name}: 429 too many requests: toomanyrequests: pull rate limit reached");
    assert_eq!((fault.to_string(), front.seen().len()), (expected, 1));
    assert!(!fault.is_missing() && !fault.is_unreachable());
}

#[tokio::test]
async fn wrong_content_is_never_used() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    for part in ["/blobs/", "/manifests/"] {
        let spoil = move |seen: &Seen| if seen.path.contains(part) { Act::Spoil } else { Act::Pass };
        let (name, front) = front(registry.port, spoil).await;
        let fault = world.pull(&name).await.unwrap_err().to_string();
        assert!(fault.contains(": content has digest sha256:"), "{fault}");
        assert!(world.find(&name).is_none());
        assert_eq!(front.seen_of(part).len(), 1, "it is not asked again");
    }
}

#[tokio::test]
async fn too_much_content_is_never_used() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let too_much = || Act::Answer(StatusCode::OK, vec![], "x".repeat(400_000));
    let act = move |seen: &Seen| if seen.is_blob() { too_much() } else { Act::Pass };
    let (name, _front) = front(registry.port, act).await;
    let fault = world.pull(&name).await.unwrap_err().to_string();
    assert!(fault.contains(" is longer than the "), "{fault}");

    let act = |_: &Seen| Act::Answer(StatusCode::OK, vec![], "x".repeat(5 << 20));
    let (name, front) = self::front(registry.port, act).await;
    let fault = world.pull(&name).await.unwrap_err().to_string();
    let expected = format!("{name}: `{}` sent a manifest of more than 4194304 bytes", front.host());
    assert_eq!((fault, front.seen().len()), (expected, 1));
}
