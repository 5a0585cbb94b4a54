//! What is decided in which situation, as a user of `kubectl` knows it.

use k8s_openapi::api::core::v1::PodCondition;

use super::{Ailment, HookState, Sandbox, fixtures::*};

fn check(name: &str, world: World, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let shown = world.shown();
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    assert_eq!(lines, expected, "{name}:\n{shown}");
}

/// One container that runs and was published as running.
fn runs() -> World {
    pod("p").container("a").sees(running("a")).published()
}

/// A main container and two sidecars that run.
fn with_sidecars() -> World {
    let world = pod("p").sidecar("s").sidecar("t").container("a");
    world.sees(running("s")).sees(running("t")).sees(running("a")).published()
}

fn lost(at: i64) -> Sandbox {
    Sandbox::Lost { at: second(at) }
}

#[test]
fn a_pod_starts() {
    check(
        "a new pod gets a sandbox",
        pod("p").container("a").sandbox(Sandbox::Absent),
        "Pending
         a#0 waits ContainerCreating
         > sandbox",
    );
    let failed = |tries| Sandbox::Failed { message: "no bridge".to_owned(), at: second(0), tries };
    check(
        "a sandbox that could not be made is tried again after a while",
        pod("p").container("a").sandbox(failed(3)).at(1),
        "Pending
         a#0 waits ContainerCreating
         > wake in 3",
    );
    check(
        "the while is over",
        pod("p").container("a").sandbox(failed(3)).at(4),
        "Pending
         a#0 waits ContainerCreating
         > sandbox",
    );
    check(
        "all main containers start together",
        pod("p").container("a").container("b"),
        "Pending
         a#0 waits ContainerCreating
         b#0 waits ContainerCreating
         > start a#0
         > start b#0",
    );
    check(
        "one of two runs",
        pod("p").container("b").container("a").sees(running("b")),
        "Pending
         a#0 waits ContainerCreating
         b#0 runs, ready
         > start a#0
         ! spec.containers{b} Normal Created: Created container: b
         ! spec.containers{b} Normal Started: Started container b",
    );
    check("all run and were told", runs(), "Running\n a#0 runs, ready");
    check("not ready yet", pod("p").container("a").sees(running("a").unready()).published(), "Running\n a#0 runs");
    check(
        "the readiness probe waits for the startup probe",
        pod("p").container("a").sees(running("a").unstarted()).published(),
        "Running\n a#0 runs",
    );
    check(
        "a container runs only after its postStart hook",
        pod("p").container("a").sees(running("a").hook(HookState::Pending)).published(),
        "Pending\n a#0 waits ContainerCreating",
    );
}

#[test]
fn what_is_wrong_with_an_image_is_told_as_a_kubelet_does() {
    let image = |reason: &str, message: &str| pod("p").container("a").sees(waiting("a", reason, message, 0)).at(1);
    check(
        "it is being pulled",
        image("ContainerCreating", ""),
        "Pending
         a#0 waits ContainerCreating
         > wake in 9",
    );
    check(
        "it could not be pulled",
        image("ErrImagePull", "not found"),
        "Pending
         a#0 waits ErrImagePull (not found)
         > wake in 9
         ! spec.containers{a} Warning Failed: Failed to pull image \"\": not found
         ! spec.containers{a} Warning Failed: Error: ErrImagePull",
    );
    check(
        "it is not pulled yet again",
        image("ImagePullBackOff", "Back-off pulling image \"image\": ErrImagePull: not found"),
        "Pending
         a#0 waits ImagePullBackOff (Back-off pulling image \"image\": ErrImagePull: not found)
         > wake in 9
         ! spec.containers{a} Normal BackOff: Back-off pulling image \"\"
         ! spec.containers{a} Warning Failed: Error: ImagePullBackOff",
    );
    check(
        "it may not be pulled",
        image("ErrImageNeverPull", "absent"),
        "Pending
         a#0 waits ErrImageNeverPull (absent)
         > wake in 9
         ! spec.containers{a} Warning ErrImageNeverPull: absent
         ! spec.containers{a} Warning Failed: Error: ErrImageNeverPull",
    );
    check(
        "it has no name",
        image("InvalidImageName", "bad"),
        "Pending
         a#0 waits InvalidImageName (bad)
         > wake in 9
         ! spec.containers{a} Warning InspectFailed: bad
         ! spec.containers{a} Warning Failed: Error: InvalidImageName",
    );
}

