use std::sync::Arc;

use proptest::prelude::*;

use super::{
    Decision, Negotiator, Response,
    fuse::{Limits, fuse},
    request::{Kind, Request, Spec},
    round_message::{Item, RoundMessage},
};
use crate::{
    codec::{Reader, Writer},
    types::{DataType, Rank, ReduceOp, SetId, Shape},
};

fn sum(name: &str, rows: usize) -> Arc<Request> {
    let mut request = Request::new(Kind::Allreduce, name);
    request.tensors = vec![Spec { dtype: DataType::F32, shape: Shape::from([rows]) }];
    Arc::new(request)
}

fn ranks(size: usize) -> Vec<Rank> {
    (0..size).map(Rank).collect()
}

/// One round where each member newly has these ready; returns the names that can be done.
fn round(negotiator: &mut Negotiator, asked: &[&[Arc<Request>]]) -> Vec<String> {
    let message = |(member, requests): (usize, &&[Arc<Request>])| RoundMessage {
        items: requests.iter().map(|request| negotiator.item(member, request)).collect(),
        ..RoundMessage::default()
    };
    let messages: Vec<RoundMessage> = asked.iter().enumerate().map(message).collect();
    negotiator.round(&messages).into_iter().map(|response| response.name.to_string()).collect()
}

#[test]
fn an_operation_waits_for_the_last_rank() {
    let mut negotiator = Negotiator::new(ranks(3), 10);
    let (a, b) = (sum("a", 1), sum("b", 1));
    assert!(round(&mut negotiator, &[&[Arc::clone(&a)], &[Arc::clone(&b)], &[]]).is_empty());
    assert_eq!(negotiator.stalled()["a"].missing, [Rank(1), Rank(2)]);
    assert_eq!(round(&mut negotiator, &[&[], &[Arc::clone(&a)], &[Arc::clone(&a)]]), ["a"]);
    assert_eq!(round(&mut negotiator, &[&[Arc::clone(&b)], &[], &[b]]), ["b"]);
    assert!(negotiator.stalled().is_empty());
    assert!(matches!(negotiator.item(0, &a), Item::Known(_)), "what was agreed is known");
    assert!(matches!(negotiator.item(0, &sum("a", 2)), Item::New(_)), "another shape is not");
}

#[test]
fn the_cache_forgets_what_was_used_longest_ago() {
    let mut negotiator = Negotiator::new(ranks(1), 2);
    for name in ["a", "b", "a", "c"] {
        assert_eq!(round(&mut negotiator, &[&[sum(name, 1)]]), [name]);
    }
    let is_known = |name| matches!(negotiator.item(0, &sum(name, 1)), Item::Known(_));
    assert_eq!(["a", "b", "c"].map(is_known), [true, false, true]);
}

#[test]
fn a_refusal_is_forgotten_and_the_next_try_is_fresh() {
    let mut negotiator = Negotiator::new(ranks(2), 10);
    assert_eq!(round(&mut negotiator, &[&[sum("a", 1)], &[sum("a", 1)]]), ["a"]);
    let messages = [sum("a", 1), sum("a", 2)]
        .map(|request| RoundMessage { items: vec![Item::New(request)], ..RoundMessage::default() });
    let responses = negotiator.round(&messages);
    assert!(matches!(&responses[0].decision, Decision::Refused(text) if text.contains("[1]") && text.contains("[2]")));
    assert!(matches!(negotiator.item(0, &sum("a", 1)), Item::New(_)));
}

#[test]
fn everybody_joins_and_the_last_one_is_named() {
    let mut negotiator = Negotiator::new(ranks(2), 10);
    let join = Arc::new(Request::new(Kind::Join, super::JOIN));
    assert!(round(&mut negotiator, &[&[sum("a", 1)], &[]]).is_empty());
    assert_eq!(round(&mut negotiator, &[&[], &[Arc::clone(&join)]]), ["a"], "who has joined counts as ready");
    let message = RoundMessage { items: vec![Item::New(join)], ..RoundMessage::default() };
    let responses = negotiator.round(&[message, RoundMessage::default()]);
    assert_eq!(responses[0].decision, Decision::AllJoined(Rank(0)));
}

fn limits(threshold: usize) -> Limits {
    Limits { threshold, alone: 100, device_threshold: threshold }
}

fn agreed(requests: &[Arc<Request>]) -> Vec<Response> {
    let mut negotiator = Negotiator::new(ranks(1), 0);
    let items = requests.iter().map(|request| Item::New(Arc::clone(request))).collect();
    negotiator.round(&[RoundMessage { items, ..RoundMessage::default() }])
}

