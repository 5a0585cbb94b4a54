//! Scenarios with a transcript, and a seeded clock_and_ids in which everything happens at once.

use std::{collections::VecDeque, fmt::Write as _};

use proptest::prelude::*;

use super::{
    Propagation::{Background, Foreground, Orphan},
    *,
};
use crate::store::NamespacedName;

const NAMESPACE: &str = "n";
/// More steps than this for one object means that the collector goes round in circles.
const STEPS_PER_OBJECT: usize = 40;

/// A store with the delete semantics of the API, and a collector that works on it.
#[derive(Default)]
struct ClockAndIds {
    objects: BTreeMap<Uid, Stored>,
    revision: Revision,
    graph: Graph,
    /// What the graph has not been told yet.
    events: VecDeque<Event>,
    log: Vec<String>,
}

#[derive(Clone)]
struct Stored {
    object: Object,
    /// A finalizer of someone else, so that a deletion takes its time.
    is_held: bool,
}

fn kind(is_namespaced: bool, collection: &str) -> Kind {
    Kind { collection: collection.into(), is_namespaced }
}

fn graph() -> Graph {
    let mut graph = Graph::default();
    graph.learn_kind("v1", "ConfigMap", kind(true, "configmaps"));
    graph.learn_kind("v1", "Secret", kind(true, "secrets"));
    graph.learn_kind("v1", "Node", kind(false, "nodes"));
    graph
}

fn object(name: &str, owners: Vec<Owner>) -> Object {
    Object {
        key: Key { collection: "configmaps".into(), place: NamespacedName::new(NAMESPACE, name) },
        uid: name.into(),
        revision: 0,
        owners,
        is_deleting: false,
        has_foreground: false,
        has_orphan: false,
    }
}

/// Reads `name`, or `name!` for an owner that is blocked.
fn owner(text: &str) -> Owner {
    let name = text.trim_end_matches('!');
    Owner {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: name.into(),
        uid: name.into(),
        blocks: text.ends_with('!'),
    }
}

impl ClockAndIds {
    fn new() -> Self {
        Self { graph: graph(), ..Self::default() }
    }

    /// Reads `a; b:a!,c; d*`: an object `a`, one that is owned by `a` (which it blocks) and `c`, one that is held.
    fn with(text: &str) -> Self {
        let mut clock_and_ids = Self::new();
        for entry in text.split(';').map(str::trim) {
            let (name, owners) = entry.split_once(':').unwrap_or((entry, ""));
            let owners = owners.split(',').filter(|owner| !owner.is_empty()).map(owner).collect();
            let is_held = name.ends_with('*');
            clock_and_ids.put(Stored { object: object(name.trim_end_matches('*'), owners), is_held });
        }
        clock_and_ids
    }

    fn put(&mut self, mut stored: Stored) {
        self.revision += 1;
        stored.object.revision = self.revision;
        let Object { is_deleting, has_foreground, has_orphan, .. } = stored.object;
        let uid = stored.object.uid.clone();
        if is_deleting && !has_foreground && !has_orphan && !stored.is_held {
            self.objects.remove(&uid);
            self.events.push_back(Event::Gone(uid));
        } else {
            self.events.push_back(Event::Present(stored.object.clone()));
            self.objects.insert(uid, stored);
        }
    }

    fn change(&mut self, uid: &str, change: impl FnOnce(&mut Stored)) {
        if let Some(mut stored) = self.objects.get(uid).cloned() {
            change(&mut stored);
            self.put(stored);
        }
    }

    fn delete(&mut self, uid: &str, propagation: Propagation) {
        self.change(uid, |stored| {
            stored.object.is_deleting = true;
            stored.object.has_foreground = propagation == Propagation::Foreground;
            stored.object.has_orphan = propagation == Propagation::Orphan;
        });
    }

    fn deliver(&mut self, count: usize) {
        for event in self.events.drain(..count.min(self.events.len())) {
            self.graph.observe(event);
        }
    }

    /// A new process: nothing is known but what the store holds, in any order.
    fn crash(&mut self, is_reversed: bool) {
        self.events.clear();
        self.graph = self.fresh_graph(is_reversed);
    }

    fn fresh_graph(&self, is_reversed: bool) -> Graph {
        let mut listing: Vec<_> = self.objects.values().map(|stored| stored.object.clone()).collect();
        if is_reversed {
            listing.reverse();
        }
        let mut graph = graph();
        for object in listing {
            graph.observe(Event::Present(object));
        }
        graph
    }

