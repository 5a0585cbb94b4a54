//! A ring whose ranks are threads, and tensors that are easy to write down.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use ronde_collective::{
    Config, DataType, Done, Engine, Operation, Rank, ReduceOp, Rendezvous, Secret, Server, Shape, Tensor, Transport,
    Work,
};

pub const SECRET: &[u8] = b"a secret of tests";

/// How ranks are spread over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// All share memory.
    OneHost,
    /// None do.
    Tcp,
    /// Hosts of so many ranks each; the last may have fewer.
    Hosts(usize),
}

impl Spread {
    pub const ALL: [Self; 4] = [Self::OneHost, Self::Tcp, Self::Hosts(2), Self::Hosts(3)];
}

static SCOPES: AtomicUsize = AtomicUsize::new(0);

pub fn server() -> Server {
    Server::start("127.0.0.1:0".parse().unwrap(), Secret::new(SECRET)).unwrap()
}

pub fn config(rank: usize, size: usize, spread: Spread, server: &Server) -> Config {
    let rendezvous = Rendezvous::Server(server.address().to_string());
    let mut config = Config::new(Rank(rank), size, rendezvous, Secret::new(SECRET));
    config.start_timeout = Duration::from_secs(120);
    match spread {
        Spread::OneHost => {}
        Spread::Tcp => config.transport = Transport::Tcp,
        Spread::Hosts(each) => config.host = format!("host {}", rank / each),
    }
    config
}

/// Runs the same body on every rank of a ring; returns what they return, by rank.
pub fn ring<T: Send>(size: usize, spread: Spread, body: impl Fn(&Engine) -> T + Sync) -> Vec<T> {
    ring_with(size, spread, |_| {}, body)
}

/// The same, with changed settings.
pub fn ring_with<T: Send>(
    size: usize,
    spread: Spread,
    change: impl Fn(&mut Config) + Sync,
    body: impl Fn(&Engine) -> T + Sync,
) -> Vec<T> {
    let server = server();
    let scope = format!("ring-{}", SCOPES.fetch_add(1, Ordering::SeqCst));
    thread::scope(|threads| {
        let start = |rank: usize| {
            let mut config = config(rank, size, spread, &server);
            config.scope.clone_from(&scope);
            change(&mut config);
            let body = &body;
            threads.spawn(move || body(&Engine::start(config).unwrap()))
        };
        let ranks: Vec<_> = (0..size).map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

pub fn f32s(values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Tensor::new(DataType::F32, [values.len()], bytes)
}

pub fn matrix(rows: usize, columns: usize, value: f32) -> Tensor {
    let mut tensor = f32s(&vec![value; rows * columns]);
    tensor.shape = Shape::from([rows, columns]);
    tensor
}

pub fn floats(done: &Done, index: usize) -> Vec<f32> {
    let bytes = done.tensors[index].buffer.as_slice();
    bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
}

pub fn allreduce(name: &str, op: ReduceOp, values: &[f32]) -> Work {
    Work::new(name, Operation::Allreduce(op.into()), vec![f32s(values)])
}

pub fn barrier(name: &str) -> Work {
    Work::new(name, Operation::Barrier, Vec::new())
}
