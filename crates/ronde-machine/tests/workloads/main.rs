//! The workload controllers against the API server in one process, with a toy node, on simulated time.
//!
//! Each test is a seeded story: users change things, the node takes its time and lets pods fail, controllers are killed
//! in the middle of their writes and started again. At the end the world is as it was asked for, and on the way it
//! never was what it must not be.

/// Makes a test of each seed, so that they run side by side.
macro_rules! stories {
    ($($name:ident: $seed:literal),*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() -> anyhow::Result<()> {
                super::story($seed).await
            }
        )*
    };
}

use stories;

mod chance;
mod cluster;
mod crons;
mod deployments;
mod flows;
mod jobs;
mod node;
mod queues;
mod stateful_sets;
mod vc_jobs;
mod vc_queues;
