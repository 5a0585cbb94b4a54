//! Compares definitions with recordings of the real server 1.34.4, and tells how names are shared out.

use serde_json::{Value, json};

use crate::error::field_and_kind;

use super::{accepted_status, default_crd, is_served, prepare_create, prepare_update, validate_crd};

/// Definitions that were sent to the real server, with what it answered.
const DEFINITIONS: &str = include_str!("crds.golden.json");

#[test]
fn definitions_fare_as_in_the_real_server() {
    let golden: Vec<Value> = serde_json::from_str(DEFINITIONS).expect("the recording is JSON");
    let mut different = Vec::new();
    for case in golden {
        let mut crd = case["crd"].clone();
        default_crd(&mut crd);
        let old = Some(&case["old"]).filter(|old| old.is_object());
        match old {
            None => prepare_create(&mut crd),
            Some(old) => prepare_update(&mut crd, old),
        }
        let ours: Vec<String> = validate_crd(&crd, old).iter().map(ToString::to_string).collect();
        let ours: Vec<&str> = ours.iter().map(|error| field_and_kind(error)).collect();
        let real = case["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let real: Vec<&str> = real.map(field_and_kind).collect();
        let mut differs = |what: String| different.push(format!("{} {what}", case["name"]));
        ours.iter().filter(|error| !real.contains(error)).for_each(|error| differs(format!("ours {error}")));
        real.iter().filter(|error| !ours.contains(error)).for_each(|error| differs(format!("real {error}")));
        if let Some(result) = case["result"].as_object() {
            for field in ["spec", "status"] {
                if crd[field] != result[field] {
                    differs(format!("{field}\n  ours {}\n  real {}", crd[field], result[field]));
                }
            }
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

fn definition(name: &str, kind: &str, extra: &Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": format!("{name}.example.com")},
        "spec": {"group": "example.com", "names": {"plural": name, "kind": kind}, "versions": [{"name": "v1", "storage": true}]},
    });
    json_patch::merge(&mut crd, extra);
    default_crd(&mut crd);
    prepare_create(&mut crd);
    crd
}

fn condition(status: &Value, kind: &str) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.filter(|condition| condition["type"] == kind).map(|condition| {
        let part = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {} {}", part("status"), part("lastTransitionTime"), part("reason"), part("message"))
    });
    found.collect()
}

#[test]
fn a_definition_with_free_names_is_established() {
    let mut crd = definition("seens", "Seen", &json!({}));
    let status = accepted_status(&crd, std::slice::from_ref(&crd), "T1");
    let names = json!({"plural": "seens", "singular": "seen", "kind": "Seen", "listKind": "SeenList"});
    assert_eq!(status["acceptedNames"], names);
    assert_eq!(status["storedVersions"], json!(["v1"]));
    assert_eq!(condition(&status, "NamesAccepted"), "True T1 NoConflicts no conflicts found");
    let established = "True T1 InitialNamesAccepted the initial names have been accepted";
    assert_eq!(condition(&status, "Established"), established);
    crd["status"] = status.clone();
    assert_eq!(accepted_status(&crd, std::slice::from_ref(&crd), "T2"), status, "nothing changes the second time");
}

#[test]
fn taken_names_are_not_given_twice() {
    let mut first = definition("seens", "Seens", &json!({}));
    first["status"] = accepted_status(&first, &[], "T1");
    let names = json!({"spec": {"names": {"singular": "seens", "shortNames": ["seens", "oz"], "categories": ["all"]}}});
    let mut second = definition("others", "Seens", &names);
    let status = accepted_status(&second, &[first.clone(), second.clone()], "T2");
    assert!(!is_served(&second, [&first, &second]), "there would be two of one kind");
    assert!(is_served(&first, [&first, &second]) && is_served(&second, [&second]));
    assert_eq!(status["acceptedNames"], json!({"plural": "others", "kind": "", "categories": ["all"]}));
    assert_eq!(condition(&status, "NamesAccepted"), "False T2 ListKindConflict \"SeensList\" is already in use");
    assert_eq!(condition(&status, "Established"), "False T2 NotAccepted not all names are accepted");
    second["status"] = status;
    let freed = accepted_status(&second, std::slice::from_ref(&second), "T3");
    let established = "True T3 InitialNamesAccepted the initial names have been accepted";
    assert_eq!(condition(&freed, "Established"), established, "names are free once the other is gone");
    let elsewhere = json!({"metadata": {"name": "seens.other.com"}, "spec": {"group": "other.com"}});
    let third = definition("seens", "Seens", &elsewhere);
    assert_eq!(
        condition(&accepted_status(&third, &[first], "T"), "NamesAccepted"),
        "True T NoConflicts no conflicts found"
    );
}

#[test]
fn community_apis_say_whether_they_are_approved() {
    let check = |annotation: &str, expected: &str| {
        let extra = json!({"spec": {"group": "x.k8s.io"}, "metadata": {"annotations": {"api-approved.kubernetes.io": annotation}}});
        let status = accepted_status(&definition("seens", "Seen", &extra), &[], "T");
        assert_eq!(condition(&status, "KubernetesAPIApprovalPolicyConformant"), expected, "{annotation}");
    };
    check("unapproved, x", "False T UnapprovedAnnotation not approved: \"unapproved, x\"");
    check("https://a/b", "True T ApprovedAnnotation approved in https://a/b");
}
