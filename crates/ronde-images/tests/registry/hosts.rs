//! Who is asked for a registry: by TLS, instead of it, and through whom.

use std::{path::PathBuf, sync::Arc};

use fs_err as fs;
use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ronde_images::{Keyring, PullError, Pulled, Registries, registry::Proxies, store::Quiet};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{
    front::{Act, Front, Seen},
    world::{Registry, RegistryOptions, World, digest_of, reference, text, world},
};

/// A name that only the proxy can find.
const ELSEWHERE: &str = "registry.test";

/// Makes a CA and starts a registry with a certificate of it.
fn registry_with_tls(world: &World) -> (Registry, PathBuf) {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned(), ELSEWHERE.to_owned()]).unwrap();
    let certificate = own.signed_by(&key, &issuer).unwrap();
    let write = |name: &str, pem: String| {
        fs::write(world.path(name), pem).unwrap();
        world.path(name)
    };
    let ca = write("ca.pem", ca_certificate.pem());
    let tls = (write("own.pem", certificate.pem()), write("key.pem", key.serialize_pem()));
    (world.registry_with(&RegistryOptions { tls: Some(tls), has_password: false }), ca)
}

#[tokio::test]
async fn a_registry_with_tls_is_trusted_by_its_ca_only() {
    let Some(world) = world() else { return };
    let (registry, ca) = registry_with_tls(&world);
    let name = registry.push(&world.image("one", 1), "team/app:1", &[]);

    let fault = world.pull(&name).await.unwrap_err().to_string();
    let expected = format!("{name}: no TLS connection to `{}`: invalid peer certificate", registry.host());
    assert!(fault.starts_with(&expected), "{fault}");

    world.write_hosts(&registry.host(), &format!("ca = \"{}\"", text(&ca)));
    assert_eq!(world.pull(&name).await.unwrap().digest.to_string(), digest_of(&name));

    world.write_hosts(&registry.host(), "skip_verify = true");
    world.pull(&name).await.unwrap();

    world.write_hosts(&registry.host(), "ca = \"missing.pem\"");
    let fault = world.pull(&name).await.unwrap_err().to_string();
    assert!(fault.ends_with("/missing.pem`: entity not found"), "{fault}");
}

#[tokio::test]
async fn mirrors_are_asked_first_and_may_all_fail() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unknowing = Front::start(1, |_: &Seen| Act::Answer(StatusCode::NOT_FOUND, vec![], String::new())).await;
    let broken = Front::start(1, |_: &Seen| Act::Answer(StatusCode::BAD_GATEWAY, vec![], String::new())).await;
    let lying = Front::start(registry.port, |_: &Seen| Act::Spoil).await;
    let server = Front::start(registry.port, |_: &Seen| Act::Pass).await;
    let hosts = [closed.to_string(), unknowing.host(), broken.host(), lying.host()];
    let sections: String = hosts.iter().map(|host| format!("[host.\"http://{host}\"]\n")).collect();
    world.write_hosts("quay.io", &format!("server = \"http://{}\"\n{sections}", server.host()));

    world.pull("quay.io/team/app:1").await.unwrap();
    let image = world.find("quay.io/team/app:1").unwrap();
    assert_eq!(image.digest.to_string(), digest_of(&format!("{}/team/app:1", registry.host())));
    for mirror in [&unknowing, &broken, &lying] {
        assert_eq!(mirror.seen_of("/manifests/").len(), 1);
        assert_eq!(mirror.seen()[0].query, "ns=quay.io");
    }
    assert_eq!(lying.seen_of("/blobs/").len(), 4, "each part once");
    assert!(server.seen().iter().all(|seen| seen.query.is_empty()));
}

#[tokio::test]
async fn a_mirror_is_enough_for_what_it_may_answer() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let mirror = Front::start(registry.port, |_: &Seen| Act::Pass).await;
    let server = Front::start(registry.port, |_: &Seen| Act::Pass).await;
    let section = format!("[host.\"http://{}\"]\ncapabilities = [\"pull\"]", mirror.host());
    world.write_hosts("_default", &format!("server = \"http://{}\"\n{section}", server.host()));
    world.pull("quay.io/team/app:1").await.unwrap();
    assert_eq!((server.seen_of("/manifests/").len(), server.seen_of("/blobs/").len()), (1, 0));
    assert_eq!((mirror.seen_of("/manifests/").len(), mirror.seen_of("/blobs/").len()), (0, 4));
}

