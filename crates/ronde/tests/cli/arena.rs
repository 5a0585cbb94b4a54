//! The verbs of arena, by its own name: what a user types, what is printed, what is left behind.
//!
//! Most of it needs the API and the kinds only; statuses are written by the tests, so that nothing has to be waited for. Jobs
//! of Volcano run for real.

use std::{os::unix::fs::symlink, path::Path, process::Output};

use fs_err as fs;
use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A cluster without controllers, in which statuses can be applied, and a program that is called `arena`.
struct Arena(Sandbox);

const SEED: &str = "horovodrun -np $((${workers}*${gpus})) --min-np $((${minWorkers}*${gpus})) \
                    --max-np $((${maxWorkers}*${gpus})) --host-discovery-script /etc/edl/discover_hosts.sh \
                    python /examples/elastic/tensorflow2_mnist_elastic.py";
const SUBMIT: &str = "submit etjob --name=elastic-training --gpus=1 --workers=3 --max-workers=9 --min-workers=1 \
                      --image=horovod --working-dir=/examples";

impl Arena {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        symlink(env!("CARGO_BIN_EXE_ronde"), sandbox.path("arena")).unwrap();
        Self(sandbox)
    }

    fn up() -> Self {
        let arena = Self::new();
        arena.0.up();
        let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ronde-api/crds");
        for file in fs::read_dir(kinds).unwrap() {
            let file = file.unwrap().path();
            let text = fs::read_to_string(&file)
                .unwrap()
                .replace("    subresources:\n      status: {}\n", "")
                .replace("      status: {}\n", "");
            arena.0.write(&format!("crds/{}", file.file_name().unwrap().to_str().unwrap()), &text);
        }
        let output = arena.0.run("apply -f crds");
        assert!(output.status.success(), "{}", arena.0.describe("apply", &output));
        for kind in ["trainingjobs", "scaleouts", "scaleins", "vcjob"] {
            let is_served = || arena.0.run(&format!("get {kind}")).status.success().then_some(());
            ronde_sim::wait_until(kind, crate::sandbox::LIMIT, is_served);
        }
        arena
    }

    /// Runs a line as `arena`, with the words in `more` as they are.
    fn run(&self, line: &str, more: &[&str]) -> Output {
        self.0.command_of(self.0.path("arena").to_str().unwrap(), line).args(more).output().unwrap()
    }

    fn see(&self, line: &str, more: &[&str]) -> String {
        let shown: String = more.iter().map(|word| format!(" '{word}'")).collect();
        let text = self.0.describe(&format!("{line}{shown}"), &self.run(line, more));
        let text = text.replacen("$ ronde", "$ arena", 1);
        let text = Regex::new(r"(INFO|ERRO)\[\d{4}\]").unwrap().replace_all(&text, "$1[0000]");
        Regex::new(r"elastic-training-\d{10}").unwrap().replace_all(&text, "elastic-training-[SECOND]").into_owned()
    }

    fn object(&self, what: &str) -> Value {
        let output = self.0.run(&format!("get {what} -o json"));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", self.0.describe(what, &output)))
    }

    fn apply(&self, object: &Value) {
        self.0.write("object.yaml", &object.to_string());
        let output = self.0.run("apply -f object.yaml --force-conflicts");
        assert!(output.status.success(), "{}", self.0.describe("apply", &output));
    }

    /// Writes what a controller would.
    fn set_status(&self, name: &str, status: &Value) {
        let kind = json!({"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingJob"});
        let spec = self.object(&format!("trainingjob {name}"))["spec"].clone();
        let mut job = kind;
        job["metadata"] = json!({"name": name});
        job["spec"] = spec;
        job["status"] = json!({"conditions": [], "replicaStatuses": {}, "restartCount": 0,
            "elastic": {"run": 1, "wanted": 3, "nextIndex": 3, "failures": 0}});
        for (key, value) in status.as_object().unwrap() {
            job["status"][key] = value.clone();
        }
        self.apply(&job);
    }

    /// Makes the pods that a controller would make, as far as a bare API has them.
    fn make_pods(&self, job: &str, names: &[&str]) {
        let uid = self.object(&format!("trainingjob {job}"))["metadata"]["uid"].clone();
        for name in names {
            let owner = json!({"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingJob", "name": job,
                "uid": uid, "controller": true});
            let labels = json!({"training-job-name": job});
            let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
            let gpus = if name.ends_with("launcher") { json!({}) } else { json!({"nvidia.com/gpu": "1"}) };
            let container = json!({"name": "et", "image": "i", "resources": {"limits": gpus, "requests": gpus}});
            self.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": {"nodeName": "node-1", "containers": [container]}}));
        }
    }
}

