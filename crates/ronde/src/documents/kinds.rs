//! The pages of the kinds: every field of every definition.

use serde_json::Value;

use super::{cell, check_page};

#[test]
fn the_pages_of_kinds_are_current() {
    let mut list = "# Kinds\n\nThe kinds that Ronde adds to Kubernetes, in Volcano's and et-operator's words. \
                    `kubectl explain` says the same.\n\n| kind | what it is |\n|---|---|\n"
        .to_owned();
    for definition in ronde_api::crd::all() {
        let kind = text(&definition, "/spec/names/kind");
        let file = format!("{}.md", kind.to_lowercase());
        let about = text(&definition, "/spec/versions/0/schema/openAPIV3Schema/description");
        list += &format!("| [{kind}]({file}) | {} |\n", cell(about));
        check_page(&format!("kinds/{file}"), &page(&definition, kind, about));
    }
    check_page("kinds/index.md", &list);
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn page(definition: &Value, kind: &str, about: &str) -> String {
    let names = definition["spec"]["names"]["shortNames"].as_array();
    let short: Vec<String> =
        names.into_iter().flatten().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
    let mut page = format!(
        "# {kind}\n\n{about}\n\n| | |\n|---|---|\n| `apiVersion` | `{}/{}` |\n| `kind` | `{kind}` |\n| resource | `{}` \
         |\n| short names | {} |\n| scope | {} |\n",
        text(definition, "/spec/group"),
        text(definition, "/spec/versions/0/name"),
        text(definition, "/metadata/name"),
        if short.is_empty() { "–".to_owned() } else { short.join(", ") },
        text(definition, "/spec/scope"),
    );
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for (name, schema) in schema.as_object().into_iter().flatten() {
        if ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let mut rows = Vec::new();
        fields(schema, "", &mut rows);
        page += &format!("\n## {name}\n\n{}\n", text(schema, "/description"));
        if !rows.is_empty() {
            page += &format!("\n| field | type | meaning |\n|---|---|---|\n{}", rows.concat());
        } else if schema["properties"].is_null() {
            page += &format!("\nType: {}.\n", type_of(schema));
        }
    }
    page
}

/// Fields that hold a kind of Kubernetes itself: its fields are not ours to explain.
const FOREIGN: [(&str, &str); 2] = [("template", "pod template"), ("volumeClaim", "volume claim")];

/// Collects a row for each field of an object and of what is in it.
fn fields(schema: &Value, above: &str, rows: &mut Vec<String>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{above}{name}");
        let mut meaning = text(field, "/description").to_owned();
        let values: Vec<String> =
            field["enum"].as_array().into_iter().flatten().map(|value| format!("`{value}`")).collect();
        if !values.is_empty() && !meaning.contains('`') {
            meaning += &format!(" One of {}.", values.join(", ").replace('"', ""));
        }
        if required.contains(&name.as_str()) {
            meaning += " Required.";
        }
        let foreign = FOREIGN.iter().find(|(foreign, _)| foreign == name).map(|(_, kind)| (*kind).to_owned());
        let is_ours = foreign.is_none();
        let type_ = foreign.unwrap_or_else(|| type_of(field));
        rows.push(format!("| `{path}` | {type_} | {} |\n", cell(meaning.trim_start())));
        if !is_ours {
            continue;
        }
        fields(field, &format!("{path}."), rows);
        fields(&field["items"], &format!("{path}[]."), rows);
        fields(&field["additionalProperties"], &format!("{path}.*."), rows);
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return if schema["pattern"].is_null() { "integer or string" } else { "quantity" }.to_owned();
    }
    match text(schema, "/type") {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", type_of(&schema["additionalProperties"]))
        }
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        "" => "any".to_owned(),
        other => other.to_owned(),
    }
}
