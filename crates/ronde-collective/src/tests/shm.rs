//! Members of a segment as threads, over the real memory.

use std::{sync::Arc, thread, time::Duration};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::{
    algorithms::even_parts,
    clock,
    error::Error,
    memory::{Segment, number},
    shm::{
        Peer, SLOT, Shm,
        panels::{Combine, Panels},
        segment_len,
    },
    types::{DataType, Rank, ReduceOp},
};

/// Members of one segment, each with a mapping of its own, as processes would have.
fn members(count: usize) -> Vec<Shm> {
    let len = segment_len(count);
    let (first, fd) = Segment::create(len).unwrap();
    let peers: Vec<Peer> = (0..count).map(|rank| Peer { rank: Rank(rank), pid: std::process::id() }).collect();
    let rest = (1..count).map(|_| Segment::open(std::process::id(), number(&fd), len).unwrap());
    let segments: Vec<Segment> = [first].into_iter().chain(rest).collect();
    let member = |(me, segment)| Shm::new(Arc::new(segment), me, &peers, Arc::default()).unwrap();
    segments.into_iter().enumerate().map(member).collect()
}

fn on_all(count: usize, body: impl Fn(usize, Shm) + Sync) {
    thread::scope(|threads| {
        for (me, shm) in members(count).into_iter().enumerate() {
            let body = &body;
            threads.spawn(move || body(me, shm));
        }
    });
}

#[test]
fn everybody_hears_everybody_in_every_round() {
    on_all(3, |me, mut shm| {
        for round in 0..3000_usize {
            let said = format!("{me} in {round}");
            shm.send_round([said.as_bytes(), &b"."[..round % 2]].into_iter());
            assert!(shm.hear(None).unwrap());
            for other in 0..3 {
                let expected = format!("{other} in {round}{}", if round % 2 == 1 { "." } else { "" });
                assert_eq!(std::str::from_utf8(shm.said(other)).unwrap(), expected);
            }
        }
    });
}

#[test]
fn the_longest_thing_can_be_said() {
    on_all(2, |me, mut shm| {
        let long = vec![u8::try_from(me).unwrap(); SLOT - 8];
        shm.send_round([long.as_slice()].into_iter());
        shm.hear(None).unwrap();
        assert_eq!(shm.said(1 - me).len(), long.len());
    });
}

#[test]
fn a_stream_arrives_whole_and_in_order_whatever_the_pieces() {
    const TOTAL: usize = 5_000_000;
    let byte = |index: usize| u8::try_from(index % 251).unwrap();
    on_all(2, |me, shm| {
        let mut done = 0;
        while done < TOTAL {
            // Pieces from one byte to more than the ring holds.
            let len = (done % 7 * 400_000 + 1).min(TOTAL - done);
            if me == 0 {
                let piece: Vec<u8> = (done..done + len).map(byte).collect();
                done += shm.push(1, &piece);
            } else {
                let mut piece = vec![0; len];
                let got = shm.pull(0, &mut piece);
                assert!(piece[..got].iter().enumerate().all(|(index, it)| *it == byte(done + index)));
                done += got;
            }
            let (reads, writes) = if me == 0 { (vec![], vec![1]) } else { (vec![0], vec![]) };
            if done < TOTAL {
                shm.wait_for_rings(&reads, &writes, None).unwrap();
            }
        }
    });
}

#[test]
fn blocks_of_collectives_of_all_kinds_do_not_get_mixed_up() {
    let combine = Combine { dtype: DataType::I32, op: ReduceOp::Sum, scale: 1.0 };
    on_all(3, |me, mut shm| {
        let own = i32::try_from(me).unwrap() + 1;
        for round in 0..60_usize {
            let elements = [1, 70, 100_000, 3][round % 4];
            let mut data: Vec<u8> = (0..elements).flat_map(|_| own.to_ne_bytes()).collect();
            let parts = even_parts(elements, 3, 4);
            let mine = parts[me].clone();
            let of = |bytes: &[u8]| i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            match round % 3 {
                0 => {
                    shm.run(Panels::in_place(&parts, Some(combine), true, &mut data)).unwrap();
                    assert!(data.chunks(4).all(|it| of(it) == 6), "allreduce");
                }
                1 => {
                    shm.run(Panels::in_place(&parts, Some(combine), false, &mut data)).unwrap();
                    assert!(data[mine].chunks(4).all(|it| of(it) == 6), "reduce-scatter");
                }
                _ => {
                    shm.run(Panels::in_place(&parts, None, true, &mut data)).unwrap();
                    let owner = |index: usize| parts.iter().position(|part| part.contains(&index)).unwrap();
                    let is_right = |(index, it)| usize::try_from(of(it)).unwrap() == owner(4 * index) + 1;
                    assert!(data.chunks(4).enumerate().all(is_right), "allgather");
                }
            }
        }
    });
}

#[test]
fn a_wait_ends_at_its_deadline_by_a_goodbye_and_by_an_abort() {
    let mut both = members(2);
    let (mut one, other) = (both.remove(0), both.remove(0));
    one.send_round([&b"hello"[..]].into_iter());
    let soon = || Some(clock::now() + Duration::from_millis(1));
    assert!(!one.hear(soon()).unwrap(), "nobody has answered");
    other.leave();
    assert_eq!(one.hear(None), Err(Error::Shutdown(Some(Rank(1)))));
    other.abort(Rank(7));
    assert!(matches!(one.hear(None), Err(Error::Lost { rank: Rank(7), .. })));
}

#[test]
fn members_know_when_they_share_a_processor() {
    thread::spawn(|| {
        // This thread alone stays where it is; both members are on it.
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        sched_setaffinity(None, &here).unwrap();
        let both = members(2);
        assert!(!both[0].shares_processor(), "the other has not been seen anywhere");
        assert!(both[1].shares_processor(), "the first was seen here");
        assert!(both[0].shares_processor());
    })
    .join()
    .unwrap();
}
