//! Rings formed again and again in one process: nothing may grow. Alone in its program, so that it counts only itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use std::{path::Path, thread};

use ronde_collective::{
    Config, DataType, Engine, Operation, Rank, ReduceOp, Rendezvous, Secret, Server, Tensor, Transport, Work,
};

const SECRET: &[u8] = b"again and again";
/// After these the allocator has what it wants.
const WARM_UP: usize = 50;
const ROUNDS: usize = 300;
/// The allocator keeps an arena for each of many threads, and how many run at once is the scheduler's affair; a buffer
/// of the sum leaked by each ring would be 120 MB, one of a tenth of that 12.
const GROWTH_MAX_KB: usize = 10 * 1024;

#[derive(Debug)]
struct Footprint {
    descriptors: usize,
    threads: usize,
    memory_kb: usize,
}

fn footprint() -> Footprint {
    let count = |path: &str| Path::new(path).read_dir().unwrap().count();
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    Footprint {
        descriptors: count("/proc/self/fd"),
        threads: count("/proc/self/task"),
        memory_kb: memory.trim().trim_end_matches(" kB").parse().unwrap(),
    }
}

/// Forms a ring of two, sums, and leaves it; in every third, one leaves while the other counts on it.
fn once(server: &Server, round: usize) {
    thread::scope(|threads| {
        for rank in 0..2 {
            let rendezvous = Rendezvous::Server(server.address().to_string());
            let mut config = Config::new(Rank(rank), 2, rendezvous, Secret::new(SECRET));
            config.scope = format!("round {round}");
            config.transport = if round.is_multiple_of(2) { Transport::Tcp } else { Transport::Auto };
            threads.spawn(move || {
                let engine = Engine::start(config).unwrap();
                let tensor = Tensor::new(DataType::F32, [100_000], vec![0; 400_000]);
                let work = Work::new("x", Operation::Allreduce(ReduceOp::Sum.into()), vec![tensor]);
                engine.submit(work).unwrap().wait(None).unwrap().unwrap();
                if round.is_multiple_of(3) && rank == 0 {
                    let alone = Work::new("alone", Operation::Barrier, Vec::new());
                    assert!(engine.submit(alone).unwrap().wait(None).unwrap().unwrap_err().is_fatal());
                }
            });
        }
    });
}

#[test]
fn hundreds_of_rings_leave_no_memory_threads_or_descriptors_behind() {
    let server = Server::start("127.0.0.1:0".parse().unwrap(), Secret::new(SECRET)).unwrap();
    (0..WARM_UP).for_each(|round| once(&server, round));
    let before = footprint();
    (WARM_UP..WARM_UP + ROUNDS).for_each(|round| once(&server, round));
    // Threads of the server may be on their way out.
    let is_clean = |after: &Footprint| {
        after.descriptors <= before.descriptors
            && after.threads <= before.threads
            && after.memory_kb <= before.memory_kb + GROWTH_MAX_KB
    };
    let limit = std::time::Duration::from_secs(60);
    let clean = || Some(footprint()).filter(is_clean);
    ronde_sim::wait_until(&format!("as much as before: {before:?}, and not {:?}", footprint()), limit, clean);
}