    fn apply(&mut self, action: &Action) {
        let Action { uid, step, .. } = action;
        let Some(now) = self.objects.get(uid).map(|stored| stored.object.clone()) else { return };
        match step {
            Step::Delete { revision, propagation } => {
                if now.revision == *revision {
                    self.check_may_go(&now);
                    self.log.push(format!("delete {uid} {propagation:?}"));
                    self.delete(uid, *propagation);
                }
            }
            Step::RemoveOwnerReferences(owners) => {
                self.log
                    .push(format!("free {uid} of {}", owners.iter().map(|uid| &**uid).collect::<Vec<_>>().join(",")));
                self.change(uid, |stored| stored.object.owners.retain(|owner| !owners.contains(&owner.uid)));
            }
            Step::UnblockOwners => {
                self.log.push(format!("unblock {uid}"));
                self.change(uid, |stored| stored.object.owners.iter_mut().for_each(|owner| owner.blocks = false));
            }
            Step::RemoveFinalizer(finalizer) => {
                self.log.push(format!("finalize {uid} {finalizer}"));
                self.change(uid, |stored| match *finalizer {
                    FOREGROUND => stored.object.has_foreground = false,
                    _ => stored.object.has_orphan = false,
                });
            }
        }
    }

    /// Nothing goes that has no owner, or one that lives.
    fn check_may_go(&self, object: &Object) {
        assert!(!object.owners.is_empty(), "{} has no owner", object.uid);
        let living = object.owners.iter().find(|o| self.objects.get(&o.uid).is_some_and(|s| !s.object.is_deleting));
        assert_eq!(living, None, "{} has a living owner", object.uid);
    }

    /// Carries out everything, in order and without delay, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..=self.objects.len() * STEPS_PER_OBJECT {
            self.deliver(usize::MAX);
            let actions = self.graph.next_actions();
            assert_eq!(actions, self.graph.next_actions(), "asked twice");
            assert_eq!(actions, self.fresh_graph(true).next_actions(), "a new graph asks for the same");
            match actions.first() {
                Some(action) => self.apply(action),
                None => return self.check_settled(),
            }
        }
        panic!("no end to it: {:?}", self.log);
    }

    fn check_settled(&self) {
        for Stored { object, .. } in self.objects.values() {
            let refers = |other: &&Stored| other.object.owners.iter().any(|owner| owner.uid == object.uid);
            let blocks = |other: &Stored| other.object.owners.iter().any(|o| o.uid == object.uid && o.blocks);
            let dependents: Vec<&Stored> = self.objects.values().filter(refers).collect();
            let is_good = |owner: &Owner| self.objects.get(&owner.uid).is_some_and(|o| o.object.role() == Role::Solid);
            assert!(object.is_deleting || object.owners.iter().all(is_good), "{} is garbage", object.uid);
            if object.is_deleting {
                assert!(!object.has_orphan, "{} has not let go", object.uid);
                assert!(
                    !object.has_foreground || dependents.iter().any(|d| blocks(d)),
                    "{} waits for nothing",
                    object.uid
                );
            }
        }
    }

    /// What is left: `a b:owner c(deleting)`.
    fn left(&self) -> String {
        let mut left = String::new();
        for Stored { object, .. } in self.objects.values() {
            let owners: Vec<&str> = object.owners.iter().map(|owner| &*owner.uid).collect();
            let owners = if owners.is_empty() { String::new() } else { format!(":{}", owners.join(",")) };
            let deleting = if object.is_deleting { "(deleting)" } else { "" };
            write!(left, " {}{owners}{deleting}", object.uid).expect("a string takes everything");
        }
        left.trim_start().to_owned()
    }
}

/// Sets up objects, deletes some, lets the collector finish; checks what it did and what is left.
fn check(name: &str, objects: &str, deleted: &[(&str, Propagation)], log: &[&str], left: &str) {
    let mut clock_and_ids = ClockAndIds::with(objects);
    clock_and_ids.settle();
    assert!(clock_and_ids.log.is_empty(), "{name}: {:?} before anything was deleted", clock_and_ids.log);
    for (uid, propagation) in deleted {
        clock_and_ids.delete(uid, *propagation);
    }
    clock_and_ids.settle();
    assert_eq!(clock_and_ids.log, log, "{name}");
    assert_eq!(clock_and_ids.left(), left, "{name}");
}

