//! Whether the requests of all ranks for one name fit together. The texts begin as those that Horovod's users know,
//! and end with the name and the ranks.

use super::request::{Kind, Request, Spec};
use crate::types::{Rank, Shape};

/// Requests of all members that asked, by their ranks; joined members did not.
pub(crate) struct Asked<'a> {
    pub(crate) requests: &'a [(Rank, &'a Request)],
    pub(crate) has_joined: bool,
}

/// Returns what is wrong, in words that are the same on every rank.
pub(crate) fn validate(asked: &Asked<'_>) -> Result<(), String> {
    let [(rank, first), rest @ ..] = asked.requests else { return Ok(()) };
    for (other_rank, other) in rest {
        let told = |text: String| format!("{text} (`{}`: ranks {rank} and {other_rank})", first.name);
        compare(first, other).map_err(told)?;
    }
    validate_one(first, asked.has_joined).map_err(|text| format!("{text} (`{}`)", first.name))
}

/// What is the same on all ranks may still be wrong.
fn validate_one(request: &Request, has_joined: bool) -> Result<(), String> {
    match request.kind {
        Kind::Allgather | Kind::Alltoall | Kind::Broadcast | Kind::Reducescatter if has_joined => {
            Err(format!("{} is not supported with Join at this time.", request.kind))
        }
        Kind::Allgather | Kind::Alltoall | Kind::Reducescatter => {
            match request.tensors.iter().find(|spec| spec.shape.0.is_empty()) {
                Some(_) => Err(format!("Process-set rank zero tried to {} a rank-zero tensor.", request.kind)),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn compare(one: &Request, other: &Request) -> Result<(), String> {
    if one.kind != other.kind {
        return Err(format!(
            "Mismatched operations: One rank did an {}, but another rank did an {}.",
            one.kind, other.kind
        ));
    }
    let kind = one.kind;
    if one.tensors.len() != other.tensors.len() {
        return Err(format!(
            "Mismatched {kind} groups: One rank sent {} tensors, but another rank sent {} tensors.",
            one.tensors.len(),
            other.tensors.len()
        ));
    }
    if one.device != other.device {
        let place = |request: &Request| request.device.as_deref().unwrap_or("cpu").to_uppercase();
        return Err(format!(
            "Mismatched {kind} device selection: One rank specified device {}, but another rank specified device {}.",
            place(one),
            place(other)
        ));
    }
    for (one, other) in one.tensors.iter().zip(&other.tensors) {
        compare_tensors(kind, one, other)?;
    }
    compare_rest(one, other)
}

fn compare_tensors(kind: Kind, one: &Spec, other: &Spec) -> Result<(), String> {
    if one.dtype != other.dtype {
        return Err(format!(
            "Mismatched data types: One rank had type {}, but another rank had type {}.",
            one.dtype, other.dtype
        ));
    }
    if matches!(kind, Kind::Allgather | Kind::Alltoall) {
        return compare_rows(kind, &one.shape, &other.shape);
    }
    if one.shape == other.shape {
        return Ok(());
    }
    Err(format!(
        "Mismatched {kind} tensor shapes: One rank sent a tensor of shape {}, but another rank sent a tensor of shape {}.",
        one.shape, other.shape
    ))
}

/// Rows may be many or few, but must be alike.
fn compare_rows(kind: Kind, Shape(one): &Shape, Shape(other): &Shape) -> Result<(), String> {
    if one.len() != other.len() {
        return Err(format!(
            "Mismatched {kind} tensor shapes: One rank sent a tensor of rank {}, but another rank sent a tensor of rank {}.",
            one.len(),
            other.len()
        ));
    }
    let different = (1..one.len()).find(|dimension| one[*dimension] != other[*dimension]);
    match different {
        Some(dimension) => Err(format!(
            "Mismatched {kind} tensor shapes: One rank sent a tensor with dimension {dimension} equal to {}, but another \
             rank sent a tensor with dimension {dimension} equal to {}.",
            one[dimension], other[dimension]
        )),
        None => Ok(()),
    }
}

fn compare_rest(one: &Request, other: &Request) -> Result<(), String> {
    if one.op != other.op {
        return Err(format!(
            "Mismatched reduction operation: One rank sent reduction op {}, but another rank sent reduction op {}.",
            one.op, other.op
        ));
    }
    if (one.prescale.to_bits(), one.postscale.to_bits()) != (other.prescale.to_bits(), other.postscale.to_bits()) {
        return Err(format!(
            "Mismatched prescale and/or postscale factors: One rank sent factors ({:?}, {:?}), but another rank sent \
             factors ({:?}, {:?}).",
            one.prescale, one.postscale, other.prescale, other.postscale
        ));
    }
    if one.root != other.root {
        return Err(format!(
            "Mismatched {} root ranks: One rank specified root rank {}, but another rank specified root rank {}.",
            one.kind, one.root, other.root
        ));
    }
    if one.ranks != other.ranks || one.set != other.set {
        return Err(format!(
            "Mismatched process sets: One rank named {}, but another rank named {}.",
            named(one),
            named(other)
        ));
    }
    Ok(())
}

fn named(request: &Request) -> String {
    let ranks: Vec<String> = request.ranks.iter().map(ToString::to_string).collect();
    if ranks.is_empty() { format!("set {}", request.set.0) } else { format!("ranks [{}]", ranks.join(", ")) }
}
