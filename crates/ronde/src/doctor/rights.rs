//! Rights: which ones users and the operator need, who lacks some of them, and how that is said.
//!
//! Users need what `examples/role.yaml` has, the operator what is in the chart: both files are part of this program, so that
//! there is one list of each.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, header::CONTENT_TYPE};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::Client;
use ronde_control::operator::LEASE;
use serde_json::{Value, json};

use crate::client::{self, ClientError};

const USERS: &str = include_str!("../../../../examples/role.yaml");
const OPERATORS: &str = include_str!("../../../../charts/ronde/files/rules.yaml");
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
/// Reviews that are under way at once: an API server answers hundreds in a second.
const AT_ONCE: usize = 8;
/// Kinds that one sentence names; of the others it says how many.
const NAMED_MAX: usize = 4;

/// Something that one may do or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Right {
    pub verb: String,
    pub group: String,
    /// With its part, as in `pods/exec`.
    pub resource: String,
    /// Empty for all.
    pub namespace: String,
    /// Empty for all.
    pub name: String,
}

/// Who may.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// Who asks.
    Self_,
    Account {
        namespace: &'a str,
        name: &'a str,
    },
}

/// Returns what somebody needs who works with jobs in a namespace.
pub fn of_users(namespace: &str) -> Vec<Right> {
    let role: Role = serde_saphyr::from_str(USERS).expect("a test reads the role");
    let mut rights = expand(&role.rules.unwrap_or_default(), namespace);
    // Asked for only where the API server cares about owners, and not part of the cluster's own role `edit`.
    rights.retain(|right| !right.resource.ends_with("/finalizers"));
    rights
}

/// Returns what the chart gives the operator.
pub fn of_operator() -> Vec<Right> {
    let rules: Vec<PolicyRule> = serde_saphyr::from_str(OPERATORS).expect("a test reads the rules");
    let mut rights = expand(&rules, "");
    let (namespace, name) = LEASE;
    rights.extend(["get", "update", "watch"].map(|verb| Right {
        verb: verb.to_owned(),
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }));
    rights
}

fn expand(rules: &[PolicyRule], namespace: &str) -> Vec<Right> {
    let mut rights = Vec::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                rights.extend(rule.verbs.iter().map(|verb| Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    namespace: namespace.to_owned(),
                    name: String::new(),
                }));
            }
        }
    }
    rights
}

/// Returns those of the rights that somebody does not have.
pub async fn lacking(client: &Client, who: Who<'_>, rights: Vec<Right>) -> Result<Vec<Right>, ClientError> {
    let reviews = stream::iter(rights).map(async |right| {
        let is_allowed = is_allowed(client, who, &right).await?;
        Ok::<_, ClientError>((!is_allowed).then_some(right))
    });
    let answers: Vec<Option<Right>> = reviews.buffered(AT_ONCE).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

async fn is_allowed(client: &Client, who: Who<'_>, right: &Right) -> Result<bool, ClientError> {
    let (kind, path) = match who {
        Who::Self_ => ("SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        Who::Account { .. } => ("SubjectAccessReview", "subjectaccessreviews"),
    };
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec(who, right)});
    let request = Request::post(format!("{REVIEWS}/{path}")).header(CONTENT_TYPE, "application/json");
    let review = client::send(client, request, body.to_string().into_bytes()).await?.json()?;
    Ok(review["status"]["allowed"] == true)
}

fn spec(who: Who<'_>, right: &Right) -> Value {
    let (resource, part) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let what = json!({"verb": right.verb, "group": right.group, "resource": resource, "subresource": part,
        "namespace": right.namespace, "name": right.name});
    let mut spec = json!({"resourceAttributes": what});
    if let Who::Account { namespace, name } = who {
        spec["user"] = format!("system:serviceaccount:{namespace}:{name}").into();
        spec["groups"] =
            json!(["system:authenticated", "system:serviceaccounts", format!("system:serviceaccounts:{namespace}")]);
    }
    spec
}

/// Names rights, the verbs of a kind together: `create and patch jobs.batch.volcano.sh; list events`.
pub fn in_words(rights: &[Right]) -> String {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for right in rights {
        let kind = match (right.group.as_str(), right.resource.split_once('/')) {
            ("", _) => right.resource.clone(),
            (group, Some((resource, part))) => format!("{resource}.{group}/{part}"),
            (group, None) => format!("{}.{group}", right.resource),
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, verbs)) => verbs.push(&right.verb),
            None => kinds.push((kind, vec![&right.verb])),
        }
    }
    let mut words: Vec<String> =
        kinds.iter().take(NAMED_MAX).map(|(kind, verbs)| format!("{} {kind}", joined(verbs))).collect();
    match kinds.len().saturating_sub(NAMED_MAX) {
        0 => {}
        1 => words.push("and one kind more".to_owned()),
        more => words.push(format!("and {more} kinds more")),
    }
    words.join("; ")
}

/// Joins words as in a sentence.
pub fn joined(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(verb: &str, group: &str, resource: &str) -> Right {
        Right { verb: verb.into(), group: group.into(), resource: resource.into(), ..Right::default() }
    }

    #[test]
    fn rights_are_those_of_the_role_and_of_the_chart() {
        let users = of_users("ml");
        let submits = Right { namespace: "ml".to_owned(), ..right("create", "kai.alibabacloud.com", "trainingjobs") };
        assert!(users.contains(&submits), "{users:?}");
        assert!(users.iter().all(|right| !right.resource.ends_with("/finalizers")), "{users:?}");
        let operator = of_operator();
        assert!(operator.contains(&right("create", "", "pods/binding")), "{operator:?}");
        assert!(operator.iter().any(|right| right.resource == "leases" && right.name == LEASE.1), "{operator:?}");
    }

    #[test]
    fn rights_are_named_by_kind() {
        let check = |rights: &[Right], expected: &str| assert_eq!(in_words(rights), expected);
        check(&[], "");
        let jobs = "batch.volcano.sh";
        check(&[right("get", jobs, "jobs")], "get jobs.batch.volcano.sh");
        let verbs = ["get", "list", "watch"].map(|verb| right(verb, jobs, "jobs"));
        check(&verbs, "get, list and watch jobs.batch.volcano.sh");
        check(
            &[right("update", jobs, "jobs/status"), right("list", "", "events")],
            "update jobs.batch.volcano.sh/status; list events",
        );
        let many: Vec<Right> = ["a", "b", "c", "d", "e", "f"].map(|kind| right("get", "", kind)).into();
        check(&many[..5], "get a; get b; get c; get d; and one kind more");
        check(&many, "get a; get b; get c; get d; and 2 kinds more");
    }

    #[test]
    fn a_review_asks_for_a_part_and_for_the_groups_of_an_account() {
        let exec = Right { namespace: "ml".to_owned(), ..right("create", "", "pods/exec") };
        let attributes = json!({"verb": "create", "group": "", "resource": "pods", "subresource": "exec",
            "namespace": "ml", "name": ""});
        assert_eq!(spec(Who::Self_, &exec), json!({"resourceAttributes": attributes}));
        let groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:infra"];
        assert_eq!(
            spec(Who::Account { namespace: "infra", name: "ronde" }, &exec),
            json!({"resourceAttributes": attributes, "user": "system:serviceaccount:infra:ronde", "groups": groups})
        );
    }
}
