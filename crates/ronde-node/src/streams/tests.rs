//! Sessions over real connections, with kube's client at the other end.

use std::{future::IntoFuture as _, net::SocketAddr};

use axum::Router;
use futures::SinkExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{AttachParams, TerminalSize},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
};

use super::*;

/// A server whose pods run what the test says.
struct Pods {
    api: Api<Pod>,
    address: SocketAddr,
    stop: CancellationToken,
    sessions: Sessions,
}

impl Pods {
    async fn serve(answer: impl Fn(&Sessions, Request) -> Response + Clone + Send + Sync + 'static) -> Self {
        let stop = CancellationToken::new();
        let sessions = Sessions::new(stop.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = sessions.clone();
        let router = Router::new().fallback(move |request: Request| {
            let answered = answer(&asked, request);
            async move { answered }
        });
        tokio::spawn(axum::serve(listener, router).into_future());
        let mut config = Config::new(format!("http://{address}").parse().expect("an address"));
        config.default_namespace = "default".into();
        let api = Api::default_namespaced(Client::try_from(config).expect("a client"));
        Self { api, address, stop, sessions }
    }

    async fn end(self) {
        self.stop.cancel();
        self.sessions.finish().await;
    }
}

fn options(stdin: bool, tty: bool) -> TerminalOptions {
    TerminalOptions { stdin, stdout: true, stderr: !tty, tty }
}

#[tokio::test]
async fn a_command_gets_its_input_and_its_end_is_told() {
    let shout = |mut terminal: Terminal| async move {
        let mut input = String::new();
        terminal.stdin.take().expect("input").read_to_string(&mut input).await.expect("an end");
        let mut stdout = terminal.stdout.take().expect("output");
        stdout.write_all(input.to_uppercase().as_bytes()).await.expect("a client");
        Ended::Exit(i32::try_from(input.len()).expect("a short text"))
    };
    let server =
        Pods::serve(move |sessions, request| sessions.serve_command(request, options(true, false), shout)).await;
    let asked = AttachParams::default().stdin(true).stdout(true).stderr(true);
    let mut process = server.api.exec("web", ["shout"], &asked).await.expect("an upgrade");
    let mut stdin = process.stdin().expect("input");
    stdin.write_all(b"hello").await.expect("a server");
    stdin.shutdown().await.expect("a server");
    drop(stdin);
    let mut output = String::new();
    process.stdout().expect("output").read_to_string(&mut output).await.expect("an end");
    let status = process.take_status().expect("a status").await.expect("an end");
    assert_eq!(output, "HELLO");
    assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    assert_eq!(causes[0].message.as_deref(), Some("5"));
    server.end().await;
}

#[tokio::test]
async fn a_window_has_a_size() {
    let tell = |mut terminal: Terminal| async move {
        let mut resize = terminal.resize.take().expect("a terminal");
        resize.changed().await.expect("a client");
        let size = *resize.borrow();
        let text = format!("{}x{}", size.columns, size.rows);
        terminal.stdout.take().expect("output").write_all(text.as_bytes()).await.expect("a client");
        Ended::Exit(0)
    };
    let server =
        Pods::serve(move |sessions, request| sessions.serve_command(request, options(false, true), tell)).await;
    let asked = AttachParams::default().stdin(true).stdout(true).stderr(false).tty(true);
    let mut process = server.api.attach("web", &asked).await.expect("an upgrade");
    let mut sizes = process.terminal_size().expect("a terminal");
    sizes.send(TerminalSize { width: 80, height: 24 }).await.expect("a server");
    let mut output = String::new();
    process.stdout().expect("output").read_to_string(&mut output).await.expect("an end");
    assert_eq!(output, "80x24");
    server.end().await;
}

/// Answers with what it hears.
async fn echo(port: u16) -> std::io::Result<DuplexStream> {
    let (near, far) = duplex(1 << 16);
    tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(far);
        write.write_all(format!("port {port}: ").as_bytes()).await?;
        tokio::io::copy(&mut read, &mut write).await
    });
    Ok(near)
}

#[tokio::test]
async fn ports_are_forwarded() {
    let server = Pods::serve(|sessions, request| {
        sessions.serve_port_forward(request, Forward { pod: "web".into(), ports: vec![80, 81] }, echo)
    })
    .await;
    let mut forwarder = server.api.portforward("web", &[80, 81]).await.expect("an upgrade");
    for port in [81, 80] {
        let mut stream = forwarder.take_stream(port).expect("a port");
        stream.write_all(b"hello").await.expect("a server");
        let expected = format!("port {port}: hello");
        let mut found = vec![0; expected.len()];
        stream.read_exact(&mut found).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&found), expected);
    }
    server.end().await;
}

#[tokio::test]
async fn stop_ends_all_sessions() {
    let forever = |_: Terminal| std::future::pending();
    let server =
        Pods::serve(move |sessions, request| sessions.serve_command(request, options(false, false), forever)).await;
    let asked = AttachParams::default().stdout(true).stderr(false);
    let mut process = server.api.exec("web", ["sleep"], &asked).await.expect("an upgrade");
    server.end().await;
    let mut output = String::new();
    let _ = process.stdout().expect("output").read_to_string(&mut output).await;
    assert_eq!(output, "");
}

#[tokio::test]
async fn a_request_without_upgrade_is_refused() {
    let forever = |_: Terminal| std::future::pending();
    let server =
        Pods::serve(move |sessions, request| sessions.serve_command(request, options(false, false), forever)).await;
    for (head, expected) in [("", "400 Bad Request"), ("Connection: Upgrade\r\nUpgrade: h2c\r\n", "400 Bad Request")] {
        let mut stream = TcpStream::connect(server.address).await.expect("a server");
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{head}\r\n");
        stream.write_all(request.as_bytes()).await.expect("a server");
        let mut answer = vec![0; 1024];
        let count = stream.read(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..count]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
    }
    server.end().await;
}
