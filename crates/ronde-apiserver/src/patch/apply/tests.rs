//! What the managers of an object own after writing to it in turn, and what becomes of the object.

mod fixture;
mod properties;

use serde_json::{Value, json};

use self::fixture::{FIRST, LATER, World, named};
use super::{
    Target, Writer, apply, from_scale, keep_times_if_unchanged,
    managed::{managed_fields, without_managed_fields},
    to_scale, track_update,
};

/// What a manager does.
enum Step {
    Apply(&'static str, Value),
    Force(&'static str, Value),
    /// Applies, and gets this message.
    Fail(&'static str, Value, &'static str),
    Update(&'static str, Value),
    Edit(&'static str, &'static str, Value),
    /// From now on it is later.
    Wait,
    /// From now on writes go to a subresource, or to the object again.
    On(&'static str),
}

use Step::{Apply, Edit, Fail, Force, On, Update, Wait};

fn run(name: &str, steps: &[Step]) -> World {
    let mut world = World::new();
    for step in steps {
        match step {
            Apply(manager, config) => world.apply(manager, false, config).unwrap_or_else(|e| panic!("{name}: {e}")),
            Force(manager, config) => world.apply(manager, true, config).unwrap_or_else(|e| panic!("{name}: {e}")),
            Fail(manager, config, message) => {
                assert_eq!(
                    world.apply(manager, false, config).as_ref().map_err(String::as_str),
                    Err(*message),
                    "{name}"
                );
            }
            Update(manager, object) => world.update(manager, object),
            Edit(manager, pointer, value) => world.edit(manager, &[(pointer, value.clone())]),
            Wait => world.now = LATER,
            On(subresource) => world.subresource = subresource,
        }
    }
    world
}

/// Takes the steps and compares the object and its owners (one line each).
fn check(name: &str, steps: &[Step], content: &Value, owners: &[&str]) {
    let world = run(name, steps);
    assert_eq!(&world.content(), content, "{name}");
    assert_eq!(world.owners(), owners.join("\n"), "{name}");
}

fn containers(containers: &Value) -> Value {
    json!({"spec": {"containers": containers}})
}

#[test]
fn appliers_own_what_they_apply() {
    check(
        "the first apply creates the object",
        &[Apply("ann", json!({"spec": {"replicas": 2, "paused": true}}))],
        &json!({"spec": {"replicas": 2, "paused": true}}),
        &["ann apply .spec.paused .spec.replicas"],
    );
    check(
        "a second one with the same value shares it, and has no time since nothing changed",
        &[Apply("ann", json!({"data": {"a": "1"}})), Apply("bob", json!({"data": {"a": "1"}}))],
        &json!({"data": {"a": "1"}}),
        &["bob apply! .data.a", "ann apply .data.a"],
    );
    check(
        "what is no longer applied goes away",
        &[Apply("ann", json!({"data": {"a": "1", "b": "2"}})), Apply("ann", json!({"data": {"b": "2"}}))],
        &json!({"data": {"b": "2"}}),
        &["ann apply .data.b"],
    );
    check(
        "with its last entry the map goes too",
        &[Apply("ann", json!({"data": {"a": "1"}})), Apply("ann", json!({}))],
        &json!({}),
        &[],
    );
    check(
        "what another applier has too stays",
        &[
            Apply("ann", json!({"data": {"a": "1", "b": "2"}})),
            Apply("bob", json!({"data": {"a": "1"}})),
            Apply("ann", json!({})),
        ],
        &json!({"data": {"a": "1"}}),
        &["bob apply! .data.a"],
    );
    check(
        "what nobody owns stays",
        &[
            Update("bob", json!({"data": {"a": "1"}})),
            Apply("ann", json!({"data": {"b": "2"}})),
            Apply("ann", json!({})),
        ],
        &json!({"data": {"a": "1"}}),
        &["bob update .data .data.a"],
    );
    check(
        "null is applied like any value",
        &[Apply("ann", json!({"spec": {"replicas": 2}})), Apply("ann", json!({"spec": {"replicas": null}}))],
        &json!({"spec": {"replicas": null}}),
        &["ann apply .spec.replicas"],
    );
    check(
        "null and the empty map add nothing to a map with entries, but are owned",
        &[
            Apply("ann", json!({"data": {"a": "1"}})),
            Apply("bob", json!({"data": null})),
            Apply("cid", json!({"data": {}})),
        ],
        &json!({"data": {"a": "1"}}),
        &["bob apply! .data", "cid apply! .data", "ann apply .data.a"],
    );
    check(
        "an empty list with keys is owned by nobody",
        &[Apply("ann", containers(&json!([])))],
        &containers(&json!([])),
        &[],
    );
}

#[test]
fn conflicts_name_the_owners() {
    check(
        "one field of one updater",
        &[
            Update("bob", json!({"spec": {"replicas": 1}})),
            Fail(
                "ann",
                json!({"spec": {"replicas": 2}}),
                "Apply failed with 1 conflict: conflict with \"bob\" using apps/v1: .spec.replicas",
            ),
        ],
        &json!({"spec": {"replicas": 1}}),
        &["bob update .spec .spec.replicas"],
    );
    check(
        "several fields of several managers, by manager",
        &[
            Apply("bob", json!({"spec": {"replicas": 1}, "data": {"a": "1"}})),
            Apply("cid", json!({"data": {"a": "1"}})),
            Edit("dan", "/spec/paused", json!(true)),
            Fail(
                "ann",
                json!({"spec": {"replicas": 2, "paused": false}, "data": {"a": "2"}}),
                "Apply failed with 4 conflicts: conflicts with \"bob\":\n- .data.a\n- .spec.replicas\n\
                 conflicts with \"cid\":\n- .data.a\nconflicts with \"dan\" using apps/v1:\n- .spec.paused",
            ),
        ],
        &json!({"spec": {"replicas": 1, "paused": true}, "data": {"a": "1"}}),
        &["cid apply! .data.a", "bob apply .data.a .spec.replicas", "dan update .spec.paused"],
    );
    check(
        "the same manager through another operation is another owner",
        &[
            Update("ann", json!({"data": {"a": "1"}})),
            Fail(
                "ann",
                json!({"data": {"a": "2"}}),
                "Apply failed with 1 conflict: conflict with \"ann\" using apps/v1: .data.a",
            ),
        ],
        &json!({"data": {"a": "1"}}),
        &["ann update .data .data.a"],
    );
    check(
        "an owner through a subresource says so",
        &[
            Update("bob", json!({"spec": {"replicas": 1}})),
            On("scale"),
            Edit("hpa", "/spec/replicas", json!(3)),
            On(""),
            Fail(
                "ann",
                json!({"spec": {"replicas": 2}}),
                "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: \
                 .spec.replicas",
            ),
        ],
        &json!({"spec": {"replicas": 3}}),
        &["bob update .spec", "hpa/scale update .spec.replicas"],
    );
}

#[test]
fn force_and_updates_take_over() {
    check(
        "force takes the changed fields from all others",
        &[
            Apply("bob", json!({"data": {"a": "1", "b": "1"}})),
            Update("cid", json!({"data": {"a": "1", "b": "2"}})),
            Force("ann", json!({"data": {"a": "2", "b": "2"}})),
        ],
        &json!({"data": {"a": "2", "b": "2"}}),
        &["ann apply .data.a .data.b", "cid update .data.b"],
    );
    check(
        "an update takes what it changes",
        &[Apply("ann", json!({"data": {"a": "1", "b": "1"}})), Edit("bob", "/data/a", json!("2"))],
        &json!({"data": {"a": "2", "b": "1"}}),
        &["ann apply .data.b", "bob update .data.a"],
    );
    check(
        "an update that removes a field owns nothing",
        &[Apply("ann", json!({"data": {"a": "1", "b": "1"}})), Edit("bob", "/data/a", Value::Null)],
        &json!({"data": {"b": "1"}}),
        &["ann apply .data.b"],
    );
    check(
        "the owner who has nothing left is forgotten",
        &[Apply("ann", json!({"data": {"a": "1"}})), Edit("bob", "/data/a", json!("2"))],
        &json!({"data": {"a": "2"}}),
        &["bob update .data.a"],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn lists_are_owned_item_by_item_where_the_schema_says_so() {
    check(
        "items of a list with keys",
        &[
            Apply("ann", containers(&json!([{"name": "a", "image": "1"}]))),
            Apply("bob", containers(&json!([{"name": "b", "image": "2"}]))),
        ],
        &containers(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}])),
        &[
            "ann apply .spec.containers[name=\"a\"] .spec.containers[name=\"a\"].image \
             .spec.containers[name=\"a\"].name",
            "bob apply .spec.containers[name=\"b\"] .spec.containers[name=\"b\"].image \
             .spec.containers[name=\"b\"].name",
        ],
    );
    check(
        "an item goes when its applier drops it, with what others added to it",
        &[
            Apply("ann", containers(&json!([{"name": "a", "image": "1"}, {"name": "b"}]))),
            Update("bob", containers(&json!([{"name": "a", "image": "1", "command": ["x"]}, {"name": "b"}]))),
            Apply("ann", containers(&json!([{"name": "b"}]))),
        ],
        &containers(&json!([{"name": "b"}])),
        &["ann apply .spec.containers[name=\"b\"] .spec.containers[name=\"b\"].name"],
    );
    check(
        "a key that is left out has its default",
        &[
            Update("bob", containers(&json!([{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]))),
            Apply("ann", containers(&json!([{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]))),
            Edit("bob", "/data", json!({"x": "y"})),
        ],
        &json!({"data": {"x": "y"}, "spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}]},
        ]}}),
        &[
            "ann apply .spec.containers[name=\"a\"] .spec.containers[name=\"a\"].name \
             .spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"] \
             .spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"].containerPort \
             .spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"].name",
            "bob update .data .spec .data.x .spec.containers .spec.containers[name=\"a\"] \
             .spec.containers[name=\"a\"].name .spec.containers[name=\"a\"].ports \
             .spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"] \
             .spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"].containerPort \
             .spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"].protocol",
        ],
    );
    check(
        "a set",
        &[
            Apply("ann", json!({"metadata": {"finalizers": ["a", "b"]}})),
            Apply("bob", json!({"metadata": {"finalizers": ["b", "c"]}})),
            Apply("ann", json!({"metadata": {"finalizers": ["a"]}})),
            Apply("ann", json!({})),
        ],
        &json!({"metadata": {"finalizers": ["b", "c"]}}),
        &["bob apply .metadata.finalizers[=\"b\"] .metadata.finalizers[=\"c\"]"],
    );
    check(
        "atomic lists and maps are one field, replaced as a whole",
        &[
            Apply(
                "ann",
                json!({"spec": {"selector": {"a": "1"}, "containers": [{"name": "a", "command": ["x", "y"]}]}}),
            ),
            Force("bob", json!({"spec": {"selector": {"b": "2"}, "containers": [{"name": "a", "command": ["z"]}]}})),
        ],
        &json!({"spec": {"selector": {"b": "2"}, "containers": [{"name": "a", "command": ["z"]}]}}),
        &[
            "ann apply .spec.containers[name=\"a\"] .spec.containers[name=\"a\"].name",
            "bob apply .spec.selector .spec.containers[name=\"a\"] .spec.containers[name=\"a\"].command \
             .spec.containers[name=\"a\"].name",
        ],
    );
    check(
        "duplicates in an object are one field; applying such an item leaves one",
        &[
            Update("bob", json!({"metadata": {"finalizers": ["a", "a", "b"]}})),
            Force("ann", json!({"metadata": {"finalizers": ["a"]}})),
        ],
        &json!({"metadata": {"finalizers": ["a", "b"]}}),
        &["ann apply .metadata.finalizers[=\"a\"]", "bob update .metadata.finalizers .metadata.finalizers[=\"b\"]"],
    );
}

