//! What goes wrong: operators, API server, etcd and nodes are killed or stand still, the network is cut.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use rustix::process::Signal;

use crate::{
    cluster::Cluster,
    dice::Dice,
    network::State,
    operators::{Operator, Operators},
};

/// Longer than a lease is good, so that the other operator takes over in some of the cases.
const PAUSE_MAX_S: u64 = 25;

#[derive(Default)]
pub struct Faults {
    done: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// Does one thing and says what.
    pub async fn one(&mut self, cluster: &Cluster, operators: &mut Operators, dice: &mut Dice) -> String {
        let (kind, what) = match dice.below(14) {
            0..=1 => ("leaders killed", end_leader(operators, Signal::KILL).await),
            2 => ("leaders asked to end", end_leader(operators, Signal::TERM).await),
            3..=4 => ("leaders stopped for a while", suspend_leader(operators, dice).await),
            5..=6 => ("networks cut", disturb(operators, dice, State::Cut).await),
            7 => ("networks silent", disturb(operators, dice, State::Silent).await),
            8..=9 => ("API servers killed", restart(cluster, dice, "kube-apiserver").await),
            10 => ("etcds killed", restart(cluster, dice, "etcd").await),
            11 => ("nodes killed", restart(cluster, dice, "kwok").await),
            _ => ("pods deleted", delete_pod(cluster, dice).await),
        };
        *self.done.entry(kind).or_default() += 1;
        what
    }

    /// Lets everything be as it was.
    pub fn end(operators: &Operators) {
        for operator in operators.all() {
            operator.way.set(State::Open);
            operator.signal(Signal::CONT);
        }
    }

    pub fn summary(&self) -> String {
        self.done.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }
}

async fn end_leader(operators: &Operators, signal: Signal) -> String {
    let Some(leader) = operators.leader().await else { return "no leader to end".to_owned() };
    leader.signal(signal);
    format!("{signal:?} to {}", leader.name)
}

/// It wakes up and believes that the lease is still its own.
async fn suspend_leader(operators: &Operators, dice: &mut Dice) -> String {
    let Some(leader) = operators.leader().await else { return "no leader to stop".to_owned() };
    leader.signal(Signal::STOP);
    let pause = pause(dice).await;
    leader.signal(Signal::CONT);
    format!("{} stood still for {pause} s", leader.name)
}

async fn disturb(operators: &Operators, dice: &mut Dice, state: State) -> String {
    let leader = operators.leader().await;
    let operator: &Operator = leader.unwrap_or_else(|| dice.pick(operators.all()).unwrap());
    operator.way.set(state);
    let pause = pause(dice).await;
    operator.way.set(State::Open);
    format!("the network of {} was {state:?} for {pause} s", operator.name)
}

async fn restart(cluster: &Cluster, dice: &mut Dice, name: &str) -> String {
    let signal = *dice.pick(&["TERM", "KILL"]).unwrap();
    cluster.restart(name, signal).await;
    format!("{signal} to {name}")
}

async fn delete_pod(cluster: &Cluster, dice: &mut Dice) -> String {
    let pods = cluster.list::<Pod>().await;
    let Some(pod) = dice.pick(&pods) else { return "no pod to delete".to_owned() };
    cluster.delete::<Pod>(&pod.name_any(), Some(0)).await;
    format!("delete pod {}", pod.name_any())
}

async fn pause(dice: &mut Dice) -> u64 {
    let seconds = dice.below(PAUSE_MAX_S);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    seconds
}