fn check_fusion(what: &str, requests: &[Arc<Request>], threshold: usize, expected: &[&[&str]]) {
    let batches = fuse(agreed(requests), limits(threshold));
    let names: Vec<Vec<&str>> =
        batches.iter().map(|batch| batch.0.iter().map(|response| &*response.name).collect()).collect();
    assert_eq!(names, expected, "{what}");
}

#[test]
fn what_is_alike_and_small_goes_together() {
    let with = |name: &str, change: fn(&mut Request)| {
        let mut request = Request::clone(&sum(name, 1));
        change(&mut request);
        Arc::new(request)
    };
    let (a, b, c) = (sum("a", 2), sum("b", 2), sum("c", 2));
    check_fusion("alike", &[a.clone(), b.clone(), c.clone()], 100, &[&["a", "b", "c"]]);
    check_fusion("a batch is full", &[a.clone(), b.clone(), c.clone()], 16, &[&["a", "b"], &["c"]]);
    check_fusion("turned off", &[a.clone(), b.clone()], 0, &[&["a"], &["b"]]);
    check_fusion("a large one goes alone", &[a.clone(), sum("x", 30), b.clone()], 1000, &[&["a", "b"], &["x"]]);
    let product = with("p", |request| request.op = ReduceOp::Product);
    check_fusion("others are looked over", &[a.clone(), product, b.clone()], 100, &[&["a", "b"], &["p"]]);
    let far = |name| with(name, |request| request.device = Some("gpu".into()));
    let (near, c) = (a.clone(), c.clone());
    check_fusion("places differ", &[near, far("f"), c, far("g")], 100, &[&["a", "c"], &["f", "g"]]);
    let doubled = with("d", |request| request.postscale = 2.0);
    check_fusion("factors differ", &[a, doubled], 100, &[&["a"], &["d"]]);
}

/// Steps of a run: which member newly has which name ready.
fn runs() -> impl Strategy<Value = Vec<Vec<(usize, u8)>>> {
    prop::collection::vec(prop::collection::vec((0_usize..3, 0_u8..5), 0..6), 1..20)
}

proptest! {
    /// The heart of it: everybody hears the same and must come to the same answer, with a cache as small as may be.
    #[test]
    fn all_ranks_come_to_the_same_answer(run in runs(), capacity in 0_usize..4) {
        let mut replicas: Vec<Negotiator> = (0..3).map(|_| Negotiator::new(ranks(3), capacity)).collect();
        let mut in_flight = std::collections::BTreeSet::new();
        let (mut asked, mut answered) = (0, 0);
        for step in run {
            let mut messages = vec![RoundMessage::default(); 3];
            for (member, name) in step {
                if in_flight.insert((member, format!("{name}"))) {
                    let item = replicas[member].item(member, &sum(&format!("{name}"), usize::from(name)));
                    messages[member].items.push(item);
                    asked += 1;
                }
            }
            let written: Vec<RoundMessage> = messages.iter().map(|message| {
                let mut bytes = Writer::default();
                message.write(&mut bytes);
                RoundMessage::read(&bytes.0).expect("what was written can be read").0
            }).collect();
            prop_assert_eq!(&written, &messages);
            let answers: Vec<Vec<Response>> = replicas.iter_mut().map(|replica| replica.round(&messages)).collect();
            prop_assert_eq!(&answers[0], &answers[1]);
            prop_assert_eq!(&answers[0], &answers[2]);
            for response in &answers[0] {
                prop_assert_eq!(&response.decision, &Decision::Go);
                answered += 3;
                (0..3).for_each(|member| assert!(in_flight.remove(&(member, response.name.to_string())), "answered unasked"));
            }
        }
        prop_assert_eq!(asked, answered + in_flight.len(), "something was lost");
    }

    #[test]
    fn a_request_survives_its_way(name: String, shape: Vec<usize>, splits: Vec<usize>, factor: f64, set: u32) {
        let mut request = Request::new(Kind::Alltoall, name);
        request.tensors = vec![Spec { dtype: DataType::BF16, shape: Shape(shape) }];
        (request.splits, request.prescale, request.set) = (splits, factor, SetId(set));
        request.device = set.is_multiple_of(2).then(|| "gpu".into());
        let mut bytes = Writer::default();
        request.write(&mut bytes);
        prop_assert!(bytes.0.len() <= request.written_max());
        let read = Request::read(&mut Reader(&bytes.0)).expect("what was written can be read");
        prop_assert_eq!(read.prescale.to_bits(), factor.to_bits());
        prop_assert_eq!((read.name, read.tensors, read.splits), (request.name, request.tensors, request.splits));
    }
}
