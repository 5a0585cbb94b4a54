//! Faults in a sentence: `lose node-3 at 2h for 30m`, `reclaim gpu-a-1 at 1h notice 2m`, `drain node-0 at 1d for 1h`,
//! `add 2x8gpu at 3h`; or by chance, from a mean time between failures.

use ronde_scheduler::Node;

use super::{InputError, cluster};
use crate::{
    random::Dice,
    scenario::{Fault, FaultKind},
    span::Span,
};

/// The notice of a cloud, if the sentence says nothing.
const NOTICE: i64 = 120_000;
/// More than anybody wants to see.
const FAULTS_MAX: usize = 1_000_000;

/// Reads a fault; one that adds nodes gives several.
///
/// # Errors
/// If the sentence is something else, or names a node that is not there.
pub fn faults(text: &str, nodes: &[Node]) -> Result<Vec<Fault>, InputError> {
    let wrong = |why: &str| InputError::Whole(format!("`{text}` is no fault: {why}"));
    let words: Vec<&str> = text.split_whitespace().collect();
    let [verb, target, rest @ ..] = &words[..] else {
        return Err(wrong("write it as `lose node-3 at 2h for 30m`"));
    };
    let (mut at, mut back_after, mut notice) = (None, None, NOTICE);
    for pair in rest.chunks(2) {
        let span = pair.get(1).and_then(|span| span.parse::<Span>().ok()).filter(|span| span.0 >= 0);
        let span = span.ok_or_else(|| wrong(&format!("`{}` needs a length of time, such as `30m`", pair[0])))?;
        match pair[0] {
            "at" => at = Some(span.0),
            "for" => back_after = Some(span.0),
            "notice" => notice = span.0,
            other => return Err(wrong(&format!("`{other}` is none of `at`, `for` and `notice`"))),
        }
    }
    let at = at.ok_or_else(|| wrong("when? Say `at 2h`"))?;
    if *verb == "add" {
        let new = cluster::nodes(target)?.into_iter().map(|mut node| {
            node.name = format!("new-{}", node.name).into();
            Fault { at, kind: FaultKind::Add { node: Box::new(node) } }
        });
        return Ok(new.collect());
    }
    let node = nodes.iter().find(|node| node.name.as_str() == *target).map(|node| node.name.clone());
    let node = node.ok_or_else(|| wrong(&format!("there is no node `{target}`")))?;
    let kind = match *verb {
        "lose" => FaultKind::Lose { node, back_after },
        "reclaim" => FaultKind::Reclaim { node, notice, back_after },
        "drain" => FaultKind::Drain { node, back_after },
        other => return Err(wrong(&format!("`{other}` is none of `lose`, `reclaim`, `drain` and `add`"))),
    };
    Ok(vec![Fault { at, kind }])
}

/// Lets each node fail by chance, once in a mean time, until the end of a time; it comes back when it is repaired.
pub fn by_chance(nodes: &[Node], mean: i64, repair: i64, over: i64, seed: u64) -> Vec<Fault> {
    let mut all = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let mut dice = Dice::new(seed.wrapping_add(number as u64).wrapping_mul(0x9E37_79B9));
        let mut at = 0_i64;
        loop {
            #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
            let after = dice.waiting(mean.max(1) as f64) as i64;
            at = at.saturating_add(after).saturating_add(1);
            if at > over || all.len() >= FAULTS_MAX {
                break;
            }
            all.push(Fault { at, kind: FaultKind::Lose { node: node.name.clone(), back_after: Some(repair) } });
            at = at.saturating_add(repair);
        }
    }
    all.sort_by_key(|fault| fault.at);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_in_a_sentence() {
        let nodes = cluster::nodes("2x8gpu").expect("nodes");
        let read = |text: &str| faults(text, &nodes);
        let lose = FaultKind::Lose { node: "node-1".into(), back_after: Some(1_800_000) };
        assert_eq!(read("lose node-1 at 2h for 30m"), Ok(vec![Fault { at: 7_200_000, kind: lose }]));
        let reclaim = FaultKind::Reclaim { node: "node-0".into(), notice: 60_000, back_after: None };
        assert_eq!(read("reclaim node-0 at 1h notice 1m"), Ok(vec![Fault { at: 3_600_000, kind: reclaim }]));
        assert_eq!(read("add 3x8gpu at 1d").expect("a fault").len(), 3);
        let refused = |text: &str| read(text).expect_err(text).to_string();
        assert_eq!(refused("lose node-7 at 1h"), "`lose node-7 at 1h` is no fault: there is no node `node-7`");
        assert_eq!(refused("lose node-1"), "`lose node-1` is no fault: when? Say `at 2h`");
        assert_eq!(
            refused("break node-1 at 1h"),
            "`break node-1 at 1h` is no fault: `break` is none of `lose`, `reclaim`, `drain` and `add`"
        );
        assert_eq!(
            refused("lose node-1 at"),
            "`lose node-1 at` is no fault: `at` needs a length of time, such as `30m`"
        );
        assert!(read("").is_err());
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let nodes = cluster::nodes("50x8gpu").expect("nodes");
        let day = 86_400_000;
        let found = by_chance(&nodes, 10 * day, day / 24, 100 * day, 1);
        assert_eq!(found, by_chance(&nodes, 10 * day, day / 24, 100 * day, 1));
        assert!((420..580).contains(&found.len()), "about 500: {}", found.len());
    }
}
