//! What happens to pods when something dies that they do not depend on, and when it is something that they do.

use std::path::PathBuf;

use fs_err as fs;
use ronde_sim::wait_until;

use crate::{
    client::{Home, Program},
    cluster::Cluster,
    directory,
    sandbox::{LIMIT, Sandbox, kill},
};

const NODES: &str = "--nodes 1";

/// A pod that counts without a pause that matters.
const COUNTER: &str = "kubectl run counter --image example.test/counter:1 -- \
    sh -c 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.005; done'";

fn start() -> Option<(Cluster, Home)> {
    Program::find_all(&[])?;
    let cluster = Cluster::start(Sandbox::new(), NODES)?;
    let home = Home::of(&cluster.sandbox, &directory().join("bin"));
    Some((cluster, home))
}

/// What must not change while the pod lives: its processes, its address, its count of restarts.
fn identity(cluster: &Cluster, home: &Home, pod: &str) -> String {
    let what = "{.metadata.uid} {.status.podIP} {.status.containerStatuses[0].restartCount} \
        {.status.containerStatuses[0].containerID}";
    let seen = home.succeed(&format!("kubectl get pod {pod} -o jsonpath='{what}'"));
    format!("{seen} {}", supervisor(cluster, seen.split(' ').next().unwrap()))
}

fn pod_folder(cluster: &Cluster, uid: &str) -> PathBuf {
    cluster.sandbox.path("data/node/pods").join(uid)
}

/// Returns the process of a pod's supervisor.
fn supervisor(cluster: &Cluster, uid: &str) -> u32 {
    fs::read_to_string(pod_folder(cluster, uid).join("supervisor.lock")).unwrap().trim().parse().unwrap()
}

fn uid(home: &Home, pod: &str) -> String {
    home.succeed(&format!("kubectl get pod {pod} -o jsonpath='{{.metadata.uid}}'"))
}

/// Kills a pod's supervisor; everything in the pod dies with it.
fn kill_supervisor(cluster: &Cluster, uid: &str) {
    kill(supervisor(cluster, uid), "KILL");
}

/// Asserts that the log has every number from 0 on, and returns the last.
fn assert_gapless(home: &Home) -> usize {
    let log = home.succeed("kubectl logs counter");
    let numbers: Vec<usize> = log.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    numbers.len()
}

#[test]
fn pods_do_not_notice_that_ronde_ends_or_is_killed() {
    let Some((cluster, home)) = start() else { return };
    home.succeed(COUNTER);
    home.succeed("kubectl wait --for=condition=Ready pod/counter --timeout 120s");
    let before = identity(&cluster, &home, "counter");
    let mut counted = assert_gapless(&home);
    for signal in ["TERM", "KILL"] {
        kill(cluster.sandbox.pid(), signal);
        wait_until("ronde ends", LIMIT, || (cluster.sandbox.status()["running"] == false).then_some(()));
        cluster.up(NODES);
        assert_eq!(identity(&cluster, &home, "counter"), before, "after SIG{signal}");
        let now = wait_until("the log goes on", LIMIT, || Some(assert_gapless(&home)).filter(|now| *now > counted));
        counted = now;
        assert_eq!(home.succeed("kubectl exec counter -- hostname"), "counter\n");
        home.succeed("kubectl wait --for=condition=Ready pod/counter --timeout 120s");
    }
    home.succeed("kubectl delete pod counter --grace-period 1");
    let folder = pod_folder(&cluster, before.split(' ').next().unwrap());
    wait_until("the pod's folder is gone", LIMIT, || (!folder.exists()).then_some(()));
}

/// As if ronde had been killed before it could write down that the pod's sandbox is made.
#[test]
fn a_supervisor_that_nobody_was_told_of_ends_with_its_pod() {
    let Some((cluster, home)) = start() else { return };
    home.succeed(
        "kubectl run unknown --image example.test/pod:1 -- sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 0.05; done'",
    );
    home.succeed("eventually 'kubectl logs unknown | grep deaf'");
    let uid = uid(&home, "unknown");
    let process = PathBuf::from(format!("/proc/{}", supervisor(&cluster, &uid)));
    home.succeed("kubectl delete pod unknown --grace-period 600 --wait=false");
    kill(cluster.sandbox.pid(), "KILL");
    wait_until("ronde ends", LIMIT, || (cluster.sandbox.status()["running"] == false).then_some(()));
    fs::remove_file(pod_folder(&cluster, &uid).join("sandbox.json")).unwrap();
    assert!(process.exists());
    cluster.up(NODES);
    wait_until("the pod's folder is gone", LIMIT, || (!pod_folder(&cluster, &uid).exists()).then_some(()));
    wait_until("the supervisor is gone", LIMIT, || (!process.exists()).then_some(()));
}

