//! Forwarded ports over both protocols. Port 7 echoes, port 9 takes no connections.

use futures::SinkExt as _;
use tokio::io::{DuplexStream, duplex};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::streams::{channels::Incoming, spdy::player::Player};

const BUFFER: usize = 1 << 16;

fn line(io: DuplexStream) -> Line<DuplexStream> {
    Line { io, stop: CancellationToken::new() }
}

fn forward(ports: &[u16]) -> Forward {
    Forward { pod: "web".into(), ports: ports.to_vec() }
}

/// Answers with what it hears, and closes after that.
async fn connect(port: u16) -> io::Result<DuplexStream> {
    if port == 9 {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (near, far) = duplex(BUFFER);
    tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(far);
        tokio::io::copy(&mut read, &mut write).await
    });
    Ok(near)
}

async fn open_pair(player: &mut Player, first: u32, port: &str, request: &str) {
    for (stream, kind) in [(first, "error"), (first + 2, "data")] {
        player.open(stream, &[("streamtype", kind), ("port", port), ("requestid", request)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_independent_of_each_other() {
    let (near, far) = duplex(BUFFER);
    let talk = async {
        let mut player = Player::new(far);
        open_pair(&mut player, 1, "7", "0").await;
        open_pair(&mut player, 5, "9", "1").await;
        open_pair(&mut player, 9, "7", "2").await;
        player.data(3, b"first").await;
        player.data(11, b"second").await;
        player.close(3).await;
        player.read_until(|player| player.closed.is_superset(&[1, 3, 5, 7].into())).await;
        player.close(11).await;
        player.read_until(|player| player.closed.contains(&9)).await;
        player
    };
    let forward = forward(&[]);
    let ((), player) = tokio::join!(over_spdy(line(near), &forward, &connect), async { talk.await.texts() });
    assert_eq!(player, ["first", "second", "", "error forwarding port 9 to pod web: connection refused"]);
}

impl Player {
    /// What came on the streams of the test above; the connection ends with this.
    fn texts(self) -> [String; 4] {
        [self.text(3), self.text(11), self.text(1), self.text(5)]
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_transfer_goes_through_whole() {
    let (near, far) = duplex(BUFFER);
    let data: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let write = data.clone();
    let talk = async {
        let mut player = Player::new(far);
        open_pair(&mut player, 1, "7", "0").await;
        for (number, piece) in write.chunks(100_000).enumerate() {
            player.data(3, piece).await;
            let sent = number * 100_000 + piece.len();
            player.read_until(|player| player.received.get(&3).map_or(0, Vec::len) == sent).await;
        }
        player.received.remove(&3)
    };
    let forward = forward(&[]);
    let ((), found) = tokio::join!(over_spdy(line(near), &forward, &connect), talk);
    assert!(found == Some(data));
}

#[tokio::test(start_paused = true)]
async fn streams_that_make_no_sense_are_refused() {
    let (near, far) = duplex(BUFFER);
    let talk = async {
        let mut player = Player::new(far);
        player.open(1, &[("streamtype", "data")]).await;
        player.open(3, &[("streamtype", "data"), ("port", "0")]).await;
        player.open(5, &[("streamtype", "music"), ("port", "7")]).await;
        player.open(5, &[("streamtype", "data"), ("port", "7")]).await;
        player.open(2, &[("streamtype", "data"), ("port", "7")]).await;
        player.read_until(|player| player.refused.len() == 4).await;
        player.refused
    };
    let forward = forward(&[]);
    let ((), refused) = tokio::join!(over_spdy(line(near), &forward, &connect), talk);
    assert_eq!(refused, [1, 2, 3, 5].into());
}

#[tokio::test(start_paused = true)]
async fn very_old_clients_do_not_number_their_requests() {
    let (near, far) = duplex(BUFFER);
    let talk = async {
        let mut player = Player::new(far);
        player.open(1, &[("streamtype", "error"), ("port", "7")]).await;
        player.open(3, &[("streamtype", "data"), ("port", "7")]).await;
        player.data(3, b"hi").await;
        player.close(3).await;
        player.read_until(|player| player.closed.contains(&1)).await;
        player.text(3)
    };
    let forward = forward(&[]);
    assert_eq!(tokio::join!(over_spdy(line(near), &forward, &connect), talk).1, "hi");
}

#[tokio::test(start_paused = true)]
async fn channels_carry_one_connection_for_each_port() {
    let (near, far) = duplex(BUFFER);
    let channels = Channels::find("v4.channel.k8s.io").expect("a known name");
    let talk = async {
        let mut socket = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        socket.send(channels.encode(2, b"hello")).await.expect("a server");
        let mut found = [const { Vec::new() }; 4];
        while let Some(Ok(message)) = socket.next().await {
            if let Incoming::Data(channel, data) = channels.decode(message) {
                found[usize::from(channel)].extend_from_slice(&data);
            }
            if found[2].len() == 7 && found[1].len() > 2 {
                break;
            }
        }
        found
    };
    let forward = forward(&[9, 7]);
    let ((), found) = tokio::join!(over_channels(line(near), channels, &forward, &connect), talk);
    let error = b"\x09\0error forwarding port 9 to pod web: connection refused";
    assert_eq!(found, [b"\x09\0".to_vec(), error.to_vec(), b"\x07\0hello".to_vec(), b"\x07\0".to_vec()]);
}

#[test]
fn ports_must_be_named_for_channels() {
    let check = |name: &str, ports: &[u16], protocol: Protocol, expected: Result<(), &str>| {
        let found = forward(ports).check(protocol).map_err(|error| error.message);
        assert_eq!(found, expected.map_err(str::to_owned), "{name}");
    };
    let channels = Protocol::Channels(Channels::find("v4.channel.k8s.io").expect("a known name"));
    check("none", &[], channels, Err("query parameter \"ports\" is required"));
    check("one", &[80], channels, Ok(()));
    check("one that is none", &[0], channels, Err("port \"0\" must be > 0"));
    check("too many", &(1..200).collect::<Vec<_>>(), channels, Err("too many ports for one connection"));
    check("named later", &[], Protocol::Tunnel, Ok(()));
}
