//! Sets of field paths, kept in the very form of `fieldsV1`: a tree of JSON objects keyed by path elements.
//!
//! An empty object is a path in the set; one with children is in the set itself if it has the key `.`. Keeping the wire
//! form makes reading and writing `managedFields` free. Invariant: no branch without a member. Nothing here knows
//! schemas.

use serde_json::{Map, Value};

use super::element::{self, Element, Malformed};

/// The key that makes a node with children a member itself.
const SELF: &str = ".";

/// The children of a node, by element.
pub type Tree = Map<String, Value>;

/// A set of field paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldSet(Tree);

/// One node of a set under construction.
#[derive(Debug, Default)]
pub struct Branch {
    pub member: bool,
    pub below: Tree,
}

impl Branch {
    /// Adds what is at and below `element`, if anything.
    pub fn insert(&mut self, element: String, branch: Branch) {
        if let Some(node) = branch.into_node() {
            self.below.insert(element, node);
        }
    }

    pub fn leaf() -> Self {
        Self { member: true, below: Tree::new() }
    }

    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    /// Returns the node in wire form, none if nothing is in the set.
    fn into_node(mut self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        if self.member && !self.below.is_empty() {
            self.below.insert(SELF.to_owned(), Value::Object(Tree::new()));
        }
        Some(Value::Object(self.below))
    }
}

impl FieldSet {
    /// Makes a set of what is below the root; the root itself belongs to nobody.
    pub fn from_root(root: Branch) -> Self {
        Self(root.below)
    }

    /// Takes a tree that is known to be in canonical form.
    pub fn from_wire(fields: Tree) -> Self {
        Self(fields)
    }

    /// Reads what a client sent: every element must parse, and is brought into canonical form.
    pub fn parse(fields: &Value) -> Result<Self, Malformed> {
        Ok(Self(parse_branch(fields)?.below))
    }

    pub fn into_wire(self) -> Value {
        Value::Object(self.0)
    }

    pub fn tree(&self) -> &Tree {
        &self.0
    }

    pub fn tree_mut(&mut self) -> &mut Tree {
        &mut self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all paths of `other`.
    pub fn add(&mut self, other: &FieldSet) {
        add(&mut self.0, &other.0);
    }

    /// Removes the paths of `other`, but not what lies below them.
    pub fn subtract(&mut self, other: &FieldSet) {
        subtract(&mut self.0, &other.0);
    }

    /// Removes a field and all below it.
    pub fn remove_tree(&mut self, path: &[&str]) {
        remove_tree(&mut self.0, path);
    }

    /// Returns the paths that are in both.
    pub fn common(&self, other: &FieldSet) -> FieldSet {
        Self(common(&self.0, &other.0))
    }

    /// Whether all paths of `other` are in this set.
    pub fn covers(&self, other: &FieldSet) -> bool {
        covers(&self.0, &other.0)
    }

    /// Whether the path of these elements is in the set.
    pub fn has(&self, path: &[&str]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let parent = parents.iter().try_fold(&self.0, |tree, element| child(tree, element));
        parent.and_then(|tree| child(tree, last)).is_some_and(is_member)
    }

    /// Returns all paths in print, in the order of the real server: the members of a node before what is below them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        print(&self.0, "", &mut paths);
        paths
    }
}

/// Returns the child of a node, if there.
pub fn child<'t>(tree: &'t Tree, element: &str) -> Option<&'t Tree> {
    if element == SELF { None } else { tree.get(element).and_then(Value::as_object) }
}

/// Returns the children of a node.
pub fn children(tree: &Tree) -> impl Iterator<Item = (&String, &Tree)> {
    tree.iter().filter(|(element, _)| *element != SELF).filter_map(|(element, node)| Some((element, node.as_object()?)))
}

pub fn children_mut(tree: &mut Tree) -> impl Iterator<Item = (&String, &mut Tree)> {
    let nodes = tree.iter_mut().filter(|(element, _)| *element != SELF);
    nodes.filter_map(|(element, node)| Some((element, node.as_object_mut()?)))
}

