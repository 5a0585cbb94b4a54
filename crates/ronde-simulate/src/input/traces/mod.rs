//! Public traces of GPU clusters, as their owners publish them. GPUs are whole here: a fraction of one is rounded up.

pub mod alibaba;
pub mod helios;
pub mod philly;

use std::collections::BTreeMap;

use ronde_scheduler::{Amounts, CPU, MEMORY};

use super::GPU;
use crate::input::jobs::Work;

/// Why a job of a trace is left out.
const NO_RUN: &str = "never ran";
const NO_END: &str = "still ran when the trace ended";
const NO_PODS: &str = "asked for nothing";

/// Returns the requests of a pod; zero is not asked for.
fn requests(gpu: i64, milli_cpu: i64, memory: i64) -> Amounts {
    let all = [(GPU, gpu), (CPU, milli_cpu), (MEMORY, memory)];
    Amounts::of(all.into_iter().filter(|(_, amount)| *amount > 0))
}

fn skip(skipped: &mut BTreeMap<&'static str, usize>, why: &'static str) {
    *skipped.entry(why).or_default() += 1;
}

fn empty(format: &'static str) -> Work {
    Work { format, ..Work::default() }
}
