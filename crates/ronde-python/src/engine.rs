//! The engine, as Python holds it.

use std::{collections::BTreeMap, path::PathBuf, process, sync::Arc, time::Duration};

use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyDict};
use ronde_collective::{Engine as Inner, Error, Rank, SetId};

use crate::{
    control_channel::ControlChannel,
    current,
    device::Batch,
    forks,
    gate::{exception, wait, wait_apart},
    handle::{self, Handle, Results},
    options::Options,
    request::{Named, Request},
};

/// A rank's place in a ring.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Engine {
    /// Until the engine is dropped.
    inner: Option<Arc<Inner>>,
    pid: u32,
    /// Of which process, counted in forks.
    forks: u32,
}

impl Engine {
    fn inner(&self) -> PyResult<&Arc<Inner>> {
        let inner = self.inner.as_ref().filter(|_| self.forks == forks::count());
        inner.ok_or_else(|| PyRuntimeError::new_err(format!(
            "the engine belongs to process {}, and this is a forked child of it: call shutdown() before forking, or \
             start the child with the `spawn` method",
            self.pid
        )))
    }

    /// Does something with the engine that takes a moment, without Python's lock.
    fn detached(&self, py: Python<'_>, act: impl FnOnce(&Inner) + Send) -> PyResult<()> {
        let inner = self.inner()?;
        py.detach(|| act(inner));
        Ok(())
    }

    /// Does something for which the other ranks must come too.
    fn together<T: Send + 'static>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&Inner) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let inner = Arc::clone(self.inner()?);
        wait_apart(py, move || act(&inner))?.map_err(|error| exception(&error))
    }
}

#[pymethods]
impl Engine {
    /// Forms the ring with all other ranks. If the launcher gives the ring up, it ends.
    #[new]
    #[pyo3(signature = (options, control_channel=None))]
    fn new(py: Python<'_>, options: Options, control_channel: Option<&ControlChannel>) -> PyResult<Self> {
        let mut config = options.config()?;
        let client = control_channel.map(ControlChannel::client).transpose()?;
        if let Some(client) = client {
            config.is_given_up = client.release_flag();
        }
        let inner = Arc::new(wait_apart(py, || Inner::start(config))?.map_err(|error| exception(&error))?);
        if let Some(client) = client {
            let engine = Arc::downgrade(&inner);
            let end = move || engine.upgrade().iter().for_each(|engine| engine.shutdown());
            py.detach(|| client.on_release(end));
        }
        Ok(Self { inner: Some(inner), pid: process::id(), forks: forks::count() })
    }

    /// Lets operations that a framework runs without Python use this engine.
    fn make_current(&self) -> PyResult<()> {
        current::set_engine(Arc::downgrade(self.inner()?));
        Ok(())
    }

    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.inner()?.rank().0)
    }

    #[getter]
    fn size(&self) -> PyResult<usize> {
        Ok(self.inner()?.size())
    }

    /// Whether the ring has ended in the middle of something, and not because ranks left.
    #[getter]
    fn is_broken(&self) -> PyResult<bool> {
        Ok(self.inner()?.is_broken())
    }

    /// Puts an operation in and returns at once; the object that asks for it lives until it is done.
    fn submit(&self, request: &Bound<'_, PyAny>, number: u64) -> PyResult<Handle> {
        handle::sweep();
        let work = request.extract::<Request<'_>>()?.work(number)?;
        let handle = self.inner()?.submit(work).map_err(|error| exception(&error))?;
        Ok(Handle::new(handle, request.clone().unbind()))
    }

    /// Does an operation and waits for it, in this thread where possible.
    fn run(&self, request: &Bound<'_, PyAny>, number: u64) -> PyResult<Results> {
        handle::sweep();
        let work = request.extract::<Request<'_>>()?.work(number)?;
        let handle = self.inner()?.begin(work).map_err(|error| exception(&error))?;
        Handle::new(handle, request.clone().unbind()).wait(request.py(), None)
    }

    /// Puts an operation in whose tensors are on a device, to be done by whoever takes it there, who knows it by its
    /// number.
    fn submit_at(&self, request: &Bound<'_, PyAny>, number: u64, device: &str) -> PyResult<Handle> {
        handle::sweep();
        let work = request.extract::<Request<'_>>()?.work_at(number, device)?;
        let handle = self.inner()?.submit(work).map_err(|error| exception(&error))?;
        Ok(Handle::new(handle, request.clone().unbind()))
    }

    /// Waits for the next operations of a process set on tensors of a device; none when the set has ended.
    fn take_batch(&self, py: Python<'_>, set: u32) -> PyResult<Option<Batch>> {
        let inner = self.inner()?;
        let batch =
            wait(py, |slice| inner.take_device_batch(SetId(set), slice).map_or(Some(None), |batch| batch.map(Some)));
        Ok(batch?.map(Batch::new))
    }

    /// Puts an operation in under exactly its name; `keep` lives until it is done. Who waits at once says so, and does
    /// the work in the waiting thread where possible.
    fn start(&self, operation: Named<'_>, keep: Py<PyAny>, is_awaited: bool) -> PyResult<Handle> {
        handle::sweep();
        let work = operation.work()?;
        let inner = self.inner()?;
        let handle = if is_awaited { inner.begin(work) } else { inner.submit(work) };
        Ok(Handle::new(handle.map_err(|error| exception(&error))?, keep))
    }

    fn add_process_set(&self, py: Python<'_>, ranks: Vec<usize>) -> PyResult<u32> {
        let ranks: Vec<Rank> = ranks.into_iter().map(Rank).collect();
        self.together(py, move |inner| inner.add_process_set(&ranks)).map(|set| set.0)
    }

    fn remove_process_set(&self, py: Python<'_>, set: u32) -> PyResult<()> {
        self.together(py, move |inner| inner.remove_process_set(SetId(set)))
    }

    /// The ranks of every process set, by its number.
    fn process_sets(&self) -> PyResult<BTreeMap<u32, Vec<usize>>> {
        let sets = self.inner()?.process_sets();
        Ok(sets.into_iter().map(|(set, ranks)| (set.0, ranks.into_iter().map(|rank| rank.0).collect())).collect())
    }

    fn start_timeline(&self, path: PathBuf, mark_cycles: bool) -> PyResult<()> {
        self.inner()?.start_timeline(&path, mark_cycles).map_err(|error| exception(&error))
    }

    fn stop_timeline(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, Inner::stop_timeline)
    }

    /// What the engine has counted since it started.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.inner()?.counters();
        let all = PyDict::new(py);
        all.set_item("operations", counters.operations)?;
        all.set_item("bytes", counters.bytes)?;
        all.set_item("rounds", counters.rounds)?;
        all.set_item("requests", counters.requests)?;
        all.set_item("cache_hits", counters.cache_hits)?;
        all.set_item("fused", counters.fused)?;
        all.set_item("on_devices", counters.on_devices)?;
        all.set_item("wait_seconds", Duration::from_nanos(counters.wait_ns).as_secs_f64())?;
        all.set_item("stalls", counters.stalls)?;
        all.set_item("last_stall", counters.last_stall)?;
        Ok(all)
    }

    /// Leaves the ring.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, Inner::shutdown)?;
        handle::sweep();
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.forks != forks::count() {
            // A copy in a forked child: its threads are not here, and the peers are not to hear of it.
            std::mem::forget(self.inner.take());
        }
    }
}

/// The descriptors of all connections with other ranks: a forked child closes its copies.
#[pyfunction]
pub(crate) fn link_descriptors() -> Vec<i32> {
    ronde_collective::link_descriptors()
}