#[test]
fn a_container_that_cannot_start_is_tried_again() {
    check(
        "a missing ConfigMap is said and waited for",
        pod("p").container("a").sees(blocked("a", 0)).at(1),
        "Pending
         a#0 waits CreateContainerConfigError (configmap \"c\" not found)
         > wake in 9
         ! spec.containers{a} Warning Failed: Error: configmap \"c\" not found",
    );
    check(
        "the same attempt is made again",
        pod("p").container("a").sees(blocked("a", 0)).published().at(10),
        "Pending
         a#0 waits CreateContainerConfigError (configmap \"c\" not found)
         > start a#0",
    );
    check(
        "a restart that is blocked does not count yet",
        pod("p").container("a").sees(blocked("a", 0).attempt(1)).published().at(10),
        "Running
         a#0 waits CreateContainerConfigError (configmap \"c\" not found), last 1
         > start a#1",
    );
    check(
        "a command that does not exist",
        pod("p").container("a").restart("Never").sees(exited("a", 128, 1).start_error("no such file")).at(1),
        "Failed
         a#0 ended 128 StartError
         > tear down
         ! spec.containers{a} Normal Created: Created container: a
         ! spec.containers{a} Warning Failed: Error: no such file",
    );
    check(
        "it counted as running until the failure was known",
        runs().restart("Never").sees(exited("a", 128, 1).start_error("no such file")).at(1),
        "Failed
         a#0 ended 128 StartError
         > tear down
         ! spec.containers{a} Warning Failed: Error: no such file",
    );
}

#[test]
fn init_containers_run_in_order() {
    let two = || pod("p").init("i").init("j").container("a");
    check(
        "the first one starts",
        two(),
        "Pending
         i#0 waits PodInitializing
         j#0 waits PodInitializing
         a#0 waits PodInitializing
         > start i#0",
    );
    check(
        "the others wait while it runs",
        two().sees(running("i")).published(),
        "Pending
         i#0 runs
         j#0 waits PodInitializing
         a#0 waits PodInitializing",
    );
    check(
        "the next one starts",
        two().sees(exited("i", 0, 1)).published().at(1),
        "Pending
         i#0 ended 0 Completed, ready
         j#0 waits PodInitializing
         a#0 waits PodInitializing
         > start j#0",
    );
    check(
        "after the last one the main ones start",
        two().sees(exited("i", 0, 1)).sees(exited("j", 0, 2)).published().at(2),
        "Pending
         i#0 ended 0 Completed, ready
         j#0 ended 0 Completed, ready
         a#0 waits PodInitializing
         > start a#0",
    );
}

#[test]
fn init_containers_that_fail_are_repeated_or_end_the_pod() {
    let two = || pod("p").init("i").init("j").container("a");
    check(
        "a first failure is repeated at once",
        two().sees(exited("i", 1, 1)).published().at(1),
        "Pending
         i#0 ended 1 Error
         j#0 waits PodInitializing
         a#0 waits PodInitializing
         > start i#1",
    );
    check(
        "a second one waits",
        two().sees(exited("i", 1, 1).attempt(1).crashes(2)).at(2),
        "Pending
         i#1 waits CrashLoopBackOff (back-off 10s restarting failed container=i pod=p_ns(uid)), last 1
         j#0 waits PodInitializing
         a#0 waits PodInitializing
         > wake in 9
         ! spec.initContainers{i} Normal Created: Created container: i
         ! spec.initContainers{i} Normal Started: Started container i
         ! spec.initContainers{i} Warning BackOff: Back-off restarting failed container i in pod p_ns(uid)",
    );
    check(
        "a failure ends a pod that runs once",
        two().restart("Never").sees(exited("i", 1, 1)).published().at(1),
        "Failed
         i#0 ended 1 Error
         j#0 waits PodInitializing
         a#0 waits PodInitializing
         > tear down",
    );
    check(
        "done is done, while the main ones restart",
        two().sees(exited("i", 0, 1)).sees(exited("j", 0, 1)).sees(exited("a", 1, 2)).published().at(2),
        "Running
         i#0 ended 0 Completed, ready
         j#0 ended 0 Completed, ready
         a#0 ended 1 Error
         > start a#1",
    );
}

