//! The rows are answers of a real kube-apiserver 1.34 and of its own library; the schema is a small deployment.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::{Id, NodeData, PatchHints, Set, Type};

fn leaf(set: &mut Set, kind: Type) -> Id {
    set.add(NodeData { kind, ..NodeData::default() })
}

fn object(set: &mut Set, fields: &[(&str, Id)]) -> Id {
    let properties = fields.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect();
    set.add(NodeData { kind: Type::Object, properties, ..NodeData::default() })
}

fn list(set: &mut Set, items: Id, merge: bool, key: Option<&str>) -> Id {
    let patch = PatchHints { merge, merge_key: key.map(str::to_owned), ..PatchHints::default() };
    set.add(NodeData { kind: Type::Array, items: Some(items), patch, ..NodeData::default() })
}

/// `containers` merge by name and their `ports` by number, `finalizers` are a set, `args` and `tolerations` are replaced.
fn schema() -> (Set, Id) {
    let mut set = Set::new();
    let (text, number) = (leaf(&mut set, Type::String), leaf(&mut set, Type::Integer));
    let map = set.add(NodeData { kind: Type::Object, additional: Additional::Values(text), ..NodeData::default() });
    let port = object(&mut set, &[("port", number), ("name", text)]);
    let ports = list(&mut set, port, true, Some("port"));
    let args = list(&mut set, text, false, None);
    let container =
        object(&mut set, &[("name", text), ("image", text), ("args", args), ("ports", ports), ("map", map)]);
    let containers = list(&mut set, container, true, Some("name"));
    let finalizers = list(&mut set, text, true, None);
    let keyless = list(&mut set, container, true, None);
    let tolerations = list(&mut set, container, false, None);
    let strategy = object(&mut set, &[("type", text), ("rolling", map)]);
    let whole =
        set.add(NodeData { patch: PatchHints { replace: true, ..PatchHints::default() }, ..set.data(map).clone() });
    let root = object(
        &mut set,
        &[
            ("containers", containers),
            ("finalizers", finalizers),
            ("keyless", keyless),
            ("tolerations", tolerations),
            ("labels", map),
            ("strategy", strategy),
            ("whole", whole),
            ("replicas", number),
        ],
    );
    (set, root)
}

fn merged(live: &Value, patch: &Value) -> Result<Value, (u16, String)> {
    let (set, root) = schema();
    let patch = patch.as_object().expect("a patch is an object");
    merge(live, patch, set.node(root)).map_err(|error| (error.code, error.message))
}

/// Two containers, `a` with port 80, and `b`.
fn live() -> Value {
    json!({"containers": [{"name": "a", "image": "1", "ports": [{"port": 80}], "args": ["x"]}, {"name": "b", "image": "2"}],
        "finalizers": ["f", "g"], "labels": {"k": "v"}, "strategy": {"type": "Rolling", "rolling": {"max": "1"}}})
}

/// Applies `patch` to [`live`] and checks what becomes of one field.
fn check(name: &str, patch: &Value, field: &str, expected: Value) {
    let result = merged(&live(), patch).map(|object| object.get(field).cloned().unwrap_or_default());
    assert_eq!(result, Ok(expected), "{name}");
}

