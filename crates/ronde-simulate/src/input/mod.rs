//! What people write: nodes, queues, faults, jobs in a line, a table or a public trace, or work from a seed. Text in, values or
//! complaints out; files are read by the caller.

pub mod cluster;
mod csv;
pub mod faults;
pub mod generate;
pub mod jobs;
mod traces;
pub mod what_if;

use ronde_scheduler::{Amounts, CPU, MEMORY};
use ronde_text::quantity::Quantity;

/// The resource that `gpu` stands for.
pub const GPU: &str = "nvidia.com/gpu";

/// Input that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("{0}")]
    Whole(String),
}

impl InputError {
    fn at(line: usize, what: impl ToString) -> Self {
        Self::Line { line, what: what.to_string() }
    }
}

/// Returns the full name of a resource.
fn resource(name: &str) -> &str {
    if name == "gpu" { GPU } else { name }
}

/// Reads an amount of a resource as Kubernetes writes it.
fn amount(name: &str, text: &str) -> Result<i64, String> {
    let quantity =
        Quantity::parse(text).map_err(|_| format!("{text:?} is no amount of {name}, such as `8` or `512Gi`"))?;
    let value = if name == CPU { quantity.milli() } else { quantity.value() };
    i64::try_from(value).ok().filter(|value| *value >= 0).ok_or_else(|| format!("{text:?} of {name} is out of range"))
}

fn put(amounts: &mut Amounts, name: &str, text: &str) -> Result<(), String> {
    let name = resource(name);
    amounts.set(name, amount(name, text)?);
    Ok(())
}

/// Reads an amount that names its resource by its unit: `8gpu`, `64cpu`, `512Gi`, `rdma/hca=2`.
fn item(text: &str) -> Result<(String, i64), String> {
    let wrong = || format!("{text:?} is no amount such as `8gpu`, `64cpu`, `512Gi` or `rdma/hca=2`");
    if let Some((name, value)) = text.split_once('=') {
        let name = resource(name).to_owned();
        let value = amount(&name, value)?;
        return Ok((name, value));
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(end);
    let name = match unit {
        "gpu" | "gpus" => GPU,
        "cpu" | "cpus" => CPU,
        "Mi" | "Gi" | "Ti" | "M" | "G" | "T" => return Ok((MEMORY.to_owned(), amount(MEMORY, text)?)),
        _ => return Err(wrong()),
    };
    Ok((name.to_owned(), amount(name, number).map_err(|_| wrong())?))
}
