//! Parses the text of a CEL expression into a tree, expanding macros on the way.
//!
//! The grammar is CEL's with optional syntax (`a.?b`, `a[?i]`, `[?x]`). The first syntax error ends the parse, in the
//! words of the real server's parser generator as far as they can be told without it. Depth, length and the number of
//! nodes are bounded, so that no text can exhaust the stack or the memory.

use std::sync::Arc;

use super::{
    ast::{Element, Entry, Expr, Kind, Literal, Select},
    escape::RESERVED,
    lex::{Token, TokenKind, tokens},
    literal, macros,
    nodes::{Halt, Nodes, Parse},
    source::Issue,
};

/// The longest expression the real server takes, in characters.
const LENGTH_MAX: usize = 100_000;
/// How deep expressions may nest. The real server allows 250; rules in use stay below 20, and what is deeper would
/// need more stack in every later stage than a thread is sure to have.
const DEPTH_MAX: u32 = 100;
const START_OF_EXPRESSION: &str =
    "'.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// A parsed expression: the tree and where each node stands in the text.
#[derive(Debug)]
pub(super) struct Parsed {
    pub root: Expr,
    pub offsets: Vec<u32>,
}

/// Parses `text`.
pub(super) fn parse(text: &str) -> Result<Parsed, Vec<Issue>> {
    let length = text.chars().count();
    if length > LENGTH_MAX {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {LENGTH_MAX}");
        return Err(vec![Issue::nowhere(message)]);
    }
    let (tokens, mut issues) = tokens(text);
    let mut parser = Parser { tokens, at: 0, depth: 0, nodes: Nodes::default() };
    let result = parser.expression().and_then(|root| parser.end().map(|()| root));
    issues.append(&mut parser.nodes.issues);
    match result {
        Ok(root) if issues.is_empty() => Ok(Parsed { root, offsets: parser.nodes.offsets }),
        Ok(_) => Err(issues),
        Err(Halt(issue)) => {
            issues.push(issue);
            Err(issues)
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    nodes: Nodes,
}

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn next_token(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    fn is(&self, mark: &str) -> bool {
        is_mark(self.token(), mark)
    }

    /// Steps over `mark` if it is there, and tells where it was.
    fn take(&mut self, mark: &str) -> Option<u32> {
        self.is(mark).then(|| self.advance().offset)
    }

    fn advance(&mut self) -> Token {
        let token = self.token().clone();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn deepen(&mut self, levels: u32) -> Parse<()> {
        self.depth += levels;
        if self.depth > DEPTH_MAX {
            return Err(Halt(Issue::nowhere(format!("expression recursion limit exceeded: {DEPTH_MAX}"))));
        }
        Ok(())
    }

    fn syntax(&self, what: &str) -> Halt {
        Halt(Issue::new(self.token().offset, format!("Syntax error: {what}")))
    }

    fn end(&self) -> Parse<()> {
        if self.token().kind == TokenKind::End {
            return Ok(());
        }
        let word = if self.next_token().kind == TokenKind::End { "extraneous" } else { "mismatched" };
        Err(self.syntax(&format!("{word} input '{}' expecting <EOF>", shown(self.token()))))
    }

    fn expect(&mut self, mark: &str) -> Parse<u32> {
        if let Some(offset) = self.take(mark) {
            return Ok(offset);
        }
        let token = shown(self.token());
        if is_mark(self.next_token(), mark) {
            return Err(self.syntax(&format!("extraneous input '{token}' expecting '{mark}'")));
        }
        let could_follow = mark != ":" && !starts_expression(self.token());
        Err(self.syntax(&if could_follow {
            format!("missing '{mark}' at '{token}'")
        } else {
            format!("mismatched input '{token}' expecting '{mark}'")
        }))
    }

    /// An expression had to start here; `first` are the other marks that would have been fine.
    fn no_expression(&self, first: &str) -> Halt {
        let word = if starts_expression(self.next_token()) { "extraneous" } else { "mismatched" };
        let token = shown(self.token());
        self.syntax(&format!("{word} input '{token}' expecting {{{first}{START_OF_EXPRESSION}"))
    }

    /// `or ['?' or ':' expression]`
    fn expression(&mut self) -> Parse<Expr> {
        self.deepen(1)?;
        let mut result = self.disjunction()?;
        if let Some(offset) = self.take("?") {
            let yes = self.disjunction()?;
            self.expect(":")?;
            let no = self.expression()?;
            result = self.nodes.call(offset, "_?_:_", vec![result, yes, no])?;
        }
        self.depth -= 1;
        Ok(result)
    }

    /// Chains of `||` between chains of `&&`. Few calls deep, because every level of nesting passes through here.
    fn disjunction(&mut self) -> Parse<Expr> {
        let (mut sides, mut ors) = (Vec::new(), Vec::new());
        loop {
            let (mut terms, mut ands) = (vec![Some(self.binary(0)?)], Vec::new());
            while let Some(offset) = self.take("&&") {
                ands.push(offset);
                terms.push(Some(self.binary(0)?));
            }
            sides.push(Some(self.balance("_&&_", &mut terms, &ands)?));
            match self.take("||") {
                Some(offset) => ors.push(offset),
                None => return self.balance("_||_", &mut sides, &ors),
            }
        }
    }

    /// A balanced tree of the terms: `&&` and `||` may evaluate their sides in any order.
    fn balance(&mut self, function: &str, terms: &mut [Option<Expr>], operators: &[u32]) -> Parse<Expr> {
        if operators.is_empty() {
            return Ok(terms[0].take().expect("each term is used once"));
        }
        let middle = operators.len() / 2;
        let (left, right) = terms.split_at_mut(middle + 1);
        let left = self.balance(function, left, &operators[..middle])?;
        let right = self.balance(function, right, &operators[middle + 1..])?;
        self.nodes.call(operators[middle], function, vec![left, right])
    }

    /// Relations, sums and products that bind at least as strongly as `level`, left-associative.
    fn binary(&mut self, level: usize) -> Parse<Expr> {
        let mut left = self.unary()?;
        let depth = self.depth;
        while let Some((mark, function, own)) =
            BINARY_OPERATORS.iter().find(|(mark, _, own)| *own >= level && self.is(mark))
        {
            let offset = self.take(mark).expect("just seen");
            // The tree grows to the left without recursion here, but later stages recurse into it.
            self.deepen(1)?;
            let right = self.binary(own + 1)?;
            left = self.nodes.call(offset, function, vec![left, right])?;
        }
        self.depth = depth;
        Ok(left)
    }

    fn unary(&mut self) -> Parse<Expr> {
        for (mark, function) in [("!", "!_"), ("-", "-_")] {
            let Some(offset) = self.take(mark) else { continue };
            let is_number = matches!(self.token().kind, TokenKind::Int | TokenKind::Float);
            if mark == "-" && is_number {
                let number = self.number("-", offset)?;
                return self.member(number);
            }
            let mut count = 1;
            while self.take(mark).is_some() {
                count += 1;
            }
            let primary = self.primary()?;
            let operand = self.member(primary)?;
            return if count % 2 == 0 { Ok(operand) } else { self.nodes.call(offset, function, vec![operand]) };
        }
        let primary = self.primary()?;
        self.member(primary)
    }

    /// Everything that follows a value: `.field`, `.?field`, `.method(...)`, `[index]`, `[?index]`.
    fn member(&mut self, mut operand: Expr) -> Parse<Expr> {
        let depth = self.depth;
        loop {
            if let Some(offset) = self.take(".") {
                self.deepen(1)?;
                operand = self.selection(operand, offset)?;
            } else if let Some(offset) = self.take("[") {
                self.deepen(1)?;
                let function = if self.take("?").is_some() { "_[?_]" } else { "_[_]" };
                if !starts_expression(self.token()) {
                    let optional = if function == "_[_]" { ", '?'" } else { "" };
                    let rest = START_OF_EXPRESSION.replacen("'!'", &format!("'!'{optional}"), 1);
                    let token = shown(self.token());
                    return Err(self.syntax(&format!("mismatched input '{token}' expecting {{'[', '{{', '(', {rest}")));
                }
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.nodes.call(offset, function, vec![operand, index])?;
            } else {
                self.depth = depth;
                return Ok(operand);
            }
        }
    }

    fn selection(&mut self, operand: Expr, dot: u32) -> Parse<Expr> {
        let optional = self.take("?").is_some();
        let name = match self.token().kind {
            TokenKind::Ident => self.advance(),
            TokenKind::QuotedIdent => {
                let name = self.advance();
                return self.nodes.broken(name.offset, "unsupported syntax: '`'");
            }
            _ if ["true", "false", "null"].iter().any(|word| self.is(word)) => {
                return Err(self.syntax(&format!("mismatched input '{}' expecting IDENTIFIER", self.token().text)));
            }
            _ => return Err(self.syntax(&format!("no viable alternative at input '.{}'", self.token().text))),
        };
        if optional {
            let field = self.nodes.make(name.offset, Kind::Literal(Literal::String(Arc::from(name.text))))?;
            return self.nodes.call(dot, "_?._", vec![operand, field]);
        }
        if let Some(open) = self.take("(") {
            let args = self.arguments()?;
            return macros::call(&mut self.nodes, open, &name.text, Some(operand), args);
        }
        let select = Select { operand, field: Arc::from(name.text), test_only: false };
        self.nodes.make(dot, Kind::Select(Box::new(select)))
    }

    /// What stands between the parentheses of a call, and the closing one.
    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Ok(args);
        }
        if !starts_expression(self.token()) {
            return Err(self.no_expression("'[', '{', '(', ')', "));
        }
        loop {
            args.push(self.expression()?);
            if self.take(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    /// The end of a list of things that commas separate.
    fn close(&mut self, mark: &str) -> Parse<()> {
        if self.take(mark).is_some() {
            return Ok(());
        }
        let word = if is_mark(self.next_token(), mark) { "extraneous" } else { "mismatched" };
        let token = shown(self.token());
        Err(self.syntax(&format!("{word} input '{token}' expecting {{'{mark}', ','}}")))
    }

    fn primary(&mut self) -> Parse<Expr> {
        if self.take("(").is_some() {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.is("[") {
            return self.list();
        }
        if self.is("{") {
            return self.map();
        }
        match self.token().kind {
            TokenKind::Int | TokenKind::Uint | TokenKind::Float => self.number("", self.token().offset),
            TokenKind::String | TokenKind::Bytes => self.text(),
            TokenKind::Ident => self.name(""),
            _ if self.is(".") && self.next_token().kind == TokenKind::Ident => {
                self.advance();
                self.name(".")
            }
            _ => self.word(),
        }
    }

    /// `true`, `false` or `null`, the only marks that are values.
    fn word(&mut self) -> Parse<Expr> {
        let literal = match self.token().text.as_str() {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            "null" => Literal::Null,
            _ => return Err(self.no_expression("'[', '{', '(', ")),
        };
        let offset = self.advance().offset;
        self.nodes.make(offset, Kind::Literal(literal))
    }

    fn name(&mut self, leading: &str) -> Parse<Expr> {
        let token = self.advance();
        let name = format!("{leading}{}", token.text);
        let reserved = RESERVED.contains(&token.text.as_str());
        if let Some(open) = self.take("(") {
            let args = self.arguments()?;
            if reserved {
                return self.nodes.broken(token.offset, format!("reserved identifier: {}", token.text));
            }
            return macros::call(&mut self.nodes, open, &name, None, args);
        }
        if let Some((name, offset)) = self.struct_name(&name) {
            return self.structure(&name, offset);
        }
        if reserved {
            return self.nodes.broken(token.offset, format!("reserved identifier: {}", token.text));
        }
        self.nodes.make(token.offset, Kind::Ident(Arc::from(name)))
    }

    /// `a.b.C` in front of `{`: a type that is to be made.
    fn struct_name(&mut self, first: &str) -> Option<(String, u32)> {
        let mut name = first.to_owned();
        let mut at = self.at;
        while is_mark(self.tokens.get(at)?, ".") && self.tokens.get(at + 1)?.kind == TokenKind::Ident {
            name = format!("{name}.{}", self.tokens[at + 1].text);
            at += 2;
        }
        let open = self.tokens.get(at).filter(|token| is_mark(token, "{"))?.offset;
        self.at = at + 1;
        Some((name, open))
    }

    fn structure(&mut self, name: &str, offset: u32) -> Parse<Expr> {
        while self.take("}").is_none() {
            self.take("?");
            if !matches!(self.token().kind, TokenKind::Ident | TokenKind::QuotedIdent) {
                return Err(self.syntax(&format!("mismatched input '{}' expecting IDENTIFIER", shown(self.token()))));
            }
            self.advance();
            self.expect(":")?;
            self.expression()?;
            if self.take(",").is_none() {
                self.close("}")?;
                break;
            }
        }
        self.nodes.make(offset, Kind::Struct(Arc::from(name)))
    }

    fn list(&mut self) -> Parse<Expr> {
        let offset = self.advance().offset;
        let mut elements = Vec::new();
        loop {
            if self.take("]").is_some() {
                break;
            }
            if !elements.is_empty() && (self.is(",") || self.token().kind == TokenKind::End) {
                return Err(self.syntax(&format!("mismatched input '{}' expecting ']'", shown(self.token()))));
            }
            let optional = self.take("?").is_some();
            elements.push(Element { value: self.expression()?, optional });
            if self.take(",").is_none() {
                self.close("]")?;
                break;
            }
        }
        self.nodes.make(offset, Kind::List(elements))
    }

    fn map(&mut self) -> Parse<Expr> {
        let offset = self.advance().offset;
        let mut entries = Vec::new();
        loop {
            if self.take("}").is_some() {
                break;
            }
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(Entry { key, value, optional });
            if self.take(",").is_none() {
                self.close("}")?;
                break;
            }
        }
        self.nodes.make(offset, Kind::Map(entries))
    }

    fn number(&mut self, sign: &str, offset: u32) -> Parse<Expr> {
        let token = self.advance();
        let digits = token.text.trim_end_matches(['u', 'U']);
        let (radix, digits) = digits.strip_prefix("0x").map_or((10, digits), |hexadecimal| (16, hexadecimal));
        let signed = format!("{sign}{digits}");
        let (value, what) = match token.kind {
            TokenKind::Int => (i64::from_str_radix(&signed, radix).ok().map(Literal::Int), "int"),
            TokenKind::Uint => (u64::from_str_radix(digits, radix).ok().map(Literal::Uint), "uint"),
            _ => (finite(&signed).map(Literal::Double), "double"),
        };
        match value {
            Some(value) => self.nodes.make(offset, Kind::Literal(value)),
            None => self.nodes.broken(offset, format!("invalid {what} literal")),
        }
    }

    fn text(&mut self) -> Parse<Expr> {
        let token = self.advance();
        let is_bytes = token.kind == TokenKind::Bytes;
        let value = literal::decode(&token.text, is_bytes).and_then(|bytes| {
            if is_bytes {
                return Ok(Literal::Bytes(bytes.into()));
            }
            String::from_utf8(bytes).map(|s| Literal::String(s.into())).map_err(|_| "unable to unescape string")
        });
        match value {
            Ok(value) => self.nodes.make(token.offset, Kind::Literal(value)),
            Err(message) => self.nodes.broken(token.offset, message),
        }
    }
}

/// Mark, function and how strongly it binds.
const BINARY_OPERATORS: [(&str, &str, usize); 12] = [
    ("<", "_<_", 0),
    ("<=", "_<=_", 0),
    (">=", "_>=_", 0),
    (">", "_>_", 0),
    ("==", "_==_", 0),
    ("!=", "_!=_", 0),
    ("in", "@in", 0),
    ("+", "_+_", 1),
    ("-", "_-_", 1),
    ("*", "_*_", 2),
    ("/", "_/_", 2),
    ("%", "_%_", 2),
];

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn is_mark(token: &Token, mark: &str) -> bool {
    token.kind == TokenKind::Mark && token.text == mark
}

fn starts_expression(token: &Token) -> bool {
    match token.kind {
        TokenKind::End | TokenKind::QuotedIdent => false,
        TokenKind::Mark => {
            matches!(token.text.as_str(), "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null" | "?")
        }
        _ => true,
    }
}

fn shown(token: &Token) -> &str {
    if token.kind == TokenKind::End { "<EOF>" } else { &token.text }
}
