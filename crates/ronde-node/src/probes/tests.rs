//! Probes of containers that answer, fail, hang and recover.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Probe};
use serde_json::{Value, from_value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    Health, Kind, ProbeOutcome, ProbeState, Target, Watching, fake::Fake, handler::perform, run_hook, watch_health,
};
use crate::lifecycle::{Ailment, PodEvent};

fn target(container: Value) -> Target<Fake> {
    let container: Container = from_value(container).expect("a container");
    Target {
        reach: Fake::default(),
        container,
        pod_ip: "10.0.0.1".to_owned(),
        pod: "p_ns(uid)".to_owned(),
        field_path: "spec.containers{a}".to_owned(),
    }
}

fn failed(text: &str) -> ProbeOutcome {
    ProbeOutcome::Failure(text.to_owned())
}

fn error(text: &str) -> ProbeOutcome {
    ProbeOutcome::Error(text.to_owned())
}

async fn check(rows: impl IntoIterator<Item = (&str, Value, ProbeOutcome)>) {
    let ports = json!([{"name": "web", "containerPort": 80}]);
    let target = target(json!({"name": "a", "ports": ports, "env": [{"name": "VERB", "value": "fail"}]}));
    for (name, probe, expected) in rows {
        let probe: Probe = from_value(probe).expect("a probe");
        assert_eq!(perform(&target, &probe).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_and_ports() {
    let exec = |command: &[&str]| json!({"timeoutSeconds": 3, "exec": {"command": command}});
    check([
        ("a command that succeeds", exec(&["ok"]), ProbeOutcome::Success),
        ("one that fails", exec(&["fail"]), failed("output")),
        ("one that knows the manifest's variables", exec(&["$(VERB)"]), failed("output")),
        ("one that hangs", exec(&["sh", "hang"]), failed("command timed out: \"sh hang\" timed out after 3s")),
        ("one that does not exist", exec(&["none"]), error("exec: \"none\": executable file not found in $PATH")),
        ("nothing to do", json!({}), error("missing probe handler for p_ns(uid):a")),
    ])
    .await;
    let tcp = |host: &str, port: Value| json!({"tcpSocket": {"host": host, "port": port}});
    check([
        ("a port that is open", tcp("", json!("web")), ProbeOutcome::Success),
        ("one that is closed", tcp("", json!(81)), failed("dial tcp 10.0.0.1:81: connect: connection refused")),
        ("one that does not answer", tcp("::1", json!(9)), failed("dial tcp [::1]:9: i/o timeout")),
        ("one that has no such name", tcp("", json!("x")), error("strconv.Atoi: parsing \"x\": invalid syntax")),
        ("no port", tcp("", json!(0)), error("invalid port number: 0")),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn pages() {
    let get = |path: &str| json!({"httpGet": {"path": path, "port": "web"}});
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let own = json!([{"name": "Authorization", "value": "Bearer t"}, {"name": "Host", "value": "me"}]);
    let elsewhere = ProbeOutcome::Warning("Probe terminated redirects, Response body: body".to_owned());
    let down = "Get \"http://10.0.0.1:81/ok\": dial tcp 10.0.0.1:81: connect: connection refused";
    check([
        ("a page", get("/ok"), ProbeOutcome::Success),
        ("a page without a slash", get("ok"), ProbeOutcome::Success),
        ("the headers that it gets", get("/plain"), ProbeOutcome::Success),
        ("an error", get("/none"), failed("HTTP probe failed with statuscode: 500")),
        ("a redirect", get("/moved"), ProbeOutcome::Success),
        ("a relative one", get("/near"), ProbeOutcome::Success),
        ("one that names the same host", get("/same"), ProbeOutcome::Success),
        ("one to another host", get("/other"), elsewhere),
        ("one in a circle", get("/loop"), failed("Get \"http://10.0.0.1:80/loop\": stopped after 10 redirects")),
        ("a slow page", get("/slow"), failed(&format!("Get \"http://10.0.0.1:80/slow\": {late}"))),
        (
            "its own headers",
            json!({"httpGet": {"path": "/auth", "port": 80, "httpHeaders": own}}),
            ProbeOutcome::Success,
        ),
        ("a server that is down", json!({"httpGet": {"path": "/ok", "port": 81}}), failed(down)),
        ("one that hangs up", json!({"httpGet": {"port": 7}}), failed("Get \"http://10.0.0.1:7/\": EOF")),
        ("TLS", json!({"httpGet": {"path": "/ok", "port": 443, "scheme": "HTTPS"}}), ProbeOutcome::Success),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn health_by_grpc() {
    let ask = |port: u16, service: &str| json!({"grpc": {"port": port, "service": service}});
    let refused = "dial tcp 10.0.0.1:51: connect: connection refused";
    let odd = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ";
    check([
        ("the whole server", ask(50, ""), ProbeOutcome::Success),
        ("not serving", ask(50, "down"), failed("service unhealthy (responded with \"NOT_SERVING\")")),
        ("not implemented", ask(50, "odd"), failed(odd)),
        ("hangs", ask(9, ""), failed("timeout: health rpc did not complete within 1s")),
        ("closed", ask(51, ""), failed(&format!("error: failed to connect service at \"10.0.0.1:51\": {refused}"))),
        ("no HTTP/2", ask(80, ""), failed("error: health rpc probe failed: connection error")),
        ("hangs up", ask(7, ""), failed("error: health rpc probe failed: connection error")),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn hooks_run_once() {
    let of = |kind: &str, what: &str, why: &str| {
        Err(format!("{kind} lifecycle hook ({what}) for Container \"a\" in Pod \"p_ns(uid)\" failed - error: {why}"))
    };
    let exited = "command 'sh fail' exited with 1, message: \"output\"";
    let refused = "Get \"http://10.0.0.1:81/x\": dial tcp 10.0.0.1:81: connect: connection refused";
    let rows = [
        ("a command", json!({"exec": {"command": ["ok"]}}), Ok(())),
        ("one that fails", json!({"exec": {"command": ["sh", "fail"]}}), of("Exec", "[sh fail]", exited)),
        ("any answer", json!({"httpGet": {"path": "/none", "port": 80}}), Ok(())),
        ("no answer", json!({"httpGet": {"path": "/x", "port": 81}}), of("HTTP", "/x", refused)),
        ("a sleep", json!({"sleep": {"seconds": 5}}), Ok(())),
        ("nothing", json!({"tcpSocket": {"port": 80}}), Err("Cannot run handler: invalid handler".to_owned())),
    ];
    let target = target(json!({"name": "a"}));
    let begin = Instant::now();
    for (name, handler, expected) in rows {
        let handler: LifecycleHandler = from_value(handler).expect("a handler");
        assert_eq!(run_hook(&target, &handler).await, expected, "{name}");
    }
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
}

/// Plays results into the state, and returns a letter for the health before and after each. A result is the probe's
/// letter (startup, liveness, readiness) and `+`, `-`, or `!` for a probe that could not be performed.
fn play(probes: Value, known: Option<Health>, results: &str) -> String {
    let container: Container = from_value(probes).expect("a container");
    let mut state = ProbeState::new(&container, known);
    let mut seen = letter(state.health()).to_string();
    for result in results.split_whitespace() {
        let kind = match &result[..1] {
            "s" => Kind::Startup,
            "l" => Kind::Liveness,
            _ => Kind::Readiness,
        };
        let outcome = match &result[1..] {
            "+" => ProbeOutcome::Success,
            "-" => failed("no"),
            _ => error("odd"),
        };
        state.record(kind, &outcome);
        seen.push(letter(state.health()));
    }
    seen
}

/// `.` not started, `s` started, `r` ready; `L` and `S` for the probe that wants a restart.
fn letter(health: Health) -> char {
    match health {
        Health { unhealthy: Some(Ailment::Liveness), .. } => 'L',
        Health { unhealthy: Some(Ailment::Startup), .. } => 'S',
        Health { ready: true, .. } => 'r',
        Health { started: true, .. } => 's',
        Health { .. } => '.',
    }
}

#[test]
fn results_count() {
    let twice = json!({"name": "a", "livenessProbe": {"failureThreshold": 2}});
    let both = json!({"name": "a", "startupProbe": {}, "readinessProbe": {}});
    let own = json!({"name": "a", "readinessProbe": {"successThreshold": 2, "failureThreshold": 1}});
    let rows = [
        ("no probes", json!({"name": "a"}), "", "r"),
        ("one success, three failures", json!({"name": "a", "readinessProbe": {}}), "r+ r- r- r+ r- r- r-", "srrrrrrs"),
        ("thresholds of its own", own, "r+ r+ r-", "ssrs"),
        ("errors do not count", twice.clone(), "l! l! l- l! l-", "rrrrrL"),
        ("a success between failures", twice, "l- l+ l-", "rrrr"),
        ("startup before readiness", both.clone(), "s- s+ r+", "..sr"),
        ("startup alone", json!({"name": "a", "startupProbe": {}}), "s- s+", "..r"),
        ("startup that fails", json!({"name": "a", "startupProbe": {}}), "s- s- s-", "...S"),
    ];
    for (name, probes, results, expected) in rows {
        assert_eq!(play(probes, None, results), expected, "{name}");
    }
    let known = Health { started: true, ready: true, unhealthy: None };
    assert_eq!(play(both, Some(known), "r- r- r-"), "rrrs", "found again after a restart of the daemon");
}

#[test]
fn probes_are_due_in_turn() {
    let container: Container = from_value(json!({
        "name": "a",
        "startupProbe": {"periodSeconds": 2, "initialDelaySeconds": 1},
        "livenessProbe": {"periodSeconds": 5, "initialDelaySeconds": 4},
        "readinessProbe": {"periodSeconds": 3},
    }))
    .expect("a container");
    let seconds = Duration::from_secs;
    let mut state = ProbeState::new(&container, None);
    assert_eq!((state.take_due(seconds(0)), state.next_at()), (None, Some(seconds(1))));
    assert_eq!(state.take_due(seconds(1)), Some(Kind::Startup));
    assert_eq!((state.take_due(seconds(9)), state.next_at()), (None, None), "one at a time, and the others wait");
    state.record(Kind::Startup, &ProbeOutcome::Success);
    assert_eq!(state.next_at(), Some(seconds(0)), "readiness is late already");
    assert_eq!(state.take_due(seconds(2)), Some(Kind::Readiness));
    assert_eq!((state.take_due(seconds(2)), state.next_at()), (None, Some(seconds(4))));
    assert_eq!(state.take_due(seconds(4)), Some(Kind::Liveness));
    state.record(Kind::Readiness, &ProbeOutcome::Success);
    assert_eq!(state.next_at(), Some(seconds(5)));
    state.end_restarts();
    assert_eq!(state.record(Kind::Liveness, &ProbeOutcome::Failure("late".to_owned())), None);
}

#[tokio::test(start_paused = true)]
async fn one_task_watches_a_container() {
    let target = target(json!({
        "name": "a",
        "startupProbe": {"periodSeconds": 1, "exec": {"command": ["startup", "next"]}},
        "readinessProbe": {"periodSeconds": 4, "timeoutSeconds": 3, "exec": {"command": ["hang"]}},
        "livenessProbe": {"periodSeconds": 5, "failureThreshold": 2, "exec": {"command": ["fail"]}},
    }));
    target.reach.script.lock().expect("one thread").extend(["fail", "ok"]);
    let begin = Instant::now();
    let (health, mut seen) = watch::channel(Health { started: false, ready: false, unhealthy: None });
    let (_end, ending) = watch::channel(false);
    let mut told: Vec<String> = Vec::new();
    let watching = Watching {
        age: Duration::ZERO,
        state: ProbeState::new(&target.container, None),
        health,
        ending,
        report: |event: PodEvent| {
            told.push(format!("{} {} {}", begin.elapsed().as_secs(), event.field_path, event.message));
        },
    };
    let wait = async {
        let health = *seen.wait_for(|health| health.unhealthy.is_some()).await.expect("watched");
        (health, begin.elapsed().as_secs())
    };
    let (health, at) = tokio::select! {
        seen = wait => seen,
        () = watch_health(&target, watching) => panic!("probes go on"),
    };
    // Startup at 0 and 1; liveness then at 1 and 6, not held up by the readiness probe that hangs.
    assert_eq!((letter(health), at), ('L', 6));
    assert_eq!(
        told,
        [
            "0 spec.containers{a} Startup probe failed: output",
            "1 spec.containers{a} Liveness probe failed: output",
            "4 spec.containers{a} Readiness probe failed: command timed out: \"hang\" timed out after 3s",
            "6 spec.containers{a} Liveness probe failed: output",
        ]
    );
    assert_eq!(target.reach.take(), ["startup next", "startup next", "fail", "hang", "hang", "fail"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_stopped_is_asked_only_whether_it_is_ready() {
    let target = target(json!({
        "name": "a",
        "readinessProbe": {"periodSeconds": 60, "exec": {"command": ["ok"]}},
        "livenessProbe": {"periodSeconds": 1, "exec": {"command": ["fail"]}},
    }));
    let (health, seen) = watch::channel(Health { started: false, ready: false, unhealthy: None });
    let (end, ending) = watch::channel(false);
    let state = ProbeState::new(&target.container, None);
    let watching = Watching { age: Duration::from_secs(100), state, health, ending, report: |_| () };
    let stop = async {
        sleep(Duration::from_millis(1500)).await;
        end.send(true).expect("watched");
        sleep(Duration::from_secs(50)).await;
    };
    tokio::select! {
        () = stop => {}
        () = watch_health(&target, watching) => panic!("readiness goes on"),
    }
    assert_eq!(letter(*seen.borrow()), 'r');
    assert_eq!(target.reach.take(), ["fail", "ok", "fail"]);
}

#[tokio::test(start_paused = true)]
async fn without_probes_the_task_ends() {
    let target = target(json!({"name": "a"}));
    let (health, seen) = watch::channel(Health { started: false, ready: false, unhealthy: None });
    let (_end, ending) = watch::channel(false);
    let state = ProbeState::new(&target.container, None);
    watch_health(&target, Watching { age: Duration::ZERO, state, health, ending, report: |_| () }).await;
    assert_eq!(letter(*seen.borrow()), 'r');
}