/// What ends while nobody looks is known all the same.
#[test]
fn what_pods_did_without_ronde_is_reported_later() {
    let Some((cluster, home)) = start() else { return };
    let on_signal = "until [ -e /out/go ]; do sleep 0.05; done; echo went";
    home.succeed(&format!(
        "mkdir out && kubectl apply -f - <<EOF
apiVersion: v1
kind: Pod
metadata: {{name: ends}}
spec:
  restartPolicy: Never
  volumes: [{{name: out, hostPath: {{path: \"$PWD/out\"}}}}]
  containers:
    - name: main
      image: example.test/ends:1
      command: [sh, -c, '{on_signal}; touch /out/gone; exit 5']
      volumeMounts: [{{name: out, mountPath: /out}}]
EOF"
    ));
    home.succeed("kubectl wait --for=condition=Ready pod/ends --timeout 120s");
    cluster.sandbox.kill_9();
    fs::write(cluster.sandbox.path("out/go"), "").unwrap();
    wait_until("the pod ends", LIMIT, || cluster.sandbox.path("out/gone").exists().then_some(()));
    cluster.up(NODES);
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Failed pod/ends --timeout 120s");
    let end = "{.reason} {.exitCode}";
    let end = end.replace("{.", "{.status.containerStatuses[0].state.terminated.");
    assert_eq!(home.succeed(&format!("kubectl get pod ends -o jsonpath='{end}'")), "Error 5");
    assert_eq!(home.succeed("kubectl logs ends"), "went\n");
}

#[test]
fn a_pod_whose_supervisor_is_killed_starts_again_or_fails() {
    let Some((cluster, home)) = start() else { return };
    home.succeed("kubectl run always --image example.test/pod:1 -- sleep 87651");
    home.succeed("kubectl run never --image example.test/pod:1 --restart Never -- sleep 87652");
    home.succeed("kubectl run later --image example.test/pod:1 --restart Never -- sleep 87653");
    home.succeed("kubectl wait --for=condition=Ready pod/always pod/never pod/later --timeout 120s");
    let [always, never, later] = ["always", "never", "later"].map(|pod| uid(&home, pod));

    // 1. While ronde looks.
    kill_supervisor(&cluster, &always);
    kill_supervisor(&cluster, &never);
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Failed pod/never --timeout 120s");
    let restarted = "jsonpath='{.status.containerStatuses[0].restartCount}'=1";
    home.succeed(&format!("kubectl wait --for={restarted} pod/always --timeout 120s"));
    home.succeed("kubectl wait --for=condition=Ready pod/always --timeout 120s");
    assert_eq!(uid(&home, "always"), always, "it is the same pod");
    let ended = "{.status.containerStatuses[0].state.terminated.reason} \
        {.status.containerStatuses[0].state.terminated.exitCode}";
    let reason = home.succeed(&format!("kubectl get pod never -o jsonpath='{ended}'"));
    assert_eq!(reason, "ContainerStatusUnknown 137");
    assert_eq!(home.run("pgrep -cf '^sleep 87652$'").stdout, b"0\n", "its processes died with it");
    assert_eq!(home.succeed("pgrep -cf '^sleep 87651$'"), "1\n", "it does not run twice");

    // 2. While nobody does.
    cluster.sandbox.kill_9();
    kill_supervisor(&cluster, &later);
    cluster.up(NODES);
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Failed pod/later --timeout 120s");
    assert_eq!(home.run("pgrep -cf '^sleep 87653$'").stdout, b"0\n", "its processes died with it");
}

#[test]
fn after_down_and_up_workloads_come_back() {
    let Some((cluster, home)) = start() else { return };
    home.succeed("kubectl create deployment web --image example.test/web:1 --replicas 2 -- sleep 87654");
    home.succeed("kubectl run alone --image example.test/web:1 --restart Never -- sleep 87655");
    home.succeed("kubectl rollout status deployment/web --timeout 120s");
    home.succeed("kubectl wait --for=condition=Ready pod/alone --timeout 120s");
    let output = cluster.sandbox.run("down");
    assert!(output.status.success(), "{}", cluster.sandbox.describe("down", &output));
    assert_eq!(home.run("pgrep -cf '^sleep 8765[45]$'").stdout, b"0\n", "nothing runs");
    cluster.up(NODES);
    home.succeed("kubectl rollout status deployment/web --timeout 120s");
    home.succeed("eventually '[ \"$(pgrep -cf \"^sleep 87654\\$\")\" = 2 ]'");
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Failed pod/alone --timeout 120s");
}

/// A pod whose probes write a byte each time that they are run; it ends once and is started again if it `crashes`.
fn probed(name: &str, ready: bool, crashes: bool) -> String {
    let (readiness, first) = (if ready { "true" } else { "false" }, if crashes { "exit 1" } else { "true" });
    format!(
        "mkdir -p out && kubectl apply -f - <<EOF
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{{name: out, hostPath: {{path: \"$PWD/out\"}}}}]
  containers:
    - name: main
      image: example.test/probed:1
      command: [sh, -c, '[ -e /out/{name} ] || {{ touch /out/{name}; {first}; }}; sleep 1000']
      startupProbe: {{exec: {{command: [sh, -c, 'echo >> /out/{name}-startup']}}, periodSeconds: 1, timeoutSeconds: 60}}
      readinessProbe: {{exec: {{command: [sh, -c, 'echo >> /out/{name}-readiness; {readiness}']}}, periodSeconds: 1, timeoutSeconds: 60}}
      volumeMounts: [{{name: out, mountPath: /out}}]
EOF"
    )
}

/// What the probes have said is neither forgotten nor made up by a `ronde` that finds the containers running.
#[test]
fn what_probes_have_said_outlives_ronde() {
    let Some((cluster, home)) = start() else { return };
    let pods = [("ready", true, false), ("waits", false, false), ("again", true, true), ("waits-again", false, true)];
    for (name, ready, crashes) in pods {
        home.succeed(&probed(name, ready, crashes));
    }
    let runs = |name: &str, probe: &str| {
        fs::metadata(cluster.sandbox.path(&format!("out/{name}-{probe}"))).map_or(0, |file| file.len())
    };
    let version = |name| home.succeed(&format!("kubectl get pod {name} -o jsonpath='{{.metadata.resourceVersion}}'"));
    for (name, ready, crashes) in pods {
        let restarts = u8::from(crashes);
        let status = "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].started} \
            {.status.containerStatuses[0].ready}";
        let settled = format!("{restarts} true {ready}");
        home.succeed(&format!("eventually \"kubectl get pod {name} -o jsonpath='{status}' | grep -x '{settled}'\""));
        wait_until("the pod is probed", LIMIT, || (runs(name, "readiness") > 0).then_some(()));
    }
    let before = pods.map(|(name, ..)| (version(name), runs(name, "startup")));
    cluster.sandbox.kill_9();
    let probed = pods.map(|(name, ..)| runs(name, "readiness"));
    cluster.up(NODES);
    for ((name, ..), probed) in pods.iter().zip(probed) {
        wait_until("it is probed again", LIMIT, || (runs(name, "readiness") > probed + 1).then_some(()));
    }
    let after = pods.map(|(name, ..)| (version(name), runs(name, "startup")));
    assert_eq!(after, before, "no status was written, and no startup probe was run again");
}

/// A node that was silent for so long that it counts as lost says itself that it is there again.
#[test]
fn a_node_that_was_thought_to_be_lost_is_ready_again() {
    let Some((_cluster, home)) = start() else { return };
    let node = home.succeed("kubectl get nodes -o jsonpath='{.items[0].metadata.name}'");
    let lost = r#"{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}"#;
    home.succeed(&format!("kubectl patch node {node} --subresource status -p '{lost}'"));
    home.succeed(&format!("kubectl wait --for=condition=Ready node/{node} --timeout 120s"));
    home.succeed(&format!("eventually '[ -z \"$(kubectl get node {node} -o jsonpath={{.spec.taints}})\" ]'"));
    home.succeed("kubectl run new --image example.test/pod:1 -- sleep 1000");
    home.succeed("kubectl wait --for=condition=Ready pod/new --timeout 120s");
}

/// What a container has written goes when it is started again; what is known of it stays.
#[test]
fn crashes_do_not_fill_the_disk() {
    let Some((cluster, home)) = start() else { return };
    home.succeed(
        "kubectl run crash --image example.test/pod:1 -- \
            sh -c 'echo words; echo of-a-crash > /tmp/file; echo of-a-crash > /usr/of-a-crash; exit 1'",
    );
    let restarted = "[ \"$(kubectl get pod crash -o jsonpath={.status.containerStatuses[0].restartCount})\" -ge 2 ]";
    home.succeed(&format!("eventually '{restarted}'"));
    let attempts = pod_folder(&cluster, &uid(&home, "crash")).join("containers/crash");
    let left = |attempt: &str| {
        let names = fs::read_dir(attempts.join(attempt)).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let kept = ["record.json", "termination-log"];
    wait_until("the first attempts are cleared away", LIMIT, || (left("0") == kept && left("1") == kept).then_some(()));
    assert_eq!(home.succeed("kubectl logs crash --previous"), "words\n");
}

/// On another machine there are no processes of pods, only what the API says of them.
#[test]
fn pods_of_a_restored_backup_start_anew() {
    let Some((cluster, home)) = start() else { return };
    home.succeed("kubectl run always --image example.test/pod:1 -- sleep 87661");
    home.succeed("kubectl run never --image example.test/pod:1 --restart Never -- sleep 87662");
    home.succeed("kubectl wait --for=condition=Ready pod/always pod/never --timeout 120s");
    let uid = uid(&home, "always");
    for line in ["backup cluster.backup", "down --delete-data", "restore cluster.backup"] {
        let output = cluster.sandbox.run(line);
        assert!(output.status.success(), "{}", cluster.sandbox.describe(line, &output));
    }
    cluster.up(NODES);
    home.succeed("eventually 'pgrep -f \"^sleep 87661$\"'");
    home.succeed("kubectl wait --for=condition=Ready pod/always --timeout 120s");
    assert_eq!(self::uid(&home, "always"), uid);
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Failed pod/never --timeout 120s");
}