#[test]
fn open_places_have_granular_maps_and_atomic_lists() {
    check(
        "maps",
        &[
            Apply("ann", json!({"spec": {"free": {"x": {"a": 1}, "l": [1]}}})),
            Apply("bob", json!({"spec": {"free": {"x": {"b": 2}}}})),
        ],
        &json!({"spec": {"free": {"x": {"a": 1, "b": 2}, "l": [1]}}}),
        &["ann apply .spec.free.l .spec.free.x .spec.free.x.a", "bob apply .spec.free.x .spec.free.x.b"],
    );
    check(
        "a map that becomes a scalar loses its parts",
        &[Apply("ann", json!({"spec": {"free": {"x": {"a": 1}}}})), Edit("bob", "/spec/free/x", json!(1))],
        &json!({"spec": {"free": {"x": 1}}}),
        &["bob update .spec.free.x"],
    );
    check(
        "a scalar that becomes a map is taken over with its parts",
        &[Apply("ann", json!({"spec": {"free": 1}})), Force("bob", json!({"spec": {"free": {"a": 1}}}))],
        &json!({"spec": {"free": {"a": 1}}}),
        &["bob apply .spec.free.a"],
    );
}

#[test]
fn merged_lists_keep_the_applied_order() {
    for (name, live, applied, merged) in [
        ("untouched items stay where they are", "a b c d", "b d", "a b c d"),
        ("the applied order wins", "a b c d", "d b", "a c d b"),
        ("new items come where they are applied", "a b c", "x a y c z", "x a b y c z"),
        ("new items first", "a b", "x y", "a b x y"),
        ("all turned round", "a b c", "c b a", "c b a"),
        ("a dropped neighbour", "1 2 3 4 5", "5 1 x", "2 3 4 5 1 x"),
        ("nothing live", "", "b a", "b a"),
        ("nothing applied", "b a", "", "b a"),
    ] {
        let items = |text: &str| Value::from(text.split_whitespace().map(Value::from).collect::<Vec<_>>());
        let world = run(
            name,
            &[
                Update("bob", json!({"metadata": {"finalizers": items(live)}})),
                Apply("ann", json!({"metadata": {"finalizers": items(applied)}})),
            ],
        );
        assert_eq!(world.content()["metadata"]["finalizers"], items(merged), "{name}");
    }
}