/// A proxy that finds every host on this machine, and remembers what it was asked.
struct Proxy {
    port: u16,
    asked: Arc<parking_lot::Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let shared = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(BufReader::new(stream), Arc::clone(&shared)));
            }
        });
        Self { port, asked, task }
    }
}

/// Opens a tunnel, or passes a request on as it is: registries take whole URLs too.
async fn tunnel(mut client: BufReader<TcpStream>, asked: Arc<parking_lot::Mutex<Vec<String>>>) -> Option<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        (client.read_line(&mut head).await.ok()? > 0).then_some(())?;
    }
    asked.lock().push(head.clone());
    let target = head.split_whitespace().nth(1)?;
    let authority = target.strip_prefix("http://").unwrap_or(target).split('/').next()?;
    let port: u16 = authority.rsplit_once(':')?.1.parse().ok()?;
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    } else {
        server.write_all(head.as_bytes()).await.ok()?;
    }
    copy_bidirectional(&mut client, &mut server).await.ok().map(drop)
}

async fn pull_through(world: &World, proxies: Proxies, name: &str) -> Result<Pulled, PullError> {
    let mut options = world.options();
    options.proxies = proxies;
    let registries = Registries::new(options).unwrap();
    ronde_images::pull(&registries, &Keyring::default(), &world.store(), &reference(name), Arc::new(Quiet)).await
}

#[tokio::test]
async fn a_registry_with_tls_is_reached_by_a_tunnel() {
    let Some(world) = world() else { return };
    let (registry, ca) = registry_with_tls(&world);
    registry.push(&world.image("one", 1), "team/app:1", &[]);
    let proxy = Proxy::start().await;
    let host = format!("{ELSEWHERE}:{}", registry.port);
    world.write_hosts(&host, &format!("ca = \"{}\"", text(&ca)));
    let proxies = Proxies { https: format!("http://user:secret@127.0.0.1:{}", proxy.port), ..Proxies::default() };
    let pulled = pull_through(&world, proxies, &format!("{host}/team/app:1")).await.unwrap();
    assert_eq!(pulled.digest.to_string(), digest_of(&format!("{}/team/app:1", registry.host())));
    let asked = proxy.asked.lock().clone();
    assert!(asked.iter().all(|head| head.starts_with(&format!("CONNECT {host} HTTP/1.1\r\n"))), "{asked:?}");
    assert!(asked[0].to_lowercase().contains("proxy-authorization: basic dxnlcjpzzwnyzxq="), "{asked:?}");
}

#[tokio::test]
async fn a_registry_in_the_clear_is_asked_by_the_proxy() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let proxy = Proxy::start().await;
    let host = format!("{ELSEWHERE}:{}", registry.port);
    let name = format!("{host}/team/app:1");
    world.write_hosts(&host, &format!("server = \"http://{host}\""));
    let proxies = Proxies { http: format!("http://127.0.0.1:{}", proxy.port), ..Proxies::default() };
    let excepted = Proxies { no: ELSEWHERE.to_owned(), ..proxies.clone() };
    assert!(pull_through(&world, excepted, &name).await.unwrap_err().is_unreachable());
    assert!(proxy.asked.lock().is_empty());
    pull_through(&world, proxies, &name).await.unwrap();
    let first = proxy.asked.lock()[0].clone();
    assert!(first.starts_with(&format!("GET http://{host}/v2/team/app/manifests/1 HTTP/1.1\r\n")), "{first}");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_out_of_reach() {
    let Some(world) = world() else { return };
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxies = Proxies { https: format!("http://user:secret@{closed}"), ..Proxies::default() };
    let fault = pull_through(&world, proxies, "quay.io/team/app:1").await.unwrap_err();
    assert!(fault.is_unreachable(), "{fault}");
    assert_eq!(fault.to_string(), "quay.io/team/app:1: cannot reach `quay.io`: proxy: connection refused");
}
