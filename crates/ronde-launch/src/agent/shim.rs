//! The command line of ssh, as far as launchers use it. Pure.
//!
//! Options are known by whether they take a value, as in OpenSSH, and are ignored: there is no key, port or terminal to
//! choose. They may stand before the host and after it. What remains is the command: one text for a shell, as sshd does it.

/// Options that stand for themselves.
const FLAGS: &str = "246AaCfGgKkMNnqsTtVvXxYy";
/// Options with a value, attached or as the next word.
const WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// What is left of a command line of ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub host: String,
    /// The words joined by spaces, as ssh sends them.
    pub command: String,
    /// Whether the command gets our input: not with `-n`.
    pub has_input: bool,
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("unknown option `-{0}`")]
    Option(char),
    #[error("option `-{0}` needs a value")]
    Value(char),
    #[error("no host given")]
    Host,
    #[error("no command given; interactive sessions are not supported")]
    Command,
}

/// Reads the words after the program's name.
pub fn parse(words: &[String]) -> Result<Call, CallError> {
    let mut left = words;
    let mut has_input = true;
    skip_options(&mut left, &mut has_input)?;
    let (host, rest) = left.split_first().ok_or(CallError::Host)?;
    left = rest;
    skip_options(&mut left, &mut has_input)?;
    if left.is_empty() {
        return Err(CallError::Command);
    }
    let host = host.strip_prefix("ssh://").unwrap_or(host);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Ok(Call { host: host.to_owned(), command: left.join(" "), has_input })
}

fn skip_options(left: &mut &[String], has_input: &mut bool) -> Result<(), CallError> {
    while let Some((word, rest)) = left.split_first() {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else { return Ok(()) };
        *left = rest;
        if letters == "-" {
            return Ok(());
        }
        skip_letters(letters, left, has_input)?;
    }
    Ok(())
}

/// Several flags may share a word; the value of an option is the rest of it, or the next.
fn skip_letters(letters: &str, left: &mut &[String], has_input: &mut bool) -> Result<(), CallError> {
    for (at, letter) in letters.char_indices() {
        if WITH_VALUE.contains(letter) {
            let is_attached = at + letter.len_utf8() < letters.len();
            if !is_attached {
                *left = left.split_first().ok_or(CallError::Value(letter))?.1;
            }
            return Ok(());
        }
        if !FLAGS.contains(letter) {
            return Err(CallError::Option(letter));
        }
        *has_input &= letter != 'n';
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<(&str, &str), CallError>) {
        let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let parsed = parse(&words).map(|call| (call.host, call.command));
        assert_eq!(parsed, expected.map(|(host, command)| (host.to_owned(), command.to_owned())), "{line}");
    }

    #[test]
    fn command_lines_of_launchers() {
        // horovodrun: the check, and a rank.
        check(
            "-o PasswordAuthentication=no -o StrictHostKeyChecking=no a -p 22 -i key -o ConnectTimeout=10 true",
            Ok(("a", "true")),
        );
        check(
            "-o PasswordAuthentication=no -o StrictHostKeyChecking=no a cd /x > /dev/null 2>&1 ; env A=b python -u",
            Ok(("a", "cd /x > /dev/null 2>&1 ; env A=b python -u")),
        );
        // Open MPI.
        check("-x a orted -mca ess env", Ok(("a", "orted -mca ess env")));
        // pdsh, for DeepSpeed.
        check("-2 -a -x -lroot a echo b", Ok(("a", "echo b")));
        // Others.
        check("-qTx -p2222 -lroot user@a -- ls -l", Ok(("a", "ls -l")));
        check("-oBatchMode=yes -- a ls", Ok(("a", "ls")));
        check("ssh://root@a ls", Ok(("a", "ls")));
        check("fd00::1 ls", Ok(("fd00::1", "ls")));
    }

    #[test]
    fn what_is_no_call_is_said() {
        check("", Err(CallError::Host));
        check("-q", Err(CallError::Host));
        check("a", Err(CallError::Command));
        check("a -p 22", Err(CallError::Command));
        check("-o", Err(CallError::Value('o')));
        check("-Z a ls", Err(CallError::Option('Z')));
    }

    #[test]
    fn input_is_passed_unless_n_is_given() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(parse(&words("a cat")).unwrap().has_input);
        assert!(!parse(&words("-xn a cat")).unwrap().has_input);
    }
}
