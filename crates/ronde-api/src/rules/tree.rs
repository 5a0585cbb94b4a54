//! The tree of queues: who may stand below whom, and how much the queues below one may have together.

use k8s_openapi::apimachinery::pkg::api::resource;
use ronde_text::quantity::Quantity;

use super::{Queues, fault::Faults, queues::parent_of};
use crate::{Queue, QueueSpec, ResourceList, names::ROOT_QUEUE};

/// How many queues may stand above each other, the root not counted.
const DEPTH_MAX: usize = 5;

/// Reads a list of amounts.
type Amounts = fn(&QueueSpec) -> Option<&ResourceList>;

/// What queues below one may not have more of than it has: the field, and how to read it.
const SHARED: [(&str, Amounts); 2] = [
    ("deserved", |spec| spec.deserved.as_ref()),
    ("guarantee.resource", |spec| spec.guarantee.as_ref()?.resource.as_ref()),
];

/// Checks the place of a queue among the others.
pub(super) fn check(queue: &Queue, others: &Queues, faults: &mut Faults) {
    let name = queue.metadata.name.as_deref().unwrap_or_default();
    let queues = others.with(queue);
    check_children(name, queue, &queues, faults);
    if name == ROOT_QUEUE {
        if !queue.spec.parent.is_empty() {
            faults.invalid("spec.parent", "`root` cannot have a parent");
        }
        return;
    }
    let parent = parent_of(name, queue);
    if check_parent(name, parent, &queues, others, faults) {
        check_capability(name, queue, &queues, faults);
        check_siblings(queue, parent, &queues, faults);
    }
}

/// Checks that there is such a parent and that it can be one; returns whether there is.
fn check_parent(name: &str, parent: &str, queues: &Queues, others: &Queues, faults: &mut Faults) -> bool {
    let path = "spec.parent";
    let Some(above) = queues.get(parent) else {
        // The root is made by the scheduler, perhaps later.
        if parent != ROOT_QUEUE {
            faults.not_found(path, format!("there is no queue {parent:?}"));
        }
        return false;
    };
    let way = queues.above(name);
    if parent == name || way.last() != Some(&ROOT_QUEUE) && way.iter().any(|at| queues.above(at).contains(&name)) {
        faults.invalid(path, format!("{name:?} would be its own ancestor"));
        return false;
    }
    let depth = way.iter().filter(|at| **at != ROOT_QUEUE).count() + 1 + height(name, queues);
    if depth > DEPTH_MAX {
        faults.invalid(path, format!("{depth} levels of queues, at most {DEPTH_MAX} are allowed"));
    }
    let is_leaf = others.children(parent).next().is_none();
    if parent != ROOT_QUEUE && is_leaf && is_used(above) {
        faults.invalid(path, format!("pods run in {parent:?}, so it cannot have child queues"));
    }
    true
}

/// How many queues stand above each other below one.
fn height(name: &str, queues: &Queues) -> usize {
    let below = queues.children(name).map(|(child, _)| child.to_owned()).collect::<Vec<_>>();
    let mut level = below;
    let mut height = 0;
    // A circle elsewhere must not keep us here.
    while !level.is_empty() && height <= DEPTH_MAX {
        height += 1;
        level = level.iter().flat_map(|at| queues.children(at).map(|(child, _)| child.to_owned())).collect();
    }
    height
}

fn is_used(queue: &Queue) -> bool {
    let allocated = queue.status.as_ref().and_then(|status| status.allocated.as_ref());
    allocated.into_iter().flatten().any(|(_, amount)| Quantity::parse(&amount.0).is_ok_and(|amount| !amount.is_zero()))
}

/// Each resource is limited by the nearest queue above that limits it.
fn check_capability(name: &str, queue: &Queue, queues: &Queues, faults: &mut Faults) {
    for (resource, amount) in queue.spec.capability.iter().flatten() {
        let limit = queues.above(name).into_iter().find_map(|above| {
            let capability = queues.get(above)?.spec.capability.as_ref()?;
            Some((above, capability.get(resource)?))
        });
        if let Some((above, limit)) = limit.filter(|(_, limit)| is_more(amount, limit)) {
            let why = format!("{} is more than that of its ancestor {above:?}, which is {}", amount.0, limit.0);
            faults.invalid(format!("spec.capability.{resource}"), why);
        }
    }
}

/// What this queue and its siblings deserve together must be there to deserve.
fn check_siblings(queue: &Queue, parent: &str, queues: &Queues, faults: &mut Faults) {
    let Some(above) = queues.get(parent) else { return };
    for (field, list) in SHARED {
        for (resource, amount) in list(&queue.spec).into_iter().flatten() {
            let Some(limit) = list(&above.spec).and_then(|list| list.get(resource)) else { continue };
            let sum = sum_below(parent, queues, list, resource);
            if !is_zero(amount) && sum > parsed(limit) {
                let why = format!("the child queues of {parent:?} would have {sum} in total; it has {}", limit.0);
                faults.invalid(format!("spec.{field}.{resource}"), why);
            }
        }
    }
}

/// The same from above: what a queue has must cover the queues below it.
fn check_children(name: &str, queue: &Queue, queues: &Queues, faults: &mut Faults) {
    for (field, list) in SHARED {
        for (resource, amount) in list(&queue.spec).into_iter().flatten() {
            let sum = sum_below(name, queues, list, resource);
            if sum > parsed(amount) {
                let why = format!("{} is less than its child queues have in total, which is {sum}", amount.0);
                faults.invalid(format!("spec.{field}.{resource}"), why);
            }
        }
    }
    for (resource, amount) in queue.spec.capability.iter().flatten() {
        let mut children = queues.children(name);
        let larger = children.find_map(|(child, queue)| {
            let capability = queue.spec.capability.as_ref()?.get(resource)?;
            is_more(capability, amount).then_some((child, capability))
        });
        if let Some((child, capability)) = larger {
            let why = format!("{} is less than that of its descendant {child:?}, which is {}", amount.0, capability.0);
            faults.invalid(format!("spec.capability.{resource}"), why);
        }
    }
}

fn sum_below(name: &str, queues: &Queues, list: Amounts, resource: &str) -> Quantity {
    let amounts = queues.children(name).filter_map(|(_, queue)| list(&queue.spec)?.get(resource));
    amounts.fold(Quantity::ZERO, |sum, amount| sum.plus(parsed(amount)))
}

/// What is no quantity is told elsewhere.
fn parsed(amount: &resource::Quantity) -> Quantity {
    Quantity::parse(&amount.0).unwrap_or(Quantity::ZERO)
}

fn is_zero(amount: &resource::Quantity) -> bool {
    parsed(amount).is_zero()
}

/// Whether one amount is more than another.
pub(super) fn is_more(amount: &resource::Quantity, limit: &resource::Quantity) -> bool {
    parsed(amount) > parsed(limit)
}
