//! Splits a label selector into words, operators and brackets.

/// A piece of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// Also `in` and `notin`, which are words where a key or a value is expected.
    Word(&'t str),
    Equals,
    DoubleEquals,
    NotEquals,
    Not,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

impl Token<'_> {
    /// The token as error messages show it.
    pub(super) fn shown(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Not => "!",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::End => "",
        }
    }
}

/// Returns all tokens, with [`Token::End`] as the last.
///
/// A NUL ends the text: the real server takes it for the end as well.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let (token, length) = first(rest);
        tokens.push(token);
        if token == Token::End {
            return tokens;
        }
        rest = &rest[length..];
    }
}

fn first(rest: &str) -> (Token<'_>, usize) {
    let symbols: [(&str, Token<'_>); 9] = [
        ("==", Token::DoubleEquals),
        ("!=", Token::NotEquals),
        ("=", Token::Equals),
        ("!", Token::Not),
        (">", Token::Greater),
        ("<", Token::Less),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
    ];
    if rest.is_empty() {
        return (Token::End, 0);
    }
    if let Some((symbol, token)) = symbols.into_iter().find(|(symbol, _)| rest.starts_with(symbol)) {
        return (token, symbol.len());
    }
    let is_end = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<' | ' ' | '\t' | '\r' | '\n');
    let length = rest.find(is_end).unwrap_or(rest.len());
    (Token::Word(&rest[..length]), length)
}
