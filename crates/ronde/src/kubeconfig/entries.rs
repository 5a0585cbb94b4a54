//! What Ronde writes into a kubeconfig and what it may take out again. Pure: text in, text out.
//!
//! Each of the three entries carries a mark with the data directory it belongs to (an `extensions` item, as minikube
//! has one), so ours are told from a stranger's even after a renamed context. A change is first planned as
//! a list of [`Edit`]s on the meaning of the file, then made on its text; both must agree or nothing is written.

use serde_json::{Map, Value, json};

use super::{
    edit::{self, Uneditable},
    tree::{self, TreeError},
};

/// The name of our cluster, user and context.
pub const NAME: &str = "ronde";

/// The lists of a kubeconfig, each with the field that holds an entry's content.
const SECTIONS: [(&str, &str); 3] = [("clusters", "cluster"), ("contexts", "context"), ("users", "user")];
const CURRENT_CONTEXT: &str = "current-context";

/// What a running instance tells its clients.
#[derive(Debug, Clone)]
pub struct Access {
    /// As in `https://127.0.0.1:6443`.
    pub server: String,
    /// The certificate authority in base64, as kubeconfigs hold it.
    pub certificate_authority: String,
    /// The file with the administrator's token, as a credential plugin prints it. The token itself is not in a
    /// kubeconfig: pods see the user's files, but not the data directory.
    pub credential: String,
    /// The absolute data directory: the owner in our mark.
    pub data_dir: String,
}

/// Who holds the name `ronde` in a kubeconfig, seen from one data directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    Us,
    OtherInstance { data_dir: String },
    Stranger { section: &'static str },
}

/// The text with our entries in it, and what was selected before.
#[derive(Debug)]
pub struct Installed {
    pub text: String,
    /// `None` when our own context was selected already, so that there is nothing new to remember.
    pub replaced: Option<Selection>,
}

/// The `current-context` of a kubeconfig; `None` when the key is absent.
pub type Selection = Option<String>;

