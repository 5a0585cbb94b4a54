//! What an image name means, and what is done about it. Pure: the name, the settings and what is known in, the next step
//! out.
//!
//! ```text
//!  first ──▶ Host, Stored, Refuse                          the choice, or why there is none
//!    ├─────▶ Pull                                          `--images pull`
//!    └─────▶ Ask ── the registry's answer ──▶ after ──▶ Host, Stored, Pull, Fail        `--images auto`
//! ```

use std::fmt;

use k8s_openapi::api::core::v1::Container;
use ronde_images::{Reference, reference};
use serde::{Deserialize, Serialize};

use crate::lifecycle::Cause;

/// Names that mean this machine's own files, whatever is stored.
const HOST: [&str; 2] = ["host", "this-machine"];

/// What image names mean on this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wanted {
    /// An image, and nothing else.
    Pull,
    /// This machine's files.
    #[default]
    Host,
    /// An image if it is stored here or a registry has it, else this machine's files.
    Auto,
}

/// When the registry is asked, as the container says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Always,
    IfNotPresent,
    Never,
}

impl Policy {
    pub fn of_container(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// What is written in `image:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Host,
    Image(Reference),
    Invalid(reference::Error),
}

impl Name {
    pub fn parse(text: &str) -> Self {
        if HOST.contains(&text) {
            return Self::Host;
        }
        text.parse().map_or_else(Self::Invalid, Self::Image)
    }
}

/// What is known before a registry is asked.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// As the container writes it.
    pub text: &'a str,
    pub name: &'a Name,
    pub wanted: Wanted,
    pub policy: Policy,
    pub is_stored: bool,
    /// Whether containers of this machine can see an image at all.
    pub can_show: bool,
}

/// What a registry says of an image. The texts are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Has,
    /// Nobody answers.
    Unreachable(String),
    /// It does not know the image, or does not give it to us.
    Missing(String),
    /// Something else is wrong.
    Failed(String),
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Host(WhyHost),
    Stored,
    /// Asks the registry; [`after`] says how it goes on.
    Ask,
    Pull,
    /// Cannot be pulled now, and why.
    Fail(String),
    /// Will not be pulled at all, and why.
    Refuse(Cause),
}

/// Why a container sees this machine's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyHost {
    /// The name says so.
    Named,
    Wanted,
    InvalidName,
    CannotShow,
    Never,
    Unreachable,
    Missing,
}

impl fmt::Display for WhyHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named => "it is the name of this machine",
            Self::Wanted => "`--images host`",
            Self::InvalidName => "not an image name",
            Self::CannotShow => "pods have no isolation",
            Self::Never => "not stored here, and the pull policy is Never",
            Self::Unreachable => "cannot reach its registry",
            Self::Missing => "its registry does not have it",
        })
    }
}

/// Decides before a registry is asked.
pub fn first(case: &Case<'_>) -> Step {
    let is_strict = case.wanted == Wanted::Pull;
    match case.name {
        Name::Host => Step::Host(WhyHost::Named),
        _ if case.wanted == Wanted::Host => Step::Host(WhyHost::Wanted),
        Name::Invalid(error) if is_strict => Step::Refuse(cause("InvalidImageName", error.to_string())),
        Name::Invalid(_) => Step::Host(WhyHost::InvalidName),
        Name::Image(_) if !case.can_show && is_strict => {
            Step::Refuse(cause("CreateContainerError", "pods without isolation cannot run from images".to_owned()))
        }
        Name::Image(_) if !case.can_show => Step::Host(WhyHost::CannotShow),
        Name::Image(_) if case.is_stored && case.policy != Policy::Always => Step::Stored,
        Name::Image(_) if case.policy != Policy::Never => {
            if is_strict {
                Step::Pull
            } else {
                Step::Ask
            }
        }
        Name::Image(_) if is_strict => Step::Refuse(never(case.text)),
        Name::Image(_) => Step::Host(WhyHost::Never),
    }
}

