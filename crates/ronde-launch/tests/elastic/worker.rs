//! A worker of an elastic job, as small as it can be: what `ronde.elastic` does in Python, in Rust.
//!
//! A training is a number of steps; each adds up what all ranks give. Its result depends on the steps alone, so that
//! it shows whether anything was lost or done twice.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a worker is watched by what it says")]

use std::{env, path::Path, sync::Arc, thread, time::Duration};

use ronde_collective::{
    Config, DataType, Engine, Operation, Rank, ReduceOp, Rendezvous, Result, Secret, Tensor, Work,
    control_channel::{Assignment, Client, Join, JoinReply},
};

/// Samples in a step, shared by all ranks.
pub const BATCH: u64 = 60;
const SLICE: Duration = Duration::from_millis(100);

/// Steps done, samples seen, and their sum.
type State = [f64; 3];

/// What a training of so many steps comes to.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn result(steps: u64) -> String {
    let sum: u64 = (0..steps).map(|step| (0..BATCH).map(|sample| step * sample).sum::<u64>()).sum();
    shown(&[steps as f64, (steps * BATCH) as f64, sum as f64])
}

fn shown([steps, samples, sum]: &State) -> String {
    format!("steps {steps} samples {samples} sum {sum}")
}

#[expect(clippy::disallowed_methods, reason = "a worker is told by its environment")]
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Is a worker until the training is done, or it is told to leave.
pub fn be() -> i32 {
    let secret = Secret::new(variable("RONDE_SECRET").as_bytes());
    let worker = variable("RONDE_WORKER").parse().unwrap();
    if variable("TEST_FAIL_ON") == variable("HOROVOD_HOSTNAME") {
        eprintln!("no module named tensorflow");
        return 7;
    }
    println!("pid {}", std::process::id());
    let client = Client::connect(&variable("RONDE_DRIVER"), secret.clone(), worker).unwrap();
    let mut state: State = [0.0; 3];
    let mut join = Join::default();
    loop {
        client.join(join.clone());
        let place = match std::iter::repeat_with(|| client.answer(SLICE)).flatten().next().unwrap().unwrap() {
            JoinReply::Assigned(place) => place,
            JoinReply::Leave => {
                println!("leaves");
                return 0;
            }
        };
        join = Join { commits: join.commits, ..Join::default() };
        let mut training = Training { client: &client, place, state, saved: state, commits: join.commits };
        match training.run(&secret) {
            Ok(true) => {
                if place.rank == 0 {
                    println!("result: {}", shown(&training.state));
                }
                return 0;
            }
            Ok(false) => join.is_interrupted = true,
            Err(error) => join.why = error.to_string(),
        }
        (state, join.commits) = (training.saved, training.commits);
    }
}

struct Training<'a> {
    client: &'a Client,
    place: Assignment,
    state: State,
    saved: State,
    commits: Option<u64>,
}

impl Training<'_> {
    /// Trains in one ring; false if it was interrupted.
    fn run(&mut self, secret: &Secret) -> Result<bool> {
        let engine = Arc::new(Engine::start(self.config(secret))?);
        let weak = Arc::downgrade(&engine);
        self.client.on_release(move || weak.upgrade().iter().for_each(|engine| engine.shutdown()));
        if !self.place.is_in_step {
            self.state = share(&engine, "state", Operation::Broadcast { root: Rank(0) }, &self.state)?;
            (self.saved, self.commits) = (self.state, Some(self.place.commits));
        }
        let (steps, pause) = (variable("TEST_STEPS").parse::<u64>().unwrap(), variable("TEST_PAUSE_MS"));
        let pause = Duration::from_millis(pause.parse().unwrap_or(0));
        while step_of(&self.state) < steps {
            self.step(&engine)?;
            println!("step {} rank {} of {}", step_of(&self.state), self.place.rank, self.place.size);
            if !is_in_a_hurry() {
                thread::sleep(pause);
            }
            self.saved = self.state;
            self.commits = self.commits.map(|commits| commits + 1);
            self.client.check();
            let verdict = std::iter::repeat_with(|| self.client.verdict(SLICE)).flatten().next().unwrap();
            if verdict.unwrap().is_some() {
                return Ok(false);
            }
        }
        engine.shutdown();
        Ok(true)
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn step(&mut self, engine: &Engine) -> Result<()> {
        let step = step_of(&self.state);
        let own = (0..BATCH).skip(self.place.rank).step_by(self.place.size);
        let (count, sum) = own.fold((0, 0), |(count, sum), sample| (count + 1, sum + step * sample));
        let all =
            share(engine, "step", Operation::Allreduce(ReduceOp::Sum.into()), &[0.0, f64::from(count), sum as f64])?;
        self.state = [self.state[0] + 1.0, self.state[1] + all[1], self.state[2] + all[2]];
        Ok(())
    }

    fn config(&self, secret: &Secret) -> Config {
        let Assignment { generation, rank, size, .. } = self.place;
        let server =
            format!("{}:{}", variable("HOROVOD_GLOO_RENDEZVOUS_ADDR"), variable("HOROVOD_GLOO_RENDEZVOUS_PORT"));
        let rendezvous = if size == 1 { Rendezvous::Alone } else { Rendezvous::Server(server) };
        let mut config = Config::new(Rank(rank), size, rendezvous, secret.clone());
        config.scope = format!("{}.{generation}", variable("RONDE_SCOPE"));
        config.host = variable("HOROVOD_HOSTNAME");
        config.is_given_up = self.client.release_flag();
        config
    }
}

/// The test has seen all that it wanted to see before the end.
fn is_in_a_hurry() -> bool {
    Path::new(&variable("TEST_FOLDER")).join("hurry").exists()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
const fn step_of(state: &State) -> u64 {
    state[0] as u64
}

fn share(engine: &Engine, name: &str, operation: Operation, numbers: &State) -> Result<State> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let done = engine.run(Work::new(name, operation, vec![Tensor::new(DataType::F64, [3], bytes)]))?;
    let mut all = [0.0; 3];
    for (number, bytes) in all.iter_mut().zip(done.tensors[0].buffer.as_slice().as_chunks().0) {
        *number = f64::from_le_bytes(*bytes);
    }
    Ok(all)
}