#[test]
fn in_the_background_dependents_follow() {
    check("one dependent", "o; d:o", &[("o", Background)], &["delete d Background"], "");
    check("a chain", "a; b:a; c:b", &[("a", Background)], &["delete b Background", "delete c Background"], "");
    check("two owners, one lives", "a; b; d:a,b", &[("a", Background)], &["free d of a"], "b d:b");
    check("two owners, both go", "a; b; d:a,b", &[("a", Background), ("b", Background)], &["delete d Background"], "");
    check("an owner that is held keeps its dependents", "o*; d:o", &[("o", Background)], &[], "d:o o(deleting)");
    check("a held dependent lingers", "o; d*:o", &[("o", Background)], &["delete d Background"], "d:o(deleting)");
    check("who owns itself lives", "a:a", &[], &[], "a:a");
}

#[test]
fn in_the_foreground_the_owner_waits() {
    let done = "finalize o foregroundDeletion";
    check("no dependents", "o", &[("o", Foreground)], &[done], "");
    check("a blocking dependent", "o; d:o!", &[("o", Foreground)], &["delete d Background", done], "");
    check(
        "dependents of dependents go first",
        "o; p:o!; q:p!",
        &[("o", Foreground)],
        &["delete p Foreground", "delete q Background", "finalize p foregroundDeletion", done],
        "",
    );
    check(
        "a held dependent holds up the owner",
        "o; d*:o!",
        &[("o", Foreground)],
        &["delete d Background"],
        "d:o(deleting) o(deleting)",
    );
    check("unless it does not block", "o; d*:o", &[("o", Foreground)], &["delete d Background", done], "d:o(deleting)");
    check(
        "a dependent with another owner is freed",
        "o; p; d:o!,p",
        &[("o", Foreground)],
        &["free d of o", done],
        "d:p p",
    );
    check(
        "two owners wait for one dependent",
        "a; b; d:a!,b!",
        &[("a", Foreground), ("b", Foreground)],
        &["delete d Background", "finalize a foregroundDeletion", "finalize b foregroundDeletion"],
        "",
    );
}

#[test]
fn orphans_stay() {
    check("a dependent", "o; d:o", &[("o", Orphan)], &["free d of o", "finalize o orphan"], "d");
    check("no dependents", "o", &[("o", Orphan)], &["finalize o orphan"], "");
    check(
        "with all owners gone at once",
        "a; b; d:a,b",
        &[("a", Orphan), ("b", Background)],
        &["free d of a,b", "finalize a orphan"],
        "d",
    );
    check(
        "a dependent that is being deleted is freed too",
        "o; d*:o",
        &[("d", Background), ("o", Orphan)],
        &["free d of o", "finalize o orphan"],
        "d(deleting)",
    );
}

#[test]
fn circles_are_opened() {
    check(
        "two that block each other",
        "a:b!; b:a!",
        &[("a", Foreground)],
        &["unblock b", "finalize a foregroundDeletion", "delete b Background"],
        "",
    );
    check(
        "three",
        "a:c!; b:a!; c:b!",
        &[("a", Foreground)],
        &[
            "delete b Foreground",
            "unblock c",
            "finalize b foregroundDeletion",
            "finalize a foregroundDeletion",
            "delete c Background",
        ],
        "",
    );
    check(
        "both deleted by hand wait for ever",
        "a:b!; b:a!",
        &[("a", Foreground), ("b", Foreground)],
        &[],
        "a:b(deleting) b:a(deleting)",
    );
    check("in the background", "a:b; b:a", &[("a", Background)], &["delete b Background"], "");
}

#[test]
fn finalizers_set_beforehand_are_honoured() {
    let check = |has_orphan: bool, expected: Propagation| {
        let mut clock_and_ids = ClockAndIds::with("o; d:o");
        clock_and_ids
            .change("d", |stored| (stored.object.has_orphan, stored.object.has_foreground) = (has_orphan, !has_orphan));
        clock_and_ids.delete("o", Background);
        clock_and_ids.deliver(usize::MAX);
        let steps: Vec<Step> = clock_and_ids.graph.next_actions().into_iter().map(|action| action.step).collect();
        assert_eq!(steps, [Step::Delete { revision: 3, propagation: expected }]);
    };
    check(true, Orphan);
    check(false, Foreground);
}

