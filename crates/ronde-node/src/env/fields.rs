//! Fields of the pod that its containers may see (`fieldRef`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::PodFacts;

/// A path that names no field a container may see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    #[error("unsupported fieldPath: {0}")]
    Unsupported(String),
    #[error("fieldPath \"{0}\" does not support subscript")]
    Subscript(String),
}

/// Returns a field as environment variables see it.
///
/// # Errors
/// If the path names no such field.
pub fn pod_field(facts: &PodFacts<'_>, path: &str) -> Result<String, FieldError> {
    let spec = facts.pod.spec.as_ref();
    let pod_ip = || facts.pod_ip.map(|ip| ip.to_string()).unwrap_or_default();
    match path {
        "spec.nodeName" => Ok(spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default()),
        "spec.serviceAccountName" => Ok(spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()),
        "status.hostIP" | "status.hostIPs" => Ok(facts.host_ip.to_string()),
        "status.podIP" | "status.podIPs" => Ok(pod_ip()),
        _ => metadata_field(facts.pod, path),
    }
}

/// Returns a field as downward API volumes see it.
///
/// # Errors
/// If the path names no such field.
pub fn metadata_field(pod: &Pod, path: &str) -> Result<String, FieldError> {
    let meta = &pod.metadata;
    let find = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key).cloned()).unwrap_or_default()
    };
    if let Some((path, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match path {
            "metadata.labels" => Ok(find(&meta.labels, key)),
            "metadata.annotations" => Ok(find(&meta.annotations, key)),
            _ => Err(FieldError::Subscript(format!("{path}['{key}']"))),
        };
    }
    match path {
        "metadata.name" => Ok(meta.name.clone().unwrap_or_default()),
        "metadata.namespace" => Ok(meta.namespace.clone().unwrap_or_default()),
        "metadata.uid" => Ok(meta.uid.clone().unwrap_or_default()),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        _ => Err(FieldError::Unsupported(path.to_owned())),
    }
}

fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The value in double quotes with Go's escapes, which readers of these files expect.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{7}' => text.push_str("\\a"),
            '\u{8}' => text.push_str("\\b"),
            '\u{b}' => text.push_str("\\v"),
            '\u{c}' => text.push_str("\\f"),
            c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_are_quoted_as_go_does() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}é\u{85}"), r#""a\"b\\c\nd\x01é\u0085""#);
    }
}
