//! The scheduler seen from outside: changes in, plans out.

mod gangs;
mod moves;
mod nodes;
mod patience;
mod preemption;
mod properties;
mod queues;
mod shadow;
mod simulation;
mod topology;
mod world;
