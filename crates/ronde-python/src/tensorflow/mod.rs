//! Operations of TensorFlow, registered from here through its C interface, found at run time: nothing is compiled
//! against TensorFlow, and one extension serves every version that has the interface.
//!
//! `abi.rs` is that interface, `callback.rs` the way to finish an operation later, `kernel.rs` what an operation does.
//! What users call, gradients and optimizers are in `python/ronde/ronde/tensorflow`.

mod abi;
mod callback;
mod kernel;

use std::collections::HashMap;

use pyo3::{
    exceptions::{PyNotImplementedError, PyRuntimeError},
    prelude::*,
};

use self::{
    abi::{Definition, Failure, Shapes, register},
    kernel::{COLLECTIVES, Collect, Collective},
};

const ELEMENTS: &str = "{uint8, int8, uint16, int16, int32, int64, half, bfloat16, float32, float64, bool}";
/// Of every operation: how it is called, and whether the caller waits for it and may as well do it.
const COMMON: [&str; 4] =
    ["process_set_id: int = 0", "ignore_name_scope: int = 0", "tensor_name: string = ''", "is_inline: int = 0"];
const REDUCTION: [&str; 3] = ["reduce_op: int = 1", "prescale_factor: float = 1.0", "postscale_factor: float = 1.0"];

/// The functions of TensorFlow that are used.
#[pyfunction]
pub(crate) fn tensorflow_symbols() -> Vec<&'static str> {
    [abi::NAMES, abi::ASYNCHRONOUS_NAMES].concat()
}

/// Registers all operations, with the addresses of TensorFlow's functions; returns their names, and whether they wait
/// for other ranks without a thread of TensorFlow's.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what Python gives is ours")]
pub(crate) fn tensorflow_register(symbols: HashMap<String, usize>) -> PyResult<(Vec<String>, bool)> {
    abi::load(&|name| symbols.get(name).copied())
        .map_err(|name| PyNotImplementedError::new_err(format!("this TensorFlow has no {name}")))?;
    let mut names = Vec::new();
    for collective in COLLECTIVES {
        for is_group in [false, true] {
            if let Some(name) = name(collective, is_group) {
                define(collective, is_group, &name)
                    .map_err(|failure| PyRuntimeError::new_err(format!("TensorFlow refuses {name}: {failure:?}")))?;
                names.push(name);
            }
        }
    }
    Ok((names, abi::is_asynchronous()))
}

/// The name of an operation, which is Horovod's; none if it has no such form.
fn name(collective: Collective, is_group: bool) -> Option<String> {
    let can_group = matches!(collective, Collective::Allreduce | Collective::Allgather | Collective::Reducescatter);
    if is_group {
        can_group.then(|| format!("HorovodGrouped{collective:?}"))
    } else {
        Some(format!("Horovod{collective:?}"))
    }
}

fn define(collective: Collective, is_group: bool, name: &str) -> Result<(), Failure> {
    let elements = if is_group { format!("T: list({ELEMENTS}) >= 1") } else { format!("T: {ELEMENTS}") };
    let (inputs, outputs): (&[&str], &[&str]) = match collective {
        Collective::Alltoall => (&["tensor: T", "splits: int32"], &["output: T", "received_splits: int32"]),
        Collective::Join => (&[], &["output: int32"]),
        _ if is_group => (&["tensors: T"], &["outputs: T"]),
        _ => (&["tensor: T"], &["output: T"]),
    };
    let mut attributes = COMMON.to_vec();
    match collective {
        Collective::Allreduce | Collective::Reducescatter => attributes.extend(REDUCTION),
        Collective::Broadcast => attributes.push("root_rank: int = 0"),
        _ => {}
    }
    if collective != Collective::Join {
        attributes.push(&elements);
    }
    let shapes = match collective {
        Collective::Allreduce | Collective::Broadcast => Shapes::Same,
        Collective::Allgather | Collective::Reducescatter => Shapes::OtherRows,
        Collective::Alltoall | Collective::Join => Shapes::Unknown,
    };
    let definition = Definition { name, inputs, outputs, attributes: &attributes, shapes };
    match collective {
        Collective::Allreduce => register::<Collect<0>>(&definition),
        Collective::Allgather => register::<Collect<1>>(&definition),
        Collective::Broadcast => register::<Collect<2>>(&definition),
        Collective::Alltoall => register::<Collect<3>>(&definition),
        Collective::Reducescatter => register::<Collect<4>>(&definition),
        Collective::Join => register::<Collect<5>>(&definition),
    }
}
