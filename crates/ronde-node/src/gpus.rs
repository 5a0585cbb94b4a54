//! Which of the machine's GPUs are whose. Pure: [`crate::start`] fills it after a restart from what is on disk.

use std::collections::BTreeMap;

/// The GPUs that containers hold, by (pod, container). They hold them until their pod is taken down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger(BTreeMap<(String, String), Vec<usize>>);

impl Ledger {
    /// Gives a container as many of `total` GPUs as it wants: those it holds already, or the first that are free.
    ///
    /// # Errors
    /// How many are free, if they are too few.
    pub fn assign(&mut self, owner: (String, String), wanted: usize, total: usize) -> Result<Vec<usize>, usize> {
        if let Some(held) = self.0.get(&owner) {
            return Ok(held.clone());
        }
        let is_free = |gpu: &usize| !self.0.values().flatten().any(|other| other == gpu);
        let free: Vec<usize> = (0..total).filter(is_free).take(wanted).collect();
        if free.len() < wanted {
            return Err(free.len());
        }
        self.0.insert(owner, free.clone());
        Ok(free)
    }

    /// Notes what a container that has been running all along holds.
    pub fn restore(&mut self, owner: (String, String), held: Vec<usize>) {
        if !held.is_empty() {
            self.0.insert(owner, held);
        }
    }

    /// Takes back everything of a pod.
    pub fn release(&mut self, pod: &str) {
        self.0.retain(|(owner, _), _| owner != pod);
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    fn owner(pod: &str, container: &str) -> (String, String) {
        (pod.to_owned(), container.to_owned())
    }

    fn check(what: &str, held: &[(&str, &[usize])], asks: &str, wanted: usize, expected: Result<&[usize], usize>) {
        let mut ledger = Ledger::default();
        for (pod, gpus) in held {
            ledger.restore(owner(pod, "c"), gpus.to_vec());
        }
        let taken = ledger.assign(owner(asks, "c"), wanted, 4);
        assert_eq!(taken, expected.map(<[usize]>::to_vec), "{what}");
    }

    #[test]
    fn no_gpu_is_given_twice() {
        check("all are free", &[], "a", 2, Ok(&[0, 1]));
        check("some were held before a restart", &[("a", &[0, 2])], "b", 2, Ok(&[1, 3]));
        check("too few are left", &[("a", &[0, 2]), ("b", &[1])], "c", 2, Err(1));
        check("a container keeps its own when it starts again", &[("a", &[3])], "a", 1, Ok(&[3]));
        check("one that asks for none holds none", &[("a", &[])], "b", 4, Ok(&[0, 1, 2, 3]));
    }

    #[test]
    fn a_pod_that_is_taken_down_gives_all_back() {
        let mut ledger = Ledger::default();
        ledger.assign(owner("a", "one"), 1, 4).unwrap();
        ledger.assign(owner("a", "two"), 2, 4).unwrap();
        ledger.assign(owner("b", "one"), 1, 4).unwrap();
        ledger.release("a");
        assert_eq!(ledger.assign(owner("c", "one"), 3, 4), Ok(vec![0, 1, 2]));
        assert_eq!(ledger.assign(owner("d", "one"), 1, 4), Err(0));
    }
}