#[test]
fn the_documented_tour_prints_what_is_documented() {
    let arena = Arena::up();
    let submitted = arena.see(SUBMIT, &[SEED]);
    let waiting = ["get elastic-training", "list"].map(|line| arena.see(line, &[])).join("\n");
    let listed: Value = serde_json::from_slice(&arena.run("list -o json", &[]).stdout).unwrap();
    assert_eq!(listed[0]["reason"], "no controller has looked at it yet");
    let job = arena.object("trainingjob elastic-training");
    let launcher = &job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0];
    assert_eq!(launcher["command"], json!(["sh", "-c", SEED]));
    let state = arena.object("configmap elastic-training-etjob");
    assert_eq!(state["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
    let workers = ["elastic-training-worker-0", "elastic-training-worker-1", "elastic-training-worker-2"];
    arena.set_status(
        "elastic-training",
        &json!({"phase": "Running", "targetWorkers": workers, "currentWorkers": workers}),
    );
    let pods: Vec<&str> = ["elastic-training-launcher"].into_iter().chain(workers).collect();
    arena.make_pods("elastic-training", &pods);
    let lines = [
        "get elastic-training",
        "get elastic-training --type etjob -e -g",
        "list",
        "list -A",
        "top job",
        "top job elastic-training -i elastic-training-worker-0",
        "scaleout etjob --name=elastic-training --count=1 --timeout=10m",
        "logs elastic-training --tail 10",
        "prune -s 1h",
    ];
    let seen = lines.map(|line| arena.see(line, &[])).join("\n");
    assert_snapshot!("arena_tour", [submitted, waiting, seen].join("\n"));
    let scaler = arena.object("scaleouts")["items"][0].clone();
    assert_eq!(
        scaler["spec"],
        json!({"selector": {"name": "elastic-training"}, "toAdd": {"count": 1}, "timeout": 600})
    );
    let json: Value = serde_json::from_slice(&arena.run("get elastic-training -o json", &[]).stdout).unwrap();
    assert_eq!(
        (&json["status"], &json["requestGPUs"], &json["allocatedGPUs"]),
        (&json!("RUNNING"), &json!(3), &json!(3))
    );
    assert_eq!(json["instances"][0]["name"], "elastic-training-launcher");
    let deleted = arena.see("delete none elastic-training elastic-training", &[]);
    assert_snapshot!("arena_delete", deleted);
    let left = String::from_utf8(arena.0.run("get configmaps -o name").stdout).unwrap();
    assert!(!left.contains("elastic-training-etjob"), "{left}");
}

/// What pods will not see is told before anything is created.
fn sight(arena: &Arena) {
    let folder = tempfile::Builder::new().prefix("sight").tempdir_in("/tmp").unwrap();
    let script = folder.path().join("train.sh");
    fs_err::write(&script, "echo trained\n").unwrap();
    let (folder, script) = (folder.path().display(), script.display());
    let base = "submit pytorchjob --name=unseen --image=host --share-memory=0";
    let check = |flags: &str, command: &[&str], expected: &str| {
        let output = arena.run(&format!("{base} {flags}"), command);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), text.contains(expected)), (Some(1), true), "{flags} {command:?}: {text}");
    };
    let own = "they have a /tmp of their own";
    check("", &[&format!("sh {script}")], &format!("pods will not see `{script}`: {own}"));
    check(&format!("--working-dir={folder}"), &["sh train.sh"], own);
    check("--working-dir=/", &["sh ./no-such-script.sh"], "it is not in their working directory, `/`");
    check("--working-dir=/", &["no-such-program"], "command `no-such-program` is not on the PATH of pods");
    check("--data-dir=/no-such-folder", &["true"], "--data-dir `/no-such-folder` does not exist on this machine");
    let left = arena.0.run("get vcjob,configmap -o name");
    assert!(!String::from_utf8_lossy(&left.stdout).contains("unseen"), "{}", arena.0.describe("get", &left));
    let words = format!("{base} --data-dir={folder} --working-dir={folder} --follow");
    let output = arena.run(&words, &["sh train.sh"]);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("trained\n"), "{}", arena.0.describe(&words, &output));
    assert!(arena.run("delete unseen", &[]).status.success());
}

