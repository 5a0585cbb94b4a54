//! Single situations, each with what the driver does in it. Any order of everything is in `tests/histories`.

use std::time::Duration;

use ronde_collective::control_channel::{Assignment, Join};

use super::*;

/// A job that is played step by step; what the driver does is kept until it is asked for.
struct Play {
    driver: Driver,
    now: Duration,
    done: Vec<Command>,
}

impl Play {
    fn new(min: usize, max: usize) -> Self {
        Self { driver: Driver::new(Settings::new(min, max)), now: Duration::ZERO, done: Vec::new() }
    }

    fn on(&mut self, event: Event) -> &mut Self {
        self.done.extend(self.driver.on(event, self.now));
        self
    }

    fn hosts(&mut self, hosts: &[(&str, usize)]) -> &mut Self {
        self.on(Event::Hosts(
            hosts.iter().map(|(host, slots)| HostSlots { host: (*host).to_owned(), slots: *slots }).collect(),
        ))
    }

    fn pass(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self.on(Event::Tick)
    }

    /// Newcomers ask for a ring.
    fn come(&mut self, workers: &[u64]) -> &mut Self {
        for worker in workers {
            self.on(Event::Started(WorkerId(*worker))).on(Event::Joined(WorkerId(*worker), Join::default()));
        }
        self
    }

    /// Members are asked to leave their ring, and do so after so many commits.
    fn leave(&mut self, workers: &[u64], commits: u64) -> &mut Self {
        let generation = self.driver.ring.number;
        for worker in workers {
            self.on(Event::Checked { worker: WorkerId(*worker), generation, checks: commits });
        }
        let join = Join { seen: generation, commits: Some(commits), is_interrupted: true, why: String::new() };
        for worker in workers {
            self.on(Event::Joined(WorkerId(*worker), join.clone()));
        }
        self
    }

    /// Members find their ring broken, and go back to a commit.
    fn fall_out(&mut self, workers: &[(u64, u64)]) -> &mut Self {
        for (worker, commits) in workers {
            let (seen, why) = (self.driver.ring.number, "a peer is gone".to_owned());
            let join = Join { seen, commits: Some(*commits), is_interrupted: false, why };
            self.on(Event::Joined(WorkerId(*worker), join));
        }
        self
    }

    fn commit(&mut self) -> &mut Self {
        let generation = self.driver.ring.number;
        self.on(Event::Committed { worker: WorkerId(0), generation })
    }

    fn end(&mut self, worker: u64, ended: Ended) -> &mut Self {
        self.on(Event::Ended(WorkerId(worker), ended))
    }

    /// What was done since the last question, in short.
    fn done(&mut self) -> String {
        let shown = |command: Command| match command {
            Command::Start { worker, host, slot, .. } => Some(format!("start {worker} on {host}/{slot}")),
            Command::Assign(worker, Assignment { rank, size, commits, is_in_step, .. }) => {
                let how = if is_in_step { "in step" } else { "synced" };
                Some(format!("{worker} is {rank}/{size} {how} at {commits}"))
            }
            Command::Leave(worker) => Some(format!("{worker} leaves")),
            Command::Notice { worker, change, .. } => Some(format!("notice {worker} {change}")),
            Command::Interrupt { worker, at, .. } => Some(format!("interrupt {worker} at {at}")),
            Command::GiveUp(generation) => Some(format!("give up {generation}")),
            Command::Stop(worker) => Some(format!("stop {worker}")),
            Command::Kill(worker) => Some(format!("kill {worker}")),
            Command::Finish(ElasticOutcome::Failed(failure)) => Some(format!("failed: {}", failure.why)),
            Command::Finish(outcome) => Some(format!("{outcome:?}")),
            Command::Say(_) => None,
        };
        mem::take(&mut self.done).into_iter().filter_map(shown).collect::<Vec<_>>().join("; ")
    }
}

/// What users are told.
fn said(play: &mut Play) -> Vec<String> {
    let said = |command| if let Command::Say(text) = command { Some(text) } else { None };
    mem::take(&mut play.done).into_iter().filter_map(said).collect()
}