#[test]
fn sidecars_start_first() {
    let sidecars = || pod("p").sidecar("s").sidecar("t").container("a");
    check(
        "the second waits until the first has started",
        sidecars().sees(running("s").unstarted()).published(),
        "Pending
         s#0 runs
         t#0 waits PodInitializing
         a#0 waits PodInitializing",
    );
    check(
        "it need not be ready",
        sidecars().sees(running("s").unready()).published(),
        "Pending
         s#0 runs
         t#0 waits PodInitializing
         a#0 waits PodInitializing
         > start t#0",
    );
    check(
        "one that ends during initialization is restarted before anything else",
        sidecars().sees(exited("s", 0, 1)).published().at(1),
        "Pending
         s#0 ended 0 Completed
         t#0 waits PodInitializing
         a#0 waits PodInitializing
         > start s#1",
    );
    check(
        "one that ends later is restarted beside the others, also where the pod runs once",
        with_sidecars().restart("Never").sees(exited("s", 1, 5)).at(5),
        "Running
         s#0 ended 1 Error
         t#0 runs, ready
         a#0 runs, ready
         > start s#1",
    );
}

#[test]
fn sidecars_stop_last() {
    let all = with_sidecars;
    check(
        "the last one is stopped once the main ones are done",
        all().restart("Never").sees(exited("a", 0, 5)).at(5),
        "Running
         s#0 runs, ready
         t#0 runs, ready
         a#0 ended 0 Completed
         > stop t within 30 PodEnds
         ! spec.initContainers{t} Normal Killing: Stopping container t",
    );
    check(
        "then the one before",
        all().restart("Never").sees(exited("a", 0, 5)).sees(exited("t", 143, 6)).at(6),
        "Running
         s#0 runs, ready
         t#0 ended 143 Error
         a#0 ended 0 Completed
         > stop s within 30 PodEnds
         ! spec.initContainers{s} Normal Killing: Stopping container s",
    );
    check(
        "their exit codes do not count",
        all().restart("Never").sees(exited("a", 0, 5)).sees(exited("t", 143, 6)).sees(exited("s", 137, 7)).at(7),
        "Succeeded
         s#0 ended 137 Error
         t#0 ended 143 Error
         a#0 ended 0 Completed
         > tear down",
    );
    check(
        "deletion stops the main ones first",
        all().deleted_until(30).at(1),
        "Running
         s#0 runs, ready
         t#0 runs, ready
         a#0 runs, ready
         > stop a within 29 PodEnds
         ! spec.containers{a} Normal Killing: Stopping container a",
    );
    check(
        "an init container that fails for good takes the sidecar before it along",
        pod("p")
            .sidecar("s")
            .init("i")
            .container("a")
            .restart("Never")
            .sees(running("s"))
            .sees(exited("i", 1, 1))
            .at(1)
            .published(),
        "Pending
         s#0 runs, ready
         i#0 ended 1 Error
         a#0 waits PodInitializing
         > stop s within 30 PodEnds
         ! spec.initContainers{s} Normal Killing: Stopping container s",
    );
}

