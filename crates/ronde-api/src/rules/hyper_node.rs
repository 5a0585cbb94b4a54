//! HyperNodes: members are chosen in one way each.

use regex::Regex;

use super::{Fault, fault::Faults};
use crate::{HyperNode, HyperNodeMember, MemberType};

/// Returns what is wrong with a domain.
pub fn validate(domain: &HyperNode) -> Vec<Fault> {
    let mut faults = Faults::default();
    faults.at_least("spec.tier", domain.spec.tier, 0);
    for (at, member) in domain.spec.members.iter().enumerate() {
        check_member(member, &format!("spec.members[{at}]"), &mut faults);
    }
    faults.into_vec()
}

fn check_member(member: &HyperNodeMember, path: &str, faults: &mut Faults) {
    if member.type_.is_empty() {
        faults.required(format!("{path}.type"), "must be Node or HyperNode");
    }
    faults.one_of(format!("{path}.type"), &member.type_, MemberType::ALL.iter().map(|word| word.as_str()));
    let selector = &member.selector;
    let ways = [selector.exact_match.is_some(), selector.regex_match.is_some(), selector.label_match.is_some()];
    let count = ways.into_iter().filter(|is_set| *is_set).count();
    if count != 1 {
        let why = format!("has {count} of exactMatch, regexMatch and labelMatch; it must have one");
        faults.invalid(format!("{path}.selector"), why);
    }
    if selector.exact_match.as_ref().is_some_and(|exact| exact.name.is_empty()) {
        faults.required(format!("{path}.selector.exactMatch.name"), "must be the name of the member");
    }
    if let Some(pattern) = &selector.regex_match
        && (pattern.pattern.is_empty() || Regex::new(&pattern.pattern).is_err())
    {
        let why = format!("{:?} is not a regular expression", pattern.pattern);
        faults.invalid(format!("{path}.selector.regexMatch.pattern"), why);
    }
    if selector.label_match.is_some() && member.type_ == MemberType::HyperNode.as_str() {
        faults.invalid(format!("{path}.selector.labelMatch"), "selects nodes only, not HyperNodes");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::fixtures::check, *};

    #[test]
    fn members_are_chosen_in_one_way() {
        let good = json!({"spec": {"tier": 1, "members": [
            {"type": "Node", "selector": {"exactMatch": {"name": "a"}}},
            {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^rack-\\d+$"}}},
            {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}},
        ]}});
        check("good", &validate(&serde_json::from_value(good).expect("a HyperNode")), &[]);
        let bad = json!({"spec": {"tier": -1, "members": [
            {"selector": {}},
            {"type": "Pod", "selector": {"exactMatch": {"name": ""}, "regexMatch": {"pattern": "("}}},
            {"type": "HyperNode", "selector": {"labelMatch": {}}},
        ]}});
        check(
            "bad",
            &validate(&serde_json::from_value(bad).expect("a HyperNode")),
            &[
                "spec.tier: -1 is less than 0",
                "spec.members[0].type: must be Node or HyperNode",
                "spec.members[0].selector: has 0 of exactMatch, regexMatch and labelMatch; it must have one",
                "spec.members[1].type: \"Pod\" is not one of Node, HyperNode",
                "spec.members[1].selector: has 2 of exactMatch, regexMatch and labelMatch; it must have one",
                "spec.members[1].selector.exactMatch.name: must be the name of the member",
                "spec.members[1].selector.regexMatch.pattern: \"(\" is not a regular expression",
                "spec.members[2].selector.labelMatch: selects nodes only, not HyperNodes",
            ],
        );
    }
}
