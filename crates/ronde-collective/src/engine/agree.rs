//! What all ranks must have in common before they connect: the first rank's settings, and the same limits.
//!
//! Settings are the user's, and everybody takes those of the first rank. Limits are the build's: they say when a
//! message is cut and which algorithm is used, so ranks with different ones would wait for each other's bytes for ever.

use super::config::Config;
use crate::{
    algorithms,
    codec::{Reader, Writer},
    comm,
    error::{Error, Result},
    memory,
    rendezvous::Meeting,
    shm, tcp, wire,
};

/// By name, for the message.
const LIMITS: [(&str, usize); 12] = [
    ("data carried by a round", comm::DATA_MAX),
    ("slot", shm::SLOT),
    ("block", memory::BLOCK),
    ("smallest block", memory::BLOCK_MIN),
    ("blocks of a part", shm::panels::BLOCKS_WANTED),
    ("blocks in flight", memory::DEPTH),
    ("doubling up to", algorithms::DOUBLING_MAX),
    ("halving up to", algorithms::HALVING_MAX),
    ("scattered broadcast from", algorithms::SCATTER_MIN),
    ("cut from", wire::CUT_MIN),
    ("shortest letter", wire::LETTER_MIN),
    ("streams", tcp::connect::STREAMS),
];

/// Everybody takes the first rank's settings, so that everybody decides alike.
pub(super) fn agree(meeting: &Meeting<'_>, mut config: Config) -> Result<Config> {
    let all = meeting.exchange("config", written(&config, &LIMITS))?;
    let first = Settings::of_all(&all)?;
    (config.cache_capacity, config.fusion_threshold) = (first.cache_capacity, first.fusion_threshold);
    Ok(config)
}

fn written(config: &Config, limits: &[(&str, usize)]) -> Vec<u8> {
    let mut card = Writer::default();
    card.size(config.cache_capacity).size(config.fusion_threshold).size(limits.len());
    for (name, limit) in limits {
        card.text(name).size(*limit);
    }
    card.0
}

#[derive(Debug, PartialEq, Eq)]
struct Settings {
    cache_capacity: usize,
    fusion_threshold: usize,
    limits: Vec<(String, usize)>,
}

impl Settings {
    /// Those of the first rank, if the limits of all are the same.
    fn of_all(cards: &[Vec<u8>]) -> Result<Self> {
        let read = |(rank, card): (usize, &Vec<u8>)| {
            Self::read(card).ok_or_else(|| Error::Bootstrap(format!("rank {rank} sent malformed settings")))
        };
        let mut all = cards.iter().enumerate().map(read);
        let first = all.next().unwrap_or_else(|| Err(Error::Bootstrap("there are no ranks".to_owned())))?;
        for (rank, settings) in (1..).zip(all) {
            first.compare(rank, &settings?)?;
        }
        Ok(first)
    }

    fn read(card: &[u8]) -> Option<Self> {
        let mut reader = Reader(card);
        Some(Self {
            cache_capacity: reader.size()?,
            fusion_threshold: reader.size()?,
            limits: reader.list(|reader| Some((reader.text()?.to_owned(), reader.size()?)))?,
        })
    }

    fn compare(&self, rank: usize, other: &Self) -> Result<()> {
        if self.limits == other.limits {
            return Ok(());
        }
        let pairs = self.limits.iter().zip(&other.limits);
        let difference = pairs.filter(|(own, other)| own != other).map(|((name, own), (other_name, other))| {
            format!("`{name}` is {own} on rank 0, and `{other_name}` {other} on rank {rank}")
        });
        let difference = difference.into_iter().next();
        let difference = difference.unwrap_or_else(|| format!("rank {rank} has a different number of limits"));
        Err(Error::Bootstrap(format!("{difference}; all ranks must run the same version of ronde")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, LIMITS, Settings, written};

    fn config(cache_capacity: usize) -> Config {
        Config { cache_capacity, ..Config::alone() }
    }

    #[test]
    fn the_first_ranks_settings_are_everybodys() {
        let cards = [written(&config(7), &LIMITS), written(&config(1024), &LIMITS)];
        assert_eq!(Settings::of_all(&cards).unwrap().cache_capacity, 7);
    }

    fn check(limits: &[(&str, usize)], expected: &str) {
        let cards = [written(&config(7), &LIMITS), written(&config(7), &LIMITS), written(&config(7), limits)];
        assert_eq!(Settings::of_all(&cards).unwrap_err().to_string(), format!("cannot form the ring: {expected}"));
    }

    #[test]
    fn a_rank_with_other_limits_is_named() {
        let mut others = LIMITS;
        others[0].1 = 1;
        check(
            &others,
            "`data carried by a round` is 131072 on rank 0, and `data carried by a round` 1 on rank 2; \
             all ranks must run the same version of ronde",
        );
        check(
            &LIMITS[1..],
            "`data carried by a round` is 131072 on rank 0, and `slot` 262144 on rank 2; all ranks must run the same version of ronde",
        );
        check(&LIMITS[..3], "rank 2 has a different number of limits; all ranks must run the same version of ronde");
    }

    #[test]
    fn a_card_that_makes_no_sense_is_named() {
        let cards = [written(&config(7), &LIMITS), vec![0xff]];
        let error = Settings::of_all(&cards).unwrap_err().to_string();
        assert_eq!(error, "cannot form the ring: rank 1 sent malformed settings");
    }
}
