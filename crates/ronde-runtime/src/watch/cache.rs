//! What is known of one kind: the newest version of each object, found by key and by owner.
//!
//! A cache only moves forward: an event that is older than what one's own write has put there is passed over. Versions
//! are compared as numbers, as Kubernetes defines them; a version that is none is taken as it comes.

use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt as _;

use super::{Cached, Change, Key, Mark, Owner};

#[derive(Debug)]
pub(super) struct Cache<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Under an empty uid: those that nothing controls.
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    /// Put there by their writers and not seen by the watch yet.
    assumed: BTreeSet<Key>,
    /// The newest version that the watch has delivered.
    seen: u64,
    /// Takes out of an object what nobody here reads.
    pub trim: Trim<K>,
    /// The server has listed them.
    pub is_served: bool,
}

pub type Trim<K> = fn(&mut K);

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            assumed: BTreeSet::new(),
            seen: 0,
            trim: |_| {},
            is_served: false,
        }
    }
}

impl<K: Cached> Cache<K> {
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub fn list(&self, namespace: Option<&str>) -> Vec<Arc<K>> {
        let Some(namespace) = namespace else { return self.objects.values().cloned().collect() };
        let inside = self.objects.range(Key::new(namespace, "")..);
        inside.take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| object.clone()).collect()
    }

    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.get(key)).collect()
    }

    /// Returns everything as if it had just come.
    pub fn all(&self) -> Vec<Change> {
        self.objects.values().filter_map(|object| change(None, Some(object))).collect()
    }

    /// Takes what the watch says has come or changed.
    pub fn apply(&mut self, object: K) -> Option<Change> {
        let (key, version) = (Key::of(&object), version(&object));
        self.seen = self.seen.max(version);
        match self.objects.get(&key) {
            Some(known) if newer(known.as_ref(), version) => None,
            Some(known) if known.resource_version() == object.resource_version() => {
                self.assumed.remove(&key);
                None
            }
            _ => {
                self.assumed.remove(&key);
                self.put(key, object)
            }
        }
    }

    /// Takes what the watch says has gone.
    pub fn remove(&mut self, object: &K) -> Option<Change> {
        let (key, version) = (Key::of(object), version(object));
        self.seen = self.seen.max(version);
        let known = self.objects.get(&key)?;
        let recreated = newer(known.as_ref(), version) && known.uid() != object.uid();
        if recreated { None } else { self.take(&key) }
    }

    /// Remembers that a list begins: what has been written before will be in it.
    pub fn begin_list(&mut self) {
        self.assumed.clear();
    }

    /// Takes a whole list as it was at a version; only what was assumed later is kept beside it.
    pub fn replace(&mut self, objects: Vec<K>, at: u64) -> Vec<Change> {
        let newest = objects.iter().map(version).max().unwrap_or_default().max(at);
        self.seen = self.seen.max(newest);
        let listed: BTreeSet<Key> = objects.iter().map(Key::of).collect();
        let assumed = &self.assumed;
        let is_gone = |(key, known): &(&Key, &Arc<K>)| {
            let came_later = assumed.contains(key) && newer(known.as_ref(), newest);
            !listed.contains(key) && !came_later
        };
        let gone: Vec<Key> = self.objects.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
        let gone = gone.iter().filter_map(|key| self.take(key)).collect::<Vec<_>>();
        gone.into_iter().chain(objects.into_iter().filter_map(|object| self.apply(object))).collect()
    }

    pub fn assume(&mut self, mut object: K) -> Option<Change> {
        let (key, version) = (Key::of(&object), version(&object));
        let known = self.objects.get(&key);
        let is_news = known.map_or(version > self.seen, |known| !newer(known.as_ref(), version));
        let is_same = known.is_some_and(|known| known.resource_version() == object.resource_version());
        if version == 0 || is_same || !is_news {
            return None;
        }
        without_managers(&mut object);
        (self.trim)(&mut object);
        self.assumed.insert(key.clone());
        self.put(key, object)
    }

    pub fn assume_gone(&mut self, object: &K) -> Option<Change> {
        let key = Key::of(object);
        let is_same = self.objects.get(&key).is_some_and(|known| known.uid() == object.uid());
        if is_same { self.take(&key) } else { None }
    }

    fn put(&mut self, key: Key, object: K) -> Option<Change> {
        let object = Arc::new(object);
        let old = self.take_object(&key);
        let change = change(old.as_ref(), Some(&object));
        self.by_owner.entry(owner_uid(object.as_ref())).or_default().insert(key.clone());
        self.objects.insert(key, object);
        change
    }

    fn take(&mut self, key: &Key) -> Option<Change> {
        self.assumed.remove(key);
        let old = self.take_object(key)?;
        change(Some(&old), None)
    }

    fn take_object(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        let uid = owner_uid(old.as_ref());
        if let Some(keys) = self.by_owner.get_mut(&uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(&uid);
            }
        }
        Some(old)
    }
}

/// Who has set which field is nobody's business here, and larger than many an object.
pub(super) fn without_managers<K: Cached>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

fn change<K: Cached>(old: Option<&Arc<K>>, new: Option<&Arc<K>>) -> Option<Change> {
    let key = Key::of(new.or(old)?.as_ref());
    let mark = |object: &Arc<K>| mark(object.as_ref());
    Some(Change { kind: TypeId::of::<K>(), key, old: old.map(mark), new: new.map(mark) })
}