#[test]
fn times_tell_of_the_last_change() {
    let times = |name: &str, steps: &[Step]| {
        let world = run(name, steps);
        let entries = managed_fields(world.live.as_ref().expect("written")).and_then(Value::as_array).cloned();
        entries.into_iter().flatten().map(|entry| entry["time"].clone()).collect::<Vec<_>>()
    };
    let data = |value: &str| json!({"data": {"a": value}});
    for (name, steps, expected) in [
        ("applying the same again", vec![Apply("ann", data("1")), Wait, Apply("ann", data("1"))], json!([FIRST])),
        ("applying something else", vec![Apply("ann", data("1")), Wait, Apply("ann", data("2"))], json!([LATER])),
        ("updating to the same", vec![Update("ann", data("1")), Wait, Update("ann", data("1"))], json!([FIRST])),
        ("updating to something else", vec![Update("ann", data("1")), Wait, Update("ann", data("2"))], json!([LATER])),
        (
            "entries are sorted by operation, then time",
            vec![
                Apply("zoe", json!({"spec": {"paused": true}})),
                Update(
                    "bob",
                    json!({"spec": {"paused": true},
                "data": {"x": "y"}}),
                ),
                Wait,
                Force("ann", data("2")),
            ],
            json!([FIRST, LATER, FIRST]),
        ),
    ] {
        assert_eq!(json!(times(name, &steps)), expected, "{name}");
    }
}

