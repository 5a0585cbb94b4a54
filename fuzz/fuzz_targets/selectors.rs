//! Label and field selectors: whatever the text, there is a selector or an error, and a selector survives being written.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use ronde_apiserver::selector::{FieldSelector, LabelSelector};

fuzz_target!(|text: &str| {
    let labels: BTreeMap<String, String> =
        [("a", "b"), ("n", "5"), ("e", "")].map(|(k, v)| (k.into(), v.into())).into();
    if let Ok(selector) = LabelSelector::parse(text) {
        let again = LabelSelector::parse(&selector.to_string()).expect("what we write, we read");
        assert_eq!(selector, again);
        assert_eq!(selector.matches(&labels), again.matches(&labels));
        assert_eq!(selector.is_everything(), selector.requirements().is_empty());
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        for term in selector.terms() {
            assert_eq!(term.accepts(&term.value), term.equal);
        }
    }
});
