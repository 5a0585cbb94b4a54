//! Whatever happens, and wherever the controller is killed, a job stays true to its rules.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use proptest::prelude::*;
use ronde_api::{JobPhase, names};
use ronde_runtime::pods::{is_deleted, phase};
use serde_json::{Value, json};

use crate::vcjob::{
    fixtures::{World, task},
    observed::is_live,
    phase as phase_of,
};

/// Something that happens to the pod of a number, or to the controller.
#[derive(Debug, Clone, Copy)]
enum Act {
    Run(usize),
    Succeed(usize),
    Fail(usize),
    Evict(usize),
    RemoveDeleted,
    Wait(i64),
    /// The controller takes one decision, or does this many writes and is killed.
    Work(usize),
    Settle,
    Command(&'static str),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..6_usize).prop_map(Act::Run),
        2 => (0..6_usize).prop_map(Act::Succeed),
        2 => (0..6_usize).prop_map(Act::Fail),
        1 => (0..6_usize).prop_map(Act::Evict),
        3 => Just(Act::RemoveDeleted),
        1 => (1..100_i64).prop_map(Act::Wait),
        9 => (0..6_usize).prop_map(Act::Work),
        3 => Just(Act::Settle),
    ];
    prop::collection::vec(act, 0..100)
}

fn with_commands() -> impl Strategy<Value = Vec<Act>> {
    let names = ["AbortJob", "ResumeJob", "RestartJob", "CompleteJob", "TerminateJob", "RestartTask"];
    let command = prop::sample::select(names.to_vec()).prop_map(Act::Command);
    let places = prop::collection::vec((any::<prop::sample::Index>(), command), 0..6);
    (acts(), places).prop_map(|(mut acts, places)| {
        for (place, command) in places {
            let place = place.index(acts.len() + 1);
            acts.insert(place, command);
        }
        acts
    })
}

fn policies() -> impl Strategy<Value = serde_json::Value> {
    let events = ["PodFailed", "PodEvicted", "TaskCompleted", "PodPending", "*"];
    let actions = ["RestartJob", "RestartTask", "RestartPod", "AbortJob", "CompleteJob", "TerminateJob"];
    let policy = (prop::sample::select(events.to_vec()), prop::sample::select(actions.to_vec()), 0..3).prop_map(
        |(event, action, wait)| match wait {
            0 => json!({"event": event, "action": action}),
            _ => json!({"event": event, "action": action, "timeout": format!("{}s", wait * 20)}),
        },
    );
    prop::collection::vec(policy, 0..3).prop_map(|list| json!(list))
}

/// Lets something happen, as a node would: what has ended does not run again.
fn happen(world: &mut World, act: Act) {
    let name = |world: &World, number: usize, from: &[&str]| {
        let pod = world.pods.values().nth(number)?;
        (from.contains(&phase(pod)) && !is_deleted(pod)).then(|| pod.name_any())
    };
    let alive = ["Pending", "Running"];
    match act {
        Act::Run(number) => name(world, number, &["Pending"]).iter().for_each(|name| world.report(name, "Running", 0)),
        Act::Succeed(number) => {
            name(world, number, &["Running"]).iter().for_each(|name| world.report(name, "Succeeded", 0));
        }
        Act::Fail(number) => name(world, number, &alive).iter().for_each(|name| world.report(name, "Failed", 1)),
        Act::Evict(number) => name(world, number, &alive).iter().for_each(|name| world.delete(name)),
        Act::RemoveDeleted => world.remove_deleted(),
        Act::Wait(seconds) => world.seconds += seconds,
        Act::Work(writes) => {
            if let Some(plan) = world.step() {
                world.carry_out(&plan, writes);
            }
            world.kill();
        }
        Act::Settle => world.work(),
        Act::Command(action) => world.command(action),
    }
}

/// Lets everything end that is under way, and the controller do all it wants.
fn calm_down(world: &mut World) {
    for _ in 0..20 {
        world.work();
        world.remove_deleted();
        world.run_all();
        world.seconds += 100;
    }
    world.work();
}

/// Does the work of a look, one write at a time; the controller is killed before the write of that number.
fn work_until_killed(world: &mut World, fuse: &mut usize) {
    for _ in 0..100 {
        let Some(plan) = world.step() else {
            *fuse = fuse.saturating_sub(1);
            continue;
        };
        let is_killed = *fuse > 0 && plan.writes() >= *fuse;
        let done = world.carry_out(&plan, if is_killed { *fuse - 1 } else { usize::MAX });
        if is_killed {
            world.kill();
        }
        *fuse = if is_killed { 0 } else { fuse.saturating_sub(done) };
        if done == 0 && !is_killed {
            return;
        }
    }
    panic!("there is always something to do");
}

