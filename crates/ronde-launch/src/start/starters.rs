//! Chooses the starter for each host: as a process if it is this machine, else as the job says.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use futures::future::BoxFuture;

use super::{Program, StartError, Started, Starter, local::Local, remote};
use crate::environment;

/// The starters of a job.
pub struct Starters {
    local: Option<Local>,
    remote: Box<dyn Starter>,
    /// Which hosts are this machine, once that was found out: names may take seconds. Owned by `is_local`.
    known: Mutex<BTreeMap<String, bool>>,
}

impl Starters {
    /// `local` is for hosts that are this machine; without it they are treated as any other.
    pub fn new(local: Option<Local>, remote: Box<dyn Starter>) -> Self {
        Self { local, remote, known: Mutex::default() }
    }

    /// Whether a rank on that host is a process of this machine.
    pub async fn is_local(&self, host: &str) -> bool {
        if self.local.is_none() {
            return false;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied();
        if let Some(known) = known {
            return known;
        }
        let is_here = environment::is_here(host).await;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), is_here);
        is_here
    }
}

impl Starter for Starters {
    /// The environment given is that of this machine; what may not leave it stays here.
    fn start<'a>(&'a self, host: &'a str, program: &'a Program) -> BoxFuture<'a, Result<Started, StartError>> {
        Box::pin(async move {
            match &self.local {
                Some(local) if self.is_local(host).await => local.start(host, program).await,
                _ => {
                    let mut program = program.clone();
                    program.environment.retain(|name, _| remote::is_exportable(name));
                    self.remote.start(host, &program).await
                }
            }
        })
    }
}
