//! The status of a definition: which of its names it got, and whether it is served.

use serde_json::{Map, Value, json};

use super::{items, text};

/// The annotation by which an API of the Kubernetes community shows its approval.
pub(super) const APPROVED: &str = "api-approved.kubernetes.io";
const PULL_REQUEST: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// Returns the status a definition should have among `others`, which may include itself. `now` is for conditions that
/// change.
pub fn accepted_status<'c>(crd: &Value, others: impl IntoIterator<Item = &'c Value>, now: &str) -> Value {
    let mut status = crd["status"].as_object().cloned().unwrap_or_default();
    let (accepted, conflict) = accept_names(crd, others);
    let names_accepted = match &conflict {
        None => condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", "False", reason, message),
    };
    let mut conditions = items(&crd["status"]["conditions"]).to_vec();
    set(&mut conditions, names_accepted, now);
    if !is_true(crd, "Established") {
        let established = if conflict.is_none() {
            condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
        } else {
            condition("Established", "False", "NotAccepted", "not all names are accepted")
        };
        set(&mut conditions, established, now);
    }
    if let Some(approval) = Approval::of_crd(crd) {
        set(&mut conditions, approval.condition(), now);
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    status.insert("acceptedNames".to_owned(), Value::Object(accepted));
    if items(&crd["status"]["storedVersions"]).is_empty() {
        let stored: Vec<Value> = super::storage_version(crd).map(Value::from).into_iter().collect();
        status.insert("storedVersions".to_owned(), Value::Array(stored));
    }
    Value::Object(status)
}

/// Whether a definition is served: it was once, or it gets all its names among `others`.
pub fn is_served<'c>(crd: &Value, others: impl IntoIterator<Item = &'c Value>) -> bool {
    is_true(crd, "Established") || accept_names(crd, others).1.is_none()
}

/// Whether a condition of a definition holds.
pub(super) fn is_true(crd: &Value, kind: &str) -> bool {
    let conditions = items(&crd["status"]["conditions"]);
    conditions.iter().any(|condition| text(&condition["type"]) == kind && text(&condition["status"]) == "True")
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

/// Puts a condition among the others; its time changes only if its status does.
fn set(conditions: &mut Vec<Value>, mut condition: Value, now: &str) {
    let known = conditions.iter_mut().find(|known| known["type"] == condition["type"]);
    let since = match &known {
        Some(known) if known["status"] == condition["status"] && known["lastTransitionTime"].is_string() => {
            known["lastTransitionTime"].clone()
        }
        _ => now.into(),
    };
    condition["lastTransitionTime"] = since;
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// The names a definition gets, and the last of those it did not get.
fn accept_names<'c>(
    crd: &Value,
    others: impl IntoIterator<Item = &'c Value>,
) -> (Map<String, Value>, Option<(&'static str, String)>) {
    let wanted = &crd["spec"]["names"];
    let mut accepted = crd["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let taken = Taken::by(crd, others);
    let lost_short_names = short_conflicts(crd, &taken.resources);
    let mut conflict = None;
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
        ("categories", ""),
    ] {
        let used = if field.to_lowercase().ends_with("kind") { &taken.kinds } else { &taken.resources };
        let name = text(&wanted[field]);
        let is_own = accepted.get(field).is_some_and(|own| text(own) == name);
        match field {
            "shortNames" if !lost_short_names.is_empty() => conflict = Some((reason, aggregate(&lost_short_names))),
            "shortNames" | "categories" => match items(&wanted[field]) {
                [] => drop(accepted.remove(field)),
                names => drop(accepted.insert(field.to_owned(), names.into())),
            },
            _ if !is_own && used.contains(&name) => conflict = Some((reason, format!("{name:?} is already in use"))),
            _ if name.is_empty() => {}
            _ => drop(accepted.insert(field.to_owned(), name.into())),
        }
    }
    for field in ["plural", "kind"] {
        accepted.entry(field).or_insert_with(|| "".into());
    }
    (accepted, conflict)
}

/// The names that the other definitions of a group hold.
struct Taken<'c> {
    resources: Vec<&'c str>,
    kinds: Vec<&'c str>,
}

impl<'c> Taken<'c> {
    fn by(crd: &Value, others: impl IntoIterator<Item = &'c Value>) -> Self {
        let mut taken = Self { resources: Vec::new(), kinds: Vec::new() };
        let same_group = |other: &&Value| other["spec"]["group"] == crd["spec"]["group"];
        let other = |other: &&Value| other["metadata"]["name"] != crd["metadata"]["name"];
        let others = others.into_iter().filter(same_group).filter(other);
        for names in others.map(|other| &other["status"]["acceptedNames"]) {
            taken.resources.extend(["plural", "singular"].map(|field| text(&names[field])));
            taken.resources.extend(items(&names["shortNames"]).iter().map(text));
            taken.kinds.extend(["kind", "listKind"].map(|field| text(&names[field])));
        }
        taken
    }
}

fn short_conflicts(crd: &Value, taken: &[&str]) -> Vec<String> {
    let own: Vec<&str> = items(&crd["status"]["acceptedNames"]["shortNames"]).iter().map(text).collect();
    let wanted = items(&crd["spec"]["names"]["shortNames"]).iter().map(text);
    let lost = wanted.filter(|name| !own.contains(name) && taken.contains(name));
    lost.map(|name| format!("{name:?} is already in use")).collect()
}

fn aggregate(messages: &[String]) -> String {
    match messages {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// How an API of the Kubernetes community stands with its approval.
pub(super) struct Approval {
    pub state: ApprovalState,
    pub reason: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalState {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

impl Approval {
    /// None for groups that need no approval.
    pub fn of_crd(crd: &Value) -> Option<Self> {
        let group = text(&crd["spec"]["group"]);
        let protected = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
        if !protected("k8s.io") && !protected("kubernetes.io") {
            return None;
        }
        let annotation = text(&crd["metadata"]["annotations"][APPROVED]);
        let must = format!("protected groups must have approval annotation {APPROVED:?}");
        let is_url = annotation.split_once("://").is_some_and(|(scheme, rest)| {
            let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            scheme_fits && !rest.is_empty() && !rest.starts_with(['/', '?', '#']) && !rest.contains(char::is_whitespace)
        });
        let (state, reason) = if annotation.is_empty() {
            (ApprovalState::Missing, format!("{must}, see {PULL_REQUEST}"))
        } else if annotation.starts_with("unapproved") {
            (ApprovalState::Bypassed, format!("not approved: {annotation:?}"))
        } else if is_url {
            (ApprovalState::Approved, format!("approved in {annotation}"))
        } else {
            let or = "with either a URL or a reason starting with \"unapproved\"";
            (ApprovalState::Invalid, format!("{must} {or}, see {PULL_REQUEST}"))
        };
        Some(Self { state, reason })
    }

    fn condition(&self) -> Value {
        let (status, reason) = match self.state {
            ApprovalState::Missing => ("False", "MissingAnnotation"),
            ApprovalState::Invalid => ("False", "InvalidAnnotation"),
            ApprovalState::Approved => ("True", "ApprovedAnnotation"),
            ApprovalState::Bypassed => ("False", "UnapprovedAnnotation"),
        };
        condition("KubernetesAPIApprovalPolicyConformant", status, reason, &self.reason)
    }
}