/// Decides by the answer of the registry, where this machine's files or an older image will do.
pub fn after(is_stored: bool, answer: &Answer) -> Step {
    match answer {
        Answer::Has => Step::Pull,
        _ if is_stored => Step::Stored,
        Answer::Unreachable(_) => Step::Host(WhyHost::Unreachable),
        Answer::Missing(_) => Step::Host(WhyHost::Missing),
        Answer::Failed(why) => Step::Fail(why.clone()),
    }
}

fn never(image: &str) -> Cause {
    cause("ErrImageNeverPull", format!("Container image \"{image}\" is not present with pull policy of Never"))
}

pub(super) fn cause(reason: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(step: &Step) -> String {
        match step {
            Step::Host(why) => format!("host: {why}"),
            Step::Stored => "stored".to_owned(),
            Step::Ask => "ask".to_owned(),
            Step::Pull => "pull".to_owned(),
            Step::Fail(why) => format!("fails: {why}"),
            Step::Refuse(cause) => cause.reason.clone(),
        }
    }

    fn check(what: &str, (text, wanted, policy, is_stored): (&str, Wanted, Policy, bool), expected: &str) {
        let name = Name::parse(text);
        let case = Case { text, name: &name, wanted, policy, is_stored, can_show: true };
        assert_eq!(shown(&first(&case)), expected, "{what}");
    }

    #[test]
    fn a_name_means_an_image_or_this_machine() {
        use Policy::{Always, IfNotPresent, Never};
        use Wanted::{Auto, Host, Pull};
        check("this machine by name", ("host", Pull, IfNotPresent, false), "host: it is the name of this machine");
        check("the older word", ("this-machine", Auto, Never, true), "host: it is the name of this machine");
        check("images are not wanted", ("a", Host, Always, true), "host: `--images host`");
        check("no name at all", ("Not A Name", Pull, IfNotPresent, false), "InvalidImageName");
        check("no name, and it does not matter", ("Not A Name", Auto, Always, false), "host: not an image name");
        for wanted in [Pull, Auto] {
            check("stored", ("a", wanted, IfNotPresent, true), "stored");
            check("stored, and never asked for", ("a", wanted, Never, true), "stored");
        }
        check("missing", ("a", Pull, IfNotPresent, false), "pull");
        check("stored, and always asked for", ("a", Pull, Always, true), "pull");
        check("never pulled", ("a", Pull, Never, false), "ErrImageNeverPull");
        check("may be missing", ("a", Auto, IfNotPresent, false), "ask");
        check("stored, and there may be a newer one", ("a", Auto, Always, true), "ask");
        check("neither", ("a", Auto, Never, false), "host: not stored here, and the pull policy is Never");
    }

    #[test]
    fn where_images_cannot_be_shown_no_registry_is_asked() {
        let name = Name::parse("a");
        for (wanted, expected) in
            [(Wanted::Auto, "host: pods have no isolation"), (Wanted::Pull, "CreateContainerError")]
        {
            let case =
                Case { text: "a", name: &name, wanted, policy: Policy::Always, is_stored: true, can_show: false };
            assert_eq!(shown(&first(&case)), expected);
        }
    }

    #[test]
    fn what_a_registry_does_not_give_is_this_machine_unless_something_is_stored() {
        let why = || "why".to_owned();
        for (answer, nothing_stored) in [
            (Answer::Has, "pull"),
            (Answer::Unreachable(why()), "host: cannot reach its registry"),
            (Answer::Missing(why()), "host: its registry does not have it"),
            (Answer::Failed(why()), "fails: why"),
        ] {
            assert_eq!(shown(&after(false, &answer)), nothing_stored);
            let stored = if answer == Answer::Has { "pull" } else { "stored" };
            assert_eq!(shown(&after(true, &answer)), stored);
        }
    }
}
