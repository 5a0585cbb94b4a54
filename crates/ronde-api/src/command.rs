//! Command: asks a controller to do something to a job or a queue, once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

kind! {
    /// An action for a job or a queue. The controller that takes it deletes it.
    Command: NamespaceResourceScope "commands" in "bus.volcano.sh" / "v1alpha1" {
        /// The [`crate::Action`] to take.
        #[serde(default)]
        action: String,
        /// What to take it on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<OwnerReference>,
        /// Why, in one word.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Why, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    }
}
