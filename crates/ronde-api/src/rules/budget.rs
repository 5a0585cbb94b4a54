//! Disruption budgets in annotations: how many pods of a job must stay, or how many may go.

use std::collections::BTreeMap;

use super::fault::{Fault, Faults};
use crate::names::{JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE};

/// Returns what is wrong with the annotations of a pod.
pub fn validate(annotations: &BTreeMap<String, String>) -> Vec<Fault> {
    let mut faults = Faults::default();
    check(Some(annotations), "metadata", &mut faults);
    faults.into_vec()
}

/// Checks the annotations of a job or of its pods, which stand at a path.
pub(super) fn check(annotations: Option<&BTreeMap<String, String>>, path: &str, faults: &mut Faults) {
    let found = |key: &'static str| Some((key, annotations?.get(key)?));
    let budgets: Vec<(&str, &String)> =
        [JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE].into_iter().filter_map(found).collect();
    for (key, value) in &budgets {
        if !is_amount(value) {
            let why = format!("{value:?} must be a positive integer, or a percentage from 1% to 99%");
            faults.invalid(format!("{path}.annotations[{key}]"), why);
        }
    }
    if let [_, (key, _)] = budgets.as_slice() {
        let why = format!("cannot be combined with {JDB_MIN_AVAILABLE}: set one of them");
        faults.invalid(format!("{path}.annotations[{key}]"), why);
    }
}

fn is_amount(value: &str) -> bool {
    match value.strip_suffix('%') {
        Some(percents) => percents.parse().is_ok_and(|percents: u32| (1..=99).contains(&percents)),
        None => value.parse().is_ok_and(|pods: i32| pods > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row<'a> = (&'a [(&'a str, &'a str)], Vec<String>);

    #[test]
    fn a_budget_is_a_number_or_a_percentage_and_one_of_two() {
        let (least, most) = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE);
        let amount = |key: &str, value: &str| {
            format!("m.annotations[{key}]: {value:?} must be a positive integer, or a percentage from 1% to 99%")
        };
        let both = format!("m.annotations[{most}]: cannot be combined with {least}: set one of them");
        let rows: [Row<'_>; 9] = [
            (&[], vec![]),
            (&[(least, "3")], vec![]),
            (&[(most, "99%")], vec![]),
            (&[(least, "0")], vec![amount(least, "0")]),
            (&[(most, "-1")], vec![amount(most, "-1")]),
            (&[(most, "0%")], vec![amount(most, "0%")]),
            (&[(most, "100%")], vec![amount(most, "100%")]),
            (&[(most, "few")], vec![amount(most, "few")]),
            (&[(least, ""), (most, "1")], vec![amount(least, ""), both]),
        ];
        for (annotations, expected) in rows {
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let mut faults = Faults::default();
            check(Some(&annotations), "m", &mut faults);
            let lines: Vec<String> = faults.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(lines, expected, "{annotations:?}");
        }
    }
}
