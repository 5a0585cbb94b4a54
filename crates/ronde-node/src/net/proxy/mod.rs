//! Services' addresses: connections to a service are passed on to one of its ready endpoints.
//!
//! [`plan`] decides, purely, who must be reached where; [`run`] keeps sockets in step with the newest plan. An address
//! without endpoints has no socket, so that the kernel itself refuses its clients at once. The work is done in this
//! process, by copying: connections through a service end with the daemon, those between pods do not.

mod balance;
mod plan;
mod tcp;
mod udp;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::balance::Balancer;
use self::plan::{Front, Protocol, Realm, Target};
pub use self::plan::{NodeNumbers, ProxyPlan, plan};
use super::netns::Netns;

/// When an address was taken by somebody else: how long to wait for it to be free.
const RETRY: Duration = Duration::from_secs(5);

/// The namespaces that the proxies work in.
#[derive(Clone)]
pub struct Realms {
    /// Where services' addresses are, and from where pods are reached.
    pub services: Netns,
    /// Where the addresses of each node are. The first is the machine, which has more than one if the pods' machine is
    /// not the daemon's.
    pub nodes: Vec<Vec<Netns>>,
}

impl Realms {
    /// Lists the namespaces of a realm, always in the same order.
    fn places(&self, realm: Realm) -> Vec<&Netns> {
        match realm {
            Realm::Services => vec![&self.services],
            Realm::Nodes => self.nodes.iter().flatten().collect(),
            Realm::Node(number) => self.nodes.get(number).into_iter().flatten().collect(),
        }
    }
}

/// A listening socket: where, and in which namespace of its realm.
type Socket = (Front, usize);

struct Proxies {
    realms: Realms,
    tasks: TaskTracker,
    stop: CancellationToken,
    listening: BTreeMap<Socket, Listening>,
    /// Addresses that could not be had; each was said once.
    failed: BTreeSet<Socket>,
}

struct Listening {
    /// Written by [`Proxies`] when the plan changes, and by the socket's task for every client.
    balancer: Arc<Mutex<Balancer>>,
    stop: CancellationToken,
}

/// Keeps the proxies as planned until told to stop, which ends connections under way, too; `tasks` counts them.
pub async fn run(realms: Realms, mut plans: watch::Receiver<ProxyPlan>, tasks: TaskTracker, stop: CancellationToken) {
    let mut proxies =
        Proxies { realms, tasks, stop: stop.clone(), listening: BTreeMap::new(), failed: BTreeSet::new() };
    loop {
        let newest = plans.borrow_and_update().clone();
        proxies.adopt(&newest).await;
        let retry = async { if proxies.failed.is_empty() { std::future::pending().await } else { sleep(RETRY).await } };
        tokio::select! {
            () = stop.cancelled() => return,
            changed = plans.changed() => if changed.is_err() { return },
            () = retry => {}
        }
    }
}

impl Proxies {
    async fn adopt(&mut self, plan: &ProxyPlan) {
        let count = |front: &Front| self.realms.places(front.realm).len();
        let wanted: BTreeMap<Socket, &Target> = plan
            .iter()
            .flat_map(|(front, target)| (0..count(front)).map(move |place| ((*front, place), target)))
            .collect();
        self.failed.retain(|socket| wanted.contains_key(socket));
        self.listening.retain(|socket, listening| {
            let stays = wanted.contains_key(socket);
            if !stays {
                listening.stop.cancel();
            }
            stays
        });
        for (socket, target) in wanted {
            match self.listening.get(&socket) {
                Some(listening) => listening.balancer.lock().set_target(target),
                None => self.open(socket, target).await,
            }
        }
    }

    async fn open(&mut self, socket: Socket, target: &Target) {
        let stop = self.stop.child_token();
        let balancer = Arc::new(Mutex::new(Balancer::new(target)));
        match self.listen(&socket, balancer.clone(), stop.clone()).await {
            Ok(()) => {
                self.failed.remove(&socket);
                self.listening.insert(socket, Listening { balancer, stop });
            }
            Err(error) => {
                if self.failed.insert(socket) {
                    tracing::warn!(address = %socket.0, %error, "cannot listen on the address of a service, retrying");
                }
            }
        }
    }

    async fn listen(&self, socket: &Socket, balancer: Arc<Mutex<Balancer>>, stop: CancellationToken) -> io::Result<()> {
        let (front, place) = socket;
        let netns = self.realms.places(front.realm)[*place];
        let address = SocketAddr::from((front.address, front.port));
        let way = self.realms.services.clone();
        match front.protocol {
            Protocol::Tcp => {
                let listener = netns.listen_tcp(address).await?;
                let forward = tcp::Forward { way, balancer, tasks: self.tasks.clone(), stop: self.stop.clone() };
                self.tasks.spawn(stop.run_until_cancelled_owned(forward.serve(listener)));
            }
            Protocol::Udp => {
                let socket = netns.bind_udp(address).await?;
                let forward = udp::Forward::new(socket, way, balancer, stop.clone());
                self.tasks.spawn(stop.run_until_cancelled_owned(forward.serve()));
            }
        }
        Ok(())
    }
}
