//! The files that launchers read: the list of hosts in two forms, the script that shows it, and the remote shell. Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use ronde_api::TrainingJob;

use ronde_runtime::pods::hash;

/// The keys of the ConfigMap, and the files of its volume.
pub const HOSTFILE: &str = "hostfile";
pub const DEEPSPEED: &str = "deepspeed-hostfile";
pub const DISCOVER: &str = "discover_hosts.sh";
pub const KUBEXEC: &str = "kubexec.sh";

/// One `cat` is one read of a file that is replaced as a whole: never half a list.
const DISCOVER_SCRIPT: &str = "#!/bin/sh\nexec cat /etc/edl/hostfile\n";
const KUBEXEC_SCRIPT: &str = "#!/bin/sh\nexec /opt/kube/ronde rsh \"$@\"\n";

/// The list of hosts as files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    pub hostfile: String,
    pub deepspeed: String,
}

impl Files {
    /// Builds the files of a list of workers.
    pub fn of_hosts(job: &TrainingJob, hosts: &[String]) -> Self {
        let slots = job.spec.slots();
        let mut files = Self::default();
        for host in hosts {
            _ = writeln!(files.hostfile, "{host}:{slots}");
            _ = writeln!(files.deepspeed, "{host} slots={slots}");
        }
        files
    }

    /// Returns what changes with the list.
    pub fn digest(&self) -> String {
        hash::name(&self.hostfile, None)
    }

    /// Returns the data of the ConfigMap.
    pub fn data(&self) -> BTreeMap<String, String> {
        let files = [
            (HOSTFILE, self.hostfile.as_str()),
            (DEEPSPEED, &self.deepspeed),
            (DISCOVER, DISCOVER_SCRIPT),
            (KUBEXEC, KUBEXEC_SCRIPT),
        ];
        files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    }
}