#[test]
fn restarts_follow_the_policy() {
    let after = |policy: &str, code| runs().restart(policy).sees(exited("a", code, 5)).at(5);
    check("Always, success", after("Always", 0), "Running\n a#0 ended 0 Completed\n > start a#1");
    check("Always, failure", after("Always", 1), "Running\n a#0 ended 1 Error\n > start a#1");
    check("OnFailure, success", after("OnFailure", 0), "Succeeded\n a#0 ended 0 Completed\n > tear down");
    check("OnFailure, failure", after("OnFailure", 1), "Running\n a#0 ended 1 Error\n > start a#1");
    check("Never, success", after("Never", 0), "Succeeded\n a#0 ended 0 Completed\n > tear down");
    check("Never, failure", after("Never", 2), "Failed\n a#0 ended 2 Error\n > tear down");
    check(
        "one of two is done, the other goes on",
        pod("p").container("a").container("b").restart("Never").sees(running("b")).sees(exited("a", 1, 5)).published(),
        "Running\n a#0 ended 1 Error\n b#0 runs, ready",
    );
    check(
        "one of two failed",
        pod("p")
            .container("a")
            .container("b")
            .restart("Never")
            .sees(exited("b", 0, 6))
            .sees(exited("a", 1, 5))
            .published(),
        "Failed\n a#0 ended 1 Error\n b#0 ended 0 Completed\n > tear down",
    );
    check(
        "the back-off doubles",
        runs().sees(exited("a", 1, 5).attempt(4).crashes(5)).at(6).published(),
        "Running
         a#4 waits CrashLoopBackOff (back-off 1m20s restarting failed container=a pod=p_ns(uid)), last 1
         > wake in 79",
    );
    check(
        "and is over",
        runs().sees(exited("a", 1, 5).attempt(4).crashes(5)).at(6).published().at(85),
        "Running
         a#4 ended 1 Error, last 1
         > start a#5",
    );
}

#[test]
fn probes_and_hooks_restart_containers() {
    check(
        "a failed liveness probe",
        runs().sees(running("a").ails(Ailment::Liveness)).at(5),
        "Running
         a#0 runs, ready
         > stop a within 30 Liveness
         ! spec.containers{a} Normal Killing: Container a failed liveness probe, will be restarted",
    );
    check(
        "with its own grace period, where the pod runs once",
        runs().restart("Never").liveness_grace(5).sees(running("a").ails(Ailment::Liveness)).at(5),
        "Running
         a#0 runs, ready
         > stop a within 5 Liveness
         ! spec.containers{a} Normal Killing: Container a failed liveness probe",
    );
    check(
        "a failed startup probe",
        runs().grace(0).sees(running("a").unstarted().ails(Ailment::Startup)).at(5),
        "Running
         a#0 runs
         > stop a within 2 Startup
         ! spec.containers{a} Normal Killing: Container a failed startup probe, will be restarted",
    );
    check(
        "it is stopped already",
        runs().sees(running("a").ails(Ailment::Liveness).stopping(35)).at(6),
        "Running\n a#0 runs, ready",
    );
    check(
        "a failed postStart hook",
        runs().sees(running("a").hook(HookState::Failed)).at(5),
        "Running
         a#0 runs, ready
         > stop a within 30 PostStart
         ! spec.containers{a} Warning FailedPostStartHook: PostStartHook failed
         ! spec.containers{a} Normal Killing: FailedPostStartHook",
    );
    check(
        "a sidecar",
        pod("p").sidecar("s").container("a").sees(running("s").ails(Ailment::Liveness)).sees(running("a")).published(),
        "Running
         s#0 runs, ready
         a#0 runs, ready
         > stop s within 30 Liveness
         ! spec.initContainers{s} Normal Killing: Init container s failed liveness probe",
    );
}

#[test]
fn deletion_ends_in_release() {
    check(
        "containers are stopped until the deletion's time",
        runs().deleted_until(40).at(10),
        "Running
         a#0 runs, ready
         > stop a within 30 PodEnds
         ! spec.containers{a} Normal Killing: Stopping container a",
    );
    check("stopped once", runs().sees(running("a").stopping(40)).deleted_until(40).at(20), "Running\n a#0 runs, ready");
    check(
        "a shorter grace period comes later",
        runs().sees(running("a").stopping(40)).deleted_until(25).at(20),
        "Running
         a#0 runs, ready
         > stop a within 5 PodEnds",
    );
    check(
        "everybody gets two seconds",
        runs().deleted_until(10).at(10),
        "Running
         a#0 runs, ready
         > stop a within 2 PodEnds
         ! spec.containers{a} Normal Killing: Stopping container a",
    );
    let ended = |code| runs().sees(exited("a", code, 20)).deleted_until(40).at(20);
    check("a clean end", ended(0), "Succeeded\n a#0 ended 0 Completed\n > tear down");
    check("a killed one", ended(137), "Failed\n a#0 ended 137 Error\n > tear down");
    check("the end must be published first", ended(0).sandbox(Sandbox::Absent), "Succeeded\n a#0 ended 0 Completed");
    check(
        "then the object may go",
        ended(0).sandbox(Sandbox::Absent).published(),
        "Succeeded\n a#0 ended 0 Completed\n > release",
    );
    check(
        "a pod that never started is reported failed",
        pod("p").container("a").sandbox(Sandbox::Absent).deleted_until(0),
        "Failed\n a#0 waits ContainerCreating",
    );
    check(
        "a back-off ends with the deletion",
        runs().sees(exited("a", 1, 5).crashes(3)).at(6).published().deleted_until(36),
        "Failed\n a#0 ended 1 Error\n > tear down",
    );
    check(
        "a finished pod is deleted",
        runs().restart("Never").sees(exited("a", 0, 5)).sandbox(Sandbox::Absent).published().deleted_until(9),
        "Succeeded\n a#0 ended 0 Completed\n > release",
    );
}

