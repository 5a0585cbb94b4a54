//! What a bridge says of its instance, in the alias of the link: it is known where the data directory is gone.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The kernel keeps 255 bytes.
const BYTES_MAX: usize = 255;
const HEAD: &str = "ronde";
const FORWARDING: &str = "forwarding";
const DATA: &str = "data=";

/// The text of an alias, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
    pub data_dir: Option<PathBuf>,
    /// Whether it was this instance that let the machine forward packets.
    pub forwarding_enabled: bool,
}

impl Alias {
    /// Reads what [`fmt::Display`] wrote; of anything else nothing is known.
    pub fn parse(text: &str) -> Self {
        let Some(mut rest) = text.strip_prefix(HEAD) else { return Self::default() };
        let mut alias = Self::default();
        if let Some(after) = rest.strip_prefix(' ').and_then(|rest| rest.strip_prefix(FORWARDING)) {
            (alias.forwarding_enabled, rest) = (true, after);
        }
        // The path is last: it may have spaces.
        let path = rest.strip_prefix(' ').and_then(|rest| rest.strip_prefix(DATA)).map(Path::new);
        alias.data_dir = path.filter(|path| path.is_absolute()).map(Path::to_owned);
        alias
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forwarding = if self.forwarding_enabled { format!(" {FORWARDING}") } else { String::new() };
        let data = self.data_dir.as_ref().and_then(|path| Some(format!(" {DATA}{}", path.to_str()?)));
        let fits = |data: &String| HEAD.len() + forwarding.len() + data.len() <= BYTES_MAX;
        write!(f, "{HEAD}{forwarding}{}", data.filter(fits).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &str, data_dir: Option<&str>, forwarding_enabled: bool, expected: &str) {
        let alias = Alias { data_dir: data_dir.map(PathBuf::from), forwarding_enabled };
        assert_eq!(alias.to_string(), expected, "{what}");
        assert_eq!(Alias::parse(expected), alias, "{what}");
    }

    #[test]
    fn what_is_written_is_read() {
        check("all", Some("/var/lib/ronde"), true, "ronde forwarding data=/var/lib/ronde");
        check("a path with spaces", Some("/home/ada/a data=b"), false, "ronde data=/home/ada/a data=b");
        check("nothing", None, false, "ronde");
        check("no path", None, true, "ronde forwarding");
    }

    #[test]
    fn a_path_that_is_too_long_is_left_out() {
        let alias = Alias { data_dir: Some(format!("/{}", "x".repeat(300)).into()), forwarding_enabled: true };
        assert_eq!(alias.to_string(), "ronde forwarding");
    }

    #[test]
    fn the_words_of_others_say_nothing() {
        for text in ["", "ronde data=relative", "uplink to data=/x", "rondeforwarding"] {
            assert_eq!(Alias::parse(text), Alias::default(), "{text}");
        }
    }
}
