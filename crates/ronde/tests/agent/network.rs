//! Hosts as network namespaces of this machine: each with an address of its own, on a network of their own.

use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// The hosts, numbered from 1; removed when dropped.
pub struct Network {
    names: Vec<String>,
}

impl Network {
    /// Needs root and `ip`.
    pub fn new(hosts: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("rnd{}n{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let network = Self { names: (1..=hosts).map(|host| format!("{id}h{host}")).collect() };
        for name in &network.names {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        let first = &network.names[0];
        ip(&["-n", first, "link", "add", "br0", "type", "bridge"]);
        ip(&["-n", first, "addr", "add", &format!("{}/24", address(1)), "dev", "br0"]);
        ip(&["-n", first, "link", "set", "br0", "up"]);
        for (index, name) in network.names.iter().enumerate().skip(1) {
            let port = format!("port{index}");
            ip(&["-n", first, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", name]);
            ip(&["-n", first, "link", "set", &port, "master", "br0", "up"]);
            ip(&["-n", name, "addr", "add", &format!("{}/24", address(index + 1)), "dev", "eth0"]);
            ip(&["-n", name, "link", "set", "eth0", "up"]);
        }
        network
    }

    /// What `ip netns` calls a host.
    pub fn name(&self, host: usize) -> &str {
        &self.names[host - 1]
    }

    /// Turns a command into one that runs on a host; its process becomes the program.
    pub fn inside(&self, host: usize, mut command: Command, program: &str) -> Command {
        command.args(["netns", "exec", self.name(host), program]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

pub fn address(host: usize) -> String {
    format!("10.98.7.{host}")
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