#[test]
fn a_kill_between_any_two_writes_changes_nothing() {
    let restart = json!({"event": "PodFailed", "action": "RestartJob"});
    let evicted = json!({"event": "PodEvicted", "action": "RestartPod"});
    let complete = json!({"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]});
    let spec = json!({"maxRetry": 9, "plugins": {"svc": [], "ssh": []}, "policies": [restart, evicted],
        "tasks": [task("m", 1, complete), task("w", 2, json!({"dependsOn": {"name": ["m"]}}))]});
    let script = "run run fail:w-0=1 gone run run evict:w-1 gone run scale:w=3 run cmd:AbortJob gone cmd:ResumeJob run run ok:w-0 ok:m-0 gone";
    let phases = "Pending Running Restarting Pending Running Restarting Pending Running Pending Running Aborting Aborted \
        Restarting Pending Running Completing Completed";
    let kills = kill_between_writes(&spec, script, phases);
    assert!(kills > 50, "only {kills} writes");
}

#[test]
fn a_kill_between_any_two_writes_loses_no_change_of_an_image() {
    let restart = json!({"event": "PodFailed", "action": "RestartJob"});
    let evicted = json!({"event": "PodEvicted", "action": "TerminateJob"});
    let spec = json!({"maxRetry": 9, "plugins": {"svc": []}, "policies": [restart, evicted],
        "tasks": [task("m", 1, json!({})), task("w", 3, json!({}))]});
    let script = "image:w=y gone run:w-0 run:m-0 image:w=z gone run image:m=z image:w=v fail:w-1=1 gone run";
    let kills = kill_between_writes(&spec, script, "Pending Running Restarting Pending Running");
    assert!(kills > 30, "only {kills} writes");
}

/// Plays a script again and again, the controller being killed before another write each time; returns how often.
fn kill_between_writes(spec: &Value, script: &str, phases: &str) -> usize {
    let play = |mut fuse: usize| {
        let mut world = World::new(spec.clone());
        work_until_killed(&mut world, &mut fuse);
        for word in script.split_whitespace() {
            world.happen(word);
            work_until_killed(&mut world, &mut fuse);
        }
        (world, fuse)
    };
    let (undisturbed, _) = play(0);
    assert_eq!(undisturbed.phases.join(" "), phases);
    for fuse in 1.. {
        let (world, left) = play(fuse);
        if left > 0 {
            return fuse - 1;
        }
        assert_eq!(world.phases, undisturbed.phases, "killed before write {fuse}");
        assert_eq!(world.status(), undisturbed.status(), "killed before write {fuse}");
        assert_eq!(world.show_pods(), undisturbed.show_pods(), "killed before write {fuse}");
        assert_eq!(world.show_images(), undisturbed.show_images(), "killed before write {fuse}");
    }
    unreachable!("a script ends")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_job_keeps_its_rules(acts in with_commands(), policies in policies()) {
        let spec = json!({"maxRetry": 3, "minAvailable": 3, "policies": policies,
            "tasks": [task("m", 1, json!({})), task("w", 3, json!({"minAvailable": 2}))]});
        let mut world = World::new(spec);
        let mut ended: Option<JobPhase> = None;
        let mut succeeded: BTreeMap<(i32, String), BTreeSet<String>> = BTreeMap::new();
        for act in acts {
            happen(&mut world, act);
            let (status, now) = (world.status(), phase_of(&world.job));
            prop_assert!(status.retry_count <= 3);
            prop_assert!(status.retry_count < 3 || matches!(now, JobPhase::Restarting | JobPhase::Failed));
            if let Some(ended) = ended {
                prop_assert_eq!(now, ended, "nothing leads out of an end");
            }
            ended = Some(now).filter(|now| now.is_final());
            for pod in world.pods.values().filter(|pod| phase(pod) == "Succeeded") {
                let version = pod.annotations()[names::JOB_VERSION].parse().unwrap();
                let runs = succeeded.entry((version, pod.name_any())).or_default();
                runs.insert(pod.uid().unwrap());
                prop_assert_eq!(runs.len(), 1, "{} succeeded twice in one run", pod.name_any());
            }
        }
        calm_down(&mut world);
        let last = phase_of(&world.job);
        prop_assert!(matches!(last, JobPhase::Running | JobPhase::Aborted) || last.is_final(), "stuck in {}", last);
        if !is_live(last) {
            prop_assert!(world.group.is_none());
            prop_assert!(world.pods.values().all(|pod| matches!(phase(pod), "Succeeded" | "Failed")), "{}", world.show_pods());
        }
        if last.is_final() {
            prop_assert!(world.pods.values().all(|pod| pod.finalizers().is_empty()), "a pod is waited for");
        }
        prop_assert!(world.commands.is_empty());
    }

    /// Every run in which a pod failed or was evicted leads to one retry, never to none and never to two.
    #[test]
    fn every_trouble_is_answered_exactly_once(acts in acts()) {
        let policy = json!({"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"});
        let spec = json!({"maxRetry": 100, "policies": [policy], "tasks": [task("w", 3, json!({}))]});
        let mut world = World::new(spec);
        let mut troubled = BTreeSet::new();
        for act in acts {
            happen(&mut world, act);
            for pod in world.pods.values() {
                let version: i32 = pod.annotations()[names::JOB_VERSION].parse().unwrap();
                let is_current = version == world.status().version && is_live(phase_of(&world.job));
                let is_in_trouble = phase(pod) == "Failed" || is_deleted(pod) && phase(pod) != "Succeeded";
                if is_current && is_in_trouble {
                    troubled.insert(version);
                }
            }
        }
        calm_down(&mut world);
        prop_assert_eq!(world.status().retry_count, i32::try_from(troubled.len()).unwrap(), "{:?}", world.phases);
    }
}
