//! As much of the shell's language as is needed to see which program a command starts first, and with which words.
//!
//! Pure. What only a shell can know (`$X`, `*.py`, `$(…)`) is a word that is not known; a command with a structure of its
//! own (`if`, `for`, a subshell) ends the reading.

/// A word, if it is what it says.
pub type Word = Option<String>;

/// What a simple command is made of, without its assignments and redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    pub assignments: Vec<String>,
    pub words: Vec<Word>,
}

const KEYWORDS: [&str; 12] =
    ["if", "for", "while", "until", "case", "function", "select", "{", "[[", "!", "do", "then"];

enum Token {
    Word(Word),
    /// The end of a simple command.
    End,
    /// What follows is a file.
    Redirection,
    /// Something with a structure of its own.
    Structure,
}

/// Returns the simple commands at the beginning of a text.
pub fn commands(text: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut command = Command::default();
    let mut is_file = false;
    let mut is_whole = true;
    for token in tokens(text) {
        match token {
            Token::Structure => {
                is_whole = false;
                break;
            }
            Token::Redirection => is_file = true,
            Token::Word(_) if is_file => is_file = false,
            Token::Word(Some(word)) if command.words.is_empty() && KEYWORDS.contains(&word.as_str()) => {
                is_whole = false;
                break;
            }
            Token::Word(Some(word)) if command.words.is_empty() && is_assignment(&word) => {
                command.assignments.push(word);
            }
            Token::Word(word) => command.words.push(word),
            Token::End => commands.push(std::mem::take(&mut command)),
        }
    }
    commands.extend(is_whole.then_some(command));
    commands.retain(|command| *command != Command::default());
    commands
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&first) = rest.peek() {
        match first {
            '\n' | ';' | '&' | '|' => {
                rest.next();
                tokens.push(Token::End);
            }
            '(' | ')' => return tokens.into_iter().chain([Token::Structure]).collect(),
            '<' | '>' => {
                rest.next();
                while rest.next_if(|next| matches!(next, '<' | '>' | '&')).is_some() {}
                tokens.push(Token::Redirection);
            }
            '#' => while rest.next_if(|next| *next != '\n').is_some() {},
            blank if blank.is_whitespace() => drop(rest.next()),
            _ => tokens.extend(word(&mut rest)),
        }
    }
    tokens
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Reads a word to its end; the number of a file before a redirection is none.
fn word(rest: &mut Letters<'_>) -> Option<Token> {
    let mut text = String::new();
    let mut is_known = true;
    let mut quote = None;
    while let Some(&letter) = rest.peek() {
        let ends = letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '(' | ')' | '<' | '>');
        if quote.is_none() && ends {
            break;
        }
        rest.next();
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '\\') => text.extend(rest.next()),
            (None | Some('"'), '$' | '`') => {
                is_known = false;
                skip_expansion(letter, rest);
            }
            (None, '*' | '?' | '[' | '{' | '~') => is_known = false,
            _ => text.push(letter),
        }
    }
    let is_number = matches!(rest.peek(), Some('<' | '>')) && text.chars().all(|letter| letter.is_ascii_digit());
    let is_known = is_known && quote.is_none();
    (!is_number || !is_known).then(|| Token::Word(is_known.then_some(text)))
}

/// Leaves out what stands in `$(…)`, `${…}` or backquotes.
fn skip_expansion(first: char, rest: &mut Letters<'_>) {
    let (open, close) = match (first, rest.peek()) {
        ('`', _) => (None, '`'),
        (_, Some('(')) => (Some('('), ')'),
        (_, Some('{')) => (Some('{'), '}'),
        _ => return,
    };
    let mut depth = u32::from(open.is_none());
    for letter in rest {
        depth += u32::from(Some(letter) == open);
        depth -= u32::from(letter == close);
        if depth == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let word = |word: &Word| word.clone().unwrap_or_else(|| "?".to_owned());
        let command = |one: &Command| {
            let assignments = one.assignments.iter().map(|text| format!("[{text}]"));
            assignments.chain(one.words.iter().map(word)).collect::<Vec<_>>().join(" ")
        };
        let shown: Vec<String> = commands(text).iter().map(command).collect();
        assert_eq!(shown.join(" ; "), expected, "{text}");
    }

    #[test]
    fn simple_commands_are_read() {
        check("python train.py --lr 0.1", "python train.py --lr 0.1");
        check("A=1 B='x y' python train.py", "[A=1] [B=x y] python train.py");
        check("cd /data && python 'my train.py' # words", "cd /data ; python my train.py");
        check("python train.py > out.log 2>&1; echo done", "python train.py ; echo done");
        check("horovodrun -np $((${workers}*2)) python x.py", "horovodrun -np ? python x.py");
        check("a `b c` \"$(d \"e\")\" f", "a ? ? f");
        check("a $(b", "a ?");
        check("python $SCRIPT *.py \"$HOME/x\" \"a b\"", "python ? ? ? a b");
        check("if true; then python x.py; fi", "");
        check("python x.py && (cd /; ls)", "python x.py");
        check("", "");
    }
}