#[test]
fn creation_gives_all_fields_to_the_creator() {
    let mut world = World::new();
    world.update("ann", &json!({"spec": {"replicas": 1, "selector": {"a": "1"}}, "status": {"replicas": 1}}));
    assert_eq!(world.owners(), "ann update .spec .spec.replicas .spec.selector", "the status is not hers");

    let mut world = World::new();
    world.empty = json!({"metadata": {}, "spec": {"containers": null}, "status": {}});
    world.update("ann", &json!({"spec": {"replicas": 1, "containers": [{"name": "a"}]}, "status": {}}));
    let expected = "ann update .spec.replicas .spec.containers[name=\"a\"] .spec.containers[name=\"a\"].name";
    assert_eq!(world.owners(), expected, "parts that are always there belong to nobody");
}

#[test]
fn objects_without_owners_get_some_at_the_first_apply() {
    let forget = |value: Value| Edit("bob", "/metadata/managedFields", value);
    for reset in [json!([]), json!([{}]), json!([{"manager": ""}])] {
        check(
            "a client makes the server forget",
            &[Update("ann", json!({"data": {"a": "1"}})), forget(reset), Edit("bob", "/data/b", json!("2"))],
            &json!({"data": {"a": "1", "b": "2"}}),
            &[],
        );
    }
    check(
        "what was there before the first apply has an owner of its own",
        &[
            Update("ann", json!({"data": {"a": "1", "b": "2"}})),
            forget(json!([])),
            Fail(
                "cid",
                json!({"data": {"a": "2"}}),
                "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .data.a",
            ),
            Apply("cid", json!({"data": {"a": "1"}})),
        ],
        &json!({"data": {"a": "1", "b": "2"}}),
        &["cid apply! .data.a", "before-first-apply update .data .data.a .data.b"],
    );
}

