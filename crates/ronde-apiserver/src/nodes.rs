//! What only the machine that runs a pod can answer: logs, terminals, forwarded ports.
//!
//! The API server checks a request as far as objects and parameters go, and then hands it over whole, so that the node
//! can stream an answer or take the connection for itself. It does not know how a node does any of it.

use axum::{extract::Request, response::Response};
use futures::future::BoxFuture;
use http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    error::{ApiError, FieldError, Subject},
    http::query::Query,
    target::Target,
};

/// Answers what only the node of a pod can: logs, exec, attach, port-forward.
pub trait NodeApi: Send + Sync + 'static {
    /// Answers a request that has passed the API server's checks; the request is as it came.
    fn ask(&self, ask: PodRequest, request: Request) -> BoxFuture<'static, Response>;
}

/// A question to the node of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRequest {
    /// The pod as a client would see it; `spec.nodeName` is set.
    pub pod: Value,
    pub what: What,
    /// Who asks.
    pub user: String,
}

/// What is asked of a pod; the container is one that the pod has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Log {
        container: String,
        options: LogOptions,
    },
    Exec {
        container: String,
        command: Vec<String>,
        terminal: TerminalOptions,
    },
    Attach {
        container: String,
        terminal: TerminalOptions,
    },
    /// The ports are those named in the query; clients of the older protocol name them later.
    PortForward {
        ports: Vec<u16>,
    },
}

/// Which part of a log is asked for, and in what form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub follow: bool,
    /// The log of the container's run before this one.
    pub previous: bool,
    pub timestamps: bool,
    /// Nothing older than this.
    pub since: Option<Timestamp>,
    /// At most so many lines, from the end.
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub stream: LogStream,
}

/// Which output of a container is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogStream {
    #[default]
    All,
    Stdout,
    Stderr,
}

/// Which streams a command is to be connected to; at least one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalOptions {
    pub stdin: bool,
    pub stdout: bool,
    /// Never with a terminal, which has one output.
    pub stderr: bool,
    pub tty: bool,
}

/// Whether a path names something that a node answers.
pub fn is_for_node(target: &Target) -> bool {
    let asks = matches!(target.subresource.as_str(), "log" | "exec" | "attach" | "portforward");
    asks && target.group.is_empty() && target.plural == "pods"
}

/// Whether a request asks to use its connection for another protocol.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let asks = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    asks.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
        && headers.contains_key(header::UPGRADE)
}

impl What {
    /// Reads and checks the parameters of a request; the container is as named, or empty.
    ///
    /// # Errors
    /// If a parameter is malformed or not allowed.
    pub fn parse(target: &Target, query: &Query, now: Timestamp) -> Result<Self, ApiError> {
        let container = query.get("container").to_owned();
        Ok(match target.subresource.as_str() {
            "log" => Self::Log { container, options: log_options(&target.name, query, now)? },
            "exec" => {
                let command = query.all("command").map(str::to_owned).collect();
                Self::Exec { container, command, terminal: terminal_options(query) }
            }
            "attach" => Self::Attach { container, terminal: terminal_options(query) },
            _ => Self::PortForward { ports: ports(query)? },
        })
    }

    /// Makes sure that the container is one of the pod's: the only one, if none is named.
    ///
    /// # Errors
    /// If there is no such container, or several to choose from.
    pub fn choose_container(&mut self, pod: &Value) -> Result<(), ApiError> {
        match self {
            Self::Log { container, .. } | Self::Exec { container, .. } | Self::Attach { container, .. } => {
                *container = choose_container(pod, container)?;
                Ok(())
            }
            Self::PortForward { .. } => Ok(()),
        }
    }

    /// # Errors
    /// If the question makes no sense to any node, or the request is not of the form it needs.
    pub fn check_request(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if !matches!(self, Self::Log { .. }) && !is_upgrade(headers) {
            return Err(ApiError::bad_request("Upgrade request required"));
        }
        match self {
            Self::Exec { terminal, .. } | Self::Attach { terminal, .. }
                if !(terminal.stdin || terminal.stdout || terminal.stderr) =>
            {
                Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"))
            }
            _ => Ok(()),
        }
    }
}

