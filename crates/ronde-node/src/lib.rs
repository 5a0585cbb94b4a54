//! A kubelet for one machine: pods as isolated processes.

pub mod admission;
pub mod agent;
pub mod door;
pub mod env;
pub mod gpus;
pub mod helper;
pub mod lifecycle;
pub mod logs;
pub mod machine;
pub mod net;
pub mod node;
pub mod objects;
pub mod orphans;
pub mod probes;
pub mod sandbox;
pub mod start;
pub mod streams;
pub mod supervisor;
pub mod sweep;
pub mod volumes;
pub mod worker;
