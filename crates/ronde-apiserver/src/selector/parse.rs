//! Parses label selectors. The errors are the words of the real server, quirks included.

use super::{
    Operator, Requirement, key_error,
    lex::{Token, tokens},
};

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Reads a whole selector.
pub(super) fn selector(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Not => {}
            Token::End => return Ok(requirements),
            other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.shown())),
        }
        let requirement = parser.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
        requirements.push(requirement);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Not => {}
                other => return Err(format!("found '{}', expected: identifier after ','", other.shown())),
            },
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.shown())),
        }
    }
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.shown())),
        };
        // The real server has no path here and shows that it has none.
        if let Some(error) = key_error(key, "<nil>") {
            return Err(error.to_string());
        }
        match self.peek() {
            _ if negated => return Requirement::new(key, Operator::DoesNotExist, Vec::new()),
            Token::End | Token::Comma => return Requirement::new(key, Operator::Exists, Vec::new()),
            _ => {}
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.next() {
            Token::Word("in") => Ok(Operator::In),
            Token::Word("notin") => Ok(Operator::NotIn),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::Greater => Ok(Operator::GreaterThan),
            Token::Less => Ok(Operator::LessThan),
            other => Err(format!("found '{}', expected: {BINARY_OPERATORS}", other.shown())),
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(word) => Ok(word.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.shown())),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.shown())),
        }
        match self.peek() {
            Token::Word(_) | Token::Comma => self.list(),
            Token::Close => {
                self.next();
                Ok(vec![String::new()])
            }
            other => Err(format!("found '{}', expected: ',', ')' or identifier", other.shown())),
        }
    }

    /// Reads words and commas up to the closing bracket. Where a word is missing, the empty value is meant.
    fn list(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word.to_owned());
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.shown())),
                    }
                }
                Token::Comma => {
                    if values.is_empty() || matches!(self.peek(), Token::Comma | Token::Close) {
                        values.push(String::new());
                    }
                    match self.peek() {
                        Token::Close => break,
                        Token::Comma => {
                            self.next();
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.shown())),
            }
        }
        self.next();
        Ok(values)
    }

    fn peek(&self) -> Token<'t> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }
}