#[test]
fn workers_leave_by_number_or_by_name() {
    let arena = Arena::up();
    assert!(arena.run(SUBMIT, &[SEED]).status.success());
    let workers = ["elastic-training-worker-0", "elastic-training-worker-1"];
    let memory = json!({"run": 1, "wanted": 2, "nextIndex": 2, "failures": 0});
    arena.set_status("elastic-training", &json!({"phase": "Running", "targetWorkers": workers, "elastic": memory}));
    let lines = [
        "scalein etjob --name=elastic-training --count=1 --timeout=10m",
        "scalein etjob --name=elastic-training --pod=elastic-training-worker-0 --timeout=90s",
        "scalein etjob --name=elastic-training --pod=elastic-training-worker-9",
        "scalein etjob --name=elastic-training --count=2",
        "scaleout etjob --name=elastic-training --count=8",
    ];
    let seen = lines.map(|line| arena.see(line, &[])).join("\n");
    assert_snapshot!("arena_scalein", seen);
    let shown = String::from_utf8(arena.run("get elastic-training", &[]).stdout).unwrap();
    assert_eq!(shown.matches("ScaleIn  Pending  -1").count(), 2, "{shown}");
}

#[test]
fn bad_input_is_refused_and_leaves_nothing_behind() {
    let arena = Arena::up();
    assert!(arena.run(SUBMIT, &[SEED]).status.success());
    let before = String::from_utf8(arena.0.run("get configmaps -o name").stdout).unwrap();
    let long = format!("submit etjob --image=i --name={}", "a".repeat(50));
    let table: [(&str, &[&str]); 23] = [
        (SUBMIT, &[SEED]),
        (&long, &["run"]),
        ("submit etjob --image=i --name=Not_Dns", &["run"]),
        ("submit etjob --name=lm", &["run"]),
        ("submit etjob --name=lm --image=i", &[]),
        ("submit etjob --name=lm --image=i --workers=0 --env=A --cpu=many", &["run"]),
        ("submit etjob --name=lm --image=i --workers=4 --max-workers=3", &["run"]),
        ("submit etjob --name=lm --image=i --workers=2147483647 --max-workers=2147483647", &["run"]),
        ("submit etjob --name=lm --image=i --priority=none", &["run"]),
        ("submit sparkjob --name=lm", &[]),
        ("submit etjob -f none.yaml", &[]),
        ("get none", &[]),
        ("get none -o xml", &[]),
        ("logs none", &[]),
        ("delete none", &[]),
        ("delete none --fail-not-found", &[]),
        ("scaleout etjob --name=none", &[]),
        ("scaleout etjob --name=elastic-training --count=0", &[]),
        ("scaleout etjob --name=elastic-training --count=2147483647", &[]),
        ("scalein etjob --name=elastic-training --count=-1", &[]),
        ("scaleout etjob --name=elastic-training --timeout=10", &[]),
        ("scaleout etjob --name=elastic-training", &[]),
        ("dance", &[]),
    ];
    let mut seen: Vec<String> = table.iter().map(|(line, more)| arena.see(line, more)).collect();
    let workers: Vec<String> = (0..3).map(|index| format!("elastic-training-worker-{index}")).collect();
    for phase in ["Running", "Suspended", "Succeeded"] {
        arena.set_status("elastic-training", &json!({"phase": phase, "targetWorkers": workers}));
        seen.push(arena.see("scaleout etjob --name=elastic-training --count=7", &[]));
        seen.push(arena.see("scalein etjob --name=elastic-training --count=3", &[]));
    }
    assert_snapshot!("arena_refused", seen.join("\n"));
    let after = String::from_utf8(arena.0.run("get configmaps -o name").stdout).unwrap();
    assert_eq!(before, after);
    assert_eq!(arena.object("trainingjobs")["items"].as_array().unwrap().len(), 1);
    assert_eq!(arena.object("scaleouts")["items"], json!([]));
    assert_eq!(arena.object("scaleins")["items"], json!([]));
}

