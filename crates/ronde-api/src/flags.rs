//! Arguments of plugins in the syntax of Go's `flag` package: `--x=y`, `-x=y`, or two items.
//!
//! Plugins read theirs, and the rules of jobs look into some. A mistake ends the reading and is told, but fails no job: what was read before it counts, the rest has its
//! defaults, as in Volcano.

use std::collections::BTreeMap;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    /// Needs no value, and takes one only after `=`.
    Bool,
}

/// The arguments of one plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    values: BTreeMap<&'static str, String>,
    /// What is wrong with them.
    pub fault: Option<String>,
}

impl Flags {
    /// Reads arguments up to the first mistake or the first that is no flag.
    pub fn parse(arguments: &[String], known: &[(&'static str, Kind)]) -> Self {
        let mut flags = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match flags.read(argument, &mut rest, known) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    flags.fault = Some(fault);
                    break;
                }
            }
        }
        flags
    }

    /// Reads one argument; tells whether there may be more.
    fn read<'a>(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        known: &[(&'static str, Kind)],
    ) -> Result<bool, String> {
        let Some(bare) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else { return Ok(false) };
        // `-` alone is no flag, `--` alone ends them.
        if bare.is_empty() {
            return Ok(false);
        }
        let (name, value) = bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(value.to_owned())));
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("bad flag syntax: {argument}"));
        }
        let found = known.iter().find(|(known, _)| *known == name);
        let (name, kind) = found.ok_or_else(|| format!("flag provided but not defined: -{name}"))?;
        let value = match (kind, value) {
            (Kind::Bool, None) => "true".to_owned(),
            (_, Some(value)) => value,
            (_, None) => rest.next().cloned().ok_or_else(|| format!("flag needs an argument: -{name}"))?,
        };
        let is_good = match kind {
            Kind::Text => true,
            Kind::Number => value.parse::<i64>().is_ok(),
            Kind::Bool => bool_of(&value).is_some(),
        };
        if !is_good {
            return Err(format!("invalid value {value:?} for flag -{name}"));
        }
        self.values.insert(name, value);
        Ok(true)
    }

    pub fn text(&self, name: &str, default: &str) -> String {
        self.values.get(name).cloned().unwrap_or_else(|| default.to_owned())
    }

    pub fn is(&self, name: &str, default: bool) -> bool {
        self.values.get(name).and_then(|value| bool_of(value)).unwrap_or(default)
    }

    pub fn number(&self, name: &str, default: i64) -> i64 {
        self.values.get(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// Returns a port; one that cannot be is the default one.
    pub fn port(&self, name: &str, default: i32) -> i32 {
        let port = i32::try_from(self.number(name, default.into())).unwrap_or(default);
        if (1..=65535).contains(&port) { port } else { default }
    }
}

/// The words that Go takes for a bool.
fn bool_of(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [(&str, Kind); 3] = [("host", Kind::Text), ("port", Kind::Number), ("open", Kind::Bool)];

    fn check(what: &str, arguments: &str, expected: &str) {
        let arguments: Vec<String> = arguments.split_whitespace().map(ToOwned::to_owned).collect();
        let flags = Flags::parse(&arguments, &KNOWN);
        let mut shown: Vec<String> = flags.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        shown.extend(flags.fault.map(|fault| format!("! {fault}")));
        assert_eq!(shown.join("; "), expected, "{what}");
    }

    #[test]
    fn arguments_are_read_as_go_reads_them() {
        check("nothing", "", "");
        check("one and two dashes", "-host=a --port=1", "host=a; port=1");
        check("a value of its own", "--host a -port 1", "host=a; port=1");
        check("a bool needs no value", "--open --host=a", "host=a; open=true");
        check("a bool takes a value after the sign only", "--open false", "open=true");
        check("all of Go's words for a bool", "--open=F", "open=F");
        check("the last one counts", "--host=a --host=b", "host=b");
        check("a value may have signs of its own", "--host=a=b", "host=a=b");
        check("an empty value", "--host=", "host=");
        check("two dashes end the flags", "--host=a -- --port=1", "host=a");
        check("so does what is no flag", "--host=a more --port=1", "host=a");
    }

    #[test]
    fn a_mistake_ends_the_reading_and_is_told() {
        check("an unknown flag", "--host=a --no-root --port=1", "host=a; ! flag provided but not defined: -no-root");
        check("a flag without its value", "--host", "! flag needs an argument: -host");
        check("no number", "--port=x", "! invalid value \"x\" for flag -port");
        check("no bool", "--open=maybe", "! invalid value \"maybe\" for flag -open");
        check("three dashes", "---host=a", "! bad flag syntax: ---host=a");
    }

    #[test]
    fn a_port_that_cannot_be_is_the_default_one() {
        let port = |text: &str| Flags::parse(&[format!("--port={text}")], &KNOWN).port("port", 22);
        assert_eq!([port("23"), port("0"), port("65536"), port("-1"), port("99999999999")], [23, 22, 22, 22, 22]);
    }
}
