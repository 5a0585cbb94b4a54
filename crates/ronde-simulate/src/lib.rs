//! A cluster and its work on virtual time: what would happen, and when.
//!
//! A [`Scenario`] goes in: nodes, queues, jobs with arrival and run time, faults. [`simulate`] lets `ronde-scheduler` decide
//! about them as in a cluster and moves the clock from one event to the next. A [`History`] comes out; a [`Report`] sums it up,
//! and [`chart::svg`] draws it. Pure: knows no files, no Kubernetes clients and no clock. The same scenario gives the same
//! history, byte for byte.
//!
//! Inside: `scenario.rs` are the words, `engine/` moves the clock (`engine/mod.rs` is the loop, `jobs.rs` when a gang runs
//! and ends, `faults.rs` what happens to nodes, `elastic.rs` when a job grows or gives back), `input/` reads what people
//! write and public traces, `output/` are tables, JSON and the picture.

mod engine;
pub mod input;
pub mod output;
mod random;
mod scenario;
mod span;

pub use crate::{
    engine::{
        Move,
        history::{History, Preemption, Record, Sample, Segment},
        simulate,
    },
    output::{chart, report::Report},
    random::Dice,
    scenario::{Elastic, Fault, FaultKind, Job, JobError, Placed, Scenario, Task},
    span::{Span, SpanError, parse_moment},
};
