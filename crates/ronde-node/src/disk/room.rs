//! Whether the disk is about to be full. Pure: what is free in, the pressure out.
//!
//! A kubelet sees pressure below 10 % of the disk. Its disk is the node's own; ours is a person's, where 93 % full is an
//! ordinary day. So the bound is a small amount, and a part only of disks that are small themselves.

use std::{fmt, time::Duration};

use jiff::Timestamp;

/// Less than this is pressure, or [`PART`] of a disk where that is less. Training at full speed needs some seconds to
/// write it, and the disk is looked at every second.
const BYTES_MIN: u64 = 256 << 20;
/// A pod that unpacks a data set makes some thousand files in a second.
const INODES_MIN: u64 = 5000;
/// A twentieth.
const PART: u64 = 20;
/// There is room again at this many times the bound.
const RELIEF: u64 = 2;
/// For how long there must be room before pods are placed again: one that fills the disk as soon as it runs comes back at
/// this pace. A kubelet waits five minutes.
const SETTLE: Duration = Duration::from_secs(30);

/// What there is of a disk, and what of it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub bytes: Amount,
    /// None of nothing where a file system does not count them.
    pub inodes: Amount,
}

/// Free of a total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub free: u64,
    pub total: u64,
}

/// What a disk runs out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Bytes,
    Inodes,
}

/// A disk with too little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    pub resource: Resource,
    pub free: u64,
    /// Less than this is too little.
    pub threshold: u64,
}

/// What is remembered between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    pub shortage: Option<Shortage>,
    /// Since when there has been room again.
    relieved: Option<Timestamp>,
}

impl Pressure {
    /// Returns the pressure after one more look at the disk.
    #[must_use]
    pub fn after(self, room: Room, now: Timestamp) -> Self {
        if let Some(shortage) = short(room, 1) {
            return Self { shortage: Some(shortage), relieved: None };
        }
        let Some(before) = self.shortage else { return Self::default() };
        if let Some(shortage) = short(room, RELIEF) {
            let threshold = shortage.threshold / RELIEF;
            return Self { shortage: Some(Shortage { threshold, ..shortage }), relieved: None };
        }
        let since = self.relieved.unwrap_or(now);
        let has_settled = now.duration_since(since) >= SETTLE.try_into().unwrap_or_default();
        Self { shortage: (!has_settled).then_some(before), relieved: Some(since) }
    }

    /// Whether room has to be made now: there is pressure, and it has not ceased.
    pub fn is_acute(&self) -> bool {
        self.shortage.is_some() && self.relieved.is_none()
    }
}

/// What there is less of than `times` the bound.
fn short(room: Room, times: u64) -> Option<Shortage> {
    let check = |resource, amount: Amount, min: u64| {
        let threshold = min.min(amount.total / PART) * times;
        (amount.total > 0 && amount.free < threshold).then_some(Shortage { resource, free: amount.free, threshold })
    };
    check(Resource::Bytes, room.bytes, BYTES_MIN).or_else(|| check(Resource::Inodes, room.inodes, INODES_MIN))
}

impl Shortage {
    /// What has to be made free for the pressure to cease.
    pub fn missing(&self) -> u64 {
        (self.threshold * RELIEF).saturating_sub(self.free)
    }

    /// An amount of it as a kubelet writes it.
    pub fn shown(&self, amount: u64) -> String {
        match self.resource {
            Resource::Bytes => kibibytes(amount),
            Resource::Inodes => amount.to_string(),
        }
    }
}

/// An amount of bytes as a kubelet writes it.
pub fn kibibytes(bytes: u64) -> String {
    if bytes == 0 { "0".to_owned() } else { format!("{}Ki", bytes.div_ceil(1024)) }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "ephemeral-storage",
            Self::Inodes => "inodes",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn bytes(free: u64, total: u64) -> Room {
        Room { bytes: Amount { free, total }, inodes: Amount::default() }
    }

    fn inodes(free: u64, total: u64) -> Room {
        Room { inodes: Amount { free, total }, ..bytes(GIB, GIB) }
    }

    fn check(what: &str, room: Room, expected: &str) {
        let pressure = Pressure::default().after(room, at(0));
        let said = pressure.shortage.map_or("room".to_owned(), |shortage| {
            let [free, threshold] = [shortage.free, shortage.threshold].map(|amount| shortage.shown(amount));
            format!("{} {free} < {threshold}", shortage.resource)
        });
        assert_eq!(said, expected, "{what}");
    }

    #[test]
    fn the_bound_is_small_on_every_disk() {
        check("an ordinary laptop", bytes(35 * GIB, 500 * GIB), "room");
        check("one that is very full", bytes(300 * MIB, 500 * GIB), "room");
        check("one that is full", bytes(200 * MIB, 500 * GIB), "ephemeral-storage 204800Ki < 262144Ki");
        check("a small disk", bytes(4 * MIB, 60 * MIB), "room");
        check("a small disk that is full", bytes(0, 60 * MIB), "ephemeral-storage 0 < 3072Ki");
        check("few inodes on a big disk", inodes(4999, 30_000_000), "inodes 4999 < 5000");
        check("few inodes on a small disk", inodes(50, 2000), "inodes 50 < 100");
        check("inodes are not counted", inodes(0, 0), "room");
    }

    #[test]
    fn pressure_ceases_when_there_has_been_room_for_a_while() {
        let (full, between, room) = (bytes(0, 60 * MIB), bytes(4 * MIB, 60 * MIB), bytes(50 * MIB, 60 * MIB));
        let pressure = Pressure::default().after(between, at(0));
        assert_eq!(pressure.shortage, None, "it begins at the bound");
        let pressure = pressure.after(full, at(1));
        assert!(pressure.is_acute());
        let pressure = pressure.after(between, at(2));
        assert!(pressure.is_acute(), "it ends at twice the bound");
        let pressure = pressure.after(room, at(3));
        assert!(pressure.shortage.is_some() && !pressure.is_acute(), "nobody has to go any more, but nobody comes");
        assert!(pressure.after(full, at(20)).after(room, at(21)).after(room, at(40)).shortage.is_some());
        assert!(pressure.after(room, at(32)).shortage.is_some());
        assert_eq!(pressure.after(room, at(33)).shortage, None);
    }
}
