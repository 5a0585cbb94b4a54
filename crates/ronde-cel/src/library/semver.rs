//! Semantic versions.

use std::{cmp::Ordering, rc::Rc};

use super::{
    super::value::{Eval, Val, fault, no_such_overload},
    Builtin,
};

/// A version such as `1.2.3-rc.1`; build metadata takes no part in comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<String>,
}

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "semver" => |_, args| match read(args)? {
            Ok(version) => Ok(Val::Semver(Rc::new(version))),
            Err(message) => fault(message),
        },
        "isSemver" => |_, args| Ok(Val::Bool(read(args)?.is_ok())),
        "major" => |_, args| number(args, 0),
        "minor" => |_, args| number(args, 1),
        "patch" => |_, args| number(args, 2),
        _ => return None,
    })
}

fn read(args: &[Val<'_>]) -> Eval<Result<Semver, String>> {
    match args {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Ok(Semver::parse(text)),
        [Val::String(text), Val::Bool(true)] => Ok(Semver::parse_normalized(text)),
        _ => no_such_overload(),
    }
}

fn number<'a>(args: &[Val<'a>], at: usize) -> Eval<Val<'a>> {
    match args {
        [Val::Semver(version)] => Ok(Val::Int(i64::try_from(version.numbers[at]).unwrap_or(i64::MAX))),
        _ => no_such_overload(),
    }
}

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre_release) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [("major", major), ("minor", minor), ("patch", patch)];
        let mut parsed = [0; 3];
        for (slot, (what, digits)) in parsed.iter_mut().zip(numbers) {
            *slot = whole(what, digits)?;
        }
        let pre_release: Vec<String> =
            pre_release.map(|pre| pre.split('.').map(str::to_owned).collect()).unwrap_or_default();
        for identifier in &pre_release {
            check_identifier(identifier, "Prerelease")?;
            if is_number(identifier) && identifier.len() > 1 && identifier.starts_with('0') {
                return Err(format!("Numeric PreRelease version must not contain leading zeroes {identifier:?}"));
            }
        }
        for identifier in build.into_iter().flat_map(|build| build.split('.')) {
            check_identifier(identifier, "Build meta data")?;
        }
        Ok(Self { numbers: parsed, pre_release })
    }

    /// Takes a leading `v`, leading zeros and missing parts too.
    fn parse_normalized(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let trimmed = part.trim_start_matches('0');
            let zero = if trimmed.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
            *part = format!("{zero}{trimmed}");
        }
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre_release.as_slice(), other.pre_release.as_slice()) {
                ([], []) => Ordering::Equal,
                ([], _) => Ordering::Greater,
                (_, []) => Ordering::Less,
                (mine, theirs) => {
                    let differing = mine.iter().zip(theirs).map(|(l, r)| compare_identifiers(l, r)).find(|o| o.is_ne());
                    differing.unwrap_or_else(|| mine.len().cmp(&theirs.len()))
                }
            }
        })
    }
}

fn whole(what: &str, digits: &str) -> Result<u64, String> {
    if !is_number(digits) {
        return Err(format!("Invalid character(s) found in {what} number {digits:?}"));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        let capitalized = format!("{}{}", what[..1].to_uppercase(), &what[1..]);
        return Err(format!("{capitalized} number must not contain leading zeroes {digits:?}"));
    }
    digits.parse().map_err(|_| format!("strconv.ParseUint: parsing {digits:?}: value out of range"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn check_identifier(text: &str, what: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("{what} is empty"));
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(format!("Invalid character(s) found in {} {text:?}", what.to_lowercase()));
    }
    Ok(())
}

fn compare_identifiers(left: &str, right: &str) -> Ordering {
    match (is_number(left), is_number(right)) {
        (true, true) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare() {
        let version = |text: &str| Semver::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let rising = ["0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-2", "1.0.0-11", "1.0.0"];
        let mut sorted: Vec<_> = rising.iter().map(|text| version(text)).collect();
        sorted.sort_by(Semver::compare);
        assert_eq!(sorted[1], version("1.0.0-2"), "numbers come before words");
        assert!(version("1.0.0+a").compare(&version("1.0.0+b")).is_eq());
        assert_eq!(Semver::parse_normalized("v01.2"), Ok(version("1.2.0")));
        for bad in ["", "1", "1.2", "1.2.x", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+é", "v1.2.3"] {
            assert!(Semver::parse(bad).is_err(), "{bad}");
        }
    }
}
