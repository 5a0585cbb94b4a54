//! Every phase, event and action, in tables.

use ronde_api::{Action, Event, JobPhase};
use serde_json::{Value, json};

use crate::vcjob::fixtures::{World, task};

/// Brings a job with a policy into a phase, in the least time.
fn world_in(phase: JobPhase, policy: &Value) -> World {
    let worker = task("w", 2, json!({"minAvailable": 1, "maxRetry": 3}));
    let master = task("m", 1, json!({}));
    let spec = json!({"maxRetry": 3, "minAvailable": 2, "policies": [policy], "tasks": [master, worker]});
    let mut world = World::new(spec);
    world.play(match phase {
        JobPhase::Pending => "run:w-0",
        JobPhase::Running => "run",
        JobPhase::Restarting => "run cmd:RestartJob",
        JobPhase::Aborting => "run cmd:AbortJob",
        JobPhase::Aborted => "run cmd:AbortJob gone",
        JobPhase::Completing => "run cmd:CompleteJob",
        JobPhase::Completed => "run cmd:CompleteJob gone",
        JobPhase::Terminating => "run cmd:TerminateJob",
        JobPhase::Terminated => "run cmd:TerminateJob gone",
        JobPhase::Failed => "run fail:m-0=9 ok:w-0 ok:w-1",
    });
    assert_eq!(world.phases.last().map(String::as_str), Some(phase.as_str()));
    world
}

/// Returns the phase that the job is in after all looks, and how many retries it used.
fn outcome(world: &mut World, before: usize) -> String {
    let passed = world.phases[before..].join(">");
    let retries = world.status().retry_count;
    let passed = if passed.is_empty() { "-".to_owned() } else { passed };
    if retries > 0 { format!("{passed}+{retries}") } else { passed }
}

