//! Ranks as processes: what threads cannot show, since they do not die alone.
//!
//! The ranks are this test program again, told by a variable to be one; that test does nothing otherwise.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use ronde_collective::{
    Config, DataType, Engine, Operation, Rank, ReduceOp, Rendezvous, Secret, Server, Tensor, Transport, Work,
};

const SECRET: &[u8] = b"of processes";
/// Told to a rank: rank, size, server, transport, what to do.
const ROLE: &str = "RONDE_TEST_RANK";

struct RankProcess {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl RankProcess {
    /// The next line that the rank itself has printed.
    fn says(&mut self) -> String {
        let own = |line: std::io::Result<String>| line.unwrap().split_once("rank says: ").map(|(_, it)| it.to_owned());
        self.lines.find_map(own).expect("the rank ended without a word")
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Lets a rank go on that waits to be told.
    fn tell(&mut self) {
        self.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(size: usize, server: &Server, transport: &str, task: &str) -> Vec<RankProcess> {
    let role = format!("{size} {} {transport} {task}", server.address());
    start_by(size, &role, |_| Command::new(env::current_exe().unwrap()))
}

/// Starts ranks with a role, each by its own command.
fn start_by(size: usize, role: &str, command: impl Fn(usize) -> Command) -> Vec<RankProcess> {
    let one = |rank: usize| {
        let mut command = command(rank);
        command.args(["be_a_rank", "--exact", "--nocapture"]).env(ROLE, format!("{rank} {role}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        RankProcess { child, lines }
    };
    (0..size).map(one).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the role of a process comes with its environment; it takes times")]
fn be_a_rank() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let (rank, size) = (words[0].parse().unwrap(), words[1].parse().unwrap());
    let rendezvous = match words[2] {
        directory if directory.starts_with('/') => Rendezvous::Directory(directory.into()),
        address => Rendezvous::Server(address.to_owned()),
    };
    let mut config = Config::new(Rank(rank), size, rendezvous, Secret::new(SECRET));
    config.start_timeout = Duration::from_secs(120);
    match words[3] {
        "tcp" => config.transport = Transport::Tcp,
        // Two ranks on each.
        "hosts" => config.host = format!("host {}", rank / 2),
        _ => {}
    }
    if words[4] == "until-one-stops" {
        config.stall.fail_after = Some(Duration::from_secs(3));
    }
    let engine = Engine::start(config).unwrap();
    let step = |name: &str, length: usize| {
        let tensor = Tensor::new(DataType::F32, [length], vec![0; 4 * length]);
        engine.run(Work::new(name, Operation::Allreduce(ReduceOp::Sum.into()), vec![tensor]))
    };
    if let Err(error) = step("begin", 10) {
        return println!("rank says: {}", error.to_string().replace('\n', " "));
    }
    println!("rank says: ready");
    match words[4] {
        "until-one-dies" => {
            // Small ones are said in rounds, large ones go through blocks: a rank may die in either.
            let error = (0..).find_map(|_| step("small", 10).and_then(|_| step("large", 300_000)).err()).unwrap();
            println!("rank says: {error}");
        }
        "until-one-stops" => {
            let error = (0..).find_map(|_| step("large", 4_000_000).err()).unwrap();
            println!("rank says: {}", error.to_string().replace('\n', " "));
        }
        "wait-for-one-who-died" => {
            let mut line = String::new();
            if rank + 1 == size {
                std::io::stdin().read_line(&mut line).unwrap();
                std::thread::sleep(Duration::from_secs(60));
            }
            println!("rank says: {}", step("late", 10).unwrap_err());
        }
        task => {
            if task.ends_with("when-told") {
                std::io::stdin().read_line(&mut String::new()).unwrap();
            }
            for _ in 0..5 {
                step("large", 1_000_000).unwrap();
            }
            println!("rank says: done");
        }
    }
}

fn server() -> Server {
    Server::start("127.0.0.1:0".parse().unwrap(), Secret::new(SECRET)).unwrap()
}

/// What is promised is a second. A busy machine has its own pauses; but what would notice later by other means, the
/// kernel's probes or the end of the test, takes longer than this.
const NOTICED_WITHIN: Duration = Duration::from_secs(3);
/// A machine may stand still for that long, and ranks be late for no fault of theirs; but not every time.
const TRIES: usize = 4;

fn check_loss(size: usize, transport: &str, task: &str) {
    let is_soon = |_| noticed_after(size, transport, task) < NOTICED_WITHIN;
    assert!((0..TRIES).any(is_soon), "{transport}, {task}: noticed late {TRIES} times");
}

#[expect(clippy::disallowed_methods, reason = "the time until a death is noticed is the subject")]
fn noticed_after(size: usize, transport: &str, task: &str) -> Duration {
    let server = server();
    let mut ranks = start(size, &server, transport, task);
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.says(), "ready"));
    let mut dead = ranks.pop().unwrap();
    dead.child.kill().unwrap();
    let begun = std::time::Instant::now();
    for rank in &mut ranks {
        let error = rank.says();
        assert!(error.starts_with(&format!("lost rank {}", size - 1)), "{transport}, {task}: {error}");
        // That would be the kernel's probes.
        assert!(!error.contains("timed out"), "{transport}, {task}: {error}");
    }
    begun.elapsed()
}

#[test]
fn a_killed_rank_is_noticed_within_a_second_in_the_middle_of_work() {
    check_loss(2, "auto", "until-one-dies");
    check_loss(4, "auto", "until-one-dies");
    check_loss(3, "tcp", "until-one-dies");
    check_loss(4, "hosts", "until-one-dies");
}

#[test]
fn a_killed_rank_is_noticed_within_a_second_by_those_who_wait_for_it() {
    check_loss(2, "auto", "wait-for-one-who-died");
    check_loss(3, "tcp", "wait-for-one-who-died");
    check_loss(4, "hosts", "wait-for-one-who-died");
}

#[test]
fn a_rank_that_stops_for_a_while_only_delays_the_others() {
    for transport in ["auto", "tcp"] {
        let server = server();
        let mut ranks = start(2, &server, transport, "a-few-steps");
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.says(), "ready"));
        ranks[1].signal(rustix::process::Signal::STOP);
        // Longer than any nap of a waiter, several times over.
        std::thread::sleep(Duration::from_millis(300));
        ranks[1].signal(rustix::process::Signal::CONT);
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.says(), "done"));
    }
}

