//! Names of things, and moments. Cheap to clone: a plan repeats them.

use std::{fmt, sync::Arc};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! namespaced {
    ($name:ident) => {
        impl $name {
            pub fn new(namespace: &str, name: &str) -> Self {
                Self(format!("{namespace}/{name}").into())
            }

            pub fn namespace(&self) -> &str {
                self.0.split_once('/').map_or("", |(namespace, _)| namespace)
            }

            pub fn name(&self) -> &str {
                self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
            }
        }
    };
}

name! {
    /// The name of a node.
    NodeName
}
name! {
    /// A pod as `namespace/name`.
    PodId
}
name! {
    /// A group of pods as `namespace/name`.
    GroupId
}
name! {
    /// The name of a queue.
    QueueName
}
name! {
    /// The name of a part of the network.
    HyperNodeName
}
namespaced!(PodId);
namespaced!(GroupId);

/// A moment, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the moment that many milliseconds later.
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// The first whole second at or after the moment, as the API writes it; a moment beyond all calendars is `never`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000) + i64::from(self.0.rem_euclid(1000) > 0);
        match jiff::Timestamp::from_second(seconds) {
            Ok(moment) => write!(f, "{moment}"),
            Err(_) => f.write_str("never"),
        }
    }
}