/// Checks what becomes of `d`, which refers to an existing config map `o` in the way given.
fn check_reference(name: &str, change: impl FnOnce(&mut Object), expected: Option<&str>) {
    let mut clock_and_ids = ClockAndIds::with("o; d:o");
    clock_and_ids.change("d", |stored| change(&mut stored.object));
    clock_and_ids.deliver(usize::MAX);
    let steps: Vec<Action> = clock_and_ids.graph.next_actions();
    let words: Vec<String> = steps.iter().map(|action| format!("{} {:?}", action.uid, action.step)).collect();
    match expected {
        None => assert!(words.is_empty(), "{name}: {words:?}"),
        Some(expected) => assert!(words.len() == 1 && words[0].starts_with(expected), "{name}: {words:?}"),
    }
}

#[test]
fn an_owner_is_looked_for_where_the_reference_says() {
    check_reference("as it should be", |_| {}, None);
    check_reference("another name", |d| d.owners[0].name = "other".into(), Some("d Delete"));
    check_reference("another kind", |d| d.owners[0].kind = "Secret".into(), Some("d Delete"));
    check_reference("another scope", |d| d.owners[0].kind = "Node".into(), Some("d Delete"));
    check_reference("another namespace", |d| d.key.place = NamespacedName::new("m", "d"), Some("d Delete"));
    check_reference("an unknown kind", |d| d.owners[0].kind = "Unicorn".into(), None);
    check_reference("an unknown version", |d| d.owners[0].api_version = "v9".into(), None);
    check_reference("from a cluster-scoped object", |d| d.key.place = NamespacedName::new("", "d"), None);
    check_reference(
        "one gone, one of an unknown kind",
        |d| {
            d.owners.push(owner("gone"));
            d.owners[0].kind = "Unicorn".into();
        },
        None,
    );
    check_reference(
        "one living, one of an unknown kind",
        |d| {
            d.owners.push(Owner { kind: "Unicorn".into(), ..owner("gone") });
        },
        None,
    );
    check_reference(
        "one living, one gone",
        |d| d.owners.push(owner("gone")),
        Some("d RemoveOwnerReferences({\"gone\"})"),
    );
    check_reference(
        "a second, wrong reference to a living owner",
        |d| {
            d.owners.push(Owner { name: "other".into(), ..owner("o") });
        },
        None,
    );
    check_reference(
        "of an event",
        |d| {
            d.key.collection = "events".into();
            d.owners = vec![owner("gone")];
        },
        None,
    );
}

#[test]
fn a_kind_that_becomes_known_decides() {
    let mut graph = graph();
    let unicorn = Owner { kind: "Unicorn".into(), api_version: "x/v1".into(), ..owner("gone") };
    graph.observe(Event::Present(object("d", vec![unicorn])));
    assert_eq!(graph.next_actions(), []);
    graph.learn_kind("x/v1", "Unicorn", kind(true, "unicorns.x"));
    assert_eq!(graph.next_actions().len(), 1);
}

#[test]
fn a_late_owner_saves_its_dependents() {
    let mut graph = graph();
    graph.observe(Event::Present(object("d", vec![owner("o")])));
    assert_eq!(graph.next_actions().len(), 1);
    graph.observe(Event::Present(object("o", vec![])));
    assert_eq!(graph.next_actions(), []);
}

#[test]
fn a_late_dependent_holds_up_its_owner() {
    let mut clock_and_ids = ClockAndIds::with("d; o");
    clock_and_ids.delete("o", Foreground);
    clock_and_ids.deliver(usize::MAX);
    assert_eq!(clock_and_ids.graph.next_actions()[0].step, Step::RemoveFinalizer(FOREGROUND));
    clock_and_ids.change("d", |stored| stored.object.owners.push(owner("o!")));
    clock_and_ids.settle();
    assert_eq!(clock_and_ids.log, ["delete d Background", "finalize o foregroundDeletion"]);
}

#[test]
fn nothing_is_kept_of_what_is_gone() {
    let mut clock_and_ids = ClockAndIds::with("o; d:o!; e:o,zzz; f:f");
    clock_and_ids.settle();
    for uid in ["o", "d", "e", "f"] {
        clock_and_ids.delete(uid, Background);
    }
    clock_and_ids.settle();
    let Graph { nodes, dirty, pending, undecided, .. } = &clock_and_ids.graph;
    assert!(
        nodes.is_empty() && dirty.is_empty() && pending.is_empty() && undecided.is_empty(),
        "{:?}",
        clock_and_ids.graph
    );
}

