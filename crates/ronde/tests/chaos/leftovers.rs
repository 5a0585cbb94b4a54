//! What an instance leaves on the machine: nothing, if all is well.

use std::{collections::BTreeSet, path::Path, process::Command};

use fs_err as fs;
use ronde_node::{
    net::names,
    sandbox::cgroup::Hierarchy,
    start::{CGROUPS, instance},
};

use crate::instance::{Instance, command_line};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    processes: Vec<String>,
    mounts: Vec<String>,
    links: Vec<String>,
    tables: Vec<String>,
    control_groups: Vec<String>,
}

impl Leftovers {
    /// The names that links and tables of an instance have; to be asked while its pods are there.
    pub fn names(of: &Instance) -> BTreeSet<String> {
        let id = instance(&of.data_dir());
        let pods = of.pods().into_iter().filter_map(|pod| Some(pod.path().file_name()?.to_str()?.to_owned()));
        let ports = pods.map(|uid| names::pod_port(&uid));
        ports.chain([names::bridge(&id), names::service_port(&id), names::table(&id)]).collect()
    }

    pub fn find(of: &Instance, names: &BTreeSet<String>) -> Self {
        let data_dir = of.data_dir();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let groups = Hierarchy::folders_of(Path::new(CGROUPS), &instance(&data_dir)).into_iter();
        Self {
            processes: processes().filter(|pid| of.owns(*pid)).map(command_line).collect(),
            mounts: mounts
                .lines()
                .filter(|line| line.contains(of.node().to_str().unwrap()))
                .map(str::to_owned)
                .collect(),
            links: entries("/sys/class/net").filter(|link| names.contains(link)).collect(),
            tables: tables().into_iter().filter(|table| names.contains(table)).collect(),
            control_groups: groups.filter(|path| path.exists()).map(|path| path.display().to_string()).collect(),
        }
    }
}

fn processes() -> impl Iterator<Item = u32> {
    entries("/proc").filter_map(|name| name.parse().ok())
}

fn entries(path: &str) -> impl Iterator<Item = String> {
    fs::read_dir(path).unwrap().filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
}

/// The tables of the machine's firewall; none where there is no program that lists them.
fn tables() -> Vec<String> {
    let listed = Command::new("nft").args(["list", "tables"]).output().map(|output| output.stdout).unwrap_or_default();
    let lines = String::from_utf8_lossy(&listed).into_owned();
    lines.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}