#[test]
fn users_hear_of_hosts_slots_rings_and_workers_by_the_number_before_their_lines() {
    let mut play = Play::new(1, 4);
    play.hosts(&[("a", 1), ("b", 2)]).come(&[1, 2, 3]);
    assert_eq!(said(&mut play), ["host a joined (1 slot)", "host b joined (2 slots)", "ring 1: 3 ranks"]);
    play.commit().end(2, Ended::Code(3)).fall_out(&[(1, 7), (3, 7)]).pass(10);
    assert_eq!(
        said(&mut play),
        ["worker 1 on host b exited with code 3; 2 workers left", "ring 2: 2 ranks (2 kept, 0 new)"]
    );
    // The fourth process has the number that is free again.
    play.come(&[4]).leave(&[1, 3], 9).end(4, Ended::Lost("its host is gone".to_owned()));
    let expected = ["ring 3: 3 ranks (2 kept, 1 new)", "worker 1 on host b was lost: its host is gone; 2 workers left"];
    assert_eq!(said(&mut play), expected);
    play.hosts(&[("a", 2)]);
    assert_eq!(said(&mut play), ["host a has 2 slots now (was 1)", "host b left"]);
    play.hosts(&[("a", 2)]);
    assert_eq!(said(&mut play), Vec::<String>::new());
}

/// Two ranks on two hosts, in their first ring.
fn two() -> Play {
    let mut play = Play::new(1, 4);
    play.hosts(&[("a", 1), ("b", 1)]).come(&[1, 2]);
    assert_eq!(play.done(), "start 1 on a/0; start 2 on b/0; 1 is 0/2 synced at 0; 2 is 1/2 synced at 0");
    play
}

#[test]
fn those_who_are_ready_wait_a_little_for_those_who_were_started_with_them() {
    let mut play = Play::new(1, 4);
    play.hosts(&[("a", 2)]).come(&[1]).pass(1);
    assert_eq!(play.done(), "start 1 on a/0; start 2 on a/1");
    assert_eq!(play.pass(2).done(), "1 is 0/1 synced at 0");
    assert_eq!(play.come(&[2]).done(), "notice 1 2");
}

#[test]
fn a_host_that_comes_does_not_disturb_before_its_workers_are_ready() {
    let mut play = two();
    assert_eq!(play.hosts(&[("a", 1), ("b", 1), ("c", 1)]).done(), "start 3 on c/0");
    assert_eq!(play.come(&[3]).done(), "notice 1 2; notice 2 2");
    assert_eq!(
        play.leave(&[1, 2], 5).done(),
        "interrupt 1 at 6; interrupt 2 at 6; 1 is 0/3 synced at 5; 2 is 1/3 synced at 5; 3 is 2/3 synced at 5"
    );
}

#[test]
fn a_removal_alone_sends_no_state() {
    let mut play = two();
    assert_eq!(play.hosts(&[("b", 1)]).done(), "notice 1 1; notice 2 1");
    let left = play.leave(&[1, 2], 5).done();
    assert_eq!(left, "interrupt 1 at 6; interrupt 2 at 6; 1 leaves; 2 is 0/1 in step at 5");
}

#[test]
fn horovod_3494_newcomers_in_the_reset_after_a_removal_get_the_state() {
    let mut play = two();
    assert_eq!(play.hosts(&[("a", 1), ("c", 1)]).done(), "start 3 on c/0; notice 1 1; notice 2 1");
    play.on(Event::Checked { worker: WorkerId(1), generation: 1, checks: 5 }).come(&[3]);
    let left = play.leave(&[1, 2], 5).done();
    assert!(left.ends_with("2 leaves; 1 is 0/2 synced at 5; 3 is 1/2 synced at 5"), "{left}");
}

#[test]
fn a_second_change_at_the_same_moment_is_not_lost() {
    let mut play = two();
    play.hosts(&[("a", 1), ("b", 1), ("c", 1)]).come(&[3]).done();
    assert_eq!(play.hosts(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]).done(), "start 4 on d/0");
    play.leave(&[1, 2], 5).done();
    assert_eq!(play.come(&[4]).done(), "notice 1 2; notice 2 2; notice 3 2");
}

#[test]
fn survivors_go_on_at_once_and_who_has_the_newest_commit_is_first() {
    let mut play = two();
    play.hosts(&[("a", 1), ("b", 1), ("c", 1)]).come(&[3]).leave(&[1, 2], 5).done();
    assert_eq!(play.end(1, Ended::Signal(9)).done(), "give up 2; interrupt 2 at 0; interrupt 3 at 0");
    assert_eq!(play.fall_out(&[(2, 8), (3, 9)]).done(), "3 is 0/2 synced at 9; 2 is 1/2 synced at 9");
    assert_eq!(play.pass(1).done(), "start 4 on a/0");
}

