//! Compares our API server, in this process and without a socket, with the recordings of the real one.
//!
//! All scenarios run on one server at the same time, as clients of one cluster do; each has a namespace of its own.

use std::path::Path;

use futures::{StreamExt, stream};
use kube::Client;
use ronde_apiserver::{Apiserver, clock_and_ids::ClockAndIds};
use ronde_e2e::{Case, cases};

/// Enough to fill the waits of one scenario with the work of others.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_answers_are_those_of_the_recordings() {
    let server = Apiserver::in_memory(ClockAndIds::real()).await.expect("a server in memory starts");
    let client = Client::new(server.router(), "default");
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let all = cases(&suite).expect("the suite is readable");
    let checks = all.iter().map(|case| check(case, &client));
    let mut wrong: Vec<String> = stream::iter(checks).buffer_unordered(AT_ONCE).filter_map(async |w| w).collect().await;
    wrong.sort();
    assert!(wrong.is_empty(), "{}\n{} of {} scenarios differ", wrong.join("\n"), wrong.len(), all.len());
    server.stop().await;
}

/// Returns the differences of one scenario, if there are any.
async fn check(case: &Case, client: &Client) -> Option<String> {
    let wrong = case.check(client).await.expect("the scenario is well formed");
    (!wrong.is_empty()).then(|| format!("{}\n{}", case.name, wrong.join("\n")))
}
