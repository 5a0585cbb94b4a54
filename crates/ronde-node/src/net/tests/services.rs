//! Names and services, asked from pods.

use std::net::{Ipv4Addr, SocketAddr};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query},
    rr::{Name, RecordType},
};
use tokio::net::UdpSocket;

use super::*;
use crate::net::dns::{read_framed, write_framed};

const WEB: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 20);
/// After so long without an answer a datagram is sent again, as every client does.
const AGAIN: Duration = Duration::from_millis(200);

fn web() -> Value {
    json!({"clusterIP": WEB, "ports": [{"port": 80, "protocol": "TCP"}]})
}

fn question(name: &str) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.queries.push(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    message.to_vec().unwrap()
}

fn answers(bytes: &[u8]) -> Vec<String> {
    let message = Message::from_vec(bytes).unwrap();
    message.answers.iter().map(|record| record.data.to_string()).collect()
}

#[tokio::test]
async fn names_are_served_by_datagram_and_by_stream() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let pod = Pod::new(&network, "web-0").await;
    network.update(&service("web", &web(), 8080, &[&pod]));
    let server = SocketAddr::from((network.dns_address(), 53));

    let socket = pod.netns.bind_udp((Ipv4Addr::UNSPECIFIED, 0).into()).await.unwrap();
    socket.connect(server).await.unwrap();
    let mut buffer = [0; 512];
    let length = exchange(&socket, &question("web.default.svc.cluster.local."), &mut buffer).await;
    assert_eq!(answers(&buffer[..length]), ["10.96.0.20"]);

    let mut stream = pod.netns.connect_tcp(server).await.unwrap();
    for (name, expected) in [("web", "10.96.0.20"), ("web-0.web", "10.244.0.10")] {
        write_framed(&mut stream, &question(&format!("{name}.default.svc.cluster.local."))).await.unwrap();
        let answer = timeout(PATIENCE, read_framed(&mut stream)).await.unwrap().unwrap();
        assert_eq!(answers(&answer), [expected]);
    }
}

#[tokio::test]
async fn a_service_is_reached_by_its_address() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (a, b, client) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await, Pod::new(&network, "c").await);
    a.serve(8080).await;
    b.serve(8080).await;
    let address = SocketAddr::from((WEB, 80));
    let refused = client.ask(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "there is no such service");

    network.update(&service("web", &web(), 8080, &[&a, &b]));
    ask_until(&client.netns, address, Result::is_ok).await;
    let mut who = [client.ask(address).await.unwrap(), client.ask(address).await.unwrap()];
    who.sort();
    assert_eq!(who, ["a: hello", "b: hello"], "one after the other");
    assert_eq!(a.ask(address).await.unwrap().len(), 8, "a pod may reach itself through its service");
    assert!(ask(&machine.netns, address).await.is_ok(), "so may the machine");

    network.update(&service("web", &web(), 8080, &[&b]));
    ask_until(&client.netns, address, |answer| matches!(answer.as_deref(), Ok("b: hello"))).await;
    assert_eq!(client.ask(address).await.unwrap(), "b: hello");
    network.update(&service("web", &web(), 8080, &[]));
    ask_until(&client.netns, address, Result::is_err).await;
    let refused = client.ask(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "no endpoint is left");
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_passed_over() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (deaf, good) = (Pod::new(&network, "deaf").await, Pod::new(&network, "good").await);
    good.serve(8080).await;
    network.update(&service("web", &web(), 8080, &[&deaf, &good]));
    let address = SocketAddr::from((WEB, 80));
    ask_until(&deaf.netns, address, Result::is_ok).await;
    for _ in 0..4 {
        assert_eq!(deaf.ask(address).await.unwrap(), "good: hello");
    }
    network.update(&service("web", &web(), 8080, &[&deaf]));
    ask_until(&good.netns, address, Result::is_err).await;
    assert_eq!(good.ask(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_service_of_datagrams_is_reached_by_its_address() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (server, client) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await);
    let socket = server.netns.bind_udp((Ipv4Addr::UNSPECIFIED, 5353).into()).await.unwrap();
    tokio::spawn(echo(socket));
    let spec = json!({"clusterIP": WEB, "ports": [{"port": 53, "protocol": "UDP"}]});
    network.update(&service("names", &spec, 5353, &[&server]));
    let socket = client.netns.bind_udp((Ipv4Addr::UNSPECIFIED, 0).into()).await.unwrap();
    socket.connect((WEB, 53)).await.unwrap();
    let mut buffer = [0; 64];
    // Before the proxy is there, the kernel says that nobody listens, or a datagram is lost without a word.
    let length = exchange(&socket, b"ping", &mut buffer).await;
    assert_eq!(&buffer[..length], b"ping", "the answer comes from the service's address, or it were not received");
}

/// Sends a datagram until there is an answer; returns its length.
async fn exchange(socket: &UdpSocket, said: &[u8], buffer: &mut [u8]) -> usize {
    let answer = async {
        loop {
            let _ = socket.send(said).await;
            if let Ok(Ok(length)) = timeout(AGAIN, socket.recv(buffer)).await {
                return length;
            }
        }
    };
    timeout(PATIENCE, answer).await.unwrap()
}

async fn echo(socket: UdpSocket) {
    let mut buffer = [0; 64];
    while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
        let _ = socket.send_to(&buffer[..length], client).await;
    }
}

#[tokio::test]
async fn the_api_server_is_reached_from_pods() {
    let Some(machine) = Machine::new().await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api_server = listener.local_addr().unwrap();
    serve(listener, "api".to_owned());
    let options = NetworkOptions { api_server, ..machine.options(machine.own()) };
    let (network, _) = Network::open(options).await.unwrap();
    let pod = Pod::new(&network, "a").await;
    ask_until(&pod.netns, (network.subnets().api(), 443).into(), |answer| {
        matches!(answer.as_deref(), Ok("api: hello"))
    })
    .await;
}
