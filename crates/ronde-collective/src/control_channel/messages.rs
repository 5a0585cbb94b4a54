//! The messages between a rank and the launcher, and their bytes: a length, a kind, and what belongs to the kind.

use std::io::{self, Read, Write};

use crate::codec::{Reader, Writer};

/// No message is longer: the longest is a sentence.
const FRAME_MAX: usize = 64 * 1024;
/// A reason longer than that is cut.
const WHY_MAX: usize = 4 * 1024;

/// A rank's place in a generation of its ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Counts the rings of a job from one.
    pub generation: u64,
    pub rank: usize,
    pub size: usize,
    pub local_rank: usize,
    pub local_size: usize,
    pub cross_rank: usize,
    pub cross_size: usize,
    /// How many commits the first rank has made; after the state was taken over, everybody has.
    pub commits: u64,
    /// All members have the same state: it need not be sent.
    pub is_in_step: bool,
}

/// A rank without a ring asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Join {
    /// The last generation that the rank has had a place in; 0 if none.
    pub seen: u64,
    /// The commits of the state that it has; none if it never took part.
    pub commits: Option<u64>,
    /// It left its ring because it was asked to, with all others at the same commit.
    pub is_interrupted: bool,
    /// Why its last ring came to an end, if it did by itself.
    pub why: String,
}

/// What a rank says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromRank {
    Hello {
        worker: u64,
    },
    Join(Join),
    /// The answer to [`ToRank::Notice`]: so many checks are done, and no more will be before the interrupt is named.
    Checked {
        generation: u64,
        checks: u64,
    },
    /// The first commit of a generation is made.
    Committed {
        generation: u64,
    },
    Pong,
}

/// What the launcher says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToRank {
    Assign(Assignment),
    /// There is no place for this rank any more: it may go.
    Leave,
    /// The hosts have changed: bit 0 some went, bit 1 some came.
    Notice {
        generation: u64,
        change: u8,
    },
    /// The ring ends at this check, or at the next one if that is past.
    Interrupt {
        generation: u64,
        at: u64,
    },
    Ping,
}

impl FromRank {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Hello { worker } => writer.number(0).number(*worker),
            Self::Join(Join { seen, commits, is_interrupted, why }) => {
                let why = &why[..why.floor_char_boundary(WHY_MAX)];
                let commits = commits.map_or(0, |commits| commits.saturating_add(1));
                writer.number(1).number(*seen).number(commits).number(u64::from(*is_interrupted)).text(why)
            }
            Self::Checked { generation, checks } => writer.number(2).number(*generation).number(*checks),
            Self::Committed { generation } => writer.number(3).number(*generation),
            Self::Pong => writer.number(4),
        };
        writer.0
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(match reader.number()? {
            0 => Self::Hello { worker: reader.number()? },
            1 => Self::Join(Join {
                seen: reader.number()?,
                commits: reader.number()?.checked_sub(1),
                is_interrupted: reader.number()? == 1,
                why: reader.text()?.to_owned(),
            }),
            2 => Self::Checked { generation: reader.number()?, checks: reader.number()? },
            3 => Self::Committed { generation: reader.number()? },
            4 => Self::Pong,
            _ => return None,
        })
    }
}

impl ToRank {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Assign(place) => {
                writer.number(0).number(place.generation).size(place.rank).size(place.size);
                writer.size(place.local_rank).size(place.local_size).size(place.cross_rank).size(place.cross_size);
                writer.number(place.commits).number(u64::from(place.is_in_step))
            }
            Self::Leave => writer.number(1),
            Self::Notice { generation, change } => writer.number(2).number(*generation).number(u64::from(*change)),
            Self::Interrupt { generation, at } => writer.number(3).number(*generation).number(*at),
            Self::Ping => writer.number(4),
        };
        writer.0
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(match reader.number()? {
            0 => Self::Assign(Assignment {
                generation: reader.number()?,
                rank: reader.size()?,
                size: reader.size()?,
                local_rank: reader.size()?,
                local_size: reader.size()?,
                cross_rank: reader.size()?,
                cross_size: reader.size()?,
                commits: reader.number()?,
                is_in_step: reader.number()? == 1,
            }),
            1 => Self::Leave,
            2 => Self::Notice { generation: reader.number()?, change: u8::try_from(reader.number()?).ok()? },
            3 => Self::Interrupt { generation: reader.number()?, at: reader.number()? },
            4 => Self::Ping,
            _ => return None,
        })
    }
}

/// Writes a message with its length, in one go.
pub fn write_frame(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_le_bytes()[..], bytes].concat())
}

/// Reads a message; what is too long is refused before it is read.
pub fn read_frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = usize::try_from(u32::from_le_bytes(len)).unwrap_or(usize::MAX);
    if len > FRAME_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Assignment, FromRank, Join, ToRank, read_frame, write_frame};

    #[test]
    fn what_is_said_is_what_is_heard() {
        let join = Join { seen: 3, commits: Some(0), is_interrupted: true, why: "a peer is gone".to_owned() };
        let words = [
            FromRank::Hello { worker: 7 },
            FromRank::Join(join),
            FromRank::Join(Join::default()),
            FromRank::Checked { generation: 2, checks: 300 },
            FromRank::Committed { generation: 2 },
            FromRank::Pong,
        ];
        for each in words {
            let mut wire = Vec::new();
            write_frame(&mut wire, &each.to_bytes()).unwrap();
            assert_eq!(FromRank::read(&read_frame(&mut wire.as_slice()).unwrap()), Some(each));
        }
        let place = Assignment {
            generation: 2,
            rank: 1,
            size: 3,
            local_size: 1,
            commits: 9,
            is_in_step: true,
            ..Assignment::default()
        };
        let answers = [
            ToRank::Assign(place),
            ToRank::Leave,
            ToRank::Notice { generation: 2, change: 3 },
            ToRank::Interrupt { generation: 2, at: 301 },
            ToRank::Ping,
        ];
        for each in answers {
            assert_eq!(ToRank::read(&each.to_bytes()), Some(each));
        }
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let join = Join { why: "é".repeat(5000), ..Join::default() };
        let Some(FromRank::Join(heard)) = FromRank::read(&FromRank::Join(join).to_bytes()) else { panic!("no join") };
        assert_eq!(heard.why.len(), super::WHY_MAX);
    }

    proptest! {
        #[test]
        fn no_bytes_from_outside_make_it_panic(bytes: Vec<u8>) {
            let _ = FromRank::read(&bytes);
            let _ = ToRank::read(&bytes);
            let _ = read_frame(&mut bytes.as_slice());
        }
    }
}