#[test]
fn every_command_in_every_phase() {
    let mut shown = String::new();
    for action in Action::ALL.iter().filter(|action| action.is_for_users()) {
        shown.push_str(&format!("{action:<17}"));
        for phase in JobPhase::ALL {
            let mut world = world_in(*phase, &json!({"event": "PodFailed", "action": "SyncJob"}));
            let before = world.phases.len();
            world.command(action.as_str());
            world.work();
            shown.push_str(&format!(" {phase}:{}", outcome(&mut world, before)));
        }
        shown.push('\n');
    }
    insta::assert_snapshot!(shown, @r"
    AbortJob          Pending:Aborting Aborting:- Aborted:- Running:Aborting Restarting:Aborting Completing:- Completed:- Terminating:- Terminated:- Failed:-
    RestartJob        Pending:Restarting Aborting:- Aborted:- Running:Restarting Restarting:- Completing:- Completed:- Terminating:- Terminated:- Failed:-
    RestartTask       Pending:- Aborting:- Aborted:- Running:- Restarting:- Completing:- Completed:- Terminating:- Terminated:- Failed:-
    RestartPod        Pending:- Aborting:- Aborted:- Running:- Restarting:- Completing:- Completed:- Terminating:- Terminated:- Failed:-
    RestartPartition  Pending:- Aborting:- Aborted:- Running:- Restarting:- Completing:- Completed:- Terminating:- Terminated:- Failed:-
    TerminateJob      Pending:Terminating Aborting:- Aborted:- Running:Terminating Restarting:Terminating Completing:- Completed:- Terminating:- Terminated:- Failed:-
    CompleteJob       Pending:Completing Aborting:- Aborted:- Running:Completing Restarting:Completing Completing:- Completed:- Terminating:- Terminated:- Failed:-
    ResumeJob         Pending:- Aborting:Restarting Aborted:Restarting>Pending Running:- Restarting:- Completing:- Completed:- Terminating:- Terminated:- Failed:-
    ");
}

/// Lets an event happen to a job.
fn cause(world: &mut World, event: Event) {
    match event {
        Event::PodFailed => world.report("j-w-0", "Failed", 3),
        Event::PodEvicted => world.delete("j-w-0"),
        Event::PodPending => world.seconds += 60,
        Event::TaskCompleted => world.report("j-m-0", "Succeeded", 0),
        Event::TaskFailed => {
            world.report("j-w-0", "Running", 0);
            world.happen("restarts:w-0=3");
        }
        Event::Unknown => world.happen("group:Unknown"),
        Event::JobUpdated => world.happen("scale:w=3"),
        other => panic!("{other} does not happen to jobs"),
    }
}

/// Brings a job with a policy to where it waits for the end of one pod that is restarted, while the others run.
fn world_in_restart(policy: &Value) -> World {
    let master = task("m", 1, json!({"policies": [{"exitCode": 77, "action": "RestartTask"}]}));
    let worker = task("w", 2, json!({"maxRetry": 3}));
    let mut world = World::new(json!({"maxRetry": 3, "policies": [policy], "tasks": [master, worker]}));
    world.play("run fail:m-0=77");
    assert_eq!(world.phases.last().map(String::as_str), Some("Restarting"));
    world
}

/// Tells what a policy does to a job in a phase, and that it does so once.
fn answered(phase: JobPhase, event: Event, action: Action) -> String {
    let mut policy = json!({"event": event.as_str(), "action": action.as_str()});
    if event == Event::PodPending {
        policy["timeout"] = json!("60s");
    }
    let is_restart = phase == JobPhase::Restarting;
    let mut world = if is_restart { world_in_restart(&policy) } else { world_in(phase, &policy) };
    let before = world.phases.len();
    cause(&mut world, event);
    world.work();
    let shown = outcome(&mut world, before);
    let spent = (world.status().version, world.status().retry_count);
    world.work();
    assert_eq!((world.status().version, world.status().retry_count), spent, "{event} {action}: once");
    shown
}

#[test]
fn every_event_with_every_action_while_a_job_lives() {
    let events = Event::ALL.iter().filter(|event| event.is_for_users() && **event != Event::Any);
    let mut shown = String::new();
    for event in events {
        for action in Action::ALL.iter().filter(|action| action.is_for_users()) {
            let pending = answered(JobPhase::Pending, *event, *action);
            let running = answered(JobPhase::Running, *event, *action);
            let restarting = answered(JobPhase::Restarting, *event, *action);
            let phases = format!("Pending:{pending} Running:{running} Restarting:{restarting}");
            shown.push_str(&format!("{event:<14}{action:<17} {phases}\n"));
        }
    }
    insta::assert_snapshot!(shown, @r"
    PodFailed     AbortJob          Pending:Aborting Running:Aborting Restarting:Aborting+1
    PodFailed     RestartJob        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    PodFailed     RestartTask       Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    PodFailed     RestartPod        Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    PodFailed     RestartPartition  Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    PodFailed     TerminateJob      Pending:Terminating Running:Terminating Restarting:Terminating+1
    PodFailed     CompleteJob       Pending:Completing Running:Completing Restarting:Completing+1
    PodFailed     ResumeJob         Pending:- Running:- Restarting:-+1
    PodEvicted    AbortJob          Pending:Aborting Running:Aborting Restarting:Aborting+1
    PodEvicted    RestartJob        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    PodEvicted    RestartTask       Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    PodEvicted    RestartPod        Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    PodEvicted    RestartPartition  Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    PodEvicted    TerminateJob      Pending:Terminating Running:Terminating Restarting:Terminating+1
    PodEvicted    CompleteJob       Pending:Completing Running:Completing Restarting:Completing+1
    PodEvicted    ResumeJob         Pending:- Running:- Restarting:-+1
    PodPending    AbortJob          Pending:Aborting Running:- Restarting:-+1
    PodPending    RestartJob        Pending:Restarting+1 Running:- Restarting:-+1
    PodPending    RestartTask       Pending:Restarting+1 Running:- Restarting:-+1
    PodPending    RestartPod        Pending:Restarting+1 Running:- Restarting:-+1
    PodPending    RestartPartition  Pending:Restarting+1 Running:- Restarting:-+1
    PodPending    TerminateJob      Pending:Terminating Running:- Restarting:-+1
    PodPending    CompleteJob       Pending:Completing Running:- Restarting:-+1
    PodPending    ResumeJob         Pending:- Running:- Restarting:-+1
    Unknown       AbortJob          Pending:Aborting Running:Aborting Restarting:Aborting+1
    Unknown       RestartJob        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    Unknown       RestartTask       Pending:- Running:- Restarting:-+1
    Unknown       RestartPod        Pending:- Running:- Restarting:-+1
    Unknown       RestartPartition  Pending:- Running:- Restarting:-+1
    Unknown       TerminateJob      Pending:Terminating Running:Terminating Restarting:Terminating+1
    Unknown       CompleteJob       Pending:Completing Running:Completing Restarting:Completing+1
    Unknown       ResumeJob         Pending:- Running:- Restarting:-+1
    TaskCompleted AbortJob          Pending:Aborting Running:Aborting Restarting:-+1
    TaskCompleted RestartJob        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    TaskCompleted RestartTask       Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    TaskCompleted RestartPod        Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    TaskCompleted RestartPartition  Pending:Restarting>Pending+1 Running:Restarting>Pending>Running+1 Restarting:-+1
    TaskCompleted TerminateJob      Pending:Terminating Running:Terminating Restarting:-+1
    TaskCompleted CompleteJob       Pending:Completing Running:Completing Restarting:-+1
    TaskCompleted ResumeJob         Pending:Running Running:- Restarting:-+1
    TaskFailed    AbortJob          Pending:Aborting Running:Aborting Restarting:Aborting+1
    TaskFailed    RestartJob        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    TaskFailed    RestartTask       Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    TaskFailed    RestartPod        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    TaskFailed    RestartPartition  Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    TaskFailed    TerminateJob      Pending:Terminating Running:Terminating Restarting:Terminating+1
    TaskFailed    CompleteJob       Pending:Completing Running:Completing Restarting:Completing+1
    TaskFailed    ResumeJob         Pending:- Running:- Restarting:-+1
    JobUpdated    AbortJob          Pending:Aborting Running:Aborting Restarting:Aborting+1
    JobUpdated    RestartJob        Pending:Restarting+1 Running:Restarting+1 Restarting:-+1
    JobUpdated    RestartTask       Pending:- Running:- Restarting:-+1
    JobUpdated    RestartPod        Pending:- Running:- Restarting:-+1
    JobUpdated    RestartPartition  Pending:- Running:- Restarting:-+1
    JobUpdated    TerminateJob      Pending:Terminating Running:Terminating Restarting:Terminating+1
    JobUpdated    CompleteJob       Pending:Completing Running:Completing Restarting:Completing+1
    JobUpdated    ResumeJob         Pending:- Running:- Restarting:-+1
    ");
}

/// Tells which action a failed pod of the task `w` leads to.
fn answer(task_policies: Value, job_policies: Value, code: i32) -> String {
    let worker = task("w", 1, json!({"policies": task_policies}));
    let mut world = World::new(json!({"policies": job_policies, "tasks": [worker]}));
    world.play(&format!("run fail:w-0={code}"));
    let message = world.status().state.message;
    message.split(':').next().unwrap_or_default().to_owned()
}

#[test]
fn policies_are_asked_in_their_order() {
    let on = |event: &str, action: &str| json!({"event": event, "action": action});
    let exit = |code: i32, action: &str| json!({"exitCode": code, "action": action});
    let check =
        |what: &str, task: Value, job: Value, expected: &str| assert_eq!(answer(task, job, 3), expected, "{what}");
    let (abort, restart) = (on("PodFailed", "AbortJob"), on("PodFailed", "TerminateJob"));
    check("those of the task first", json!([abort]), json!([restart]), "AbortJob");
    check("if they match", json!([on("PodEvicted", "AbortJob")]), json!([restart]), "TerminateJob");
    check("in the order of the list", json!([]), json!([abort, restart]), "AbortJob");
    check("an exit code", json!([]), json!([exit(3, "TerminateJob")]), "TerminateJob");
    check("another exit code", json!([]), json!([exit(4, "TerminateJob")]), "task w");
    check("an event hides a later exit code", json!([]), json!([abort, exit(3, "TerminateJob")]), "AbortJob");
    check("an exit code before the event", json!([]), json!([exit(3, "TerminateJob"), abort]), "TerminateJob");
    check("any event", json!([]), json!([on("*", "AbortJob")]), "AbortJob");
    let several = json!({"events": ["PodEvicted", "PodFailed"], "action": "TerminateJob"});
    check("one of several events", json!([]), json!([several]), "TerminateJob");
}

#[test]
fn the_exit_code_of_any_container_counts() {
    let worker = task("w", 1, json!({}));
    let mut world = World::new(json!({"policies": [{"exitCode": 3, "action": "TerminateJob"}], "tasks": [worker]}));
    world.play("run");
    world.report("j-w-0", "Failed", 0);
    let statuses = &mut world.pods.get_mut("j-w-0").unwrap().status.as_mut().unwrap().container_statuses;
    let mut second = statuses.as_ref().unwrap()[0].clone();
    second.state.as_mut().unwrap().terminated.as_mut().unwrap().exit_code = 3;
    statuses.as_mut().unwrap().push(second);
    world.work();
    assert_eq!(world.phases.last().map(String::as_str), Some("Terminated"));
}

#[test]
fn of_several_actions_the_one_that_ends_the_job_comes_first() {
    let policies = json!([{"event": "PodFailed", "action": "RestartJob"}]);
    let complete = json!([{"event": "TaskCompleted", "action": "CompleteJob"}]);
    let spec =
        json!({"policies": policies, "tasks": [task("m", 1, json!({"policies": complete})), task("w", 1, json!({}))]});
    let mut world = World::new(spec);
    world.play("run");
    // Workers fail when their master has ended; after an absence both are seen at once.
    world.happen("ok:m-0");
    world.happen("fail:w-0=1");
    world.play("gone");
    assert_eq!(world.phases.join(" "), "Pending Running Completing Completed");
}

#[test]
fn what_lasts_is_answered_once() {
    let abort = json!([{"event": "TaskCompleted", "action": "AbortJob"}]);
    let spec = json!({"tasks": [task("m", 1, json!({"policies": abort})), task("w", 1, json!({}))]});
    let mut world = World::new(spec);
    world.play("run ok:m-0 gone cmd:ResumeJob run");
    assert_eq!(world.phases.join(" "), "Pending Running Aborting Aborted Restarting Pending Running");
}
