//! The protocol of shared memory in many orders of events that the language allows, by loom.
//!
//! The source of `shm/` is compiled a second time here, over the memory and the clock of this folder. A model runs a
//! body again and again, each time with another order of the members' steps and other, older values that a load
//! may still see; it fails if a region is read and written without an order between, if a value is wrong, or if all
//! members sleep. Sleepers are woken by nothing but a bell, so a bell that is not rung is found. How often members that
//! could go on are interrupted in one run is limited, and how long a model takes, which keeps it to seconds;
//! `LOOM_MAX_PREEMPTIONS` and `LOOM_MAX_DURATION` (in seconds) lift that.
//!
//! Each kind of fault that the protocol guards against is then put in on purpose, and must be found.

mod clock;
mod memory;
#[expect(clippy::duplicate_mod, dead_code, reason = "it is a second copy on purpose, and less of it is used")]
#[path = "../../shm/mod.rs"]
mod shm;

use std::{sync::Arc, time::Duration};

use loom::{
    model::Builder,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use self::{
    memory::{Fault, Segment},
    shm::{
        Peer, Shm,
        panels::{Combine, Panels},
    },
};
use crate::{
    algorithms::even_parts,
    error::Error,
    types::{DataType, Rank, ReduceOp},
};

/// Interruptions in one run; with two, the models take minutes.
const INTERRUPTIONS: usize = 1;
const DURATION_MAX: Duration = Duration::from_secs(5);
/// Where a fault was put in; it is found long before all is tried, so there is no other limit.
const INTERRUPTIONS_WITH_FAULT: usize = 2;

/// Runs a body for every member, in as many orders as the limits allow.
fn on_all(count: usize, body: impl Fn(usize, Shm) + Send + Sync + Clone + 'static) {
    on_all_by(&builder(), count, body);
}

fn on_all_by(builder: &Builder, count: usize, body: impl Fn(usize, Shm) + Send + Sync + Clone + 'static) {
    builder.check(move || {
        let mut members = members(count).into_iter().enumerate();
        let own = members.next();
        let spawn = |(me, shm): (usize, Shm)| {
            let body = body.clone();
            thread::spawn(move || body(me, shm))
        };
        let others: Vec<_> = members.map(spawn).collect();
        own.into_iter().for_each(|(me, shm)| body(me, shm));
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(INTERRUPTIONS));
    builder.max_duration = builder.max_duration.or(Some(DURATION_MAX));
    builder.max_branches = 10_000;
    // How often it looks at the time.
    builder.checkpoint_interval = 100;
    builder
}

fn members(count: usize) -> Vec<Shm> {
    let segment = Arc::new(Segment::new(shm::segment_len(count)));
    let peers: Vec<Peer> = (0..count).map(|rank| Peer { rank: Rank(rank), pid: std::process::id() }).collect();
    let member = |me| Shm::new(Arc::clone(&segment), me, &peers, Arc::default()).unwrap();
    (0..count).map(member).collect()
}

/// Everybody speaks and hears, so often that slots are used again.
fn rounds(me: usize, mut shm: Shm) {
    for round in 0..3_u8 {
        shm.send_round([&[u8::try_from(me).unwrap(), round][..]].into_iter());
        assert!(shm.hear(None).unwrap());
        (0..shm.size()).for_each(|other| assert_eq!(shm.said(other), [u8::try_from(other).unwrap(), round]));
    }
}

/// More goes through a ring than it holds.
fn stream(me: usize, shm: Shm) {
    const PIECE: usize = 8;
    let piece = |number: usize| [u8::try_from(number).unwrap(); PIECE];
    for number in 0..memory::RING_MAX / PIECE + 2 {
        let mut got = [0; PIECE];
        let go_on = |got: &mut [u8]| if me == 0 { shm.push(1, &piece(number)) } else { shm.pull(0, got) };
        let (reads, writes): (&[usize], &[usize]) = if me == 0 { (&[], &[1]) } else { (&[0], &[]) };
        let mut moved = go_on(&mut got);
        while moved == 0 {
            shm.wait_for_rings(reads, writes, None).unwrap();
            moved = go_on(&mut got);
        }
        assert_eq!(moved, PIECE);
        assert!(me == 0 || got == piece(number));
    }
}

/// A sum of more panels than are in flight.
fn sum(me: usize, mut shm: Shm) {
    let panels = memory::DEPTH + 1;
    let own = i32::try_from(me).unwrap() + 1;
    let elements = shm.size() * panels * memory::BLOCK / 4;
    let mut data: Vec<u8> = (0..elements).flat_map(|_| own.to_ne_bytes()).collect();
    let parts = even_parts(elements, shm.size(), 4);
    let combine = Combine { dtype: DataType::I32, op: ReduceOp::Sum, scale: 1.0 };
    shm.run(Panels::in_place(&parts, Some(combine), true, &mut data)).unwrap();
    assert!(data.chunks(4).all(|it| it == 3_i32.to_ne_bytes()));
}

#[test]
fn rounds_are_heard_in_many_orders() {
    on_all(2, rounds);
}

#[test]
fn rounds_of_three_are_heard_in_many_orders() {
    on_all(3, rounds);
}

#[test]
fn a_stream_arrives_in_many_orders() {
    on_all(2, stream);
}

#[test]
fn a_sum_is_right_in_many_orders() {
    on_all(2, sum);
}

#[test]
fn a_bell_is_heard_in_many_orders() {
    builder().check(|| {
        let mut both = members(2);
        let shm = both.swap_remove(0);
        let (bell, is_called) = (shm.bell(), Arc::new(AtomicBool::new(false)));
        let call = Arc::clone(&is_called);
        let caller = thread::spawn(move || {
            call.store(true, Ordering::Release);
            bell.ring();
        });
        assert!(shm.listen(None, || is_called.load(Ordering::Acquire)).unwrap());
        caller.join().unwrap();
    });
}

#[test]
fn a_goodbye_and_an_abort_end_a_wait_in_many_orders() {
    on_all(2, |me, mut shm| {
        if me == 1 {
            return shm.leave();
        }
        shm.send_round([&b"hello"[..]].into_iter());
        assert_eq!(shm.hear(None), Err(Error::Shutdown(Some(Rank(1)))));
    });
    on_all(2, |me, mut shm| {
        if me == 1 {
            return shm.abort(Rank(7));
        }
        shm.send_round([&b"hello"[..]].into_iter());
        assert!(matches!(shm.hear(None), Err(Error::Lost { rank: Rank(7), .. })));
    });
}

/// What a model says of a protocol with a fault; nothing if it does not notice.
fn found(fault: Fault, body: fn(usize, Shm)) -> Option<String> {
    let run = std::thread::spawn(move || {
        memory::put_in(fault);
        let mut builder = builder();
        (builder.preemption_bound, builder.max_duration) = (Some(INTERRUPTIONS_WITH_FAULT), None);
        on_all_by(&builder, 2, body);
    });
    let panic = run.join().err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

#[test]
fn every_fault_that_is_put_in_is_found() {
    for (name, body) in [("rounds", rounds as fn(usize, Shm)), ("stream", stream), ("sum", sum)] {
        for fault in [Fault::Release, Fault::Acquire, Fault::Fence, Fault::Wake] {
            let found = found(fault, body).unwrap_or_else(|| panic!("{name}: {fault:?} was not noticed"));
            let is_race = found.contains("Causality violation");
            let is_standstill = found.contains("deadlock");
            let is_expected = match fault {
                Fault::Release | Fault::Acquire => is_race,
                _ => is_standstill,
            };
            assert!(is_expected, "{name}, {fault:?}: {found}");
        }
    }
}
