//! What holds for any configuration and any order of writes.

use proptest::{collection::btree_map, option, prelude::*};
use serde_json::{Map, Value, json};

use super::{
    super::{
        Place, UNOWNED,
        compare::{compare, leaves},
        fieldset::FieldSet,
        merge::merge,
    },
    fixture::{World, named},
};

/// Configurations without empty maps and nulls: those leave traces that the properties would have to except.
fn config() -> impl Strategy<Value = Value> {
    let texts = || btree_map("[a-c]", "[0-1]", 1..3);
    let ports = btree_map(80_u16..83, option::of("[x-y]"), 1..3);
    let container = (option::of("[0-1]"), option::of(ports));
    let containers = btree_map("[a-c]", container, 1..4);
    let finalizers = btree_map("[a-d]", Just(()), 1..4);
    (option::of(0..3_i32), option::of(texts()), option::of(containers), option::of(finalizers), option::of(texts()))
        .prop_map(|(replicas, selector, containers, finalizers, data)| {
            let containers = containers.map(|items| items.into_iter().map(container_value).collect::<Vec<_>>());
            let finalizers = finalizers.map(|items| items.into_keys().collect::<Vec<_>>());
            let spec = present(json!({"replicas": replicas, "selector": selector, "containers": containers}));
            let mut config = present(json!({"data": data, "metadata": present(json!({"finalizers": finalizers}))}));
            if !spec.as_object().is_some_and(Map::is_empty) {
                config["spec"] = spec;
            }
            config
        })
}

type Container = (String, (Option<String>, Option<std::collections::BTreeMap<u16, Option<String>>>));

fn container_value((name, (image, ports)): Container) -> Value {
    let port = |(port, name): (u16, Option<String>)| present(json!({"containerPort": port, "name": name}));
    let ports = ports.map(|ports| ports.into_iter().map(port).collect::<Vec<_>>());
    present(json!({"name": name, "image": image, "ports": ports}))
}

/// Leaves out the fields that are null.
fn present(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

fn claims(world: &World, config: &Value) -> FieldSet {
    let mut fields = leaves(&named(config), Place::new(world.schema()));
    fields.subtract(&UNOWNED);
    fields
}

fn everything(world: &World) -> FieldSet {
    let live = world.live.clone().unwrap_or_default();
    let mut fields = leaves(&live, Place::new(world.schema()));
    fields.subtract(&UNOWNED);
    fields
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn applying_twice_is_applying_once(a in config()) {
        let mut world = World::new();
        world.apply("ann", false, &a).expect("nobody else is there");
        let once = world.live.clone();
        world.now = super::LATER;
        world.apply("ann", false, &a).expect("nobody else is there");
        prop_assert_eq!(world.live, once);
    }

    #[test]
    fn an_applier_owns_exactly_what_it_applies(a in config(), b in config(), c in config()) {
        let mut world = World::new();
        world.apply("bob", false, &a).expect("nobody else is there");
        world.apply("ann", true, &b).expect("force never conflicts");
        world.apply("ann", true, &c).expect("force never conflicts");
        prop_assert_eq!(world.owned_by("ann"), claims(&world, &c));
    }

    #[test]
    fn the_same_applied_by_two_is_shared(a in config()) {
        let mut world = World::new();
        world.apply("ann", false, &a).expect("nobody else is there");
        let content = world.content();
        world.apply("bob", false, &a).expect("nothing changes, so nothing conflicts");
        prop_assert_eq!(world.content(), content);
        prop_assert_eq!(world.owned_by("ann"), world.owned_by("bob"));
    }

    #[test]
    fn applying_nothing_removes_what_nobody_shares(a in config(), b in config()) {
        let mut world = World::new();
        world.apply("ann", false, &a).expect("nobody else is there");
        world.apply("bob", true, &b).expect("force never conflicts");
        world.apply("ann", false, &json!({})).expect("removal never conflicts");
        prop_assert_eq!(everything(&world), claims(&world, &b));
        prop_assert!(world.owned_by("ann").is_empty());
    }

    #[test]
    fn an_apply_without_conflict_keeps_the_values_of_others(a in config(), b in config()) {
        let mut world = World::new();
        world.apply("ann", false, &a).expect("nobody else is there");
        if world.apply("bob", false, &b).is_ok() {
            prop_assert_eq!(world.owned_by("ann"), claims(&world, &a));
            let live = without_server_fields(&world);
            prop_assert_eq!(merge(live.clone(), &named(&a), Place::new(world.schema())), live);
        }
    }

    #[test]
    fn every_updated_field_has_one_owner(objects in proptest::collection::vec(config(), 1..5)) {
        let mut world = World::new();
        let managers = ["ann", "bob", "cid", "dan"];
        for (manager, object) in managers.iter().zip(&objects) {
            // An object that nobody owns anything of is no longer tracked.
            let mut object = object.clone();
            object["data"]["z"] = "z".into();
            world.update(manager, &object);
        }
        let mut left = everything(&world);
        for (i, manager) in managers.iter().enumerate() {
            let owned = world.owned_by(manager);
            left.subtract(&owned);
            for other in &managers[i + 1..] {
                prop_assert!(owned.common(&world.owned_by(other)).is_empty());
            }
        }
        prop_assert!(left.is_empty(), "without an owner: {:?}", left.paths());
    }

    #[test]
    fn comparison_finds_what_a_merge_changes(a in config(), b in config()) {
        let world = World::new();
        let place = Place::new(world.schema());
        let merged = merge(a.clone(), &b, place);
        prop_assert!(compare(&b, &merged, place).modified.is_empty(), "the applied values win");
        prop_assert!(compare(&a, &merged, place).removed.is_empty(), "a merge removes nothing");
        prop_assert!(compare(&merged, &merged, place).is_empty());
        prop_assert_eq!(merge(merged.clone(), &b, place), merged, "merging again changes nothing");
    }

    #[test]
    fn sets_of_fields_are_sets(a in config(), b in config()) {
        let world = World::new();
        let (a, b) = (claims(&world, &a), claims(&world, &b));
        let mut union = a.clone();
        union.add(&b);
        prop_assert!(union.covers(&a) && union.covers(&b));
        let mut rest = union.clone();
        rest.subtract(&b);
        prop_assert!(rest.common(&b).is_empty() && a.covers(&rest));
        rest.add(&b);
        prop_assert_eq!(&rest, &union);
        prop_assert_eq!(a.common(&b), b.common(&a));
        prop_assert_eq!(FieldSet::parse(&union.clone().into_wire()).ok(), Some(union));
    }
}

fn without_server_fields(world: &World) -> Value {
    let mut live = world.live.clone().unwrap_or_default();
    if let Some(metadata) = live["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    live
}
