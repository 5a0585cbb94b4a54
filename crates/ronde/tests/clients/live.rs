//! What takes two clients at a time: one that watches or waits, and one that changes something meanwhile.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Output},
    sync::mpsc::{self, Receiver},
    thread,
};

use ronde_sim::wait_until;

use crate::{
    client::{Home, Program},
    expectation::redact,
    sandbox::LIMIT,
};

/// A client that runs until it ends by itself or the test is over.
struct Background {
    child: Child,
    /// Lines of stdout; a thread reads them, so that waiting for one has a bound.
    lines: Receiver<String>,
}

impl Background {
    fn start(home: &Home, script: &str) -> Self {
        // Without `exec` the kill would end the shell alone.
        let mut child = home.shell(&format!("exec {script}")).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Returns the next line, with its columns one space apart.
    fn line(&self) -> String {
        let line = self.lines.recv_timeout(LIMIT).expect("the client prints another line");
        redact(&line.split_whitespace().collect::<Vec<_>>().join(" "), "/none")
    }

    /// Waits until the client ends by itself.
    fn end(mut self) -> Output {
        let status = wait_until("the client ends", LIMIT, || self.child.try_wait().unwrap());
        let mut output =
            Output { status, stdout: self.lines.iter().collect::<Vec<_>>().join("\n").into(), stderr: vec![] };
        std::io::Read::read_to_end(&mut self.child.stderr.take().unwrap(), &mut output.stderr).unwrap();
        output
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn assert_success(output: &Output, stdout: &str) {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(redact(&String::from_utf8_lossy(&output.stdout), "/none"), stdout);
}

#[test]
fn a_watch_shows_every_change() {
    let Some(home) = Home::new("live-watch", &[Program::Kubectl]) else { return };
    home.succeed("kubectl create deployment web --image example.test/web:1");
    let watch = Background::start(&home, "kubectl get deployments --watch");
    assert_eq!(watch.line(), "NAME READY UP-TO-DATE AVAILABLE AGE");
    assert_eq!(watch.line(), "web 0/1 0 0 [AGE]");
    home.succeed("kubectl scale deployment web --replicas 3");
    assert_eq!(watch.line(), "web 0/3 0 0 [AGE]");
    home.succeed("kubectl create deployment db --image example.test/db:1");
    assert_eq!(watch.line(), "db 0/1 0 0 [AGE]");
    home.succeed("kubectl delete deployment web");
    assert_eq!(watch.line(), "web 0/3 0 0 [AGE]");
}

#[test]
fn a_watch_names_the_kinds_of_events() {
    let Some(home) = Home::new("live-events", &[Program::Kubectl]) else { return };
    home.succeed("kubectl create configmap before");
    home.succeed("kubectl label configmap before app=web");
    let columns = "custom-columns=NAME:.object.metadata.name,DATA:.object.data,EVENT:.type";
    let watch = Background::start(&home, &format!("kubectl get cm -l app=web -w --output-watch-events -o {columns}"));
    assert_eq!(watch.line(), "NAME DATA EVENT");
    assert_eq!(watch.line(), "before <none> ADDED");
    home.succeed("kubectl create configmap other");
    home.succeed("kubectl patch configmap before --type merge -p '{\"data\":{\"a\":\"b\"}}'");
    assert_eq!(watch.line(), "before map[a:b] MODIFIED");
    home.succeed("kubectl label configmap other app=web");
    assert_eq!(watch.line(), "other <none> ADDED");
    // An object that no longer fits the selector is gone for this watch.
    home.succeed("kubectl label configmap before app-");
    assert_eq!(watch.line(), "before map[a:b] DELETED");
    home.succeed("kubectl delete configmap other");
    assert_eq!(watch.line(), "other <none> DELETED");
}

#[test]
fn a_watch_of_one_object_begins_with_what_is_there() {
    let Some(home) = Home::new("live-one", &[Program::Kubectl]) else { return };
    home.succeed("kubectl create configmap one --from-literal n=1");
    home.succeed("kubectl create configmap two --from-literal n=1");
    let watch = Background::start(&home, "kubectl get configmap one -w -o jsonpath='{.data.n}{\"\\n\"}'");
    assert_eq!(watch.line(), "1");
    home.succeed("kubectl patch configmap two --type merge -p '{\"data\":{\"n\":\"2\"}}'");
    home.succeed("kubectl patch configmap one --type merge -p '{\"data\":{\"n\":\"3\"}}'");
    assert_eq!(watch.line(), "3");
    home.succeed("kubectl delete configmap one");
    assert_eq!(watch.line(), "3");
}

#[test]
fn a_watch_only_begins_with_what_comes() {
    let Some(home) = Home::new("live-only", &[Program::Kubectl]) else { return };
    home.succeed("kubectl create configmap one --from-literal n=0");
    let watch = Background::start(&home, "kubectl get configmap one --watch-only -o jsonpath='{.data.n}{\"\\n\"}'");
    // It is not known when the watch begins: changes go on until one of them is seen.
    let mut number = 0;
    let seen = wait_until("the watch shows a change", LIMIT, || {
        number += 1;
        home.succeed(&format!("kubectl patch configmap one --type merge -p '{{\"data\":{{\"n\":\"{number}\"}}}}'"));
        watch.lines.try_recv().ok()
    });
    assert!(seen.parse::<u32>().unwrap() > 0, "{seen}");
}

#[test]
fn waits_end_when_it_is_so() {
    let Some(home) = Home::new("live-wait", &[Program::Kubectl]) else { return };
    home.succeed("kubectl create job once --image example.test/once:1");
    home.succeed("kubectl create configmap gone");
    let start = |what: &str| Background::start(&home, &format!("kubectl wait {what} --timeout 60s"));
    let complete = start("--for=condition=Complete job/once");
    let active = start("--for=jsonpath='{.status.active}'=1 job/once");
    let deleted = start("--for=delete configmap/gone");
    let created = start("--for=create configmap/new");
    home.succeed("kubectl delete configmap gone");
    home.succeed("kubectl create configmap new");
    let status = |json: &str| {
        home.succeed(&format!("kubectl patch job once --subresource status --type merge -p '{{\"status\":{json}}}'"));
    };
    status(r#"{"startTime":"2026-01-01T00:00:00Z","active":1}"#);
    assert_success(&active.end(), "job.batch/once condition met");
    let met = r#""status":"True","lastProbeTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z""#;
    let conditions = format!(r#"[{{"type":"SuccessCriteriaMet",{met}}},{{"type":"Complete",{met}}}]"#);
    status(&format!(
        r#"{{"active":null,"succeeded":1,"completionTime":"2026-01-01T00:01:00Z","conditions":{conditions}}}"#
    ));
    assert_success(&complete.end(), "job.batch/once condition met");
    // It says nothing when the object was gone before it looked.
    assert!(deleted.end().status.success());
    assert_success(&created.end(), "configmap/new condition met");
}

#[test]
fn a_foreground_deletion_waits_for_the_dependents() {
    let Some(home) = Home::new("live-foreground", &[Program::Kubectl]) else { return };
    home.succeed("kubectl create configmap owner");
    let uid = home.succeed("kubectl get configmap owner -o jsonpath='{.metadata.uid}'");
    home.succeed(&format!(
        "kubectl create -f - <<'EOF'
apiVersion: v1
kind: ConfigMap
metadata:
  name: child
  finalizers: [example.test/hold]
  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}]
EOF"
    ));
    let deletion = Background::start(&home, "kubectl delete configmap owner --cascade=foreground");
    let is_dying = |name: &str| {
        let since = format!("kubectl get configmap {name} -o jsonpath='{{.metadata.deletionTimestamp}}'");
        !home.succeed(&since).is_empty()
    };
    wait_until("the child is being deleted", LIMIT, || is_dying("child").then_some(()));
    assert!(is_dying("owner"), "the owner is still there");
    home.succeed("kubectl patch configmap child --type merge -p '{\"metadata\":{\"finalizers\":null}}'");
    assert_success(&deletion.end(), "configmap \"owner\" deleted");
}