/// Why a kubeconfig is left alone.
#[derive(Debug, thiserror::Error)]
pub enum EntriesError {
    #[error("it is not valid YAML")]
    Yaml(#[source] TreeError),
    #[error("it is not valid YAML: {0}")]
    Content(String),
    #[error("it is not a kubeconfig: {0}")]
    Shape(String),
    #[error("its YAML is written in a way that cannot be edited without touching other entries")]
    Uneditable,
}

impl From<Uneditable> for EntriesError {
    fn from(Uneditable: Uneditable) -> Self {
        Self::Uneditable
    }
}

/// Tells who holds the name `ronde`.
pub fn owner(text: &str, data_dir: &str) -> Result<Owner, EntriesError> {
    let document = read(text)?;
    let mut owner = Owner::Nobody;
    for (section, content) in SECTIONS {
        for entry in items(&document, section).iter().filter(|entry| entry["name"] == NAME) {
            match mark(entry, content) {
                None => return Ok(Owner::Stranger { section }),
                Some(other) if other != data_dir => {
                    owner = Owner::OtherInstance { data_dir: other.to_owned() };
                }
                Some(_) if owner == Owner::Nobody => owner = Owner::Us,
                Some(_) => {}
            }
        }
    }
    Ok(owner)
}

/// Adds our entries, or brings them up to date, and selects our context. The caller has asked [`owner`] before.
pub fn install(text: &str, access: &Access) -> Result<Installed, EntriesError> {
    let started =
        if tree::parse(text).map_err(EntriesError::Yaml)?.is_none() { with_header(text) } else { text.into() };
    let document = read(&started)?;
    let mut edits = Vec::new();
    for ((section, content), wanted) in SECTIONS.into_iter().zip(entries(access)) {
        let old = items(&document, section);
        let ours = marked(old, content, &access.data_dir);
        if let [index] = ours[..]
            && is_current(section, &old[index], &wanted)
        {
            continue;
        }
        edits.extend(ours.iter().rev().map(|&index| Edit::Remove { section, index }));
        edits.push(Edit::Append { section, entry: wanted });
    }
    let selected = selection(&document);
    let replaced = (selected.as_deref() != Some(NAME)).then_some(selected);
    if replaced.is_some() {
        edits.push(Edit::Select(Some(NAME.to_owned())));
    }
    Ok(Installed { text: make(&started, document, &edits)?, replaced })
}

/// Removes what carries our mark. When one of our contexts was selected, selects `previous` again if it still exists.
pub fn uninstall(text: &str, data_dir: &str, previous: Selection) -> Result<String, EntriesError> {
    let document = read(text)?;
    let mut edits = Vec::new();
    for (section, content) in SECTIONS {
        let ours = marked(items(&document, section), content, data_dir);
        edits.extend(ours.iter().rev().map(|&index| Edit::Remove { section, index }));
    }
    let contexts = items(&document, "contexts");
    let ours = marked(contexts, "context", data_dir);
    let is_selected = |index: &usize| contexts[*index]["name"].as_str() == selection(&document).as_deref();
    if ours.iter().any(is_selected) {
        edits.push(Edit::Select(restorable(contexts, previous)));
    }
    make(text, document, &edits)
}

/// Tells whether a kubeconfig holds nothing that anyone could miss.
pub fn is_bare(text: &str) -> bool {
    let Ok(Value::Object(document)) = read(text) else { return false };
    document.iter().all(|(key, value)| match key.as_str() {
        "apiVersion" | "kind" => true,
        _ => value.is_null() || value == "" || value == &json!([]) || value == &json!({}),
    }) && !text.contains('#')
}

/// Writes a kubeconfig of our own from nothing.
pub fn standalone(access: &Access) -> Result<String, EntriesError> {
    install("", access).map(|installed| installed.text)
}

/// One step of a change, small enough to be made on the text and on its meaning alike.
#[derive(Debug)]
enum Edit {
    Remove { section: &'static str, index: usize },
    Append { section: &'static str, entry: Value },
    Select(Selection),
}

/// Makes the edits on the text and proves that they mean what was planned.
fn make(text: &str, mut document: Value, edits: &[Edit]) -> Result<String, EntriesError> {
    let mut text = text.to_owned();
    for edit in edits {
        text = match edit {
            Edit::Remove { section, index } => edit::remove_entry(&text, section, *index)?,
            Edit::Append { section, entry } => edit::append_entry(&text, section, entry)?,
            Edit::Select(context) => edit::set_key(&text, CURRENT_CONTEXT, context.as_deref())?,
        };
        edit.apply(&mut document);
    }
    let written = read(&text).map_err(|_| EntriesError::Uneditable)?;
    if same(&written, &document) { Ok(text) } else { Err(EntriesError::Uneditable) }
}

impl Edit {
    fn apply(&self, document: &mut Value) {
        let Value::Object(fields) = document else { return };
        match self {
            Self::Remove { section, index } => {
                if let Some(Value::Array(items)) = fields.get_mut(*section) {
                    items.remove(*index);
                }
            }
            Self::Append { section, entry } => match fields.entry(*section).or_insert(Value::Null) {
                Value::Array(items) => items.push(entry.clone()),
                other => *other = Value::Array(vec![entry.clone()]),
            },
            Self::Select(Some(context)) => {
                fields.insert(CURRENT_CONTEXT.to_owned(), Value::String(context.clone()));
            }
            Self::Select(None) => {
                fields.remove(CURRENT_CONTEXT);
            }
        }
    }
}

/// Compares two documents; an emptied list may be written `null`.
fn same(written: &Value, planned: &Value) -> bool {
    let normal = |document: &Value| {
        let mut document = document.clone();
        for (section, _) in SECTIONS {
            if document[section] == json!([]) {
                document[section] = Value::Null;
            }
        }
        document
    };
    normal(written) == normal(planned)
}

/// Reads the meaning of a kubeconfig and checks the parts that we rely on.
fn read(text: &str) -> Result<Value, EntriesError> {
    tree::parse(text).map_err(EntriesError::Yaml)?;
    // A snippet of the file could show somebody's token.
    let options = serde_saphyr::options! { with_snippet: false };
    let document: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| EntriesError::Content(error.without_snippet().to_string()))?;
    match &document {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(fields) => check_shape(fields).map(|()| document),
        _ => Err(EntriesError::Shape("its top level is not a mapping".to_owned())),
    }
}

fn check_shape(fields: &Map<String, Value>) -> Result<(), EntriesError> {
    let fail = |what: String| Err(EntriesError::Shape(what));
    if fields.get("kind").is_some_and(|kind| !kind.is_null() && kind != "Config") {
        return fail(format!("its kind is {}", fields["kind"]));
    }
    if fields.get(CURRENT_CONTEXT).is_some_and(|context| !context.is_null() && !context.is_string()) {
        return fail(format!("`{CURRENT_CONTEXT}` is not a string"));
    }
    for (section, _) in SECTIONS {
        match fields.get(section) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) if items.iter().all(|item| item["name"].is_string()) => {}
            Some(Value::Array(_)) => return fail(format!("an entry of `{section}` has no name")),
            Some(_) => return fail(format!("`{section}` is not a list")),
        }
    }
    Ok(())
}

