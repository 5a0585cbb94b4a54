//! Takes out of a merged object what its applier no longer applies and nobody else owns.
//!
//! Follows the real server in three steps that look roundabout but decide the odd cases alike: fields without any owner
//! inside an item that stays are kept, those inside an item that goes are not.

use serde_json::Value;

use super::{
    compare::leaves,
    element,
    fieldset::{FieldSet, Tree, children_mut, make_member},
    merge::remove,
    place::Place,
};

/// Returns `merged` without what `last` (the applier's set before) has and `owned` (the union of all sets now) lacks.
pub fn prune(merged: Value, last: &FieldSet, owned: &FieldSet, place: Place<'_>) -> Value {
    if owned.covers(last) {
        return merged;
    }
    let last = named(last.clone(), place);
    let all = named(leaves(&merged, place), place);

    // 1. Without all that the applier had.
    let stripped = remove(merged.clone(), last.tree(), place);
    // 2. With what anyone has now put back.
    let mut gone = all.clone();
    gone.subtract(&named(leaves(&stripped, place), place));
    gone.subtract(&named(owned.clone(), place));
    let kept = remove(merged.clone(), gone.tree(), place);
    // 3. With what the applier never had put back.
    let mut gone = all;
    gone.subtract(&named(leaves(&kept, place), place));
    remove(merged, gone.common(&last).tree(), place)
}

/// Adds the struct fields on the way to each member.
fn named(mut set: FieldSet, place: Place<'_>) -> FieldSet {
    name_children(set.tree_mut(), place);
    set
}

fn name_children(tree: &mut Tree, place: Place<'_>) {
    for (element, node) in children_mut(tree).filter(|(_, node)| !node.is_empty()) {
        let below = match element::field_name(element) {
            Some(name) => {
                if place.declares(name) {
                    make_member(node);
                }
                place.field_or_free(name)
            }
            None => place.items(),
        };
        name_children(node, below);
    }
}

/// Makes leaves of those members that the schema no longer divides into parts.
pub fn reconcile(set: &mut FieldSet, place: Place<'_>) {
    reconcile_children(set.tree_mut(), place);
}

fn reconcile_children(tree: &mut Tree, place: Place<'_>) {
    for (element, node) in children_mut(tree).filter(|(_, node)| !node.is_empty()) {
        let below = match element::field_name(element) {
            Some(name) => place.field_or_free(name),
            None => place.items(),
        };
        if below.is_atomic() {
            node.clear();
        } else {
            reconcile_children(node, below);
        }
    }
}
