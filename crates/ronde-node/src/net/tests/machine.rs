//! The machine around the bridge: its firewall, its way to the world, and that nothing is left behind.
//!
//! Here the daemon is root of the machine: the test itself runs in the machine's namespace.

use std::{net::Ipv4Addr, process::Command};

use super::*;
use crate::net::{host_network, links, remove_all};

/// Runs a test as a daemon whose own namespace is the machine's.
async fn as_daemon<F, T>(test: F)
where
    F: FnOnce(Machine) -> T + Send + 'static,
    T: Future<Output = ()>,
{
    let Some(machine) = Machine::new().await else { return };
    let netns = machine.netns.clone();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test(machine));
        Ok(())
    };
    netns.run(run).await.unwrap();
}

/// Gives the machine a link to a world, and the world a namespace.
async fn connect_to_world() -> Netns {
    let (world, file) = Netns::create().await.unwrap();
    let netlink = Netns::here().netlink().await.unwrap();
    let bridge = links::ensure_bridge(&netlink, "uplink", "198.51.100.1/24".parse().unwrap(), 1400).await.unwrap();
    let port = links::Port { name: "world", netns: file.as_fd(), address: Ipv4Addr::new(198, 51, 100, 2) };
    links::add_port(&netlink, &bridge, &port).await.unwrap();
    let inside = links::Inside {
        address: "198.51.100.2/24".parse().unwrap(),
        gateway: Ipv4Addr::new(198, 51, 100, 9),
        route: None,
    };
    links::set_up_inside(&world.netlink().await.unwrap(), &inside).await.unwrap();
    links::ensure_route(&netlink, ipnet::Ipv4Net::default(), Ipv4Addr::new(198, 51, 100, 2)).await.unwrap();
    world
}

/// Returns all that a network could leave behind.
async fn inventory() -> Vec<String> {
    let netlink = Netns::here().netlink().await.unwrap();
    let mut all = links::names(&netlink).await.unwrap();
    all.extend(host_network::networks(&netlink).await.unwrap().iter().map(ToString::to_string));
    let rules = || Command::new("nft").args(["list", "ruleset"]).output();
    let rules = Netns::here().run(rules).await.map(|output| output.stdout).unwrap_or_default();
    all.extend(String::from_utf8(rules).unwrap().lines().map(str::to_owned));
    let forwarding = || fs_err::read_to_string("/proc/sys/net/ipv4/ip_forward");
    all.push(Netns::here().run(forwarding).await.unwrap());
    all.sort();
    all
}

#[tokio::test]
async fn nothing_is_left_behind() {
    as_daemon(|machine| async move {
        let _world = connect_to_world().await;
        // A new namespace begins with what the machine has.
        let off = || fs_err::write("/proc/sys/net/ipv4/ip_forward", "0");
        Netns::here().run(off).await.unwrap();
        let before = inventory().await;
        assert_eq!(before.first().map(|line| line.trim()), Some("0"), "forwarding is off at first");
        let (network, _) = machine.open(NetworkPlace::Host).await;
        let (_a, _b) = (Pod::new(&network, "a").await, Pod::new(&network, "b").await);
        assert_ne!(inventory().await, before);
        network.close().await;
        remove_all(INSTANCE, machine.directory.path(), &NetworkPlace::Host).await.unwrap();
        assert_eq!(inventory().await, before);
        remove_all(INSTANCE, machine.directory.path(), &NetworkPlace::Host).await.unwrap();
        let (network, _) = machine.open(NetworkPlace::Host).await;
        assert_eq!(network.subnets().services.to_string(), "10.96.0.0/16", "a new start finds the old choice");
    })
    .await;
}

