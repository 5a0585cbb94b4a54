//! In-process admission: code of our own that looks at writes of its own kinds before they are validated.
//!
//! On a real cluster the same rules are CEL in the CRDs plus the controller's own check; here they run inside the
//! server, so nothing can be down. Whoever embeds the server registers them.

use serde_json::Value;

use crate::{auth::User, discovery::ResourceInfo, error::ApiError};

/// What is being done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
}

/// The circumstances of a write.
pub struct Review<'a> {
    pub operation: Operation,
    pub resource: &'a ResourceInfo,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub user: &'a User,
}

/// Defaults and checks for some kinds.
pub trait Admission: Send + Sync {
    /// Looks at a write; may change the new object. Returns warnings for the user.
    ///
    /// # Errors
    /// To refuse the write.
    fn admit(&self, review: &Review<'_>, new: &mut Value, old: Option<&Value>) -> Result<Vec<String>, ApiError>;
}
