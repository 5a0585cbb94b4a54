//! The small languages of the Kubernetes API: quantities (`500m`, `1.5Gi`), amounts of
//! resources, the rules for names, the format of metrics; and the lines by which trainings say how far they are.
//!
//! Both the API server, which knows none of our kinds, and the rules of our kinds, which know no server, speak them.
//! Pure text in, values or complaints out, in the words of the real server.

pub mod amounts;
pub mod metrics;
pub mod names;
pub mod progress;
pub mod quantity;