#[test]
fn a_job_can_be_tried_described_in_a_file_and_told_in_older_words() {
    let arena = Arena::new();
    let file = "name: lm\nimage: i\nworkers: 2\nenv: {A: 'x: \"y\" # z'}\ncpu-only: true\ncommand: |\n  echo '{\"a\": 1}' # b\n";
    arena.0.write("job.yaml", file);
    let tried = arena.see("submit etjob -f job.yaml --workers=3 --dry-run --workingDir=/w", &[]);
    assert_snapshot!("arena_dry_run", tried);
    let output = arena.run("--loglevel=debug -n ml submit pytorchjob -f job.yaml --dry-run -o json", &[]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["items"][1]["metadata"]["namespace"], "ml");
    assert_eq!(list["items"][1]["spec"]["tasks"][1]["replicas"], 1);
}

#[test]
fn a_leftover_of_an_interrupted_submission_is_named_and_deleted() {
    let arena = Arena::up();
    arena.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "elastic-training-etjob",
        "labels": {"createdBy": "arena"}}}));
    let seen = [arena.see(SUBMIT, &["run"]), arena.see("delete elastic-training", &[]), arena.see(SUBMIT, &["run"])];
    assert_snapshot!("arena_leftover", seen.join("\n"));
}

#[test]
fn the_program_explains_itself_by_both_names() {
    let arena = Arena::new();
    let help = String::from_utf8(arena.run("--help", &[]).stdout).unwrap();
    assert!(help.contains("Usage: arena"), "{help}");
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(verbs[..5], ["run", "demo", "up", "submit", "get"]);
    assert!(verbs.len() <= 33, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = arena.run(&format!("completion {shell}"), &[]).stdout;
        assert!(String::from_utf8(script).unwrap().contains("scaleout"), "{shell}");
    }
    let version = String::from_utf8(arena.run("version --short", &[]).stdout).unwrap();
    assert_eq!(version, format!("v{}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn jobs_without_a_launcher_run_for_real() {
    let arena = Arena::new();
    // The names of other pods come in a volume, which plain processes cannot have.
    let output = arena.0.run("up --detach --listen 127.0.0.1:0 --nodes 2 --cpus 2 --memory 1Gi --isolation full");
    if !output.status.success() {
        return ronde_sim::skip(&arena.0.describe("up", &output));
    }
    let words = "submit pytorchjob --name=pt --image=none --workers=2 --working-dir=/ --share-memory=0 --follow";
    let output = arena.run(words, &["echo \"rank $RANK of $WORLD_SIZE: it's 'quoted' #1\""]);
    let text = arena.0.describe(words, &output);
    assert!(output.status.success(), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("rank 0 of 2: it's 'quoted' #1\n"), "{text}");
    sight(&arena);
    let words = "submit volcanojob --name=bad --image=none --working-dir=/ --share-memory=0 --follow";
    let output = arena.run(words, &["if :; then nosuch; fi"]);
    let text = arena.0.describe("bad", &output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nosuch: not found") && text.contains("the job bad has failed"), "{text}");
    let words = "submit volcanojob --name=long --image=none --working-dir=/ --share-memory=0 --wait";
    let output = arena.run(words, &["echo here; while :; do sleep 1; done"]);
    assert!(output.status.success(), "{}", arena.0.describe(words, &output));
    let output = arena.run("exec long --", &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    let text = arena.0.describe("exec", &output);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"out\n"[..]), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("err"), "{text}");
    arena.0.until("logs long --all", "here");
    let listed = String::from_utf8(arena.run("list", &[]).stdout).unwrap();
    // Jobs of one second have no order but that of their names.
    for row in ["long RUNNING VOLCANOJOB", "bad FAILED VOLCANOJOB", "pt SUCCEEDED PYTORCHJOB"] {
        let is_listed = |line: &str| line.split_whitespace().take(3).eq(row.split(' '));
        assert!(listed.lines().any(is_listed), "{listed}");
    }
    let nodes = String::from_utf8(arena.run("top node", &[]).stdout).unwrap();
    assert!(nodes.contains("Allocated/Total GPUs In Cluster:\n0/0 (0%)"), "{nodes}");
    let who = String::from_utf8(arena.run("whoami", &[]).stdout).unwrap();
    assert!(who.contains("\"IsAdminUser\":true"), "{who}");
    let pruned = String::from_utf8(arena.run("prune -s 0s", &[]).stdout).unwrap();
    assert!(pruned.contains("Delete pytorchjob pt with Age") && !pruned.contains("long"), "{pruned}");
    let output = arena.run("suspend long", &[]);
    assert!(output.status.success(), "{}", arena.0.describe("suspend", &output));
    assert!(arena.run("delete long", &[]).status.success());
}
