//! Pods on a disk of a few megabytes, which they fill: they can be deleted, they are evicted, and all is well afterwards.

use std::path::PathBuf;

use fs_err as fs;
use ronde_sim::{SmallDisk, wait_until};

use crate::{
    client::{Home, Program},
    cluster::Cluster,
    directory, has_static_busybox,
    sandbox::{LIMIT, Sandbox},
};

/// Writes until the disk is full, and stays.
const FILL: &str = "dd if=/dev/zero of=/var/big bs=1M; sleep 1000";

/// An instance whose data directory is a small disk.
struct Machine {
    cluster: Cluster,
    home: Home,
    disk: Option<SmallDisk>,
}

impl Machine {
    fn start(options: &str, up: &str) -> Option<Self> {
        Program::find_all(&[])?;
        let sandbox = Sandbox::new();
        let disk = SmallDisk::mount(&sandbox.path("data"), options)?;
        let cluster = Cluster::start(sandbox, &format!("--nodes 1 {up}"))?;
        let home = Home::of(&cluster.sandbox, &directory().join("bin"));
        Some(Self { cluster, home, disk: Some(disk) })
    }

    fn kubectl(&self, line: &str) -> String {
        self.home.succeed(&format!("kubectl {line}"))
    }

    fn apply(&self, manifest: &str) {
        self.home.succeed(&format!("kubectl apply -f - <<'EOF'\n{manifest}\nEOF"));
    }

    /// Runs a script in a pod that is too important to be evicted.
    fn run_critical(&self, name: &str, script: &str) {
        let overrides = r#"{"spec":{"priorityClassName":"system-node-critical"}}"#;
        self.kubectl(&format!("run {name} --image=x --restart=Never --overrides='{overrides}' -- sh -c '{script}'"));
    }

    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.cluster.sandbox.path("data")).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// Takes what is free but for so much, as somebody else's file. At once: who looks in between sees no other shortage.
    fn leave_free(&self, bytes: u64) {
        let file = fs::File::create(self.cluster.sandbox.path("data/of-somebody-else")).unwrap();
        rustix::fs::fallocate(file.file(), rustix::fs::FallocateFlags::empty(), 0, self.free() - bytes).unwrap();
    }

    fn until_full(&self) {
        wait_until("the disk is full", LIMIT, || (self.free() == 0).then_some(()));
    }

    fn pod_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cluster.sandbox.path("data/node/pods")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn until_nothing_is_left(&self) {
        wait_until("the pod's folder is gone", LIMIT, || self.pod_folders().is_empty().then_some(()));
        assert!(self.free() > 40 << 20, "the room is given back");
    }

    fn until_evicted(&self, pod: &str) -> String {
        self.kubectl(&format!("wait --for=jsonpath='{{.status.reason}}'=Evicted pod/{pod} --timeout 120s"));
        let seen = self.kubectl(&format!("get pod {pod} -o jsonpath='{{.status.phase}}: {{.status.message}}'"));
        let events = self.kubectl(&format!("events --for pod/{pod}"));
        assert!(events.contains("Evicted"), "{events}");
        seen
    }

    fn until_pressure(&self, status: &str, reason: &str) {
        let of = |field: &str| format!(r#"{{.items[0].status.conditions[?(@.type=="DiskPressure")].{field}}}"#);
        let path = format!("{} {}", of("status"), of("reason"));
        let wanted = format!("{status} {reason}");
        wait_until(&format!("DiskPressure is {status}"), LIMIT, || {
            (self.kubectl(&format!("get nodes -o jsonpath='{path}'")) == wanted).then_some(())
        });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.cluster.sandbox.run("down");
        self.disk.take();
    }
}

#[test]
fn a_pod_that_fills_the_disk_can_be_deleted() {
    let Some(machine) = Machine::start("size=60m", "") else { return };
    for how in ["--now", "--force", "--grace-period=1"] {
        machine.run_critical("fill", FILL);
        machine.until_full();
        machine.until_pressure("True", "KubeletHasDiskPressure");
        let ready = machine.kubectl("get --raw /readyz");
        assert_eq!(ready, "ok", "what is there can be changed");
        machine.kubectl(&format!("delete pod fill {how} --timeout 60s"));
        machine.until_nothing_is_left();
    }
    machine.run_critical("fill", FILL);
    machine.until_full();
    let down = machine.cluster.sandbox.run("down");
    let said = String::from_utf8_lossy(&down.stderr);
    assert!(down.status.success() && said.contains("stopped 1 pod") && !said.contains("does not finish"), "{said}");
    assert!(machine.free() > 40 << 20, "the room is given back");
}

