//! What is asked of a server whose watches break, expire or end at once.

use std::{
    convert::Infallible,
    future::{pending, ready},
    io,
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use ronde_runtime::{
    runner::{Clock, Controller, Ctx, Runner},
    watch::{Caches, Change, Key, Kinds},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use self::Answer::{Breaks, Ends, Status};

/// Long enough for waits to double up to the longest.
const HOURS: Duration = Duration::from_secs(3 * 3600);
const LIST: &str = r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","resourceVersion":"3"}}]}"#;
const LATER: &str = r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"b","resourceVersion":"8"}}]}"#;
const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";
/// The first is not an object of the kind that is watched.
const EVENTS: &str = r#"{"type":"ADDED","object":{"metadata":7}}
    {"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"8"}}}
    {"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"9"}}}
    {"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"20"}}}
"#;

/// How a server answers a watch.
#[derive(Clone, Copy)]
enum Answer {
    /// With this status instead of a stream.
    Status(u16),
    /// With these lines, and the end of the stream after some time.
    Ends(&'static str, Duration),
    /// The same, but the connection breaks.
    Breaks(&'static str, Duration),
}

/// A controller that only looks.
#[derive(Clone, Default)]
struct Looker {
    /// The names that it has seen last.
    names: Arc<Mutex<Vec<String>>>,
}

impl Controller for Looker {
    const NAME: &'static str = "looker";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<ConfigMap>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        vec![change.key.clone()]
    }

    async fn reconcile(&self, ctx: &Ctx, _: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        *self.names.lock() = ctx.caches.list::<ConfigMap>(None).iter().map(|map| map.name_any()).collect();
        Ok(None)
    }
}

/// What has come of some hours on a server.
struct Shift {
    /// What it was asked, each with the millisecond.
    asked: Vec<(u128, String)>,
    names: Vec<String>,
}

impl Shift {
    /// Spends them on a server that gives these answers to watches, the last one again and again.
    async fn with(answers: &[Answer]) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let client = server(answers.to_vec(), asked.clone());
        let looker = Looker::default();
        let mut runner = Runner::new(client, Clock::new(|| Timestamp::UNIX_EPOCH));
        runner.add(looker.clone());
        timeout(HOURS, runner.run(CancellationToken::new())).await.expect_err("it goes on for ever");
        let (asked, names) = (std::mem::take(&mut *asked.lock()), looker.names.lock().clone());
        Self { asked, names }
    }

    /// Checks what it was asked first.
    #[track_caller]
    fn begins(&self, what: &str, expected: &str) {
        let count = expected.split(", ").count();
        let shown: Vec<_> = self.asked.iter().take(count).map(|(at, what)| format!("{at} {what}")).collect();
        assert_eq!(shown.join(", "), expected, "{what}");
    }

    fn watches(&self) -> usize {
        count_watches(&self.asked)
    }
}

fn count_watches(asked: &[(u128, String)]) -> usize {
    asked.iter().filter(|(_, what)| what != "list").count()
}

fn server(answers: Vec<Answer>, asked: Arc<Mutex<Vec<(u128, String)>>>) -> Client {
    let begun = Instant::now();
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default();
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let mut asked = asked.lock();
        let (what, answer) = if query.contains("watch=") {
            let answer = answers[count_watches(&asked).min(answers.len() - 1)];
            (format!("watch {}", version.unwrap_or_default()), answer)
        } else {
            ("list".to_owned(), Ends(LIST, Duration::ZERO))
        };
        asked.push((begun.elapsed().as_millis(), what));
        ready(Ok::<_, Infallible>(response(answer)))
    });
    Client::new(service, "default")
}

fn response<D: From<String> + Send + 'static>(
    answer: Answer,
) -> http::Response<StreamBody<impl Stream<Item = io::Result<Frame<D>>> + Send>> {
    let (code, text, lasts, breaks) = match answer {
        Status(code) => (code, format!(r#"{{"kind":"Status","code":{code}}}"#), Duration::ZERO, false),
        Ends(text, lasts) => (200, text.to_owned(), lasts, false),
        Breaks(text, lasts) => (200, text.to_owned(), lasts, true),
    };
    let text = stream::iter((!text.is_empty()).then(|| Ok(Frame::data(text.into()))));
    let end = async move {
        sleep(lasts).await;
        breaks.then(|| Err(io::Error::other("connection reset")))
    };
    let body = text.chain(stream::once(end).filter_map(ready));
    http::Response::builder().status(code).body(StreamBody::new(body)).expect("a response")
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_refused_is_not_asked_for_again() {
    let shift = Shift::with(&[Status(410), Ends("", HOURS)]).await;
    shift.begins("by a status", "0 list, 0 watch 7, 5 list, 5 watch 7");
    let shift = Shift::with(&[Ends(EXPIRED, Duration::ZERO), Ends("", HOURS)]).await;
    shift.begins("in the stream", "0 list, 0 watch 7, 5 list, 5 watch 7");
    let shift = Shift::with(&[Status(429), Status(503), Ends("", HOURS)]).await;
    shift.begins("but one that the server has no time for", "0 list, 0 watch 7, 5 watch 7, 15 watch 7");
}

/// How a server is of no use.
#[derive(Clone, Copy)]
enum Trouble {
    Refuses(u16),
    /// It never answers.
    Silent,
}

/// Is of no use during ten minutes, from the beginning or from the eleventh on, when the watch breaks.
async fn seen_after(trouble: Trouble, from: u64) -> Option<u64> {
    let begun = Instant::now();
    let second = move || begun.elapsed().as_secs();
    let service = service_fn(move |request: http::Request<kube::client::Body>| async move {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        let (is_bad, is_over) = ((from..from + 600).contains(&second()), second() >= from + 600);
        let list = if is_over { LATER } else { LIST };
        let answer = match trouble {
            Trouble::Silent if is_bad => pending().await,
            Trouble::Refuses(code) if is_bad => Status(code),
            _ if is_watch => Breaks("", Duration::from_secs(from.saturating_sub(second()).max(300))),
            _ => Ends(list, Duration::ZERO),
        };
        // What the server could not go on from, for whatever reason, is listed anew.
        let answer = if is_watch && is_over { Status(410) } else { answer };
        Ok::<_, Infallible>(response(answer))
    });
    let looker = Looker::default();
    let mut runner = Runner::new(Client::new(service, "default"), Clock::new(|| Timestamp::UNIX_EPOCH));
    runner.add(looker.clone());
    let runs = runner.run(CancellationToken::new());
    let sees = async {
        while *looker.names.lock() != ["b"] {
            sleep(Duration::from_secs(1)).await;
        }
        second() - from - 600
    };
    tokio::select! {
        () = runs => None,
        late = timeout(HOURS, sees) => late.ok(),
    }
}

#[tokio::test(start_paused = true)]
async fn after_ten_bad_minutes_everything_is_seen_within_two() {
    let troubles = [
        ("its token has expired", Trouble::Refuses(401)),
        ("a right is gone for a while", Trouble::Refuses(403)),
        ("it is busy", Trouble::Refuses(429)),
        ("it fails", Trouble::Refuses(500)),
        ("its proxy finds nobody", Trouble::Refuses(504)),
        ("it does not answer", Trouble::Silent),
    ];
    for (what, trouble) in troubles {
        for from in [0, 600] {
            let late = seen_after(trouble, from).await;
            assert!(late.is_some_and(|late| late <= 120), "{what}, from {from} s on: seen {late:?} s after the end");
        }
    }
}

/// A controller that would look at a kind if the cluster had it.
#[derive(Clone, Default)]
struct Guest {
    /// What it has seen, with the second, whenever that was another: whether it is served, and how many there are.
    seen: Arc<Mutex<Vec<(u64, bool, usize)>>>,
}

impl Controller for Guest {
    const NAME: &'static str = "guest";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add_optional::<ConfigMap>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        vec![change.key.clone()]
    }

    async fn reconcile(&self, ctx: &Ctx, _: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let second = u64::try_from(ctx.clock.now().as_second()).unwrap_or_default();
        let seen = (second, ctx.caches.is_served::<ConfigMap>(), ctx.caches.list::<ConfigMap>(None).len());
        self.seen.lock().push(seen);
        Ok(None)
    }
}

/// Serves a kind during ten minutes, after ten without it.
fn server_of_ten_minutes(code: u16) -> (Client, Clock) {
    let begun = Instant::now();
    let second = move || begun.elapsed().as_secs();
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        let rest = Duration::from_secs(1200_u64.saturating_sub(second()));
        let answer = match (600..1200).contains(&second()) {
            false => Status(code),
            true if is_watch => Ends("", rest),
            true => Ends(LIST, Duration::ZERO),
        };
        ready(Ok::<_, Infallible>(response(answer)))
    });
    let now = move || Timestamp::from_second(i64::try_from(second()).unwrap_or_default()).unwrap_or_default();
    (Client::new(service, "default"), Clock::new(now))
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_a_cluster_need_not_have_may_come_and_go() {
    for (what, code) in [("it is not served", 404), ("there is no right to it", 403)] {
        let (client, clock) = server_of_ten_minutes(code);
        let guest = Guest::default();
        let mut runner = Runner::new(client, clock);
        runner.add(guest.clone());
        timeout(HOURS, runner.run(CancellationToken::new())).await.expect_err("it goes on for ever");
        assert_eq!(*guest.seen.lock(), [(600, true, 1), (1200, false, 0)], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn breaks_of_a_watch_that_has_nothing_to_tell_do_not_add_up() {
    let lasts = Duration::from_secs(300);
    let shift = Shift::with(&[Breaks("", lasts)]).await;
    let waits = shift.asked.windows(2).skip(1).map(|pair| pair[1].0 - pair[0].0 - lasts.as_millis());
    assert!(waits.max() <= Some(10), "the next one follows soon");
    assert!(shift.watches() > 30, "all the time");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_pestered() {
    for (what, answer) in [("ends it", Ends("", Duration::ZERO)), ("refuses it", Status(410))] {
        let watches = Shift::with(&[answer]).await.watches();
        assert!(watches < 3 * 60 + 20, "it {what}: {watches} watches in three hours");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_the_last_one_has_ended() {
    let shift = Shift::with(&[Ends(EVENTS, Duration::ZERO), Ends("", HOURS)]).await;
    shift.begins("by a bookmark, and after silence", "0 list, 0 watch 7, 0 watch 20, 320000 watch 20");
    assert_eq!(shift.names, ["b"]);
}
