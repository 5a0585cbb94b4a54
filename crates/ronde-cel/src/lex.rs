//! Splits the text of a CEL expression into tokens.
//!
//! What is no token is reported and skipped, so that the parser sees the rest. String literals are only delimited
//! here; [`super::literal`] decodes them.

use super::source::Issue;

/// A token with its text and its place in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub text: String,
    pub offset: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Ident,
    /// `` `a-b` ``: only so that it can be refused with the right words.
    QuotedIdent,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    /// Operators, brackets and the words `in`, `true`, `false`, `null`; the text tells which.
    Mark,
    End,
}

const TWO_CHARACTER_MARKS: [&str; 6] = ["==", "!=", "<=", ">=", "&&", "||"];
const MARKS: &str = "<>[]{}().,-!?:+*/%";

/// Splits `text`; the last token is always [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, tokens: Vec::new(), issues: Vec::new() };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.push(TokenKind::End, lexer.at);
    (lexer.tokens, lexer.issues)
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
    issues: Vec<Issue>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn digits_from(&self, start: usize, is_digit: fn(char) -> bool) -> usize {
        self.chars[start.min(self.chars.len())..].iter().take_while(|c| is_digit(**c)).count()
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        let text = self.chars[self.at..end].iter().collect();
        self.tokens.push(Token { kind, text, offset: offset(self.at) });
        self.at = end;
    }

    fn step(&mut self) {
        let c = self.chars[self.at];
        match c {
            ' ' | '\t' | '\r' | '\n' | '\u{c}' => self.at += 1,
            '/' if self.peek(1) == Some('/') => {
                self.at += self.chars[self.at..].iter().take_while(|c| **c != '\n').count();
            }
            '0'..='9' => self.number(),
            '.' if self.peek(1).is_some_and(|c| c.is_ascii_digit()) => self.number(),
            '"' | '\'' => self.string(0, TokenKind::String),
            '`' => self.quoted_ident(),
            'A'..='Z' | 'a'..='z' | '_' => self.word(),
            _ => self.mark(),
        }
    }

    fn mark(&mut self) {
        let two: String = self.chars[self.at..].iter().take(2).collect();
        if TWO_CHARACTER_MARKS.contains(&two.as_str()) {
            return self.push(TokenKind::Mark, self.at + 2);
        }
        if MARKS.contains(self.chars[self.at]) {
            return self.push(TokenKind::Mark, self.at + 1);
        }
        // Half an operator takes the character behind it along, as in the real server.
        let half = matches!(self.chars[self.at], '=' | '&' | '|');
        self.unrecognized((self.at + 1 + usize::from(half)).min(self.chars.len()));
    }

    fn unrecognized(&mut self, end: usize) {
        let text: String = self.chars[self.at..end].iter().collect();
        let shown = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        let message = format!("Syntax error: token recognition error at: '{shown}'");
        self.issues.push(Issue::new(offset(self.at), message));
        self.at = end;
    }

    fn word(&mut self) {
        if let Some((prefix, kind)) = self.literal_prefix() {
            return self.string(prefix, kind);
        }
        let end = self.at + self.digits_from(self.at, |c| c.is_ascii_alphanumeric() || c == '_');
        let word: String = self.chars[self.at..end].iter().collect();
        let is_mark = matches!(word.as_str(), "in" | "true" | "false" | "null");
        self.push(if is_mark { TokenKind::Mark } else { TokenKind::Ident }, end);
    }

    /// The length of `r`, `b` or `br` in front of a quote, in any case.
    fn literal_prefix(&self) -> Option<(usize, TokenKind)> {
        let lower = |ahead| self.peek(ahead).map(|c| c.to_ascii_lowercase());
        let quote = |ahead| matches!(self.peek(ahead), Some('"' | '\''));
        match (lower(0), lower(1)) {
            (Some('r'), _) if quote(1) => Some((1, TokenKind::String)),
            (Some('b'), _) if quote(1) => Some((1, TokenKind::Bytes)),
            (Some('b'), Some('r')) if quote(2) => Some((2, TokenKind::Bytes)),
            _ => None,
        }
    }

    fn quoted_ident(&mut self) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
        let length = self.digits_from(self.at + 1, allowed);
        if length > 0 && self.peek(length + 1) == Some('`') {
            return self.push(TokenKind::QuotedIdent, self.at + length + 2);
        }
        self.unrecognized(self.at + 1);
    }

    fn number(&mut self) {
        let hexadecimal = self.digits_from(self.at + 2, |c| c.is_ascii_hexdigit());
        if self.chars[self.at] == '0' && self.peek(1) == Some('x') && hexadecimal > 0 {
            return self.integer(self.at + 2 + hexadecimal);
        }
        let mut end = self.at + self.digits_from(self.at, |c| c.is_ascii_digit());
        let mut is_float = false;
        let fraction = self.digits_from(end + 1, |c| c.is_ascii_digit());
        if self.chars.get(end) == Some(&'.') && fraction > 0 {
            end += 1 + fraction;
            is_float = true;
        }
        if matches!(self.chars.get(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.chars.get(end + 1), Some('+' | '-')));
            let exponent = self.digits_from(end + 1 + sign, |c| c.is_ascii_digit());
            if exponent > 0 {
                end += 1 + sign + exponent;
                is_float = true;
            }
        }
        if is_float { self.push(TokenKind::Float, end) } else { self.integer(end) }
    }

    fn integer(&mut self, end: usize) {
        if matches!(self.chars.get(end), Some('u' | 'U')) {
            return self.push(TokenKind::Uint, end + 1);
        }
        self.push(TokenKind::Int, end);
    }

    fn string(&mut self, prefix: usize, kind: TokenKind) {
        match self.string_end(prefix) {
            Ok(end) => self.push(kind, end),
            // The longest token that fits wins: the prefix alone is a name, two quotes are an empty string.
            Err(_) if prefix > 0 => self.push(TokenKind::Ident, self.at + prefix),
            Err(_) if self.peek(1) == Some(self.chars[self.at]) => self.push(kind, self.at + 2),
            Err(end) => self.unrecognized(end),
        }
    }

    /// Where the literal ends, or where the first character that cannot be part of it ends.
    fn string_end(&self, prefix: usize) -> Result<usize, usize> {
        let raw = self.chars[self.at..self.at + prefix].iter().any(|c| c.eq_ignore_ascii_case(&'r'));
        let quote = self.chars[self.at + prefix];
        let triple = self.peek(prefix + 1) == Some(quote) && self.peek(prefix + 2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        let mut end = self.at + prefix + width;
        while let Some(&c) = self.chars.get(end) {
            if c == '\\' && !raw {
                end = self.escape_end(end + 1)?;
            } else if !triple && (c == '\n' || c == '\r') {
                return Err(end + 1);
            } else if self.chars[end..].iter().take(width).filter(|c| **c == quote).count() == width {
                return Ok(end + width);
            } else {
                end += 1;
            }
        }
        Err(self.chars.len())
    }

    fn escape_end(&self, at: usize) -> Result<usize, usize> {
        let (digits, is_digit): (usize, fn(char) -> bool) = match self.chars.get(at) {
            Some('x' | 'X') => (2, |c| c.is_ascii_hexdigit()),
            Some('u') => (4, |c| c.is_ascii_hexdigit()),
            Some('U') => (8, |c| c.is_ascii_hexdigit()),
            Some('0'..='3') => (2, |c| ('0'..='7').contains(&c)),
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => return Ok(at + 1),
            _ => return Err((at + 1).min(self.chars.len())),
        };
        let found = self.digits_from(at + 1, is_digit).min(digits);
        if found == digits { Ok(at + 1 + digits) } else { Err((at + 2 + found).min(self.chars.len())) }
    }
}