#[test]
fn whoever_fills_the_disk_is_evicted_and_everything_goes_on() {
    let Some(machine) = Machine::start("size=60m", "") else { return };
    machine.kubectl("run bystander --image=x -- sleep 1000");
    machine.kubectl("wait --for=condition=Ready pod/bystander --timeout 120s");
    machine.kubectl(&format!("run fill --image=x --restart=Never -- sh -c '{FILL}'"));
    let seen = machine.until_evicted("fill");
    let low = "Failed: The node was low on resource: ephemeral-storage. Threshold quantity: 3072Ki, available: ";
    assert!(seen.starts_with(low) && seen.contains("Container fill was using "), "{seen}");
    machine.until_pressure("True", "KubeletHasDiskPressure");
    wait_until("the node is tainted", LIMIT, || {
        machine.kubectl("get nodes -o jsonpath='{.items[0].spec.taints}'").contains("disk-pressure").then_some(())
    });
    let status = machine.cluster.sandbox.run("status");
    assert!(String::from_utf8_lossy(&status.stdout).contains("disk pressure"), "{status:?}");

    // Nobody comes while it lasts, and everybody when there has been room for a while.
    machine.kubectl("run late --image=x -- sleep 1000");
    machine.until_pressure("False", "KubeletHasNoDiskPressure");
    machine.kubectl("wait --for=condition=Ready pod/late --timeout 120s");
    let events = machine.kubectl("get events -o jsonpath='{.items[*].reason}'");
    for reason in ["EvictionThresholdMet", "NodeHasDiskPressure", "NodeHasNoDiskPressure", "FailedScheduling"] {
        assert!(events.contains(reason), "{reason}: {events}");
    }
    assert!(machine.cluster.sandbox.read("data/ronde.log").contains("the disk is nearly full"));
    machine.kubectl("wait --for=condition=Ready pod/bystander --timeout 1s");
}

#[test]
fn whoever_takes_the_last_inode_is_evicted() {
    let Some(machine) = Machine::start("size=200m,nr_inodes=3000", "") else { return };
    let script = "i=0; while :; do true >/var/file-$i || sleep 1; i=$((i+1)); done";
    machine.kubectl(&format!("run many --image=x --restart=Never -- sh -c '{script}'"));
    let seen = machine.until_evicted("many");
    assert!(seen.starts_with("Failed: The node was low on resource: inodes. Threshold quantity: 150"), "{seen}");
    machine.kubectl("delete pod many --timeout 60s");
}

#[test]
fn a_disk_that_others_fill_costs_no_pod() {
    let Some(machine) = Machine::start("size=60m", "") else { return };
    machine.kubectl("run bystander --image=x -- sleep 1000");
    machine.kubectl("wait --for=condition=Ready pod/bystander --timeout 120s");
    let disk = machine.disk.as_ref().unwrap();
    disk.fill();
    machine.until_pressure("True", "KubeletHasDiskPressure");
    machine.kubectl("delete pod bystander --now --timeout 60s");
    disk.relieve().unwrap();
    machine.until_pressure("False", "KubeletHasNoDiskPressure");
}

/// There is pressure below a twentieth of this disk, and room again from a tenth on: 16 MB. Packed layers have 12 of them.
#[test]
fn a_disk_that_others_fill_costs_the_images_that_nobody_uses() {
    if !has_static_busybox() {
        return;
    }
    let Some(machine) = Machine::start("size=160m", "") else { return };
    machine.home.succeed("busybox-image box.tar 8");
    let archive = machine.cluster.sandbox.path("box.tar");
    let loaded = machine.cluster.sandbox.run(&format!("image load {}", archive.display()));
    assert!(loaded.status.success(), "{loaded:?}");
    machine.kubectl("run box --image test/box:1 --command -- sleep 1000");
    machine.kubectl("wait --for=condition=Ready pod/box --timeout 120s");

    machine.leave_free(1 << 20);
    machine.until_pressure("True", "KubeletHasDiskPressure");
    wait_until("there is room again", LIMIT, || (machine.free() >= 16 << 20).then_some(()));
    let names = machine.cluster.sandbox.run("image list -o name");
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    assert!(names.contains("test/box:1") && !names.contains("test/bare:1"), "{names}");
    assert!(machine.cluster.sandbox.read("data/ronde.log").contains("removed packed layers and images"));
    let state = "{.status.phase} {.status.containerStatuses[0].restartCount}";
    assert_eq!(machine.kubectl(&format!("get pod box -o jsonpath='{state}'")), "Running 0");
    assert_eq!(machine.kubectl("exec box -- cat /data/file"), "of-the-image\n", "files that nobody had read yet");
}

#[test]
fn limits_of_what_pods_write_and_start_are_enforced() {
    let Some(machine) = Machine::start("size=400m", "--pod-pids-limit 40") else { return };
    let pod = |name: &str, container: &str, volumes: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
             containers: [{{name: main, image: x, {container}}}]\n  volumes: [{volumes}]"
        )
    };
    let write = |place: &str| format!("command: [sh, -c, 'dd if=/dev/zero of={place}/x bs=1M count=30; sleep 1000']");
    let storage = "resources: {limits: {ephemeral-storage: 10Mi}}";
    machine.apply(&pod("layer", &format!("{}, {storage}", write("/var")), ""));
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    let small = "{name: v, emptyDir: {sizeLimit: 10Mi}}";
    machine.apply(&pod("volume", &format!("{}, {mount}", write("/v")), small));
    let memory = "{name: v, emptyDir: {medium: Memory, sizeLimit: 10Mi}}";
    machine.apply(&pod("memory", &format!("{}, {mount}", write("/v")), memory));
    let bomb =
        "command: [sh, -c, 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo survived; sleep 1000']";
    machine.apply(&pod("bomb", bomb, ""));

    let total = "Failed: Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ";
    assert_eq!(machine.until_evicted("layer"), total);
    let volume = "Failed: Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\". ";
    assert_eq!(machine.until_evicted("volume"), volume);
    wait_until("memory is full", LIMIT, || machine.kubectl("logs memory").contains("No space left").then_some(()));
    wait_until("the bomb goes off", LIMIT, || machine.kubectl("logs bomb").contains("ork").then_some(()));
    assert!(!machine.kubectl("logs bomb").contains("survived"));
    machine.kubectl("delete pod --all --now --timeout 60s");
}