fn choose_container(pod: &Value, named: &str) -> Result<String, ApiError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let all: Vec<&str> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    if !named.is_empty() {
        let wrong = || ApiError::bad_request(format!("container {named} is not valid for pod {name}"));
        return all.iter().find(|known| **known == named).map(|found| (*found).to_owned()).ok_or_else(wrong);
    }
    match pod["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice) {
        [only] => Ok(only["name"].as_str().unwrap_or_default().to_owned()),
        [] => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
    }
}

fn terminal_options(query: &Query) -> TerminalOptions {
    let (stdin, stdout) = (query.switch("stdin"), query.switch("stdout"));
    let tty = query.switch("tty");
    TerminalOptions { stdin, stdout, stderr: query.switch("stderr") && !tty, tty }
}

fn ports(query: &Query) -> Result<Vec<u16>, ApiError> {
    let parse = |text: &str| {
        let wrong = || ApiError::bad_request(format!("ports: expected numbers up to 65535, got {text:?}"));
        text.parse::<u16>().map_err(|_| wrong())
    };
    query.all("ports").flat_map(|list| list.split(',')).map(parse).collect()
}

fn log_options(pod: &str, query: &Query, now: Timestamp) -> Result<LogOptions, ApiError> {
    let (seconds, tail, limit) =
        (integer(query, "sinceSeconds")?, integer(query, "tailLines")?, integer(query, "limitBytes")?);
    let time = since_time(query)?;
    let mut errors = Vec::new();
    let mut at_least = |field: &str, value: Option<i64>, least: i64, why: &str| {
        if let Some(value) = value.filter(|value| *value < least) {
            errors.push(FieldError::invalid(field, value.into(), why));
        }
    };
    at_least("tailLines", tail, 0, "must be greater than or equal to 0");
    at_least("limitBytes", limit, 1, "must be greater than 0");
    at_least("sinceSeconds", seconds.filter(|_| time.is_none()), 1, "must be greater than 0");
    if seconds.is_some() && time.is_some() {
        errors.push(FieldError::forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
    }
    let stream = log_stream(query, tail, &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid(Subject { group: "", what: "PodLogOptions", name: pod }, &errors));
    }
    let ago = |seconds| now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
    Ok(LogOptions {
        follow: query.switch("follow"),
        previous: query.switch("previous"),
        timestamps: query.switch("timestamps"),
        since: time.or_else(|| seconds.map(ago)),
        tail_lines: tail.and_then(|lines| u64::try_from(lines).ok()),
        limit_bytes: limit.and_then(|bytes| u64::try_from(bytes).ok()),
        stream,
    })
}

fn log_stream(query: &Query, tail: Option<i64>, errors: &mut Vec<FieldError>) -> LogStream {
    let stream = match query.find("stream") {
        None | Some("All") => return LogStream::All,
        Some("Stdout") => LogStream::Stdout,
        Some("Stderr") => LogStream::Stderr,
        Some(other) => {
            errors.push(FieldError::not_supported("stream", other.into(), &["All", "Stderr", "Stdout"]));
            LogStream::All
        }
    };
    if tail.is_some() {
        errors.push(FieldError::forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"));
    }
    stream
}

fn integer(query: &Query, name: &str) -> Result<Option<i64>, ApiError> {
    let parse = |text: &str| {
        let wrong = || format!("{name}: expected a number, got {text:?}");
        text.parse::<i64>().map_err(|_| ApiError::bad_request(wrong()))
    };
    query.find(name).map(parse).transpose()
}

fn since_time(query: &Query) -> Result<Option<Timestamp>, ApiError> {
    let parse = |text: &str| {
        let wrong = || format!("sinceTime: expected a time such as 2026-01-02T15:04:05Z, got {text:?}");
        text.parse::<Timestamp>().map_err(|_| ApiError::bad_request(wrong()))
    };
    query.find("sinceTime").filter(|text| !matches!(*text, "" | "null")).map(parse).transpose()
}

#[cfg(test)]
mod tests;