#[test]
fn the_node_may_refuse_a_pod_and_others_may_end_it() {
    check(
        "refused",
        pod("p").container("a").refused("OutOfcpu", "Node didn't have enough resource: cpu"),
        "Failed, OutOfcpu, Pod was rejected: Node didn't have enough resource: cpu
         ! pod Warning OutOfcpu: Node didn't have enough resource: cpu",
    );
    let refused = || pod("p").container("a").refused("NodeAffinity", "no").published();
    check("refused and told", refused(), "Failed, NodeAffinity, Pod was rejected: no");
    check(
        "refused before the daemon restarted",
        World { refused: None, ..refused() },
        "Failed, NodeAffinity, Pod was rejected: no",
    );
    check("refused and deleted", refused().deleted_until(3), "Failed, NodeAffinity, Pod was rejected: no\n > release");
    check(
        "somebody else said that the pod has failed",
        {
            let mut world = runs();
            world.status().phase = Some("Failed".to_owned());
            world.at(5)
        },
        "Failed
         a#0 runs, ready
         > stop a within 30 PodEnds
         ! spec.containers{a} Normal Killing: Stopping container a",
    );
}

#[test]
fn a_deadline_ends_the_pod() {
    let limited = || runs().restart("OnFailure").active_deadline(10);
    check("not yet", limited().at(4), "Running\n a#0 runs, ready\n > wake in 6");
    check(
        "now",
        limited().at(10),
        "Running
         a#0 runs, ready
         > stop a within 30 PodEnds
         ! spec.containers{a} Normal Killing: Stopping container a",
    );
    check(
        "a container that obeys with success does not save the pod",
        limited().sees(exited("a", 0, 11)).at(11),
        "Failed, DeadlineExceeded, Pod was active on the node longer than the specified deadline
         a#0 ended 0 Completed
         > tear down
         ! pod Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline",
    );
    check(
        "one that was done in time does, even if it is noticed late",
        limited().sees(exited("a", 0, 9)).at(11),
        "Succeeded\n a#0 ended 0 Completed\n > tear down",
    );
    check(
        "a sidecar that is slow to stop does not count",
        pod("p")
            .sidecar("s")
            .container("a")
            .restart("Never")
            .active_deadline(10)
            .sees(running("s"))
            .published()
            .sees(exited("a", 0, 9))
            .sees(exited("s", 137, 12))
            .published()
            .at(12),
        "Succeeded
         s#0 ended 137 Error
         a#0 ended 0 Completed
         > tear down",
    );
    check(
        "it counts while the pod waits",
        pod("p").container("a").active_deadline(10).sandbox(Sandbox::Absent).published().at(10),
        "Failed, DeadlineExceeded, Pod was active on the node longer than the specified deadline
         a#0 waits ContainerCreating
         ! pod Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline",
    );
}

