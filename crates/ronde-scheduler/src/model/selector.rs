//! Selectors over labels, of nodes and of pods.

use std::collections::BTreeMap;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// Greater than the one value, as integers.
    Gt,
    /// Less than the one value, as integers.
    Lt,
}

/// What is asked of one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

impl Requirement {
    pub fn new<const N: usize>(key: &str, operator: Operator, values: [&str; N]) -> Self {
        Self { key: key.to_owned(), operator, values: values.map(str::to_owned).to_vec() }
    }

    /// Tells whether a label with this value, or without one, is what is asked.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let is_one = || value.is_some_and(|value| self.values.iter().any(|wanted| wanted == value));
        let numbers = || Some((value?.parse::<i64>().ok()?, self.values.first()?.parse::<i64>().ok()?));
        match self.operator {
            Operator::In => is_one(),
            Operator::NotIn => !is_one(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => numbers().is_some_and(|(have, bound)| have > bound),
            Operator::Lt => numbers().is_some_and(|(have, bound)| have < bound),
        }
    }

    fn accepts_label(&self, labels: &Labels) -> bool {
        self.accepts(labels.get(&self.key).map(String::as_str))
    }
}

/// Selects objects by their labels: all of it must hold; an empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    pub labels: Labels,
    pub expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Makes a selector of one label.
    pub fn label(key: &str, value: &str) -> Self {
        Self { labels: Labels::from([(key.to_owned(), value.to_owned())]), expressions: Vec::new() }
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|wanted| wanted.accepts_label(labels))
    }
}

/// Selects nodes: one of the terms must hold; without terms it selects none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSelector {
    pub terms: Vec<NodeSelectorTerm>,
}

/// Selects nodes: all of it must hold; an empty one selects none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSelectorTerm {
    pub expressions: Vec<Requirement>,
    /// Only the field `metadata.name` is known; any other matches nothing.
    pub fields: Vec<Requirement>,
}

impl NodeSelector {
    /// Selects the nodes with these names.
    pub fn names<const N: usize>(names: [&str; N]) -> Self {
        let fields = vec![Requirement::new("metadata.name", Operator::In, names)];
        Self { terms: vec![NodeSelectorTerm { expressions: Vec::new(), fields }] }
    }

    pub fn selects(&self, name: &str, labels: &Labels) -> bool {
        self.terms.iter().any(|term| term.selects(name, labels))
    }
}

impl NodeSelectorTerm {
    pub fn selects(&self, name: &str, labels: &Labels) -> bool {
        let field = |wanted: &Requirement| wanted.key == "metadata.name" && wanted.accepts(Some(name));
        !(self.expressions.is_empty() && self.fields.is_empty())
            && self.expressions.iter().all(|wanted| wanted.accepts_label(labels))
            && self.fields.iter().all(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_knows_present_and_missing_labels() {
        let check = |operator, values: [&str; 1], present: &str, expected: (bool, bool)| {
            let asked = Requirement::new("k", operator, values);
            assert_eq!((asked.accepts(Some(present)), asked.accepts(None)), expected, "{operator:?} {values:?}");
        };
        check(Operator::In, ["a"], "a", (true, false));
        check(Operator::In, ["a"], "b", (false, false));
        check(Operator::NotIn, ["a"], "a", (false, true));
        check(Operator::NotIn, ["a"], "b", (true, true));
        check(Operator::Exists, [""], "b", (true, false));
        check(Operator::DoesNotExist, [""], "b", (false, true));
        check(Operator::Gt, ["3"], "4", (true, false));
        check(Operator::Gt, ["3"], "3", (false, false));
        check(Operator::Lt, ["3"], "2", (true, false));
        check(Operator::Lt, ["3"], "two", (false, false));
    }

    #[test]
    fn empty_selectors_differ() {
        let labels = Labels::new();
        assert!(LabelSelector::default().selects(&labels), "of labels: everything");
        assert!(!NodeSelector::default().selects("a", &labels), "no term: nothing");
        let empty = NodeSelector { terms: vec![NodeSelectorTerm::default()] };
        assert!(!empty.selects("a", &labels), "an empty term: nothing");
        assert!(NodeSelector::names(["a", "b"]).selects("b", &labels));
        assert!(!NodeSelector::names(["a", "b"]).selects("c", &labels));
    }
}