#[test]
fn many_dependents_cost_one_look_each() {
    const COUNT: usize = 20_000;
    let mut graph = graph();
    let mut boss = object("boss", vec![]);
    let names: Vec<String> = (0..COUNT).map(|index| format!("d{index}")).collect();
    graph.observe(Event::Present(boss.clone()));
    for name in &names {
        graph.observe(Event::Present(object(name, vec![owner("boss!")])));
    }
    assert_eq!(graph.next_actions(), []);
    (boss.is_deleting, boss.has_foreground) = (true, true);
    graph.observe(Event::Present(boss));
    assert_eq!(graph.next_actions().len(), COUNT);
    for name in &names {
        graph.observe(Event::Gone(name.as_str().into()));
        assert!(graph.dirty.len() <= 2, "the object and its owner");
        graph.refresh();
    }
    let steps: Vec<Step> = graph.next_actions().into_iter().map(|action| action.step).collect();
    assert_eq!(steps, [Step::RemoveFinalizer(FOREGROUND)]);
}

/// What a user, time or chance does next.
#[derive(Debug, Clone)]
enum Happening {
    Create {
        owners: Vec<(prop::sample::Index, bool)>,
        is_held: bool,
    },
    Delete(prop::sample::Index, Propagation),
    /// A finalizer of someone else is done.
    Release(prop::sample::Index),
    /// Someone else writes to the object, and adds an owner.
    Adopt(prop::sample::Index, prop::sample::Index, bool),
    Deliver(usize),
    Act(prop::sample::Index),
    Crash(bool),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    use prop::sample::Index;
    let propagation = prop_oneof![Just(Background), Just(Foreground), Just(Orphan)];
    let owners = prop::collection::vec((any::<Index>(), any::<bool>()), 0..4);
    let one = prop_oneof![
        4 => (owners, prop::bool::weighted(0.1)).prop_map(|(owners, is_held)| Happening::Create { owners, is_held }),
        3 => (any::<Index>(), propagation).prop_map(|(index, propagation)| Happening::Delete(index, propagation)),
        1 => any::<Index>().prop_map(Happening::Release),
        1 => (any::<Index>(), any::<Index>(), any::<bool>()).prop_map(|(d, o, blocks)| Happening::Adopt(d, o, blocks)),
        4 => (0..6_usize).prop_map(Happening::Deliver),
        4 => any::<Index>().prop_map(Happening::Act),
        1 => any::<bool>().prop_map(Happening::Crash),
    ];
    prop::collection::vec(one, 1..80)
}

impl ClockAndIds {
    /// An object that exists now; ever so often one that is gone.
    fn pick(&self, index: prop::sample::Index) -> Option<Uid> {
        (!self.objects.is_empty()).then(|| index.get(&self.objects.keys().collect::<Vec<_>>()).to_string().into())
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Create { owners, is_held } => {
                let owner = |(index, blocks)| Some(Owner { blocks, ..owner(&self.pick(index)?) });
                let owners: Vec<Owner> = owners.into_iter().filter_map(owner).collect();
                let name = format!("o{}", self.revision);
                self.put(Stored { object: object(&name, owners), is_held });
            }
            Happening::Delete(index, propagation) => {
                let Some(uid) = self.pick(index) else { return };
                self.delete(&uid, propagation);
            }
            Happening::Release(index) => {
                let Some(uid) = self.pick(index) else { return };
                self.change(&uid, |stored| stored.is_held = false);
            }
            Happening::Adopt(dependent, new_owner, blocks) => {
                let (Some(uid), Some(new_owner)) = (self.pick(dependent), self.pick(new_owner)) else { return };
                self.change(&uid, |stored| stored.object.owners.push(Owner { blocks, ..owner(&new_owner) }));
            }
            Happening::Deliver(count) => self.deliver(count),
            Happening::Act(index) => {
                let actions = self.graph.next_actions();
                if !actions.is_empty() {
                    self.apply(index.get(&actions));
                }
            }
            Happening::Crash(is_reversed) => self.crash(is_reversed),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Users and the collector interleave, events are late, the process dies: nothing that has a living owner or none
    /// is ever deleted (checked at every deletion), and at the end there is no garbage and nobody waits for nothing.
    #[test]
    fn whatever_happens_it_comes_to_rest(happenings in happenings()) {
        let mut clock_and_ids = ClockAndIds::new();
        for happening in happenings {
            clock_and_ids.happen(happening);
        }
        clock_and_ids.settle();
    }
}
