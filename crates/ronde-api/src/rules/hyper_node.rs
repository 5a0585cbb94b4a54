//! HyperNodes: members are chosen in one way each.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use regex::Regex;
use ronde_text::names::{is_dns1123_subdomain, is_qualified_name, is_valid_label_value};

use super::{Fault, fault::Faults};
use crate::{HyperNode, HyperNodeMember, MemberType};

/// The operators of selectors of labels: with a list of values, and without one.
const WITH_VALUES: [&str; 2] = ["In", "NotIn"];
const WITHOUT_VALUES: [&str; 2] = ["Exists", "DoesNotExist"];

/// Returns what is wrong with a domain.
pub fn validate(domain: &HyperNode) -> Vec<Fault> {
    let mut faults = Faults::default();
    faults.at_least("spec.tier", domain.spec.tier, 0);
    if domain.spec.members.is_empty() {
        faults.required("spec.members", "member must have at least one member");
    }
    for (at, member) in domain.spec.members.iter().enumerate() {
        check_member(member, &format!("spec.members[{at}]"), &mut faults);
    }
    faults.into_vec()
}

/// Returns what is wrong with a change of a domain. What was wrong before and has not changed may stay.
pub fn validate_update(old: &HyperNode, new: &HyperNode) -> Vec<Fault> {
    let before = validate(old);
    validate(new).into_iter().filter(|fault| !before.contains(fault)).collect()
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
    match selector.exact_match.as_ref().map(|exact| exact.name.as_str()) {
        Some("") => faults.required(format!("{path}.selector.exactMatch.name"), "must be the name of the member"),
        Some(name) => faults.name(&format!("{path}.selector.exactMatch.name"), name, is_dns1123_subdomain),
        None => {}
    }
    if let Some(pattern) = &selector.regex_match
        && (pattern.pattern.is_empty() || Regex::new(&pattern.pattern).is_err())
    {
        let why = format!("member regexMatch pattern is invalid: {:?} is not a regular expression", pattern.pattern);
        faults.invalid(format!("{path}.selector.regexMatch.pattern"), why);
    }
    if selector.label_match.is_some() && member.type_ == MemberType::HyperNode.as_str() {
        faults.invalid(format!("{path}.selector.labelMatch"), "selects nodes only, not HyperNodes");
    }
    if let Some(labels) = &selector.label_match {
        check_labels(labels, &format!("{path}.selector.labelMatch"), faults);
    }
}

fn check_labels(selector: &LabelSelector, path: &str, faults: &mut Faults) {
    for (key, value) in selector.match_labels.iter().flatten() {
        faults.name(&format!("{path}.matchLabels"), key, is_qualified_name);
        faults.name(&format!("{path}.matchLabels[{key}]"), value, is_valid_label_value);
    }
    for (at, wanted) in selector.match_expressions.iter().flatten().enumerate() {
        check_expression(wanted, &format!("{path}.matchExpressions[{at}]"), faults);
    }
}

fn check_expression(wanted: &LabelSelectorRequirement, path: &str, faults: &mut Faults) {
    faults.name(&format!("{path}.key"), &wanted.key, is_qualified_name);
    let values = wanted.values.as_deref().unwrap_or_default();
    for (at, value) in values.iter().enumerate() {
        faults.name(&format!("{path}.values[{at}]"), value, is_valid_label_value);
    }
    let operator = wanted.operator.as_str();
    if operator.is_empty() {
        faults.required(format!("{path}.operator"), "must be an operator, such as In");
    }
    faults.one_of(format!("{path}.operator"), operator, WITH_VALUES.into_iter().chain(WITHOUT_VALUES));
    if WITH_VALUES.contains(&operator) && values.is_empty() {
        faults.required(format!("{path}.values"), format!("{operator} needs at least one"));
    }
    if WITHOUT_VALUES.contains(&operator) && !values.is_empty() {
        faults.invalid(format!("{path}.values"), format!("{operator} takes none"));
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
                "spec.tier: -1 should be greater than or equal to 0",
                "spec.members[0].type: must be Node or HyperNode",
                "spec.members[0].selector: has 0 of exactMatch, regexMatch and labelMatch; it must have one",
                "spec.members[1].type: \"Pod\" is not one of Node, HyperNode",
                "spec.members[1].selector: has 2 of exactMatch, regexMatch and labelMatch; it must have one",
                "spec.members[1].selector.exactMatch.name: must be the name of the member",
                "spec.members[1].selector.regexMatch.pattern: member regexMatch pattern is invalid: \"(\" is not a regular \
                 expression",
                "spec.members[2].selector.labelMatch: selects nodes only, not HyperNodes",
            ],
        );
        check("nobody", &validate(&HyperNode::default()), &["spec.members: member must have at least one member"]);
    }

    #[test]
    fn names_and_labels_of_members_are_ones_that_nodes_can_have() {
        let one = |selector: serde_json::Value| -> HyperNode {
            let members = json!([{"type": "Node", "selector": selector}]);
            serde_json::from_value(json!({"spec": {"tier": 1, "members": members}})).expect("a HyperNode")
        };
        let labels = |expression: serde_json::Value| one(json!({"labelMatch": {"matchExpressions": [expression]}}));
        let at = "spec.members[0].selector.labelMatch.matchExpressions[0]";
        let rows: [(serde_json::Value, &[&str]); 6] = [
            (json!({"key": "rack", "operator": "In", "values": ["1"]}), &[]),
            (json!({"key": "rack", "operator": "Exists"}), &[]),
            (json!({"key": "rack", "operator": "NotIn"}), &["values: NotIn needs at least one"]),
            (json!({"key": "rack", "operator": "Exists", "values": ["1"]}), &["values: Exists takes none"]),
            (json!({"key": "rack"}), &["operator: must be an operator, such as In"]),
            (
                json!({"key": "rack", "operator": "Gt", "values": ["1"]}),
                &["operator: \"Gt\" is not one of In, NotIn, Exists, DoesNotExist"],
            ),
        ];
        for (expression, expected) in rows {
            let expected: Vec<String> = expected.iter().map(|fault| format!("{at}.{fault}")).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(&expression.to_string(), &validate(&labels(expression)), &expected);
        }
        for (selector, place) in [
            (json!({"exactMatch": {"name": "Node_1"}}), "exactMatch.name"),
            (json!({"labelMatch": {"matchLabels": {"a b": "1"}}}), "labelMatch.matchLabels"),
            (json!({"labelMatch": {"matchLabels": {"rack": "a b"}}}), "labelMatch.matchLabels[rack]"),
        ] {
            let faults = validate(&one(selector));
            assert_eq!(faults[0].path, format!("spec.members[0].selector.{place}"), "{faults:?}");
            assert!(faults.len() == 1 && faults[0].message.contains("should match"), "{faults:?}");
        }
    }

    #[test]
    fn what_was_wrong_before_may_stay() {
        let old = HyperNode::default();
        let mut new = old.clone();
        new.spec.tier = -1;
        check("a new fault", &validate_update(&old, &new), &["spec.tier: -1 should be greater than or equal to 0"]);
    }
}