#[tokio::test]
async fn pods_reach_the_world_under_the_machines_address() {
    if ronde_sim::program("nft").is_none() {
        return;
    }
    as_daemon(|machine| async move {
        let world = connect_to_world().await;
        let listener = world.listen_tcp((Ipv4Addr::UNSPECIFIED, 80).into()).await.unwrap();
        let (network, missing) = machine.open(NetworkPlace::Host).await;
        assert_eq!(missing, []);
        assert!(network.has_outside());
        assert_eq!(network.host_ip(), Ipv4Addr::new(198, 51, 100, 1));
        let pod = Pod::new(&network, "a").await;
        let connecting = pod.netns.connect_tcp((Ipv4Addr::new(198, 51, 100, 2), 80).into());
        let (stream, accepted) = tokio::join!(timeout(PATIENCE, connecting), timeout(PATIENCE, listener.accept()));
        stream.unwrap().unwrap();
        assert_eq!(accepted.unwrap().unwrap().1.ip(), Ipv4Addr::new(198, 51, 100, 1));
    })
    .await;
}

#[tokio::test]
async fn two_instances_share_a_machine() {
    as_daemon(|machine| async move {
        let (first, _) = machine.open(NetworkPlace::Host).await;
        let directory = tempfile::tempdir().unwrap();
        let options = NetworkOptions {
            instance: "other".to_owned(),
            state_dir: directory.path().to_owned(),
            ..machine.options(NetworkPlace::Host)
        };
        let (second, _) = Network::open(options).await.unwrap();
        assert_eq!(second.subnets().pods.to_string(), "10.245.0.0/16");
        assert_eq!(second.subnets().services.to_string(), "10.97.0.0/16");
        let (a, b) = (Pod::new(&first, "a").await, Pod::new(&second, "b").await);
        a.serve(80).await;
        assert_eq!(b.ask((a.address, 80)).await.unwrap(), "a: hello", "through the machine");
        remove_all("other", directory.path(), &NetworkPlace::Host).await.unwrap();
        assert_eq!(ask(&Netns::here(), (a.address, 80).into()).await.unwrap(), "a: hello");
    })
    .await;
}

#[tokio::test]
async fn a_node_port_is_reached_by_the_machines_address() {
    as_daemon(|machine| async move {
        let world = connect_to_world().await;
        let (network, _) = machine.open(NetworkPlace::Host).await;
        let pod = Pod::new(&network, "a").await;
        pod.serve(8080).await;
        let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.20", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]});
        network.update(&service("web", &spec, 8080, &[&pod]));
        let expected = |answer: &io::Result<String>| matches!(answer.as_deref(), Ok("a: hello"));
        ask_until(&pod.netns, (network.host_ip(), 30080).into(), expected).await;
        ask_until(&world, (network.host_ip(), 30080).into(), expected).await;
    })
    .await;
}

#[tokio::test]
async fn a_port_of_the_machine_is_not_in_a_services_way() {
    as_daemon(|machine| async move {
        let taken = TcpListener::bind("0.0.0.0:80").await.unwrap();
        serve(taken, "the machine's own".to_owned());
        let (network, _) = machine.open(NetworkPlace::Host).await;
        let pod = Pod::new(&network, "a").await;
        pod.serve(8080).await;
        let spec = json!({"clusterIP": "10.96.0.20", "ports": [{"port": 80, "protocol": "TCP"}]});
        network.update(&service("web", &spec, 8080, &[&pod]));
        let expected = |answer: &io::Result<String>| matches!(answer.as_deref(), Ok("a: hello"));
        ask_until(&pod.netns, (Ipv4Addr::new(10, 96, 0, 20), 80).into(), expected).await;
        ask_until(&Netns::here(), (Ipv4Addr::new(10, 96, 0, 20), 80).into(), expected).await;
    })
    .await;
}

#[tokio::test]
async fn subnets_in_use_are_left_alone() {
    as_daemon(|machine| async move {
        let netlink = Netns::here().netlink().await.unwrap();
        links::ensure_bridge(&netlink, "vpn", "10.244.7.1/24".parse().unwrap(), 1400).await.unwrap();
        let (network, missing) = machine.open(NetworkPlace::Host).await;
        assert_eq!(network.subnets().pods.to_string(), "10.245.0.0/16");
        assert!(missing.iter().any(|missing| missing.what == "this machine has no default route"), "{missing:?}");
    })
    .await;
}
