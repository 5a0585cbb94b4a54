//! Operations on tensors that the engine cannot reach, as those of a GPU: agreed upon like all others, and carried out
//! by whoever takes them from here, in the order in which they were agreed.
//!
//! What is taken must be finished: operations of a batch that is dropped would never end, so that breaks the ring.

use std::{
    sync::{
        Arc, Mutex, Weak,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use super::{
    execute_inline::postscale,
    group::{Group, lock},
    handle::Completion,
    work::{Done, Operation, Reduction},
};
use crate::{
    negotiate::{
        Decision, Response,
        request::{Kind, Spec},
    },
    timeline::Timeline,
    types::{DataType, Rank, ReduceOp, Shape},
};

/// Where the tensors of an operation are, if not in the machine's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// What all members call it, as `cuda`.
    pub name: Arc<str>,
    /// By what the caller knows the operation again.
    pub ticket: u64,
}

/// Operations that all members do now, as one: several are always reductions of one kind and type.
#[derive(Debug)]
pub struct DeviceBatch {
    responses: Vec<Response>,
    asked: Vec<Asked>,
    me: usize,
    group: Weak<Group>,
    timeline: Arc<Timeline>,
    is_finished: bool,
}

/// What this rank knows of an operation; nothing if it has joined.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) ticket: Option<u64>,
    pub(super) completion: Option<Arc<Completion>>,
}

/// One operation of a batch, as all members see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOperation {
    /// None if this rank has joined: it brings what changes nothing.
    pub ticket: Option<u64>,
    pub tensors: Vec<(DataType, Shape)>,
    /// Of each tensor the first dimension that each member has; empty for single values.
    pub rows: Vec<Vec<usize>>,
    /// Of each member of an alltoall the rows that it sends to each.
    pub splits: Vec<Vec<usize>>,
}

/// Whether the tensors of a response are elsewhere, and there is something to do with them.
pub(super) fn is_elsewhere(response: &Response) -> bool {
    response.decision == Decision::Go && response.request().is_some_and(|request| request.device.is_some())
}

impl DeviceBatch {
    pub(super) fn new(
        responses: Vec<Response>,
        asked: Vec<Asked>,
        me: usize,
        group: Weak<Group>,
        timeline: Arc<Timeline>,
    ) -> Self {
        Self { responses, asked, me, group, timeline, is_finished: false }
    }

    /// What kind of device it is.
    pub fn device(&self) -> &str {
        self.responses.first().and_then(Response::request).and_then(|request| request.device.as_deref()).unwrap_or("")
    }

    /// What to do. A root is the number of a member, and an average is a sum with a smaller factor after it.
    pub fn operation(&self) -> Operation {
        let Some((response, request)) = self.responses.first().and_then(|first| Some((first, first.request()?))) else {
            return Operation::Barrier;
        };
        let op = if request.op == ReduceOp::Average { ReduceOp::Sum } else { request.op };
        let reduction =
            Reduction { op, prescale: request.prescale, postscale: postscale(request, response.members.len()) };
        match response.kind {
            Kind::Allreduce => Operation::Allreduce(reduction),
            Kind::Reducescatter => Operation::Reducescatter(reduction),
            Kind::Broadcast => Operation::Broadcast { root: Rank(response.root_member(request)) },
            Kind::Alltoall => Operation::Alltoall { splits: None },
            _ => Operation::Allgather,
        }
    }

    pub fn operations(&self) -> impl Iterator<Item = DeviceOperation> {
        self.responses.iter().zip(&self.asked).map(|(response, asked)| {
            let specs = response.specs();
            let rows = |index: usize| {
                let of_all = response.agreed.iter().flatten();
                of_all.filter_map(|request| request.tensors[index].shape.0.first().copied()).collect()
            };
            DeviceOperation {
                ticket: asked.ticket,
                tensors: specs.iter().map(|Spec { dtype, shape }| (*dtype, shape.clone())).collect(),
                rows: (0..specs.len()).map(rows).collect(),
                splits: response.agreed.iter().flatten().map(|request| request.splits.clone()).collect(),
            }
        })
    }

    /// Says that it is done.
    pub fn finish(mut self) {
        self.is_finished = true;
        let Some(group) = self.group.upgrade() else { return };
        for (response, asked) in self.responses.iter().zip(&self.asked) {
            self.timeline.operation_ends(response);
            if let Some(completion) = &asked.completion {
                group.finished(&response.name, completion, Ok(self.done(response)));
            }
        }
        self.timeline.flush();
    }

    /// What is known without the data.
    fn done(&self, response: &Response) -> Done {
        let received = response.agreed.iter().flatten().filter_map(|request| request.splits.get(self.me).copied());
        Done { received_splits: received.collect(), ..Done::default() }
    }

    /// Says that it cannot be done on this rank, and so on none.
    pub fn fail(mut self, reason: &str) {
        self.break_off(reason);
    }

    fn break_off(&mut self, reason: &str) {
        self.is_finished = true;
        if let Some(group) = self.group.upgrade() {
            group.break_off(reason);
        }
    }
}

impl Drop for DeviceBatch {
    fn drop(&mut self) {
        if !self.is_finished {
            self.break_off("operations on a device were given up");
        }
    }
}

/// Batches that wait to be taken: no more than there are operations in flight.
#[derive(Debug)]
pub(super) struct Batches {
    sender: Sender<DeviceBatch>,
    receiver: Mutex<Receiver<DeviceBatch>>,
}

impl Batches {
    pub(super) fn put(&self, batch: DeviceBatch) {
        // The receiver is here, in this object.
        let _ = self.sender.send(batch);
    }

    pub(super) fn take(&self, timeout: Duration) -> Option<DeviceBatch> {
        lock(&self.receiver).recv_timeout(timeout).ok()
    }
}

impl Default for Batches {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver: Mutex::new(receiver) }
    }
}
