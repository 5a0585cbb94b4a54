pub mod error;
pub mod schema;
pub mod store;
