//! Patches: the first byte picks the kind, the rest is the body. Whatever they are, there is an object or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ronde_apiserver::{
    patch::{
        FieldValidation, Patch,
        apply::{Target, Writer, apply},
        apply_patch,
    },
    schema::Node,
};
use ronde_fuzz::{assert_shallow, object_of_the_kind, schema};
use serde_json::{Map, Value};

const KINDS: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

fuzz_target!(|input: &[u8]| {
    let Some((choice, body)) = input.split_first() else { return };
    let kind = KINDS[usize::from(*choice) % KINDS.len()];
    let (set, root) = schema();
    let live = object_of_the_kind();
    for validation in [FieldValidation::Ignore, FieldValidation::Strict] {
        let Ok(parsed) = Patch::parse(kind, body, validation) else { continue };
        if let Patch::Apply(applied) = &parsed.patch {
            apply_again_and_again(set.node(root), &live, applied);
            continue;
        }
        match apply_patch(&parsed.patch, &live, set.node(root)) {
            Ok(result) => {
                assert_shallow(&result);
                let _ = parsed.patch.invalid_result(&result, "why");
                if let Patch::Merge(_) = parsed.patch {
                    // Nulls in a list that replaces an object stay the first time, as in the real server.
                    let twice = apply_patch(&parsed.patch, &result, set.node(root)).expect("merge patches fit");
                    let thrice = apply_patch(&parsed.patch, &twice, set.node(root));
                    assert_eq!(thrice, Ok(twice), "a merge patch may be applied again");
                }
            }
            Err(error) => assert!(error.code >= 400 && !error.message.is_empty()),
        }
    }
});

/// Server-side apply: on nothing, on an object that others own, and on its own results.
fn apply_again_and_again(schema: Node<'_>, live: &Value, applied: &Value) {
    let empty = Value::Object(Map::new());
    let target =
        Target { schema, api_version: "v1", kind: "Sample", subresource: "", reset_fields: &[], empty: &empty };
    let writer = |manager, force| Writer { manager, now: "2024-01-01T00:00:00Z", force };
    for live in [None, Some(live)] {
        if let Err(error) = apply(&target, &writer("ann", false), live, applied) {
            assert!(error.code >= 400 && !error.message.is_empty());
        }
        let Ok(once) = apply(&target, &writer("ann", true), live, applied) else { continue };
        assert!(serde_json::from_str::<Value>(&once.to_string()).is_ok(), "what is stored can be read");
        let twice = apply(&target, &writer("ann", true), Some(&once), applied).expect("it fitted the first time");
        // What the first apply pruned, the second may own alone; from then on nothing changes.
        let thrice = apply(&target, &writer("ann", true), Some(&twice), applied);
        assert_eq!(thrice, Ok(twice), "a configuration may be applied again");
        let _ = apply(&target, &writer("bob", false), Some(&once), live.unwrap_or(&empty));
    }
}
