//! Reads the tables: from rows about types and fields to hints about one field.
//!
//! Runs once, when the schemas are built. Names of definitions are shortened to their last three parts
//! (`core.v1.Pod`), which are unique among the kinds that are served.

use std::collections::BTreeMap;

use super::{Table, empties, lists, names};
use crate::schema::{Empty, ListType, PatchHints};

/// What a table says about a field.
#[derive(Debug, Clone)]
pub(super) enum Hint {
    Empty(Empty),
    List(ListType),
    Patch(PatchHints),
    Atomic(bool),
    Default(&'static str),
    /// The name of the field's type.
    Name(String),
}

/// All hints, by short type name and field.
#[derive(Default)]
pub(super) struct Hints {
    rows: BTreeMap<(String, &'static str), Vec<Hint>>,
}

impl Hints {
    pub(super) fn of(&self, definition: &str, field: &str) -> Vec<Hint> {
        self.rows.get(&(short_name(definition).to_owned(), field)).cloned().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.keys().map(|(of, field)| (of.as_str(), *field))
    }

    fn read(&mut self, table: Table, hint: impl Fn(&'static str) -> Hint) {
        for &(package, rows) in table {
            for &(types, fields) in rows {
                for name in types.split_whitespace() {
                    for field in fields.split_whitespace() {
                        let (field, value) = field.split_once('=').unwrap_or((field, ""));
                        self.rows.entry((format!("{package}.{name}"), field)).or_default().push(hint(value));
                    }
                }
            }
        }
    }
}

pub(super) fn hints() -> Hints {
    let mut hints = Hints::default();
    hints.read(empties::KEPT, |_| Hint::Empty(Empty::Kept));
    hints.read(empties::WRITTEN, |_| Hint::Empty(Empty::Written));
    hints.read(empties::DROPPED, |_| Hint::Empty(Empty::Dropped));
    hints.read(empties::NULL, |_| Hint::Empty(Empty::Null));
    hints.read(names::NAMES, |name| Hint::Name(with_packages(name)));
    hints.read(lists::APPLY, |keys| Hint::List(list_type(keys)));
    hints.read(lists::PATCH, |strategy| Hint::Patch(patch_hints(strategy)));
    hints.read(lists::ATOMIC_FIELDS, |_| Hint::Atomic(true));
    hints.read(lists::GRANULAR_FIELDS, |_| Hint::Atomic(false));
    hints.read(lists::KEY_DEFAULTS, Hint::Default);
    hints
}

pub(super) fn is_atomic(definition: &str) -> bool {
    let short = short_name(definition);
    let Some((package, name)) = short.rsplit_once('.') else { return false };
    lists::ATOMIC_TYPES.iter().any(|(p, names)| *p == package && names.split_whitespace().any(|n| n == name))
}

/// `core.v1.Pod` for `io.k8s.api.core.v1.Pod`.
pub(super) fn short_name(definition: &str) -> &str {
    last_parts(definition, 3)
}

/// `v1.Pod` for `io.k8s.api.core.v1.Pod`.
pub(super) fn go_name(definition: &str) -> &str {
    last_parts(definition, 2)
}

/// `Pod` for `io.k8s.api.core.v1.Pod`.
pub(super) fn type_name(definition: &str) -> &str {
    last_parts(definition, 1)
}

fn last_parts(definition: &str, count: usize) -> &str {
    definition.rmatch_indices('.').nth(count - 1).map_or(definition, |(at, _)| &definition[at + 1..])
}

fn list_type(keys: &str) -> ListType {
    if keys == "set" { ListType::Set } else { ListType::Map(keys.split(',').map(str::to_owned).collect()) }
}

fn patch_hints(strategy: &str) -> PatchHints {
    let mut hints = PatchHints::default();
    for part in strategy.split('+') {
        let (word, key) = part.split_once(':').unwrap_or((part, ""));
        match word {
            "merge" => {
                hints.merge = true;
                hints.merge_key = (!key.is_empty()).then(|| key.to_owned());
            }
            "retainKeys" => hints.retain_keys = true,
            _ => hints.replace = true,
        }
    }
    hints
}

/// `[]Capability` becomes `[]v1.Capability`: the package is left out of the tables where it is `v1`.
fn with_packages(name: &str) -> String {
    let element = name.rfind(']').map_or(0, |at| at + 1);
    let (outer, element) = name.split_at(element);
    if element.contains('.') { name.to_owned() } else { format!("{outer}v1.{element}") }
}