/// The parser refuses longer texts, so every place fits.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_split_into_tokens() {
        let check = |text: &str, expected: &[&str]| {
            let (tokens, issues) = tokens(text);
            let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
            assert_eq!((texts, issues), ([expected, &[""]].concat(), Vec::new()), "{text}");
        };
        check("self.a>=1&&!b", &["self", ".", "a", ">=", "1", "&&", "!", "b"]);
        check("1.5e-3 .5 1.x 0x1fu 7u 1e9", &["1.5e-3", ".5", "1", ".", "x", "0x1fu", "7u", "1e9"]);
        check("'a\\'b' \"c\" r'\\d' b'x' '''a'b'''", &["'a\\'b'", "\"c\"", "r'\\d'", "b'x'", "'''a'b'''"]);
        check("a in [1, 2] // comment\n? b : c", &["a", "in", "[", "1", ",", "2", "]", "?", "b", ":", "c"]);
        check("`a-b`.c", &["`a-b`", ".", "c"]);
    }

    #[test]
    fn what_is_no_token_is_reported() {
        let check = |text: &str, expected: &[(u32, &str)]| {
            let found: Vec<_> = tokens(text).1.into_iter().map(|i| (i.offset.unwrap_or(u32::MAX), i.message)).collect();
            let prefix = "Syntax error: token recognition error at: ";
            let expected: Vec<_> =
                expected.iter().map(|(offset, text)| (*offset, format!("{prefix}'{text}'"))).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("a # b", &[(2, "#")]);
        check("a = b", &[(2, "= ")]);
        check("'abc", &[(0, "'abc")]);
        check("a & b |", &[(2, "& "), (6, "|")]);
        check(r"'\d' == 'a'", &[(0, r"'\d"), (10, "'")]);
        check("'''abc", &[(2, "'abc")]);
        check("r'abc", &[(1, "'abc")]);
    }
}