#[test]
fn a_pod_that_has_to_make_room_ends_at_once() {
    let evicted = || runs().evicted("The node was low on resource: ephemeral-storage. ").at(5);
    check(
        "it is stopped",
        evicted(),
        "Running
         a#0 runs, ready
         > stop a within 2 PodEnds
         ! spec.containers{a} Normal Killing: Stopping container a",
    );
    check(
        "it does not run again, whatever its policy says",
        evicted().sees(exited("a", 0, 6)),
        "Failed, Evicted, The node was low on resource: ephemeral-storage.\x20
         a#0 ended 0 Completed
         > tear down
         ! pod Warning Evicted: The node was low on resource: ephemeral-storage.\x20",
    );
    let target = "DisruptionTarget=True@5 TerminationByKubelet";
    assert!(conditions(&evicted()).contains(target), "{}", conditions(&evicted()));
    let told = evicted().published();
    assert!(conditions(&World { evicted: None, ..told }).contains(target), "what was said stays");
}

#[test]
fn a_lost_sandbox_is_made_again_if_the_pod_may() {
    check(
        "a lost sandbox is made again",
        runs().sandbox(lost(5)).at(6),
        "Running
         a#0 ended 137 ContainerStatusUnknown
         > sandbox
         ! pod Normal SandboxChanged: Pod sandbox changed, it will be killed and re-created.",
    );
    let again = || pod("p").init("i").container("a");
    check(
        "in the new one the init containers run again, under a new number",
        again().sees(exited("i", 0, 1).of_old_sandbox()).sees(exited("a", 137, 5).of_old_sandbox()).published().at(6),
        "Running
         i#0 ended 0 Completed, ready
         a#0 ended 137 Error
         > start i#1",
    );
    check(
        "then the main ones",
        again()
            .sees(exited("a", 137, 5).of_old_sandbox())
            .published()
            .sees(exited("i", 0, 7).attempt(1))
            .published()
            .at(7),
        "Running
         i#1 ended 0 Completed, last 1, ready
         a#0 ended 137 Error
         > start a#1",
    );
    check(
        "a pod that runs once has failed",
        runs().restart("Never").sandbox(lost(5)).at(6),
        "Failed
         a#0 ended 137 ContainerStatusUnknown
         > tear down",
    );
    check(
        "also if it was lost between two containers",
        again().restart("Never").sees(exited("i", 0, 1)).published().sandbox(lost(5)).at(6),
        "Failed, SandboxLost, The pod's processes are gone and its restart policy does not allow a restart
         i#0 ended 0 Completed, ready
         a#0 waits PodInitializing
         > tear down
         ! pod Warning SandboxLost: The pod's processes are gone and its restart policy does not allow a restart",
    );
    check(
        "a deleted pod that was lost is released",
        runs().sandbox(lost(5)).deleted_until(30).at(6),
        "Failed\n a#0 ended 137 ContainerStatusUnknown\n > tear down",
    );
}

#[test]
fn lost_records_are_rebuilt_from_what_was_published() {
    check(
        "a container without records was published as running",
        runs().forgets("a").at(6),
        "Running
         a#0 ended 137 ContainerStatusUnknown
         > start a#1",
    );
    check(
        "it does not run twice if it runs once",
        runs().restart("Never").forgets("a").sandbox(Sandbox::Absent).at(6),
        "Failed\n a#0 ended 137 ContainerStatusUnknown",
    );
    check(
        "nor if its postStart hook was still running",
        pod("p").container("a").restart("Never").sees(running("a").hook(HookState::Pending)).published().forgets("a"),
        "Failed\n a#0 ended 137 ContainerStatusUnknown\n > tear down",
    );
    check(
        "a restart that is blocked keeps the past that its record does not know",
        {
            let mut restart = blocked("a", 6).attempt(1);
            restart.1.previous = None;
            runs().forgets("a").at(6).published().sees(restart).published()
        },
        "Running
         a#0 waits CreateContainerConfigError (configmap \"c\" not found), last 137
         > wake in 10",
    );
    check(
        "one that was published as ended stays ended",
        runs().restart("OnFailure").sees(exited("a", 0, 3)).at(4).published().forgets("a").sandbox(Sandbox::Absent),
        "Succeeded\n a#0 ended 0 Completed",
    );
}

