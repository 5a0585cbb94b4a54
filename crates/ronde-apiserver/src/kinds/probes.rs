//! The rules for probes and lifecycle handlers of containers.

use serde_json::Value;

use super::{
    errors::Errors,
    path::Path,
    read::{items, number, text},
};
use crate::names::{is_http_header_name, is_valid_port_name, is_valid_port_num};

/// Checks what is done around and during the life of a container that keeps running.
pub fn all(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    let lifecycle = &container["lifecycle"];
    let at = path.child("lifecycle");
    for name in ["postStart", "preStop"] {
        if !lifecycle[name].is_null() {
            handler(&lifecycle[name], grace, &at.child(name), errors);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !container[name].is_null() {
            probe(name, &container[name], grace, &path.child(name), errors);
        }
    }
}

fn probe(name: &str, probe: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    handler(probe, grace, path, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.nonnegative(&path.child(field), number(&probe[field]));
    }
    let own_grace = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = probe["terminationGracePeriodSeconds"].as_i64() {
        if seconds <= 0 {
            errors.invalid(&own_grace, seconds, "must be greater than 0");
        }
        if name == "readinessProbe" {
            errors.invalid(&own_grace, seconds, "must not be set for readinessProbes");
        }
    }
    let successes = number(&probe["successThreshold"]);
    if name != "readinessProbe" && successes != 1 {
        errors.invalid(&path.child("successThreshold"), successes, "must be 1");
    }
}

fn handler(handler: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let mut has_handler = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let (action, at) = (&handler[kind], path.child(kind));
        if action.is_null() {
            continue;
        }
        if has_handler {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        has_handler = true;
        match kind {
            "exec" if items(&action["command"]).is_empty() => errors.required(&at.child("command"), ""),
            "exec" => {}
            "httpGet" => http_get(action, &at, errors),
            "sleep" => sleep(action, grace, &at, errors),
            _ => port(&action["port"], &at.child("port"), errors),
        }
    }
    if !has_handler {
        errors.required(path, "must specify a handler type");
    }
}

fn http_get(action: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(&action["path"]).is_empty() {
        errors.required(&path.child("path"), "");
    }
    port(&action["port"], &path.child("port"), errors);
    let scheme = text(&action["scheme"]);
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        errors.names(&path.child("httpHeaders"), name, is_http_header_name(name));
    }
}

/// Checks a port that is a number or the name of one.
pub fn port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    match port.as_str() {
        Some(name) => errors.names(path, name, is_valid_port_name(name)),
        None => errors.numbers(path, number(port), is_valid_port_num(number(port))),
    }
}

fn sleep(action: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let seconds = number(&action["seconds"]);
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, detail);
    }
}