#[test]
fn lists_with_a_merge_key_are_merged() {
    let (a, b) = (live()["containers"][0].clone(), live()["containers"][1].clone());
    let c = json!({"name": "c"});
    let check = |name: &str, patch: Value, expected: Value| check(name, &patch, "containers", expected);
    check("no change", json!({"containers": []}), json!([a, b]));
    check("a change", json!({"containers": [{"name": "b", "image": "9"}]}), json!([a, {"name": "b", "image": "9"}]));
    check("additions come first", json!({"containers": [{"name": "c"}]}), json!([c, a, b]));
    check("the patch's order counts", json!({"containers": [{"name": "b"}, {"name": "a"}]}), json!([b, a]));
    check("others stay where they were", json!({"containers": [c, {"name": "b"}]}), json!([c, a, b]));
    check("a null field", json!({"containers": [{"name": "b", "image": null}]}), json!([a, {"name": "b"}]));
    check("all gone", json!({"containers": null}), json!(null));
    check("a deletion", json!({"containers": [{"name": "a", "$patch": "delete"}]}), json!([b]));
    check("a deletion of nothing", json!({"containers": [{"name": "z", "$patch": "delete"}]}), json!([a, b]));
    check("a replacement", json!({"containers": [{"$patch": "replace"}, c]}), json!([c]));
    check("the place of the directive is free", json!({"containers": [c, {"$patch": "replace"}]}), json!([c]));
    check("another type", json!({"containers": "x"}), json!("x"));
    check(
        "a nested list with a number as key",
        json!({"containers": [{"name": "a", "ports": [{"port": 81}, {"port": 80, "name": "web"}]}]}),
        json!([{"name": "a", "image": "1", "args": ["x"], "ports": [{"port": 81}, {"port": 80, "name": "web"}]}, b]),
    );
    check(
        "a nested list that is replaced",
        json!({"containers": [{"name": "a", "args": ["y", "y"]}]}),
        json!([{"name": "a", "image": "1", "args": ["y", "y"], "ports": [{"port": 80}]}, b]),
    );
    check(
        "new items keep their directives, for strict validation to find",
        json!({"containers": [{"name": "c", "ports": [{"port": 1, "$patch": "delete"}]}]}),
        json!([{"name": "c", "ports": [{"port": 1, "$patch": "delete"}]}, a, b]),
    );
    check(
        "a new list has none",
        json!({"containers": [{"name": "b", "ports": [{"port": 1, "$patch": "delete"}, {"port": 2, "name": null}]}]}),
        json!([a, {"name": "b", "image": "2", "ports": [{"port": 2}]}]),
    );
}

#[test]
fn lists_are_ordered_on_demand() {
    let (a, b) = (live()["containers"][0].clone(), live()["containers"][1].clone());
    let order = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    let check = |name: &str, patch: Value, expected: Value| check(name, &patch, "containers", expected);
    check("an order alone", json!({"$setElementOrder/containers": order(&["b", "a"])}), json!([b, a]));
    check(
        "an order with an addition",
        json!({"$setElementOrder/containers": order(&["b", "c", "a"]), "containers": [{"name": "c"}]}),
        json!([b, {"name": "c"}, a]),
    );
    check(
        "a deletion need not be in the order",
        json!({"$setElementOrder/containers": order(&["b"]), "containers": [{"name": "a", "$patch": "delete"}]}),
        json!([b]),
    );
    check("others come first if they did", json!({"$setElementOrder/containers": order(&["b"])}), json!([a, b]));
    check(
        "unknown names do not matter",
        json!({"$setElementOrder/containers": order(&["z", "b", "a"])}),
        json!([b, a]),
    );
    let set = json!({"$setElementOrder/finalizers": ["h", "g", "f"], "finalizers": ["h"]});
    super::tests::check("an order of texts", &set, "finalizers", json!(["h", "g", "f"]));
    let new = json!({"$setElementOrder/keyless": [], "$setElementOrder/tolerations": order(&["x"])});
    super::tests::check("an order of nothing", &new, "tolerations", json!(null));
}

#[test]
fn lists_of_texts_are_sets() {
    let check = |name: &str, patch: Value, expected: Value| check(name, &patch, "finalizers", expected);
    check("an addition", json!({"finalizers": ["h"]}), json!(["h", "f", "g"]));
    check("nothing twice", json!({"finalizers": ["g", "h", "h"]}), json!(["f", "g", "h"]));
    check("a deletion", json!({"$deleteFromPrimitiveList/finalizers": ["f", "z"]}), json!(["g"]));
    check("both", json!({"$deleteFromPrimitiveList/finalizers": ["f"], "finalizers": ["h"]}), json!(["h", "g"]));
    check("a deletion of another type", json!({"$deleteFromPrimitiveList/finalizers": "f"}), json!(["f", "g"]));
    check("null", json!({"$deleteFromPrimitiveList/finalizers": null}), json!(null));
}

