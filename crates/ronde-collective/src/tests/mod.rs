//! Tests of the shared memory's protocol: over real memory, and over a model of it.

mod model;
mod shm;
