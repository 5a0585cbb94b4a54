//! Patches: the first byte picks the kind, the rest is the body. Whatever they are, there is an object or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ronde_apiserver::patch::{FieldValidation, Patch, apply_patch};
use ronde_fuzz::{assert_shallow, object_of_the_kind, schema};

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