#[test]
fn a_rank_that_stops_in_the_middle_of_data_is_named_and_given_up() {
    std::thread::scope(|scope| {
        for (transport, size) in [("auto", 3), ("tcp", 2), ("hosts", 4)] {
            scope.spawn(move || check_stop(transport, size));
        }
    });
}

fn check_stop(transport: &str, size: usize) {
    // The first to give up names it, or between hosts who waits for it; the others hear that the ring is left.
    let named = if transport == "hosts" { ": [large]".to_owned() } else { format!(" {}: [large]", size - 1) };
    let is_given_up = |error: &String| error.starts_with("operations have been waiting") || error.contains("shut down");
    let is_named = |_| {
        let said = said_when_one_stops(transport, size);
        assert!(said.iter().all(is_given_up), "{transport}: {said:?}");
        said.iter().any(|error| error.contains(&named))
    };
    assert!((0..TRIES).any(is_named), "{transport}: another was named, {TRIES} times");
}

/// What the others say, or what ranks say that were not ready in time.
fn said_when_one_stops(transport: &str, size: usize) -> Vec<String> {
    let server = server();
    let mut ranks = start(size, &server, transport, "until-one-stops");
    let late: Vec<String> = ranks.iter_mut().map(RankProcess::says).filter(|said| said != "ready").collect();
    if !late.is_empty() {
        return late;
    }
    ranks[size - 1].signal(rustix::process::Signal::STOP);
    ranks[..size - 1].iter_mut().map(RankProcess::says).collect()
}

/// Two network namespaces with a wire between them; they go with it.
struct Network {
    names: [String; 2],
}

impl Network {
    fn new(test: &str) -> Option<Self> {
        if !ronde_sim::is_root() {
            return None;
        }
        ronde_sim::program("ip")?;
        let id = std::process::id();
        let names = ["a", "b"].map(|end| format!("ronde-{test}-{id}-{end}"));
        let network = Self { names };
        let [a, b] = &network.names;
        for name in [a, b] {
            assert!(run(&["ip", "netns", "add", name]), "cannot make a network namespace");
        }
        assert!(run(&["ip", "link", "add", "wire", "netns", a, "type", "veth", "peer", "name", "wire", "netns", b]));
        for (name, address) in [(a, "10.77.32.1/24"), (b, "10.77.32.2/24")] {
            assert!(run(&["ip", "-n", name, "addr", "add", address, "dev", "wire"]));
            assert!(run(&["ip", "-n", name, "link", "set", "wire", "up"]));
        }
        Some(network)
    }