#[test]
fn the_state_is_handed_on_when_all_hosts_are_replaced() {
    let mut play = two();
    assert_eq!(play.hosts(&[("c", 1)]).done(), "start 3 on c/0");
    assert_eq!(play.come(&[3]).done(), "notice 1 3; notice 2 3");
    let left = play.leave(&[1, 2], 5).done();
    assert!(left.ends_with("2 leaves; 1 is 0/2 synced at 5; 3 is 1/2 synced at 5; notice 1 1; notice 3 1"), "{left}");
    assert!(play.leave(&[1, 3], 6).done().ends_with("1 leaves; 3 is 0/1 in step at 6"));
}

#[test]
fn removed_workers_leave_also_when_too_few_stay_and_the_job_waits() {
    let mut play = Play::new(2, 4);
    play.hosts(&[("a", 1), ("b", 1)]).come(&[1, 2]).done();
    assert_eq!(play.hosts(&[("b", 1)]).done(), "notice 1 1; notice 2 1");
    assert_eq!(play.leave(&[1, 2], 5).done(), "interrupt 1 at 6; interrupt 2 at 6; 1 leaves");
    assert_eq!(play.end(1, Ended::Code(0)).pass(599).done(), "give up 1", "the other one waits, with the state");
    assert_eq!(play.hosts(&[("b", 1), ("c", 1)]).done(), "start 3 on c/0");
    assert_eq!(play.come(&[3]).done(), "2 is 0/2 synced at 5; 3 is 1/2 synced at 5");

    assert_eq!(
        play.hosts(&[("c", 1)]).leave(&[2, 3], 7).end(2, Ended::Code(0)).pass(599).done().matches("leaves").count(),
        1
    );
    assert_eq!(play.pass(1).end(3, Ended::Signal(15)).done(), "stop 3; Short { ready: 1, min: 2, waited: 600s }");
}

#[test]
fn the_last_who_have_the_state_stay_although_their_hosts_are_gone() {
    let mut play = Play::new(2, 4);
    play.hosts(&[("a", 1), ("b", 1)]).come(&[1, 2]).done();
    assert_eq!(play.hosts(&[("c", 1)]).done(), "start 3 on c/0", "they train on");
    assert_eq!(play.come(&[3]).done(), "notice 1 3; notice 2 3", "until there is somebody to take it");
    let left = play.leave(&[1, 2], 5).done();
    assert!(left.ends_with("2 leaves; 1 is 0/2 synced at 5; 3 is 1/2 synced at 5; notice 1 1; notice 3 1"), "{left}");
}

#[test]
fn a_list_without_hosts_takes_nobodys_work_away() {
    let mut play = two();
    assert_eq!(play.hosts(&[]).pass(60).done(), "");
    assert_eq!(play.hosts(&[("a", 1), ("b", 1)]).pass(600).done(), "");
}

#[test]
fn a_removed_worker_that_never_commits_is_stopped() {
    let mut play = two();
    play.hosts(&[("b", 1)]).done();
    assert_eq!(play.pass(60).done(), "stop 1");
    assert_eq!(play.pass(5).done(), "kill 1");
    assert_eq!(play.pass(19).done(), "", "the order may not have reached it: it may still be in the ring");
    assert_eq!(play.pass(1).done(), "give up 1; interrupt 2 at 0", "it counts as lost");
}

#[test]
fn horovod_3852_who_is_done_first_does_not_end_the_others() {
    let mut play = two();
    assert_eq!(play.end(1, Ended::Code(0)).done(), "");
    assert_eq!(play.fall_out(&[(2, 7)]).done(), "give up 1; 2 is 0/1 synced at 7");
    assert_eq!(play.end(2, Ended::Code(0)).done(), "Done");
}

#[test]
fn a_job_whose_last_rank_was_killed_has_failed() {
    let mut play = two();
    play.end(1, Ended::Code(0)).done();
    play.end(2, Ended::Signal(9));
    assert!(
        play.done
            .iter()
            .any(|it| matches!(it, Command::Say(text) if text.contains("worker 1 on host b was killed by signal 9")))
    );
    assert_eq!(play.done(), "give up 1; failed: its training failed");
    // One that ends well after it has all of the training.
    let mut play = Play::new(1, 3);
    play.hosts(&[("a", 3)]).come(&[1, 2, 3]).end(1, Ended::Code(0)).end(2, Ended::Signal(9)).done();
    assert_eq!(play.fall_out(&[(3, 7)]).done(), "3 is 0/1 synced at 7");
    assert_eq!(play.end(3, Ended::Code(0)).done(), "Done");
    // What the program itself did is not made good.
    let mut play = Play::new(1, 3);
    play.hosts(&[("a", 3)]).come(&[1, 2, 3]).end(1, Ended::Code(0)).end(2, Ended::Code(4)).done();
    assert_eq!(play.end(3, Ended::Code(0)).done(), "failed: its training failed");
}