fn conditions(world: &World) -> String {
    let status = world.decide().status;
    let line = |condition: &PodCondition| {
        let since =
            condition.last_transition_time.as_ref().map_or(-1, |time| time.0.as_second() - second(0).as_second());
        let why = [&condition.reason, &condition.message].into_iter().flatten();
        let why: String = why.map(|text| format!(" {text}")).collect();
        format!("{}={}@{since}{why}\n", condition.type_, condition.status)
    };
    status.conditions.iter().flatten().map(line).collect()
}

fn check_conditions(name: &str, world: World, expected: &str) {
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert_eq!(conditions(&world), expected, "{name}");
}

#[test]
fn conditions_say_what_is_missing() {
    check_conditions(
        "a new pod",
        pod("p").init("i").sidecar("s").container("a").container("b").sandbox(Sandbox::Absent),
        "PodReadyToStartContainers=False@0
         Initialized=False@0 ContainersNotInitialized containers with incomplete status: [i s]
         Ready=False@0 ContainersNotReady containers with unready status: [s a b]
         ContainersReady=False@0 ContainersNotReady containers with unready status: [s a b]
         PodScheduled=True@0",
    );
    check_conditions(
        "what does not change keeps its time",
        pod("p").container("a").published().sees(running("a")).at(3),
        "PodReadyToStartContainers=True@0
         Initialized=True@0
         Ready=True@3
         ContainersReady=True@3
         PodScheduled=True@0",
    );
    check_conditions(
        "a completed pod",
        runs().restart("Never").sees(exited("a", 0, 4)).sandbox(Sandbox::Absent).at(4),
        "PodReadyToStartContainers=False@4
         Initialized=True@0 PodCompleted
         Ready=False@4 PodCompleted
         ContainersReady=False@4 PodCompleted
         PodScheduled=True@0",
    );
    check_conditions(
        "a failed pod",
        runs().restart("Never").sees(exited("a", 1, 4)).at(4),
        "PodReadyToStartContainers=True@0
         Initialized=True@0
         Ready=False@4 PodFailed
         ContainersReady=False@4 PodFailed
         PodScheduled=True@0",
    );
}

#[test]
fn conditions_of_others_stay_and_gate_readiness() {
    let mut world = pod("p").container("a").sees(running("a")).gate("example.com/ok");
    check_conditions(
        "a gate without a condition",
        world.clone(),
        "PodReadyToStartContainers=True@0
         Initialized=True@0
         Ready=False@0 ReadinessGatesNotReady corresponding condition of pod readiness gate \"example.com/ok\" does not exist.
         ContainersReady=True@0
         PodScheduled=True@0",
    );
    let condition =
        PodCondition { type_: "example.com/ok".to_owned(), status: "False".to_owned(), ..PodCondition::default() };
    world.status().conditions = Some(vec![condition]);
    check_conditions(
        "a gate that is closed",
        world.clone(),
        "example.com/ok=False@-1
         PodReadyToStartContainers=True@0
         Initialized=True@0
         Ready=False@0 ReadinessGatesNotReady the status of pod readiness gate \"example.com/ok\" is not \"True\", but False
         ContainersReady=True@0
         PodScheduled=True@0",
    );
}

#[test]
fn the_status_carries_addresses_and_ids() {
    let mut world = pod("p").container("a").sees(running("a"));
    world.status().qos_class = Some("Burstable".to_owned());
    let status = world.decide().status;
    assert_eq!(status.pod_ip.as_deref(), Some("10.1.0.7"));
    assert_eq!(status.host_ip.as_deref(), Some("192.168.0.1"));
    assert_eq!(status.start_time.as_ref().map(|time| time.0), Some(second(0)));
    assert_eq!((status.observed_generation, status.qos_class.as_deref()), (Some(1), Some("Burstable")));
    let container = &status.container_statuses.as_deref().unwrap_or_default()[0];
    assert_eq!(container.container_id.as_deref(), Some("ronde://a-0"));
    let after = runs().sees(exited("a", 0, 3)).sandbox(Sandbox::Absent).decide().status;
    assert_eq!(after.pod_ip.as_deref(), Some("10.1.0.7"), "the last address stays");
    world.spec().host_network = Some(true);
    assert_eq!(world.decide().status.pod_ip.as_deref(), Some("192.168.0.1"));
}