fn items<'d>(document: &'d Value, section: &str) -> &'d [Value] {
    document[section].as_array().map_or(&[], Vec::as_slice)
}

fn selection(document: &Value) -> Selection {
    document[CURRENT_CONTEXT].as_str().map(str::to_owned)
}

/// Returns the data directory in our mark on an entry.
fn mark<'e>(entry: &'e Value, content: &str) -> Option<&'e str> {
    let extensions = entry[content]["extensions"].as_array()?;
    let ours = extensions.iter().find(|extension| extension["name"] == NAME)?;
    ours["extension"]["dataDir"].as_str()
}

fn marked(entries: &[Value], content: &str, data_dir: &str) -> Vec<usize> {
    let has_mark = |entry: &Value| mark(entry, content) == Some(data_dir);
    (0..entries.len()).filter(|&index| has_mark(&entries[index])).collect()
}

/// Tells whether an entry needs no change. A context may have got a namespace or a new name from the user meanwhile.
fn is_current(section: &str, old: &Value, wanted: &Value) -> bool {
    if section != "contexts" {
        return old == wanted;
    }
    old["name"] == NAME && old["context"]["cluster"] == NAME && old["context"]["user"] == NAME
}

/// A context that is gone cannot be selected; kubectl writes an empty string for none.
fn restorable(contexts: &[Value], previous: Selection) -> Selection {
    let name = previous?;
    let exists = contexts.iter().any(|context| context["name"] == name);
    Some(if exists { name } else { String::new() })
}

/// Returns our cluster, context and user, in the order of [`SECTIONS`].
fn entries(access: &Access) -> [Value; 3] {
    let extensions = json!([{ "extension": { "dataDir": access.data_dir }, "name": NAME }]);
    [
        json!({ "name": NAME, "cluster": {
            "certificate-authority-data": access.certificate_authority,
            "extensions": extensions,
            "server": access.server,
        }}),
        json!({ "name": NAME, "context": { "cluster": NAME, "extensions": extensions, "user": NAME } }),
        json!({ "name": NAME, "user": { "exec": credential_plugin(access), "extensions": extensions } }),
    ]
}

/// Where clients get the token from. A `tokenFile` would do, but clients prefer it to a token that the user names with
/// `--token`, who would then be the administrator without knowing.
fn credential_plugin(access: &Access) -> Value {
    json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "args": [access.credential],
        "command": "cat",
        "interactiveMode": "Never",
    })
}

fn with_header(text: &str) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}apiVersion: v1\nkind: Config\n")
}
