//! Commands over both protocols, with clients that are patient, hasty or rude. The command is a function here.

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::streams::spdy::player::Player;

const BUFFER: usize = 1 << 16;
const V4: Spdy = Spdy { status: StatusForm::Object, can_resize: true };

fn line(io: DuplexStream) -> Line<DuplexStream> {
    Line { io, stop: CancellationToken::new() }
}

fn all() -> TerminalOptions {
    TerminalOptions { stdin: true, stdout: true, stderr: true, tty: false }
}

/// Copies input to output, complains, and ends with a code.
async fn cat(mut terminal: Terminal) -> Ended {
    let (mut stdin, mut stdout) = (terminal.stdin.take().expect("input"), terminal.stdout.take().expect("output"));
    let copied = tokio::io::copy(&mut stdin, &mut stdout).await;
    if let Some(mut stderr) = terminal.stderr.take() {
        stderr.write_all(b"done\n").await.expect("a client");
    }
    copied.map_or_else(|error| Ended::Failed(error.to_string()), |_| Ended::Exit(3))
}

/// Tells the first size of the window that it hears of.
async fn tell_size(mut terminal: Terminal) -> Ended {
    let mut resize = terminal.resize.take().expect("a terminal");
    resize.changed().await.expect("a client");
    let size = *resize.borrow();
    let text = format!("{}x{}", size.columns, size.rows);
    terminal.stdout.take().expect("output").write_all(text.as_bytes()).await.expect("a client");
    Ended::Exit(0)
}

async fn client(io: DuplexStream) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

/// Reads to the close of a WebSocket; returns what came on each of the four channels.
async fn read_all(socket: &mut WebSocketStream<DuplexStream>, channels: Channels) -> [String; 4] {
    let mut found = [const { Vec::new() }; 4];
    while let Some(Ok(message)) = socket.next().await {
        if let crate::streams::channels::Incoming::Data(channel, data) = channels.decode(message) {
            found[usize::from(channel)].extend_from_slice(&data);
        }
    }
    found.map(|bytes| String::from_utf8(bytes).expect("text"))
}

fn channels(name: &str) -> Channels {
    Channels::find(name).expect("a known name")
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_over_every_version_of_channels() {
    for name in ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", ""] {
        let channels = channels(name);
        let (near, far) = duplex(BUFFER);
        let talk = async {
            let mut socket = client(far).await;
            for text in ["hello ", "", "world"] {
                socket.send(channels.encode(STDIN, text.as_bytes())).await.expect("a server");
            }
            let close =
                if channels.can_close { Message::Binary(vec![255, STDIN].into()) } else { Message::Close(None) };
            socket.send(close).await.expect("a server");
            read_all(&mut socket, channels).await
        };
        let ((), [_, stdout, stderr, error]) = tokio::join!(over_channels(line(near), channels, all(), cat), talk);
        if channels.can_close {
            assert_eq!((stdout.as_str(), stderr.as_str()), ("hello world", "done\n"), "{name}");
            assert!(error.contains("\"message\":\"3\""), "{name}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_over_spdy() {
    let (near, far) = duplex(BUFFER);
    let talk = async {
        let mut player = Player::new(far);
        for (stream, kind) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "nonsense"), (9, "stderr")] {
            player.open(stream, &[("streamtype", kind)]).await;
        }
        player.ping(11).await;
        player.data(3, b"hello").await;
        player.close(3).await;
        player.read_until(|_| false).await;
        player
    };
    let ((), player) = tokio::join!(over_spdy(line(near), V4, all(), cat), talk);
    assert_eq!((player.text(5).as_str(), player.text(9).as_str()), ("hello", "done\n"));
    assert!(player.text(1).contains("NonZeroExitCode"), "{}", player.text(1));
    assert!(player.closed.is_superset(&[1, 5, 9].into()), "every stream is ended: {:?}", player.closed);
    assert_eq!((player.refused, player.pongs), ([7].into(), vec![11]));
}

#[tokio::test(start_paused = true)]
async fn a_window_has_a_size() {
    let options = TerminalOptions { stdin: false, stdout: true, stderr: false, tty: true };
    let (near, far) = duplex(BUFFER);
    let v5 = channels("v5.channel.k8s.io");
    let talk = async {
        let mut socket = client(far).await;
        // Cut where no one would cut it.
        for part in [&b"{\"Width\":8"[..], b"0,\"Height\":24}"] {
            socket.send(v5.encode(RESIZE, part)).await.expect("a server");
        }
        read_all(&mut socket, v5).await
    };
    let ((), [_, stdout, ..]) = tokio::join!(over_channels(line(near), v5, options, tell_size), talk);
    assert_eq!(stdout, "80x24");

    let (near, far) = duplex(BUFFER);
    let talk = async {
        let mut player = Player::new(far);
        for (stream, kind) in [(1, "error"), (3, "stdout"), (5, "resize")] {
            player.open(stream, &[("streamtype", kind)]).await;
        }
        player.data(5, b"{\"Width\":100,\"Height\":30}\n").await;
        player.read_until(|_| false).await;
        player.text(3)
    };
    assert_eq!(tokio::join!(over_spdy(line(near), V4, options, tell_size), talk).1, "100x30");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_ends_the_command() {
    let (near, far) = duplex(BUFFER);
    let (told, mut heard) = mpsc::channel(1);
    let endless = |mut terminal: Terminal| async move {
        let mut input = String::new();
        terminal.stdin.take().expect("input").read_to_string(&mut input).await.expect("an end");
        told.send(input).await.expect("a listener");
        std::future::pending().await
    };
    let v4 = channels("v4.channel.k8s.io");
    let talk = async {
        let mut socket = client(far).await;
        socket.send(v4.encode(STDIN, b"last words")).await.expect("a server");
    };
    tokio::join!(over_channels(line(near), v4, all(), endless), talk);
    assert_eq!(heard.recv().await.as_deref(), Some("last words"), "what it had sent was still read");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_opens_its_streams_is_left() {
    let (near, far) = duplex(BUFFER);
    let mut player = Player::new(far);
    let talk = async {
        player.open(1, &[("streamtype", "error")]).await;
        player.read_until(|_| false).await;
    };
    let never = |_: Terminal| async { panic!("the command must not run") };
    tokio::join!(over_spdy(line(near), V4, all(), never), talk);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_still_hears_from_us() {
    let (near, far) = duplex(BUFFER);
    let v5 = channels("v5.channel.k8s.io");
    let waits = |_: Terminal| async {
        tokio::time::sleep(Duration::from_secs(65)).await;
        Ended::Exit(0)
    };
    let talk = async {
        let mut socket = client(far).await;
        let mut pongs = 0;
        while let Some(Ok(message)) = socket.next().await {
            pongs += usize::from(message.is_pong());
        }
        pongs
    };
    assert_eq!(tokio::join!(over_channels(line(near), v5, all(), waits), talk).1, 3);
}