#[test]
fn nobody_waits_for_the_answer_of_who_is_done() {
    let mut play = two();
    play.hosts(&[("a", 1), ("b", 1), ("c", 1)]).come(&[3]).done();
    play.on(Event::Checked { worker: WorkerId(2), generation: 1, checks: 5 });
    assert_eq!(play.end(1, Ended::Code(0)).done(), "interrupt 1 at 6; interrupt 2 at 6; 3 leaves");
}

#[test]
fn a_program_that_is_wrong_ends_the_job() {
    let mut play = two();
    assert_eq!(
        play.end(1, Ended::Code(1)).end(2, Ended::Code(1)).pass(1).done().split("; ").last().unwrap(),
        "failed: all ranks failed by themselves"
    );
    let mut play = Play::new(1, 1);
    play.hosts(&[("a", 1)]).end(1, Ended::Code(1)).pass(1).end(2, Ended::Code(1)).pass(2).done();
    assert_eq!(play.end(3, Ended::Code(1)).done(), "failed: workers fail again and again before their first ring");
}

#[test]
fn a_program_that_crashes_by_a_signal_is_wrong_and_one_that_is_killed_is_not() {
    for (signal, is_wrong) in [(4, true), (5, true), (6, true), (7, true), (8, true), (11, true), (31, true)]
        .into_iter()
        .chain([1, 2, 9, 13, 15, 40].map(|signal| (signal, false)))
    {
        let mut play = Play::new(1, 1);
        play.hosts(&[("a", 1)]);
        for worker in 1..=3 {
            play.end(worker, Ended::Signal(signal)).pass(4);
        }
        let expected = "failed: workers fail again and again before their first ring";
        assert_eq!(play.done().ends_with(expected), is_wrong, "signal {signal}");
        let mut play = two();
        play.end(1, Ended::Signal(signal)).end(2, Ended::Signal(signal)).pass(1);
        assert_eq!(play.done().ends_with("failed: all ranks failed by themselves"), is_wrong, "signal {signal}");
    }
}

#[test]
fn a_rank_that_fails_before_every_commit_ends_the_job_and_one_that_fails_after_does_not() {
    for has_commits in [false, true] {
        let mut play = Play::new(1, 5);
        play.hosts(&[("a", 5)]).come(&[1, 2, 3, 4, 5]);
        for worker in [5, 4, 3] {
            if has_commits {
                play.commit();
            }
            play.end(worker, Ended::Code(1));
            let left: Vec<(u64, u64)> = (1..worker).map(|worker| (worker, 3)).collect();
            play.fall_out(&left);
        }
        let is_over = play.done().contains("stop 1");
        assert_eq!(is_over, !has_commits);
    }
}

#[test]
fn too_few_for_too_long_and_too_many_resets_end_the_job() {
    let mut play = Play::new(2, 2);
    assert_eq!(play.hosts(&[("a", 1)]).come(&[1]).pass(599).done(), "start 1 on a/0");
    assert_eq!(play.pass(1).end(1, Ended::Signal(15)).done(), "stop 1; Short { ready: 1, min: 2, waited: 600s }");
    let mut play = two();
    play.driver.settings.reset_limit = Some(0);
    play.end(1, Ended::Signal(9)).fall_out(&[(2, 3)]).end(2, Ended::Signal(15));
    assert!(play.done().ends_with("stop 2; ResetLimit(0)"));
}

#[test]
fn who_is_silent_is_killed_and_counts_as_lost() {
    let mut play = two();
    assert_eq!(play.on(Event::Silent(WorkerId(1))).done(), "kill 1");
    assert_eq!(play.pass(5).done(), "give up 1; interrupt 2 at 0");
}

#[test]
fn an_answer_that_got_lost_is_given_again() {
    let mut play = two();
    assert_eq!(play.on(Event::Joined(WorkerId(2), Join::default())).done(), "2 is 1/2 synced at 0");
    play.hosts(&[("b", 1)]).done();
    assert_eq!(play.on(Event::Connected(WorkerId(2))).done(), "notice 2 1");
}

#[test]
fn the_first_signal_asks_and_the_second_kills() {
    let mut play = two();
    assert_eq!(play.on(Event::Quit).done(), "stop 1; stop 2");
    assert_eq!(play.on(Event::Quit).done(), "kill 1; kill 2");
    assert_eq!(play.end(1, Ended::Signal(9)).end(2, Ended::Signal(9)).done(), "Interrupted");
}
