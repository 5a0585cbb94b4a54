//! Pods on the bridge.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
};

use futures::future::join_all;

use super::*;

#[tokio::test]
async fn two_pods_talk_and_use_the_same_port() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (a, b) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await);
    assert_eq!((a.address, b.address), (Ipv4Addr::new(10, 244, 0, 10), Ipv4Addr::new(10, 244, 0, 11)));
    a.serve(8080).await;
    b.serve(8080).await;
    assert_eq!(a.ask((b.address, 8080)).await.unwrap(), "b: hello");
    assert_eq!(b.ask((a.address, 8080)).await.unwrap(), "a: hello");
    assert_eq!(a.ask((a.address, 8080)).await.unwrap(), "a: hello", "a pod reaches itself");
    assert_eq!(ask(&machine.netns, (a.address, 8080).into()).await.unwrap(), "a: hello", "so does the machine");
}

#[tokio::test]
async fn a_connection_is_made_inside_a_pod() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let pod = Pod::new(&network, "a").await;
    let listener = pod.netns.listen_tcp((Ipv4Addr::LOCALHOST, 7000).into()).await.unwrap();
    serve(listener, "inside".to_owned());
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 7000));
    let stream = network.connect(Some(pod.file.as_fd()), local).await.unwrap();
    assert_eq!(talk(stream).await.unwrap(), "inside: hello");
    let refused = network.connect(None, local).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "the machine's loopback is another");
}

#[tokio::test]
async fn attaching_and_detaching_may_be_repeated() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (a, b) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await);
    a.serve(8080).await;
    let again = network.attach("a", a.file.try_clone().unwrap(), Some(Ipv4Addr::new(10, 244, 0, 99))).await.unwrap();
    assert_eq!(again, a.address, "the address that it has is the one it keeps");
    assert_eq!(b.ask((a.address, 8080)).await.unwrap(), "a: hello");
    network.detach("a").await.unwrap();
    network.detach("a").await.unwrap();
    network.detach("nobody").await.unwrap();
    let back = network.attach("a", a.file.try_clone().unwrap(), Some(a.address)).await.unwrap();
    assert_eq!(back, a.address);
    assert_eq!(b.ask((a.address, 8080)).await.unwrap(), "a: hello");
}

#[tokio::test]
async fn a_pod_in_a_new_namespace_gets_a_new_link() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (old, other) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await);
    let new = Pod::new(&network, "a").await;
    assert_eq!(new.address, old.address);
    new.serve(8080).await;
    assert_eq!(other.ask((new.address, 8080)).await.unwrap(), "a: hello");
}

#[tokio::test]
async fn a_restarted_daemon_finds_pods_and_addresses_again() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let (a, b) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await);
    a.serve(8080).await;
    // What was not closed is as after `kill -9`: the old daemon's link is still there.
    let network = machine.network().await;
    assert_eq!(b.ask((a.address, 8080)).await.unwrap(), "a: hello");
    let c = Pod::new(&network, "c").await;
    assert_eq!(c.address, Ipv4Addr::new(10, 244, 0, 12), "addresses in use are known without being told");
    assert_eq!(network.attach("a", a.file.try_clone().unwrap(), None).await.unwrap(), a.address);
    assert!(network.claim("b", b.address) && !network.claim("d", b.address));
    assert_eq!(c.ask((a.address, 8080)).await.unwrap(), "a: hello");
}

#[tokio::test]
async fn a_hundred_pods_at_once() {
    let Some(machine) = Machine::new().await else { return };
    let network = machine.network().await;
    let namespaces = join_all((0..100).map(|_| Netns::create())).await;
    let begun = tokio::time::Instant::now();
    let attached = namespaces.iter().enumerate().map(|(number, namespace)| {
        let file = namespace.as_ref().unwrap().1.try_clone().unwrap();
        let (network, uid) = (&network, number.to_string());
        async move { network.attach(&uid, file, None).await.unwrap() }
    });
    let addresses = join_all(attached).await;
    eprintln!("attached 100 pods in {:?}", begun.elapsed());
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 100);
    let namespaces: Vec<&Netns> = namespaces.iter().map(|namespace| &namespace.as_ref().unwrap().0).collect();
    serve(namespaces[0].listen_tcp((Ipv4Addr::UNSPECIFIED, 80).into()).await.unwrap(), "first".to_owned());
    assert_eq!(ask(namespaces[99], (addresses[0], 80).into()).await.unwrap(), "first: hello");
}
