//! Config maps, secrets and service accounts.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Rules,
    errors::Errors,
    meta,
    path::Path,
    read::{default, entries, is_true, items_mut, object, text},
};
use crate::names::{is_config_map_key, is_dns1123_subdomain};

/// What is particular about config maps.
pub const CONFIG_MAP: Rules = Rules { validate: validate_config_map, ..Rules::PLAIN };

/// What is particular about secrets.
pub const SECRET: Rules = Rules { default: default_secret, validate: validate_secret, ..Rules::PLAIN };

/// What is particular about service accounts.
pub const SERVICE_ACCOUNT: Rules = Rules {
    prepare_create: |account, _| only_secret_names(account),
    prepare_update: |account, _| only_secret_names(account),
    validate: |new, old, errors| {
        if let Some(old) = old {
            meta::updated(new, old, errors);
            meta::standard_finalizers(new, errors);
        }
        meta::created(new, true, is_dns1123_subdomain, errors);
        meta::standard_finalizers(new, errors);
    },
    ..Rules::PLAIN
};

const SIZE_MAX: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

fn only_secret_names(account: &mut Value) {
    let Some(account) = account.as_object_mut() else { return };
    for secret in items_mut(account, "secrets") {
        let name = text(&secret["name"]);
        *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    }
}

/// Moves text into the data, where all of it is in base64.
fn default_secret(secret: &mut Value) {
    if let Some(secret) = secret.as_object_mut() {
        default(secret, "type", "Opaque");
        if let Some(Value::Object(texts)) = secret.remove("stringData")
            && let Some(data) = object(secret, "data")
        {
            data.extend(texts.into_iter().map(|(key, value)| (key, STANDARD.encode(text(&value)).into())));
        }
    }
}

/// Returns how many bytes base64 stands for.
fn decoded_len(encoded: &str) -> usize {
    (encoded.len() / 4 * 3).saturating_sub(encoded.bytes().rev().take_while(|b| *b == b'=').count())
}

fn validate_config_map(map: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        meta::updated(map, old, errors);
        meta::standard_finalizers(map, errors);
        frozen(map, old, &["data", "binaryData"], errors);
    }
    meta::created(map, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(map, errors);
    let (data, binary) = (Path::new("data"), Path::new("binaryData"));
    let mut size = 0;
    for (key, value) in entries(&map["data"]) {
        errors.names(&data.key(key), key, is_config_map_key(key));
        if map["binaryData"].get(key).is_some() {
            errors.invalid(&data.key(key), key, "duplicate of key present in binaryData");
        }
        size += text(value).len();
    }
    for (key, value) in entries(&map["binaryData"]) {
        errors.names(&binary.key(key), key, is_config_map_key(key));
        size += decoded_len(text(value));
    }
    if size > SIZE_MAX {
        // An empty path has no fields but brackets in the real server.
        errors.too_long(&Path::new("[]"), SIZE_MAX);
    }
}

/// Checks that what was frozen stays as it is.
fn frozen(new: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    if !is_true(&old["immutable"]) {
        return;
    }
    if !is_true(&new["immutable"]) {
        errors.forbidden(&Path::new("immutable"), FROZEN);
    }
    for field in fields {
        if new[*field] != old[*field] {
            errors.forbidden(&Path::new(field), FROZEN);
        }
    }
}

fn validate_secret(secret: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        meta::updated(secret, old, errors);
        meta::standard_finalizers(secret, errors);
        errors.immutable(&Path::new("type"), &secret["type"], &old["type"]);
        frozen(secret, old, &["data"], errors);
    }
    meta::created(secret, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(secret, errors);
    let data = Path::new("data");
    let mut size = 0;
    for (key, value) in entries(&secret["data"]) {
        errors.names(&data.key(key), key, is_config_map_key(key));
        size += decoded_len(text(value));
    }
    if size > SIZE_MAX {
        errors.too_long(&data, SIZE_MAX);
    }
    typed_secret(secret, &data, errors);
}

fn typed_secret(secret: &Value, path: &Path<'_>, errors: &mut Errors) {
    let data = &secret["data"];
    let has = |key: &str| data.get(key).is_some();
    let missing: &[&str] = match text(&secret["type"]) {
        "kubernetes.io/service-account-token" => {
            if text(&secret["metadata"]["annotations"][ACCOUNT_NAME]).is_empty() {
                errors.required(&Path::new("metadata.annotations").key(ACCOUNT_NAME), "");
            }
            &[]
        }
        "kubernetes.io/dockercfg" => {
            docker_config(data, ".dockercfg", path, errors);
            &[]
        }
        "kubernetes.io/dockerconfigjson" => {
            docker_config(data, ".dockerconfigjson", path, errors);
            &[]
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => &["username", "password"],
        "kubernetes.io/ssh-auth" if text(&data["ssh-privatekey"]).is_empty() => &["ssh-privatekey"],
        "kubernetes.io/tls" => match (has("tls.crt"), has("tls.key")) {
            (true, true) => &[],
            (true, false) => &["tls.key"],
            (false, true) => &["tls.crt"],
            (false, false) => &["tls.crt", "tls.key"],
        },
        _ => &[],
    };
    for key in missing {
        errors.required(&path.key(key), "");
    }
}

fn docker_config(data: &Value, key: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(encoded) = data.get(key) else {
        errors.required(&path.key(key), "");
        return;
    };
    let bytes = STANDARD.decode(text(encoded)).unwrap_or_default();
    if let Some(why) = why_not_json_object(&bytes) {
        errors.invalid(&path.key(key), "<secret contents redacted>", why);
    }
}

/// Returns why a text is not an object in JSON. It says nothing of the text, which is a secret.
fn why_not_json_object(bytes: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(_) => Some("must be an object in JSON".to_owned()),
        Err(error) => Some(format!("malformed JSON at line {} column {}", error.line(), error.column())),
    }
}