/// Whether the node itself is in the set (not only paths below it).
pub fn is_member(node: &Tree) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Makes a node a member.
pub fn make_member(node: &mut Tree) {
    if !node.is_empty() {
        node.insert(SELF.to_owned(), Value::Object(Tree::new()));
    }
}

fn add(tree: &mut Tree, other: &Tree) {
    for (element, theirs) in children(other) {
        match tree.get_mut(element).and_then(Value::as_object_mut) {
            Some(mine) => add_node(mine, theirs),
            None => {
                tree.insert(element.clone(), Value::Object(theirs.clone()));
            }
        }
    }
}

fn add_node(mine: &mut Tree, theirs: &Tree) {
    let member = is_member(mine) || is_member(theirs);
    add(mine, theirs);
    if member {
        make_member(mine);
    }
}

fn subtract(tree: &mut Tree, other: &Tree) {
    for (element, theirs) in children(other) {
        let Some(mine) = tree.get_mut(element).and_then(Value::as_object_mut) else { continue };
        let member = is_member(mine) && !is_member(theirs);
        subtract(mine, theirs);
        if settle(mine, member) {
            tree.remove(element);
        }
    }
}

fn remove_tree(tree: &mut Tree, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else { return };
    let element = element::field(name);
    let Some(mine) = tree.get_mut(&element).and_then(Value::as_object_mut) else { return };
    let member = is_member(mine) && !rest.is_empty();
    if rest.is_empty() {
        mine.clear();
    } else {
        remove_tree(mine, rest);
    }
    if settle(mine, member) {
        tree.remove(&element);
    }
}

/// Restores the invariant of a node whose children were thinned out. Returns whether nothing is left of it.
fn settle(node: &mut Tree, member: bool) -> bool {
    node.remove(SELF);
    if member {
        make_member(node);
    }
    node.is_empty() && !member
}

fn common(a: &Tree, b: &Tree) -> Tree {
    let mut shared = Branch::default();
    for (element, b_node) in children(b) {
        if let Some(a_node) = child(a, element) {
            let branch = Branch { member: is_member(a_node) && is_member(b_node), below: common(a_node, b_node) };
            if !branch.is_empty() {
                shared.insert(element.clone(), branch);
            }
        }
    }
    shared.below
}

fn covers(tree: &Tree, other: &Tree) -> bool {
    children(other).all(|(element, theirs)| {
        child(tree, element).is_some_and(|mine| (is_member(mine) || !is_member(theirs)) && covers(mine, theirs))
    })
}

fn print(tree: &Tree, prefix: &str, paths: &mut Vec<String>) {
    let mut nodes: Vec<(Element, &Tree)> =
        children(tree).filter_map(|(element, node)| Some((Element::parse(element).ok()?, node))).collect();
    nodes.sort_by(|a, b| a.0.order(&b.0));
    let members = nodes.iter().filter(|(_, node)| is_member(node));
    paths.extend(members.map(|(element, _)| format!("{prefix}{element}")));
    for (element, node) in nodes {
        print(node, &format!("{prefix}{element}"), paths);
    }
}

fn parse_branch(node: &Value) -> Result<Branch, Malformed> {
    let fields = match node {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Branch::leaf()),
        _ => return Err(Malformed::Syntax),
    };
    let mut branch = Branch { member: fields.contains_key(SELF), below: Tree::new() };
    for (text, node) in fields.iter().filter(|(text, _)| *text != SELF) {
        match Element::parse(text) {
            Ok(element) => branch.insert(element.text(), parse_branch(node)?),
            Err(Malformed::UnknownKind) => {}
            Err(Malformed::Syntax) => return Err(Malformed::Syntax),
        }
    }
    // A node without children is a member, with or without the dot.
    branch.member |= branch.below.is_empty();
    Ok(branch)
}