fn mark<K: Cached>(object: &K) -> Mark {
    let controller = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    let owner =
        controller.map(|owner| Owner { kind: owner.kind.clone(), name: owner.name.clone(), uid: owner.uid.clone() });
    Mark { uid: object.uid().unwrap_or_default(), labels: object.labels().clone(), owner }
}

fn owner_uid<K: Cached>(object: &K) -> String {
    let controller = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    controller.map(|owner| owner.uid.clone()).unwrap_or_default()
}

fn version<K: Cached>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn newer<K: Cached>(known: &K, than: u64) -> bool {
    version(known) > than
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    /// `a1@5` is the object `a` with uid 1 in version 5; `a1@5<o` is controlled by `o`.
    fn object(text: &str) -> ConfigMap {
        let (text, owner) = text.split_once('<').map_or((text, None), |(text, owner)| (text, Some(owner)));
        let (name, version) = text.split_once('@').expect("a version");
        let owners: Vec<_> = owner
            .map(|uid| json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let meta = json!({"name": name[..1], "uid": name[1..], "resourceVersion": version, "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": meta})).expect("a config map")
    }

    fn shown(cache: &Cache<ConfigMap>) -> String {
        let one = |object: Arc<ConfigMap>| {
            format!("{}{}@{}", object.name_any(), object.uid().unwrap_or_default(), version(object.as_ref()))
        };
        cache.list(None).into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Plays a script of `+` (apply), `-` (delete), `=` (assume), `~` (assume gone), `[` (list begins), `]7:a1@1,…` (the list,
    /// as it was at a version).
    #[track_caller]
    fn check(what: &str, script: &str, expected: &str, changes: usize) {
        let mut cache = Cache::default();
        let mut told = 0;
        for word in script.split_whitespace() {
            let (act, rest) = word.split_at(1);
            told += match act {
                "+" => cache.apply(object(rest)).into_iter().count(),
                "-" => cache.remove(&object(rest)).into_iter().count(),
                "=" => cache.assume(object(rest)).into_iter().count(),
                "~" => cache.assume_gone(&object(rest)).into_iter().count(),
                "[" => {
                    cache.begin_list();
                    0
                }
                _ => {
                    let (at, objects) = rest.split_once(':').expect("a version");
                    let objects = objects.split(',').filter(|text| !text.is_empty()).map(object).collect();
                    cache.replace(objects, at.parse().expect("a number")).len()
                }
            };
        }
        assert_eq!(shown(&cache), expected, "{what}");
        assert_eq!(told, changes, "{what}: changes");
    }

    #[test]
    fn a_cache_follows_the_watch() {
        check("objects come, change and go", "+a1@1 +b2@2 +a1@3 -b2@4", "a1@3", 4);
        check("the same version is no change", "+a1@1 +a1@1", "a1@1", 1);
        check("a list replaces everything", "+a1@1 +b2@2 [ ]5:b2@2,c3@5", "b2@2 c3@5", 4);
        check("the end of something unknown is no change", "-a1@1", "", 0);
    }

    #[test]
    fn own_writes_are_seen_at_once_and_never_undone() {
        check("what is written is there", "=a1@5", "a1@5", 1);
        check("the watch brings the same later", "=a1@5 +a1@5", "a1@5", 1);
        check("older events are passed over", "+a1@1 =a1@5 +a1@3 +a1@5", "a1@5", 2);
        check("newer ones are not", "=a1@5 +a1@6", "a1@6", 2);
        check("an answer that the watch has overtaken is dropped", "+a1@5 -a1@6 =a1@5", "", 2);
        check("a recreated object survives the end of the old one", "+a1@1 =a2@5 -a1@3", "a2@5", 2);
        check("its own end ends it, whatever was assumed", "=a1@5 -a1@4", "", 2);
        check("what was deleted is gone at once", "+a1@1 ~a1@1", "", 2);
        check("but not its successor", "+a2@3 ~a1@1", "a2@3", 1);
    }

    #[test]
    fn a_list_is_believed_except_about_what_came_after_its_beginning() {
        check("written before the list and not in it: gone", "=a1@5 [ ]5:", "", 2);
        check("written while it was made: kept", "[ =a1@5 ]4:b2@3", "a1@5 b2@3", 2);
        check("written while it was made, but older than it: gone", "[ =a1@5 ]7:b2@7", "b2@7", 3);
        check("the same if nothing in it is as new as itself", "[ =a1@5 ]7:b2@3", "b2@3", 3);
        check("an answer that comes after a newer list is dropped", "[ ]7: =a1@5", "", 0);
        check("what went while nobody watched is gone", "+a1@1 [ ]7:", "", 2);
    }

    #[test]
    fn objects_are_found_by_their_owner() {
        let mut cache = Cache::default();
        for text in ["a1@1<x", "b2@2", "c3@3<x", "a1@4<y"] {
            cache.apply(object(text));
        }
        let names = |uid| cache.controlled_by(uid).iter().map(|object| object.name_any()).collect::<String>();
        assert_eq!((names("x"), names("y"), names("")), ("c".to_owned(), "a".to_owned(), "b".to_owned()));
    }
}
