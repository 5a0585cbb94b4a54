//! What reaches a node, and what is refused before.

use http::HeaderValue;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-11-15T22:00:00Z".parse().expect("a time")
}

fn ask(subresource: &str, query: &str, pod: &Value) -> Result<What, String> {
    let target = Target { subresource: subresource.into(), name: "web".into(), ..Target::default() };
    let mut what = What::parse(&target, &Query::parse(Some(query)), now()).map_err(|error| error.message)?;
    what.choose_container(pod).map_err(|error| error.message)?;
    Ok(what)
}

fn pod(init: &[&str], containers: &[&str]) -> Value {
    let list = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    json!({"metadata": {"name": "web"}, "spec": {"initContainers": list(init), "containers": list(containers)}})
}

#[test]
fn the_container_is_the_only_one_or_the_one_named() {
    let check = |query: &str, pod: &Value, expected: Result<&str, &str>| {
        let found = match ask("attach", query, pod) {
            Ok(What::Attach { container, .. }) => Ok(container),
            Ok(other) => panic!("{other:?}"),
            Err(message) => Err(message),
        };
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{query}");
    };
    check("", &pod(&["setup"], &["app"]), Ok("app"));
    check("container=setup", &pod(&["setup"], &["app"]), Ok("setup"));
    check("container=x", &pod(&[], &["app"]), Err("container x is not valid for pod web"));
    check("", &pod(&[], &[]), Err("a container name must be specified for pod web"));
    let choose = "a container name must be specified for pod web, choose one of: [setup app side]";
    check("", &pod(&["setup"], &["app", "side"]), Err(choose));
}

#[test]
fn log_parameters_are_read_as_the_real_server_reads_them() {
    let pod = pod(&[], &["app"]);
    let check = |query: &str, expected: LogOptions| {
        assert_eq!(ask("log", query, &pod), Ok(What::Log { container: "app".into(), options: expected }), "{query}");
    };
    let none = LogOptions::default();
    check("", none.clone());
    check("follow=true&previous=1&timestamps", LogOptions { follow: true, previous: true, timestamps: true, ..none });
    check("follow=false&previous=0", none.clone());
    check("tailLines=0&limitBytes=5", LogOptions { tail_lines: Some(0), limit_bytes: Some(5), ..none });
    check("stream=Stderr", LogOptions { stream: LogStream::Stderr, ..none });
    let since = "2026-11-15T21:59:00Z".parse().ok();
    check("sinceSeconds=60", LogOptions { since, ..none });
    check("sinceTime=2026-11-15T22:59:00%2B01:00", LogOptions { since, ..none });
    check("sinceTime=", none.clone());
}

#[test]
fn wrong_log_parameters_are_named() {
    let check = |query: &str, expected: &str| {
        let found = ask("log", query, &pod(&[], &["app"]));
        assert_eq!(found, Err(expected.to_owned()), "{query}");
    };
    check("tailLines=x", "tailLines: expected a number, got \"x\"");
    check("limitBytes=", "limitBytes: expected a number, got \"\"");
    check(
        "tailLines=-1",
        "PodLogOptions \"web\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
    );
    check("limitBytes=0", "PodLogOptions \"web\" is invalid: limitBytes: Invalid value: 0: must be greater than 0");
    check("sinceSeconds=0", "PodLogOptions \"web\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0");
    check(
        "sinceSeconds=1&sinceTime=2026-11-15T22:00:00Z",
        "PodLogOptions \"web\" is invalid: : Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
    );
    check(
        "stream=Stdout&tailLines=1",
        "PodLogOptions \"web\" is invalid: : Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
    );
    check("sinceTime=noon", "sinceTime: expected a time such as 2026-01-02T15:04:05Z, got \"noon\"");
}

#[test]
fn commands_terminals_and_ports_are_read() {
    let pod = pod(&[], &["app"]);
    let terminal = TerminalOptions { stdin: true, stdout: true, stderr: false, tty: true };
    let command = ["sh", "-c", ""].map(str::to_owned).to_vec();
    let exec = What::Exec { container: "app".into(), command, terminal };
    let query = "command=sh&command=-c&command=&stdin=true&stdout=1&stderr=true&tty=true";
    assert_eq!(ask("exec", query, &pod), Ok(exec), "a terminal has one output");
    assert_eq!(ask("portforward", "ports=80,81&ports=443", &pod), Ok(What::PortForward { ports: vec![80, 81, 443] }));
    assert_eq!(ask("portforward", "", &pod), Ok(What::PortForward { ports: vec![] }));
    let wrong = |text| Err(format!("ports: expected numbers up to 65535, got \"{text}\""));
    assert_eq!(ask("portforward", "ports=80,", &pod), wrong(""));
    assert_eq!(ask("portforward", "ports=65536", &pod), wrong("65536"));
}

#[test]
fn terminals_need_an_upgrade_and_a_stream() {
    let check = |query: &str, connection: &str, expected: Result<(), &str>| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_str(connection).expect("a header"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        let what = ask("exec", query, &pod(&[], &["app"])).expect("a question");
        let found = what.check_request(&headers).map_err(|error| error.message);
        assert_eq!(found, expected.map_err(str::to_owned), "{query} {connection}");
    };
    check("stdout=1", "keep-alive, Upgrade", Ok(()));
    check("stdout=1", "close", Err("Upgrade request required"));
    check("tty=1", "Upgrade", Err("you must specify at least 1 of stdin, stdout, stderr"));
}
