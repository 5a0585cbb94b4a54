//! Pulls of the whole node: one per image at a time, however many pods ask, and a few images at once.
//!
//! A pull is a task of the node and not of the pod that asked first: it goes on if that pod is deleted, everybody who
//! waits hears how it ended, and it stops with the node. What it has fetched by then stays in the store.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Each pull has several connections and unpacks with several threads: more images at once bring none of them sooner.
const PULLS_MAX: usize = 3;

/// An end that everybody hears of.
pub type Ending<T> = Shared<BoxFuture<'static, Option<T>>>;

/// The pulls that are under way, by what is pulled. Owned by those who pull.
type Running<K, T> = Arc<Mutex<BTreeMap<K, Ending<T>>>>;

/// Runs pulls in tasks of the node. `K` is what is pulled and by which right, `T` is how it ended.
pub struct Puller<K, T> {
    tasks: TaskTracker,
    stop: CancellationToken,
    room: Arc<Semaphore>,
    running: Running<K, T>,
}

impl<K, T> Puller<K, T>
where
    K: Ord + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub fn new(tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self { tasks, stop, room: Arc::new(Semaphore::new(PULLS_MAX)), running: Running::default() }
    }

    /// Joins the pull that is under way, or begins it. The end is nothing if the node stops before.
    pub fn pull(&self, key: &K, work: impl Future<Output = T> + Send + 'static) -> Ending<T> {
        let mut running = self.running.lock();
        if let Some(ending) = running.get(key) {
            return ending.clone();
        }
        let (sender, receiver) = oneshot::channel();
        let ending = receiver.map(Result::ok).boxed().shared();
        running.insert(key.clone(), ending.clone());
        drop(running);
        let entry = Entry { running: self.running.clone(), key: key.clone() };
        let (stop, room) = (self.stop.clone(), self.room.clone());
        self.tasks.spawn(async move {
            let pull = async {
                let _turn = room.acquire_owned().await;
                work.await
            };
            let ended = stop.run_until_cancelled(pull).await;
            // Before anybody hears of it: whoever asks again asks for another pull.
            drop(entry);
            if let Some(ended) = ended {
                // Those who waited may all be gone.
                let _ = sender.send(ended);
            }
        });
        ending
    }
}

/// A pull that is listed, however it ends.
struct Entry<K: Ord, T: Clone> {
    running: Running<K, T>,
    key: K,
}

impl<K: Ord, T: Clone> Drop for Entry<K, T> {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::watch;

    use super::*;

    fn puller() -> (Puller<&'static str, usize>, CancellationToken) {
        let stop = CancellationToken::new();
        (Puller::new(TaskTracker::new(), stop.clone()), stop)
    }

    /// A pull that counts itself and ends when it is let.
    fn gated(count: &Arc<AtomicUsize>, gate: &watch::Receiver<bool>) -> impl Future<Output = usize> + Send + 'static {
        let (count, mut gate) = (count.clone(), gate.clone());
        async move {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let _ = gate.wait_for(|open| *open).await;
            number
        }
    }

    #[tokio::test]
    async fn however_many_ask_there_is_one_pull_and_all_hear_of_its_end() {
        let (puller, _stop) = puller();
        let (count, (open, gate)) = (Arc::default(), watch::channel(false));
        let waiting: Vec<_> = (0..10).map(|_| puller.pull(&"a", gated(&count, &gate))).collect();
        open.send_replace(true);
        assert_eq!(futures::future::join_all(waiting).await, [Some(1); 10]);
        assert_eq!(puller.pull(&"a", gated(&count, &gate)).await, Some(2), "who asks later asks again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_run_at_once_and_the_others_wait() {
        let (puller, _stop) = puller();
        let (count, (open, gate)) = (Arc::default(), watch::channel(false));
        let waiting: Vec<_> =
            ["a", "b", "c", "d", "e"].iter().map(|name| puller.pull(name, gated(&count, &gate))).collect();
        // Paused time goes on when nothing else can.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(count.load(Ordering::SeqCst), PULLS_MAX);
        open.send_replace(true);
        assert_eq!(futures::future::join_all(waiting).await.len(), 5);
        assert_eq!(count.load(Ordering::SeqCst), 5);
    }

    #[tokio::test]
    async fn a_pull_goes_on_without_the_pod_that_asked_for_it() {
        let (puller, _stop) = puller();
        let (count, (open, gate)) = (Arc::default(), watch::channel(false));
        drop(puller.pull(&"a", gated(&count, &gate)));
        let second = puller.pull(&"a", gated(&count, &gate));
        open.send_replace(true);
        assert_eq!(second.await, Some(1));
    }

    #[tokio::test]
    async fn pulls_stop_with_the_node() {
        let (puller, stop) = puller();
        let (count, (_open, gate)) = (Arc::default(), watch::channel(false));
        let waiting = puller.pull(&"a", gated(&count, &gate));
        stop.cancel();
        assert_eq!(waiting.await, None);
        assert!(puller.running.lock().is_empty());
    }
}