    /// Drops what comes in at the first end and matches; false if this kernel cannot.
    fn drop_incoming(&self, condition: &str) -> bool {
        let chain = "add chain inet fault in { type filter hook input priority 0; }";
        let rules = format!("add table inet fault; {chain}; add rule inet fault in {condition} drop");
        run(&["ip", "netns", "exec", &self.names[0], "nft", &rules])
    }

    /// Ends that.
    fn let_in(&self) {
        assert!(run(&["ip", "netns", "exec", &self.names[0], "nft", "delete table inet fault"]));
    }

    /// Starts a rank at each end.
    fn start(&self, task: &str) -> Vec<RankProcess> {
        let meeting = tempfile::tempdir().unwrap();
        let role = format!("2 {} tcp {task}", meeting.path().display());
        let mut ranks = start_by(2, &role, |rank| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &self.names[rank]]).arg(env::current_exe().unwrap());
            command
        });
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.says(), "ready"));
        ranks
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            run(&["ip", "netns", "del", name]);
        }
    }
}

fn run(words: &[&str]) -> bool {
    Command::new(words[0]).args(&words[1..]).status().is_ok_and(|status| status.success())
}

#[test]
fn a_cut_wire_is_noticed_by_both_ends() {
    let Some(network) = Network::new("cut") else { return };
    let mut ranks = network.start("until-one-dies");
    assert!(run(&["ip", "-n", &network.names[0], "link", "set", "wire", "down"]));
    for (rank, other) in ranks.iter_mut().zip([1, 0]) {
        // Each waits for the kernel's probes of the other, four seconds.
        let error = rank.says();
        assert!(error.starts_with(&format!("lost rank {other}")), "{error}");
    }
}

#[test]
fn a_slow_and_lossy_wire_only_delays() {
    let Some(network) = Network::new("slow") else { return };
    if ronde_sim::program("tc").is_none() || ronde_sim::program("nft").is_none() {
        return;
    }
    // A queue that empties slowly: whatever is sent waits in it for milliseconds, and what it cannot hold is lost.
    let queue = ["root", "tbf", "rate", "400mbit", "burst", "64k", "latency", "20ms"];
    let slow_down = |end: &String| run(&[&["tc", "-n", end, "qdisc", "add", "dev", "wire"], &queue[..]].concat());
    if !network.names.iter().all(slow_down) || !network.drop_incoming("numgen random mod 1000 < 2") {
        return ronde_sim::skip("this kernel has no slow queues, or drops no packets");
    }
    let mut ranks = network.start("a-few-steps");
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.says(), "done"));
}

#[test]
fn a_partition_that_heals_only_delays() {
    let Some(network) = Network::new("part") else { return };
    if ronde_sim::program("nft").is_none() {
        return;
    }
    for _ in 0..2 * TRIES {
        let mut ranks = network.start("a-few-steps-when-told");
        let Some(took) = cut_for_a_while(&network, &mut ranks) else {
            return ronde_sim::skip("this kernel drops no packets");
        };
        if took < HEALED_WITHIN {
            return ranks.iter_mut().for_each(|rank| assert_eq!(rank.says(), "done"));
        }
    }
    panic!("this machine stands still all the time");
}

/// A peer that is not heard for four seconds is lost; the last word may be a second old when the cut begins, and the
/// next probe comes up to a second after it ends.
const HEALED_WITHIN: Duration = Duration::from_millis(1500);

/// Lets two ranks work while one does not hear the other; returns for how long, or none if this kernel cannot.
#[expect(clippy::disallowed_methods, reason = "a cut that took too long is no test")]
fn cut_for_a_while(network: &Network, ranks: &mut [RankProcess]) -> Option<Duration> {
    let begun = std::time::Instant::now();
    if !network.drop_incoming("meta l4proto tcp") {
        return None;
    }
    ranks.iter_mut().for_each(RankProcess::tell);
    // Longer than TCP's first tries, and shorter than what counts as a loss.
    std::thread::sleep(Duration::from_millis(700));
    network.let_in();
    Some(begun.elapsed())
}
