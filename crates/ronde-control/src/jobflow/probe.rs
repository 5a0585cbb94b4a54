//! Asks the pods of a job whether they answer: a TCP connection, or one HTTP request on it.
//!
//! What to ask is decided elsewhere; a [`Question`] is a value, and asking it changes nothing.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use ronde_api::names;
use ronde_runtime::pods::is_deleted;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// How long a pod may take to answer, as the probes of a kubelet.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How many pods are asked side by side: each takes a file.
const AT_ONCE: usize = 64;
/// How long all questions of one look may take: others wait for their turn meanwhile.
const ALL_MAX: Duration = Duration::from_secs(5);
/// `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

/// How the addresses of pods are reached.
#[derive(Clone)]
pub struct PodDialer(Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync>);

impl PodDialer {
    pub fn new(dial: impl Fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }

    /// Returns the way that a pod of the cluster has to all others.
    pub fn direct() -> Self {
        Self::new(|address| TcpStream::connect(address).boxed())
    }
}

impl fmt::Debug for PodDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodDialer")
    }
}

/// Something to ask a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    pub address: SocketAddr,
    /// The request, if it is to be more than a connection.
    pub http: Option<HttpQuestion>,
}

/// A page to ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpQuestion {
    pub path: String,
    /// Name and value of a header.
    pub header: Option<(String, String)>,
}

/// A pod as probes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedPod {
    pub task: String,
    /// None while it cannot be asked.
    pub address: Option<IpAddr>,
}

impl ProbedPod {
    pub fn of_pod(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let is_running = status.and_then(|status| status.phase.as_deref()) == Some("Running") && !is_deleted(pod);
        let address = status.and_then(|status| status.pod_ip.as_ref()?.parse().ok()).filter(|_| is_running);
        Self { task: pod.labels().get(names::TASK_SPEC).cloned().unwrap_or_default(), address }
    }
}

/// Returns the questions that were answered well in time.
pub async fn ask_all(dialer: &PodDialer, questions: BTreeSet<Question>) -> BTreeSet<Question> {
    let asked = stream::iter(questions).map(|question| async move {
        let answer = timeout(ANSWER_MAX, ask(dialer, &question)).await;
        matches!(answer, Ok(Ok(true))).then_some(question)
    });
    let answered = asked.buffer_unordered(AT_ONCE).filter_map(async |answered| answered);
    answered.take_until(tokio::time::sleep(ALL_MAX)).collect().await
}

async fn ask(dialer: &PodDialer, question: &Question) -> io::Result<bool> {
    let mut stream = (dialer.0)(question.address).await?;
    let Some(http) = &question.http else { return Ok(true) };
    stream.write_all(request(question.address, http).as_bytes()).await?;
    let mut status = [0; STATUS_BYTES];
    stream.read_exact(&mut status).await?;
    Ok(is_good(&status))
}

fn request(address: SocketAddr, http: &HttpQuestion) -> String {
    let slash = if http.path.starts_with('/') { "" } else { "/" };
    let header = http.header.as_ref().map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
    let has_host = http.header.as_ref().is_some_and(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = if has_host { String::new() } else { format!("Host: {address}\r\n") };
    let path = &http.path;
    format!("GET {slash}{path} HTTP/1.1\r\n{host}{header}User-Agent: ronde\r\nAccept: */*\r\nConnection: close\r\n\r\n")
}

/// Whether the first bytes of an answer say that all is well: 200 to 399, as for the probes of a kubelet.
fn is_good(status: &[u8]) -> bool {
    status.starts_with(b"HTTP/1.") && matches!(status.get(8..12), Some([b' ', b'2' | b'3', b'0'..=b'9', b'0'..=b'9']))
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[test]
    fn a_request_is_as_the_flow_says() {
        let address: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        let shown = |path: &str, header: Option<(&str, &str)>| {
            let header = header.map(|(name, value)| (name.to_owned(), value.to_owned()));
            request(address, &HttpQuestion { path: path.to_owned(), header })
        };
        let rest = "User-Agent: ronde\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(shown("", None), format!("GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\n{rest}"));
        assert_eq!(shown("/ok", Some(("host", "me"))), format!("GET /ok HTTP/1.1\r\nhost: me\r\n{rest}"));
    }

    #[test]
    fn only_good_answers_are_good() {
        let rows = [("HTTP/1.1 200", true), ("HTTP/1.0 302", true), ("HTTP/1.1 404", false), ("HTTP/1.1 500", false)];
        for (status, expected) in rows.into_iter().chain([("SSH-2.0-Open", false), ("HTTP/1.1 2", false)]) {
            assert_eq!(is_good(status.as_bytes()), expected, "{status}");
        }
    }

    #[tokio::test]
    async fn only_those_who_answer_well_count() {
        let good = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = good.local_addr().expect("an address");
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        // Held, so that nobody else listens there meanwhile.
        let closed = TcpSocket::new_v4().expect("a socket");
        closed.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = good.accept().await {
                let mut asked = vec![0; 1024];
                let read = stream.read(&mut asked).await.unwrap_or_default();
                let is_ok = asked[..read].starts_with(b"GET /ok ");
                let answer = if is_ok { "HTTP/1.1 204 No Content\r\n\r\n" } else { "HTTP/1.1 503 No\r\n\r\n" };
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        let http = |path: &str| Some(HttpQuestion { path: path.to_owned(), header: None });
        let dialer = PodDialer::direct();
        // Without a limit of time, which a busy machine would not keep.
        let rows = [
            (Question { address, http: None }, Some(true)),
            (Question { address, http: http("/ok") }, Some(true)),
            (Question { address, http: http("/no") }, Some(false)),
            (Question { address: closed.local_addr().expect("an address"), http: None }, None),
        ];
        for (question, expected) in rows {
            assert_eq!(ask(&dialer, &question).await.ok(), expected, "{question:?}");
        }
        let silence = Question { address: silent.local_addr().expect("an address"), http: http("/ok") };
        let open = Question { address, http: None };
        let answered = ask_all(&dialer, BTreeSet::from([silence, open.clone()])).await;
        assert_eq!(answered, BTreeSet::from([open]));
        server.abort();
    }
}
