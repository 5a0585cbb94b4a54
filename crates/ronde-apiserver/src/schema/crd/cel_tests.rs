//! Compares rules with recordings of the real server's own library: messages, results, estimated and actual costs.

use ronde_cel::{Decl, Evaluation, Expression, Wanted, WorkLeft};
use serde_json::Value;

use crate::schema::crd::{build::build, props::Props};

/// Recorded with `apiextensions-apiserver` 0.34.4.
const GOLDEN: &str = include_str!("rules.golden.json");

fn result(rule: &str, answer: &Evaluation) -> String {
    match answer {
        Evaluation::Bool(true) => "true".to_owned(),
        Evaluation::Error(message) if message.starts_with("no such overload") => format!(
            "'{message}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
        ),
        Evaluation::Error(message) => format!("{message} evaluating rule: {rule}"),
        other => {
            format!("failed rule: {rule}{}", if *other == Evaluation::Bool(false) { "" } else { " (too expensive)" })
        }
    }
}

#[test]
fn rules_do_what_they_do_in_the_real_server() {
    let golden: Value = serde_json::from_str(GOLDEN).expect("the recording is JSON");
    let decl = Decl::from_schema(&golden["schema"], true).expect("rules can see the schema");
    let built = build(Props(&golden["schema"]));
    let object = &golden["object"];
    let mut different = Vec::new();
    for case in golden["rules"].as_array().expect("a list") {
        let text = |key: &str| case[key].as_str().unwrap_or_default();
        let rule = text("rule");
        let mut differs = |what: &str, ours: String, real: String| {
            if ours != real {
                let rule: String = rule.chars().take(100).collect();
                different.push(format!("{rule:?} {what}:\n   ours {ours:?}\n   real {real:?}"));
            }
        };
        match Expression::compile(rule, &decl, false, Wanted::Bool) {
            Err(error) => differs("error", error, text("error").to_owned()),
            Ok(expression) => {
                differs("error", String::new(), text("error").to_owned());
                let (cost, answer) =
                    expression.evaluate(object, Some(object), built.set.node(built.root), &mut WorkLeft::default());
                differs("result", result(rule.trim(), &answer), text("result").to_owned());
                if text("error").is_empty() {
                    differs("estimate", expression.max_cost.to_string(), case["cost"].to_string());
                    // The real server goes on counting after an error, which is of no use to anyone.
                    if !matches!(answer, Evaluation::Error(_)) {
                        differs("cost", cost.to_string(), case["runtime"].to_string());
                    }
                }
            }
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}