#[test]
fn objects_are_merged() {
    let check = |name: &str, patch: Value, field: &str, expected: Value| check(name, &patch, field, expected);
    check("a label", json!({"labels": {"x": "y"}}), "labels", json!({"k": "v", "x": "y"}));
    check("a label less", json!({"labels": {"k": null, "z": null}}), "labels", json!({}));
    check("replaced", json!({"labels": {"$patch": "replace", "x": "y"}}), "labels", json!({"x": "y"}));
    check("deleted", json!({"labels": {"$patch": "delete", "x": "y"}}), "labels", json!({}));
    check("a scalar", json!({"replicas": 3}), "replicas", json!(3));
    check("an object where none was", json!({"whole": {"a": null, "b": "c"}}), "whole", json!({"b": "c"}));
    check("only a directive", json!({"whole": {"$patch": "delete"}}), "whole", json!(null));
    check(
        "what is not retained goes",
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        "strategy",
        json!({"type": "Recreate"}),
    );
    let result = merged(&json!({"whole": {"a": "b"}}), &json!({"whole": {"c": "d"}}));
    assert_eq!(result, Ok(json!({"whole": {"c": "d"}})), "a strategy of replacement");
    assert_eq!(merged(&live(), &json!({"$patch": "replace", "replicas": 1})), Ok(json!({"replicas": 1})));
    assert_eq!(merged(&live(), &json!({"$patch": "delete"})), Ok(json!({})));
}

#[test]
fn mistakes_are_told() {
    let check = |patch: Value, code: u16, expected: &str| {
        let (found, message) = merged(&live(), &patch).expect_err("it cannot be merged");
        assert_eq!(found, code, "{patch}: {message}");
        assert!(message.contains(expected), "{patch}: {message}");
    };
    let set_order = "invalid patch format of setElementOrder list";
    let no_key = "has no `name`, by which the list is merged";
    check(json!({"$patch": "foo"}), 500, r#"unknown directive `$patch: "foo"`"#);
    check(json!({"labels": {"$patch": "merge"}}), 500, r#"unknown directive `$patch: "merge"`"#);
    check(json!({"containers": [{"name": "a", "$patch": 1}]}), 500, "unknown directive `$patch: 1`");
    check(json!({"containers": [{"$patch": "merge"}]}), 500, "merging lists cannot yet be specified in the patch");
    check(json!({"containers": [{"image": "n"}]}), 500, no_key);
    check(json!({"containers": [{"$patch": "delete"}]}), 500, no_key);
    check(json!({"finalizers": [1.5]}), 500, "not all of one type");
    check(json!({"finalizers": [null]}), 500, "not all of one type");
    check(json!({"strategy": {"$retainKeys": ["type"], "rolling": {}}}), 400, "invalid patch format of retainKeys");
    check(json!({"strategy": {"$retainKeys": "type"}}), 400, "invalid patch format of retainKeys");
    check(json!({"$deleteFromPrimitiveList": ["x"]}), 400, "invalid patch format of primitive list");
    check(json!({"$setElementOrder": []}), 400, set_order);
    check(json!({"$setElementOrderX/containers": []}), 400, set_order);
    check(json!({"$setElementOrder/containers": "x"}), 500, r#"expected a list, got string "x""#);
    check(json!({"$setElementOrder/containers": ["x"]}), 500, "value for key 0 is not a map");
    check(json!({"$setElementOrder/containers": [{"foo": "x"}]}), 500, no_key);
    check(json!({"$setElementOrder/labels": []}), 500, "expected a list, got an object");
    check(json!({"$setElementOrder/replicas": []}), 500, "expected slice or array type, but got: struct");
    check(
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "c", "image": "z"}]}),
        500,
        "does not match $setElementOrder",
    );
    check(json!({"$setElementOrder/zoo": []}), 500, "unable to find api field for the json field \"zoo\"");
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let check = |live: Value, patch: Value, code: u16, expected: &str| {
        assert_eq!(merged(&live, &patch), Err((code, expected.to_owned())), "{patch}");
    };
    let keyless = json!({"keyless": [{"name": "a"}]});
    check(keyless.clone(), keyless, 500, "cannot merge lists without merge key for struct");
    let lists = json!({"finalizers": [["a"]]});
    check(lists.clone(), lists, 422, "the server rejected our request due to an error in our request");
    let nested = json!({"labels": {"a": {"b": "c"}}});
    let why = "merging an object in json but data type is not struct, instead is: map";
    check(nested.clone(), nested, 500, why);
}