#[test]
fn clients_may_write_owners_themselves() {
    let entry = |fields: Value| {
        json!([{"manager": "zoe", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "time": "2024-01-01T02:00:00.5+02:00", "fieldsV1": fields}])
    };
    for (name, sent, owners) in [
        ("well-formed ones are taken", entry(json!({"f:data": {"f:a": {}}})), "zoe update .data.a"),
        (
            "keys are brought into one form",
            entry(json!({"f:spec": {"f:containers": {"k:{ \"name\" : \"a\" }": {".": {}}, "x:?": {}}}})),
            "zoe update .spec.containers[name=\"a\"]",
        ),
        ("a malformed path", entry(json!({"data": {}})), "ann update .data .data.a"),
        ("a malformed tree", entry(json!({"f:data": 1})), "ann update .data .data.a"),
        (
            "no operation",
            json!([{"manager": "zoe", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
            "ann update .data .data.a",
        ),
        ("no version", json!([{"operation": "Apply", "fieldsType": "FieldsV1"}]), "ann update .data .data.a"),
        ("no type", json!([{"operation": "Apply", "apiVersion": "v1"}]), "ann update .data .data.a"),
        ("not a list", json!("x"), "ann update .data .data.a"),
        ("null", Value::Null, "ann update .data .data.a"),
    ] {
        let steps = [Update("ann", json!({"data": {"a": "1"}})), Edit("bob", "/metadata/managedFields", sent)];
        assert_eq!(run(name, &steps).owners(), owners, "{name}");
    }
    let steps =
        [Update("ann", json!({"data": {"a": "1"}})), On("status"), Edit("bob", "/metadata/managedFields", json!([]))];
    assert_eq!(run("through a subresource", &steps).owners(), "ann update .data .data.a");
}

#[test]
fn subresources_have_entries_of_their_own() {
    check(
        "status",
        &[
            Apply("ann", json!({"spec": {"replicas": 1}, "status": {"replicas": 9}})),
            On("status"),
            Edit("ctl", "/status", json!({"replicas": 1, "conditions": [{"type": "Ready", "status": "True"}]})),
            Edit("ctl", "/spec/replicas", json!(7)),
            Apply(
                "ann",
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"paused": true}}),
            ),
        ],
        &json!({
            "spec": {"replicas": 7, "paused": true},
            "status": {"replicas": 1, "conditions": [{"type": "Ready", "status": "True"}]},
        }),
        &[
            "ann apply .spec.replicas",
            "ann/status apply .status.conditions[type=\"Ready\"] .status.conditions[type=\"Ready\"].status \
             .status.conditions[type=\"Ready\"].type",
            "ctl/status update .status.conditions .status.replicas .status.conditions[type=\"Ready\"] \
             .status.conditions[type=\"Ready\"].status .status.conditions[type=\"Ready\"].type",
        ],
    );
}

