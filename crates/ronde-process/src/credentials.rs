//! Who a program runs as: user, groups, and what of the powers of root it keeps.

use std::io;

use rustix::{
    fs::{Gid, Uid},
    thread::{CapabilitySet, CapabilitySets},
};
use serde::{Deserialize, Serialize};

/// The powers that container runtimes leave to root by default: enough for sshd and package managers, not enough to
/// mount, to load modules, or to change the machine's clock or network. Not to make device files either, which they do
/// leave: they also forbid, by a control group that we do not always have, to open them.
const DEFAULT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

/// A set of Linux capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities(u64);

impl Capabilities {
    pub const ALL: Self = Self(u64::MAX);

    pub fn default_set() -> Self {
        Self(DEFAULT.bits())
    }

    /// Returns the set without the power to make device files, and with them to open the machine's disks.
    #[must_use]
    pub fn without_device_files(self) -> Self {
        Self(self.0 & !CapabilitySet::MKNOD.bits())
    }

    /// Returns the set with some added and some dropped, by their names without `CAP_`, or `ALL`.
    ///
    /// # Errors
    /// The first name that is unknown.
    pub fn with(self, add: &[String], drop: &[String]) -> Result<Self, String> {
        let mut set = self.0;
        for name in drop {
            set &= !bits(name)?;
        }
        for name in add {
            set |= bits(name)?;
        }
        Ok(Self(set))
    }
}

fn bits(name: &str) -> Result<u64, String> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    if short == "ALL" {
        return Ok(u64::MAX);
    }
    CapabilitySet::from_name(short).map(|set| set.bits()).ok_or_else(|| name.to_owned())
}

/// Who a program runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub capabilities: Capabilities,
    pub no_new_privileges: bool,
}

impl Credentials {
    /// Makes this thread, which has to be the only one, run as these. There is no way back.
    pub fn take(&self) -> io::Result<()> {
        let keep = CapabilitySet::from_bits_truncate(self.capabilities.0);
        shrink_bounding_set(keep)?;
        self.take_groups()?;
        let stays_root = self.uid == 0;
        rustix::thread::set_thread_res_gid(Gid::from_raw(self.gid), Gid::from_raw(self.gid), Gid::from_raw(self.gid))?;
        rustix::thread::set_thread_res_uid(Uid::from_raw(self.uid), Uid::from_raw(self.uid), Uid::from_raw(self.uid))?;
        if stays_root {
            let have = rustix::thread::capabilities(None)?;
            let kept = have.permitted & keep;
            let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
            rustix::thread::set_capabilities(None, sets)?;
        }
        if self.no_new_privileges {
            rustix::thread::set_no_new_privs(true)?;
        }
        Ok(())
    }

    /// In a user namespace with one id there is only one group, and setting groups is refused: as good as done.
    fn take_groups(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        match rustix::thread::set_thread_groups(&groups) {
            Err(rustix::io::Errno::PERM) if self.groups.iter().all(|group| *group == self.gid) => Ok(()),
            other => Ok(other?),
        }
    }
}

fn shrink_bounding_set(keep: CapabilitySet) -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        if keep.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel is older than the list.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Capabilities;

    #[test]
    fn names_are_as_in_manifests() {
        let base = Capabilities::default_set();
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(base.with(&names(&["NET_RAW"]), &[]), Ok(base), "one that is there");
        assert_ne!(base.with(&names(&["SYS_PTRACE"]), &[]), Ok(base), "one that is not");
        assert_eq!(
            base.with(&names(&["CAP_CHOWN"]), &names(&["ALL"])),
            base.with(&names(&["chown"]), &names(&["all"]))
        );
        assert_eq!(base.with(&names(&["MKNOD"]), &[]).map(Capabilities::without_device_files), Ok(base));
        assert_eq!(base.with(&names(&["NONSENSE"]), &[]), Err("NONSENSE".to_owned()));
    }
}