#[test]
fn long_lists_are_merged_quickly() {
    let names = |from: usize, to: usize| (from..to).map(|n| json!({"name": n.to_string()})).collect::<Value>();
    let live = json!({"containers": names(0, 5_000)});
    let patch = json!({"containers": names(2_500, 7_500), "$setElementOrder/containers": names(2_500, 7_500)});
    let result = merged(&live, &patch).expect("the lists merge");
    assert_eq!(result["containers"].as_array().map(Vec::len), Some(7_500));
}

fn name() -> impl Strategy<Value = String> {
    "[a-e]"
}

fn by_key(items: Vec<Value>, key: &str) -> Value {
    let unique: BTreeMap<String, Value> = items.into_iter().map(|item| (item[key].to_string(), item)).collect();
    // Neither in the order of keys nor in a random one, so that the order matters and cases shrink.
    unique.into_values().rev().collect()
}

fn port() -> impl Strategy<Value = Value> {
    (1..5, prop::option::of(name())).prop_map(|(port, name)| {
        let mut item = json!({"port": port});
        if let Some(name) = name {
            item["name"] = name.into();
        }
        item
    })
}

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), name(), 0..3).prop_map(|labels| json!(labels))
}

fn set_some(target: &mut Value, fields: Vec<(&str, Option<Value>)>) {
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        target[name] = value;
    }
}

fn container() -> impl Strategy<Value = Value> {
    let args = prop::collection::vec(name(), 0..3).prop_map(|args| json!(args));
    let ports = prop::collection::vec(port(), 0..3).prop_map(|ports| by_key(ports, "port"));
    let options =
        (prop::option::of(name()), prop::option::of(args), prop::option::of(ports), prop::option::of(labels()));
    (name(), options).prop_map(|(name, (image, args, ports, map))| {
        let mut item = json!({"name": name});
        set_some(&mut item, vec![("image", image.map(Value::from)), ("args", args), ("ports", ports), ("map", map)]);
        item
    })
}

fn object_of_the_kind() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 0..4).prop_map(|items| by_key(items, "name"));
    let finalizers = prop::collection::btree_set(name(), 0..4).prop_map(|set| set.into_iter().rev().collect::<Value>());
    let tolerations = prop::collection::vec(container(), 0..3).prop_map(|items| json!(items));
    let fields = (
        prop::option::of(containers),
        prop::option::of(finalizers),
        prop::option::of(tolerations),
        prop::option::of(labels()),
        prop::option::of(labels()),
        prop::option::of(0..3),
    );
    fields.prop_map(|(containers, finalizers, tolerations, labels, whole, replicas)| {
        let mut object = json!({});
        let replicas = replicas.map(Value::from);
        let lists = [("containers", containers), ("finalizers", finalizers), ("tolerations", tolerations)];
        set_some(&mut object, lists.into());
        set_some(&mut object, vec![("labels", labels), ("whole", whole), ("replicas", replicas)]);
        object
    })
}

