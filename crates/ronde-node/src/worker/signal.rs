//! Names of signals, as pods and images write them. Pure.

/// The last one.
const SIGNAL_MAX: i32 = 64;
/// The first that programs may use as they like, as C libraries count.
const REAL_TIME_FIRST: i32 = 34;

const NAMES: [(&str, i32); 32] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// Returns the number of a signal: `SIGTERM`, `term`, `15`, `SIGRTMIN+3`, `SIGRTMAX-1`.
pub fn parse(text: &str) -> Option<i32> {
    let text = text.trim().to_ascii_uppercase();
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let number = name.parse().ok().or_else(|| real_time(name));
    let number = number.or_else(|| NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number));
    number.filter(|number| (1..=SIGNAL_MAX).contains(number))
}

fn real_time(name: &str) -> Option<i32> {
    let offset = |rest: &str| if rest.is_empty() { Some(0) } else { rest.parse::<i32>().ok() };
    let from_first = name.strip_prefix("RTMIN").and_then(offset).and_then(|more| REAL_TIME_FIRST.checked_add(more));
    let from_last = || name.strip_prefix("RTMAX").and_then(offset).and_then(|less| SIGNAL_MAX.checked_add(less));
    from_first.or_else(from_last).filter(|number| *number >= REAL_TIME_FIRST)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, expected) in [
            ("SIGTERM", Some(15)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("SIGQUIT", Some(3)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMIN", Some(34)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMAX-60", None),
            ("SIGRTMIN+31", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("", None),
            ("SIG", None),
            ("SIGNOTHING", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
