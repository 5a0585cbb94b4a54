//! Looks one flag up in the arguments of a plugin; the plugins themselves read all of theirs.

/// Returns the value of a flag, as Go reads it: `--x=y`, `-x=y`, or `--x` and `y`. The last one counts; nothing is read
/// after the first argument that is no flag.
pub(super) fn find<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let mut found = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let named = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).filter(|name| !name.is_empty());
        let Some(named) = named else { break };
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (named, rest.next().map(String::as_str)),
        };
        if name == flag {
            found = value;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_in_each_of_its_forms() {
        let rows: [(&[&str], Option<&str>); 7] = [
            (&["--master=lead"], Some("lead")),
            (&["-master=lead"], Some("lead")),
            (&["--master", "lead"], Some("lead")),
            (&["--port=22", "--master=a", "--master=b"], Some("b")),
            (&["--worker", "--master=lead"], None),
            (&["stop", "--master=lead"], None),
            (&[], None),
        ];
        for (arguments, expected) in rows {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            assert_eq!(find(&arguments, "master"), expected, "{arguments:?}");
        }
    }
}