/// The patch that a client would send to make `target` of `live`.
fn diff(live: &Map<String, Value>, target: &Map<String, Value>, schema: Node<'_>) -> Map<String, Value> {
    let mut patch: Map<String, Value> =
        live.keys().filter(|k| !target.contains_key(*k)).map(|k| (k.clone(), Value::Null)).collect();
    for (name, wanted) in target.iter().filter(|(name, wanted)| live.get(*name) != Some(*wanted)) {
        let below = schema.field(name).expect("the schema knows the field");
        match (live.get(name), wanted) {
            (Some(Value::Object(live)), Value::Object(wanted)) if !below.patch.replace => {
                patch.insert(name.clone(), diff(live, wanted, below).into());
            }
            (Some(Value::Array(live)), Value::Array(wanted)) if below.patch.merge => {
                diff_list(&mut patch, name, (live, wanted), below);
            }
            _ => {
                patch.insert(name.clone(), wanted.clone());
            }
        }
    }
    patch
}

fn diff_list(patch: &mut Map<String, Value>, name: &str, (live, wanted): (&[Value], &[Value]), list: Node<'_>) {
    let mut change = Vec::new();
    let Some(key) = list.patch.merge_key.as_deref() else {
        let gone: Value = live.iter().filter(|item| !wanted.contains(item)).cloned().collect();
        change.extend(wanted.iter().filter(|item| !live.contains(item)).cloned());
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), gone);
        finish_list(patch, name, change, wanted.to_vec());
        return;
    };
    let items = list.items().expect("the list has items");
    for item in wanted {
        match live.iter().find(|before| before[key] == item[key]) {
            Some(before) if before == item => {}
            Some(Value::Object(before)) => {
                let mut below = diff(before, item.as_object().expect("an item is an object"), items);
                below.insert(key.to_owned(), item[key].clone());
                change.push(below.into());
            }
            _ => change.push(item.clone()),
        }
    }
    let gone = live.iter().filter(|before| wanted.iter().all(|item| item[key] != before[key]));
    change.extend(gone.map(|before| json!({key: before[key], "$patch": "delete"})));
    finish_list(patch, name, change, wanted.iter().map(|item| json!({key: item[key]})).collect());
}

fn finish_list(patch: &mut Map<String, Value>, name: &str, change: Vec<Value>, order: Vec<Value>) {
    if !change.is_empty() {
        patch.insert(name.to_owned(), change.into());
    }
    if !order.is_empty() {
        patch.insert(format!("$setElementOrder/{name}"), order.into());
    }
}

fn with_nulls(mut object: Value, nulls: Vec<bool>) -> Value {
    let fields = object.as_object_mut().into_iter().flat_map(|fields| fields.iter_mut());
    fields.zip(nulls).filter(|(_, null)| *null).for_each(|((_, value), _)| *value = Value::Null);
    object
}

proptest! {
    #[test]
    fn a_computed_patch_leads_to_its_target(live in object_of_the_kind(), target in object_of_the_kind()) {
        let (set, root) = schema();
        let fields = |value: &Value| value.as_object().cloned().expect("an object");
        let patch = diff(&fields(&live), &fields(&target), set.node(root));
        let result = merge(&live, &patch, set.node(root));
        prop_assert_eq!(result, Ok(target), "{}", Value::Object(patch));
    }

    #[test]
    fn an_empty_patch_changes_nothing(live in object_of_the_kind()) {
        prop_assert_eq!(merged(&live, &json!({})), Ok(live));
    }

    #[test]
    fn a_patch_without_directives_may_be_applied_twice(
        live in object_of_the_kind(),
        patch in object_of_the_kind(),
        nulls in prop::collection::vec(any::<bool>(), 6),
    ) {
        let patch = with_nulls(patch, nulls);
        let once = merged(&live, &patch).expect("the patch fits the schema");
        let twice = merged(&once, &patch).expect("the patch still fits");
        prop_assert_eq!(once, twice);
    }
}
