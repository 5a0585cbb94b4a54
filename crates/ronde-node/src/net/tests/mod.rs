//! The network as it really is: bridges, pods and a machine, all in namespaces of the tests' own. Needs root.

mod machine;
mod pods;
mod services;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::{ClusterView, Missing, Netns, Network, NetworkOptions, NetworkPlace};

const INSTANCE: &str = "test";
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine with nothing but a loopback, and a folder.
struct Machine {
    file: OwnedFd,
    netns: Netns,
    directory: TempDir,
}

/// A pod's namespace.
struct Pod {
    uid: String,
    file: OwnedFd,
    netns: Netns,
    address: Ipv4Addr,
}

impl Machine {
    /// Makes a machine, or skips the test.
    async fn new() -> Option<Self> {
        if !ronde_sim::is_root() {
            return None;
        }
        match Netns::create().await {
            Ok((netns, file)) => Some(Self { file, netns, directory: tempfile::tempdir().unwrap() }),
            Err(error) => {
                ronde_sim::skip(&format!("no network namespaces here: {error}"));
                None
            }
        }
    }

    async fn open(&self, place: NetworkPlace) -> (Network, Vec<Missing>) {
        Network::open(self.options(place)).await.unwrap()
    }

    /// Opens a network in this machine, as for an ordinary user.
    async fn network(&self) -> Network {
        self.open(self.own()).await.0
    }

    fn own(&self) -> NetworkPlace {
        NetworkPlace::Own(self.file.try_clone().unwrap())
    }

    fn options(&self, place: NetworkPlace) -> NetworkOptions {
        NetworkOptions {
            instance: INSTANCE.to_owned(),
            state_dir: self.directory.path().to_owned(),
            place,
            api_server: "127.0.0.1:1".parse().unwrap(),
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: self.directory.path().join("resolv.conf"),
            nodes: Vec::new(),
        }
    }
}

impl Pod {
    async fn new(network: &Network, uid: &str) -> Self {
        let (netns, file) = Netns::create().await.unwrap();
        let address = network.attach(uid, file.try_clone().unwrap(), None).await.unwrap();
        Self { uid: uid.to_owned(), file, netns, address }
    }

    /// Serves streams: reads all, then sends it back with the pod's own uid before it.
    async fn serve(&self, port: u16) {
        let listener = self.netns.listen_tcp((Ipv4Addr::UNSPECIFIED, port).into()).await.unwrap();
        serve(listener, self.uid.clone());
    }

    /// Sends a word to an address, ends its own side, and returns the whole answer.
    async fn ask(&self, address: impl Into<SocketAddr>) -> io::Result<String> {
        ask(&self.netns, address.into()).await
    }
}

fn serve(listener: TcpListener, name: String) {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            stream.write_all(format!("{name}: {text}").as_bytes()).await.unwrap();
        }
    });
}

async fn ask(netns: &Netns, address: SocketAddr) -> io::Result<String> {
    let stream = timeout(PATIENCE, netns.connect_tcp(address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    talk(stream).await
}

async fn talk(mut stream: TcpStream) -> io::Result<String> {
    let mut answer = String::new();
    let conversation = async {
        stream.write_all(b"hello").await?;
        stream.shutdown().await?;
        stream.read_to_string(&mut answer).await
    };
    timeout(PATIENCE, conversation).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(answer)
}

/// Asks until there is an answer: sockets follow a view a moment later.
async fn ask_until(netns: &Netns, address: SocketAddr, expected: impl Fn(&io::Result<String>) -> bool) {
    let look = async {
        while !expected(&ask(netns, address).await) {
            sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(PATIENCE, look).await.is_ok(), "waited in vain for an answer of {address}");
}

/// A service and its ready endpoints.
fn service(name: &str, spec: &Value, target_port: u16, pods: &[&Pod]) -> ClusterView {
    let endpoints: Vec<Value> =
        pods.iter().map(|pod| json!({"addresses": [pod.address], "hostname": pod.uid})).collect();
    let protocol = &spec["ports"][0]["protocol"];
    let slice = json!({"metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"port": target_port, "protocol": protocol}], "endpoints": endpoints});
    let service = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    ClusterView {
        services: vec![Arc::new(serde_json::from_value(service).unwrap())],
        slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
        pods: Vec::new(),
    }
}