#[test]
fn old_updates_are_merged_beyond_ten() {
    let mut world = World::new();
    world.update("m00", &json!({"data": {}}));
    for n in 1..13 {
        let (manager, pointer) = (format!("m{n:02}"), format!("/data/k{n:02}"));
        world.edit(&manager, &[(&pointer, json!("v"))]);
    }
    let owners = world.owners();
    let managers: Vec<&str> = owners.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(managers, ["ancient-changes", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12"]);
    assert!(owners.starts_with("ancient-changes update .data .data.k01 .data.k02 .data.k03\n"), "{owners}");
}

#[test]
fn a_changed_schema_makes_owners_of_parts_owners_of_the_whole() {
    let mut world = run("a set", &[Apply("ann", json!({"metadata": {"finalizers": ["a"]}}))]);
    world.make_finalizers_atomic();
    world.update("bob", &json!({"metadata": {"finalizers": ["a"], "managedFields": null}, "data": {"x": "y"}}));
    assert_eq!(world.owners(), "ann apply .metadata.finalizers\nbob update .data .data.x");
}

#[test]
fn configurations_are_checked_before_they_are_merged() {
    let typed = "failed to create typed patch object (/web; apps/v1, Kind=Workload): ";
    for (config, message) in [
        (json!({"spec": {"foo": 1}}), ".spec.foo: field not declared in schema"),
        (json!({"data": {"a": 1}}), ".data.a: expected a string, got number 1"),
        (json!({"data": [1]}), ".data: expected an object, got a list"),
        (json!({"spec": {"paused": "no"}}), ".spec.paused: expected a boolean, got string \"no\""),
        (json!({"spec": {"replicas": "2"}}), ".spec.replicas: expected a number, got string \"2\""),
        (json!({"metadata": {"finalizers": {}}}), ".metadata.finalizers: expected a list, got an object"),
        (
            json!({"data": {"a": 1, "b": {"c": [true]}}}),
            "errors:\n  .data.a: expected a string, got number 1\n  .data.b: expected a string, got an object",
        ),
        (
            containers(&json!([{"image": "x"}])),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields \
             [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            containers(&json!([{"name": "a"}, {"name": "a"}])),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            containers(
                &json!([{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]),
            ),
            ".spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]",
        ),
        (
            containers(&json!([{"name": "a", "command": ["x", 1]}])),
            ".spec.containers[name=\"a\"].command[1]: expected a string, got number 1",
        ),
        (
            containers(&json!([null])),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            containers(&json!([1])),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (json!({"metadata": {"finalizers": ["a", "a"]}}), ".metadata.finalizers: duplicate entries for key [=\"a\"]"),
        (
            json!({"metadata": {"finalizers": [null]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null",
        ),
    ] {
        let error = World::new().apply("ann", false, &config).expect_err("the configuration is wrong");
        assert_eq!(error, format!("{typed}{message}"));
    }
}

#[test]
fn configurations_must_be_of_the_kind_and_leave_owners_alone() {
    let world = World::new();
    let writer = Writer { manager: "ann", now: FIRST, force: false };
    for (config, message) in [
        (json!({"apiVersion": "v1", "kind": "Workload"}), "invalid object type: /v1, Kind=Workload"),
        (json!({"apiVersion": "apps/v1", "kind": "Pod"}), "invalid object type: apps/v1, Kind=Pod"),
        (json!({}), "invalid object type: /, Kind="),
        (json!([]), "invalid object type: /, Kind="),
        (named(&json!({"metadata": {"managedFields": []}})), "metadata.managedFields must be nil"),
        (named(&json!({"metadata": {"managedFields": [{}]}})), "metadata.managedFields must be nil"),
    ] {
        let error = apply(&world.target(), &writer, None, &config).expect_err("the configuration is wrong");
        assert_eq!((error.code, error.reason, error.message.as_str()), (400, "BadRequest", message));
    }
    let config = named(&json!({"metadata": {"managedFields": null}}));
    assert!(apply(&world.target(), &writer, None, &config).is_ok(), "null is not a list");
}

#[test]
fn a_conflict_is_told_with_its_causes() {
    let world = run("bob's", &[Apply("bob", json!({"data": {"a": "1"}}))]);
    let writer = Writer { manager: "ann", now: FIRST, force: false };
    let error = apply(&world.target(), &writer, world.live.as_ref(), &named(&json!({"data": {"a": "2"}})))
        .expect_err("bob owns the field");
    assert_eq!(
        error.status(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": "Conflict", "code": 409,
            "message": "Apply failed with 1 conflict: conflict with \"bob\": .data.a",
            "details": {"causes": [
                {"reason": "FieldManagerConflict", "message": "conflict with \"bob\"", "field": ".data.a"},
            ]},
        })
    );
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let config = named(&json!({"data": {"a": "1"}})).to_string();
    let live = json!({"data": {"a": "1", "b": "1"}, "metadata": {"annotations": {LAST_APPLIED: config}}});
    let steps = |then: Step| [Update("kubectl-client-side-apply", live.clone()), then];

    let world = run("its own field", &steps(Apply("kubectl", json!({"data": {"a": "<2>"}}))));
    assert_eq!(world.content()["data"], json!({"a": "<2>", "b": "1"}));
    assert_eq!(
        world.content()["metadata"]["annotations"][LAST_APPLIED],
        "{\"apiVersion\":\"apps/v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\
         \"kind\":\"Workload\",\"metadata\":{\"name\":\"web\"}}\n",
        "the annotation follows",
    );
    run(
        "a field that it had not applied",
        &steps(Fail(
            "kubectl",
            json!({"data": {"a": "2", "b": "2"}}),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .data.b",
        )),
    );
    run(
        "another manager has no such right",
        &steps(Fail(
            "ann",
            json!({"data": {"a": "2"}}),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .data.a",
        )),
    );
}

#[test]
fn a_write_that_changes_nothing_keeps_its_times() {
    let old = run("live", &[Update("ann", json!({"data": {"a": "1"}}))]).live.expect("written");
    let later = |mut object: Value| {
        object["metadata"]["managedFields"][0]["time"] = LATER.into();
        object
    };
    let mut same = later(old.clone());
    keep_times_if_unchanged(&old, &mut same);
    assert_eq!(same, old);

    for (name, pointer, value) in [
        ("another value", "/data/a", json!("2")),
        ("another owner", "/metadata/managedFields/0/manager", json!("bob")),
        ("another label", "/metadata/uid", json!("v")),
    ] {
        let mut new = later(old.clone());
        *new.pointer_mut(pointer).expect("the field is there") = value;
        let before = new.clone();
        keep_times_if_unchanged(&old, &mut new);
        assert_eq!(new, before, "{name}");
    }
}

#[test]
fn the_scale_of_an_object_shares_its_owners() {
    let mut schema = fixture::Schema::default();
    let number = schema.scalar(crate::schema::Type::Integer);
    let spec = schema.object(&[("replicas", number)]);
    let kind = schema.object(&[("spec", spec)]);
    let empty = json!({});
    let target = Target {
        schema: schema.node(kind),
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        reset_fields: &["status"],
        empty: &empty,
    };
    let mut world = run("parent", &[Apply("ann", json!({"spec": {"replicas": 1, "paused": true}}))]);
    let parent = world.live.clone().expect("written");
    let entries = to_scale(&parent, ".spec.replicas");
    let old = json!({"metadata": {"uid": "u", "managedFields": entries}, "spec": {"replicas": 1}});
    let mut new = json!({"metadata": {"uid": "u"}, "spec": {"replicas": 3}});
    let writer = Writer { manager: "hpa", now: LATER, force: false };
    track_update(&target, &writer, Some(&old), &mut new);

    let mut live = without_managed_fields(&parent);
    live["metadata"]["managedFields"] = from_scale(&parent, &new, ".spec.replicas", "apps/v1").expect("owners");
    world.live = Some(live);
    assert_eq!(world.owners(), "ann apply .spec.paused\nhpa/scale update! .spec.replicas");

    let unchanged = from_scale(&parent, &old, ".spec.replicas", "apps/v1");
    assert_eq!(unchanged.as_ref(), managed_fields(&parent), "a write that changes nothing leaves the parent alone");
}
