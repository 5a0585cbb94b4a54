//! What this process may give to the files that it makes: owners, devices, marks of the overlay.
//!
//! Root of the machine may everything. Root of a user namespace may give files to the users that the namespace has, if it
//! has more than one. For everybody else all files are their own.

use rustix::fs::{Gid, Uid};

/// What the kernel shows for a machine without user namespaces, or outside of them.
const ALL_IDS: u32 = u32::MAX;

/// Whose files this process may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Anybody's, devices included.
    Machine,
    /// Those of so many users and groups, counted from root.
    Namespace { users: u32, groups: u32 },
    /// Its own.
    Own,
}

impl Rights {
    /// The rights of whoever runs this process.
    pub fn of_caller() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::Own;
        }
        // A kernel without namespaces has no such file.
        let count = |file| fs_err::read_to_string(file).map_or(ALL_IDS, |map| ids_from_zero(&map));
        Self::of_root(count("/proc/self/uid_map"), count("/proc/self/gid_map"))
    }

    fn of_root(users: u32, groups: u32) -> Self {
        match (users, groups) {
            (ALL_IDS, ALL_IDS) => Self::Machine,
            (0 | 1, _) | (_, 0 | 1) => Self::Own,
            (users, groups) => Self::Namespace { users, groups },
        }
    }

    /// Whether this is root of the whole machine.
    pub fn is_of_machine(self) -> bool {
        self == Self::Machine
    }

    /// Returns the owner that a file gets; none if it keeps the one it has. Users that the namespace does not have are
    /// its root.
    pub(crate) fn owner(self, user: u32, group: u32) -> Option<(Uid, Gid)> {
        let (user, group) = match self {
            Self::Machine => (user, group),
            Self::Namespace { users, groups } => {
                (if user < users { user } else { 0 }, if group < groups { group } else { 0 })
            }
            Self::Own => return None,
        };
        Some((Uid::from_raw(user), Gid::from_raw(group)))
    }
}

/// Counts the ids from 0 on that a map of the kernel has without a gap.
fn ids_from_zero(map: &str) -> u32 {
    let mut ranges: Vec<(u32, u32)> = map
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse);
            let (first, _, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
            Some((first, count))
        })
        .collect();
    ranges.sort_unstable();
    ranges.iter().fold(0, |end, (first, count)| if *first == end { end.saturating_add(*count) } else { end })
}

#[cfg(test)]
mod tests {
    use super::{ALL_IDS, Rights, ids_from_zero};

    #[test]
    fn maps_are_read_as_the_kernel_writes_them() {
        for (what, map, expected) in [
            ("the machine", "         0          0 4294967295\n", ALL_IDS),
            ("one user", "         0       1000          1\n", 1),
            ("a lent range", "         0       1000          1\n         1     100000      65535\n", 65_536),
            (
                "a range that does not begin there",
                "         0       1000          1\n       100     100000      65535\n",
                1,
            ),
            ("nothing", "", 0),
        ] {
            assert_eq!(ids_from_zero(map), expected, "{what}");
        }
    }

    #[test]
    fn files_belong_to_whom_the_rights_allow() {
        let check = |what: &str, rights: Rights, expected: Option<(u32, u32)>| {
            let owner = rights.owner(1000, 70_000).map(|(user, group)| (user.as_raw(), group.as_raw()));
            assert_eq!(owner, expected, "{what}");
        };
        check("root", Rights::of_root(ALL_IDS, ALL_IDS), Some((1000, 70_000)));
        check("a lent range, with a group that is not in it", Rights::of_root(65_536, 65_536), Some((1000, 0)));
        check("one user", Rights::of_root(1, 1), None);
        check("many users and one group", Rights::of_root(65_536, 1), None);
    }
}
