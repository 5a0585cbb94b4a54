//! Regular expressions in the syntax of the real server (RE2), run by the `regex` crate.
//!
//! The two engines agree on almost everything; this module rewrites where they do not: `\d` is ASCII only, `[` inside
//! a class is a letter like others, `\Q..\E` quotes, `\<` is a letter, `{,5}` is text. Mistakes get the real
//! server's words, because they are shown to whoever writes a schema.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// The real server's own bound on `{n}`.
const REPEAT_MAX: u32 = 1000;
/// A compiled pattern larger than this is refused; the largest in use are some tens of kilobytes.
const COMPILED_SIZE_MAX: usize = 4 << 20;

/// Compiles `pattern`.
///
/// # Errors
/// `error parsing regexp: …`, as the real server writes it.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern).map_err(|(what, part)| format!("error parsing regexp: {what}: `{part}`"))?;
    RegexBuilder::new(&translated)
        .size_limit(COMPILED_SIZE_MAX)
        .build()
        .map_err(|_| format!("error parsing regexp: expression too large: `{pattern}`"))
}

const ASCII_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

type Mistake = (&'static str, String);

fn translate(pattern: &str) -> Result<String, Mistake> {
    let mut translator = Translator {
        chars: pattern.chars().collect(),
        at: 0,
        out: String::with_capacity(pattern.len() + 16),
        depth: 0,
        repeatable: false,
        repeated_from: None,
    };
    while translator.at < translator.chars.len() {
        translator.step()?;
    }
    if translator.depth > 0 {
        return Err(("missing closing )", pattern.to_owned()));
    }
    Ok(translator.out)
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    out: String,
    depth: u32,
    /// Whether something stands before that `*` could repeat.
    repeatable: bool,
    /// Where the repetition operator just read starts, if the last thing was one.
    repeated_from: Option<usize>,
}

impl Translator {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars[from..to.min(self.chars.len())].iter().collect()
    }

    fn step(&mut self) -> Result<(), Mistake> {
        let c = self.chars[self.at];
        if matches!(c, '*' | '+' | '?') {
            return self.repetition(self.at + 1);
        }
        if c == '{'
            && let Some(end) = self.braces()?
        {
            return self.repetition(end);
        }
        self.repeated_from = None;
        match c {
            '(' => return self.open(),
            ')' if self.depth == 0 => return Err(("unexpected )", self.text(0, self.chars.len()))),
            ')' => self.depth -= 1,
            '|' => {
                self.out.push('|');
                self.at += 1;
                self.repeatable = false;
                return Ok(());
            }
            '[' => {
                self.class()?;
                self.repeatable = true;
                return Ok(());
            }
            '\\' => {
                self.escape()?;
                self.repeatable = true;
                return Ok(());
            }
            _ => {}
        }
        if c == '{' || c == '}' || c == ']' {
            self.out.push('\\');
        }
        self.out.push(c);
        self.at += 1;
        self.repeatable = true;
        Ok(())
    }

    fn repetition(&mut self, mut end: usize) -> Result<(), Mistake> {
        let start = self.at;
        if self.chars.get(end) == Some(&'?') {
            end += 1;
        }
        if let Some(from) = self.repeated_from {
            return Err(("invalid nested repetition operator", self.text(from, end)));
        }
        if !self.repeatable {
            return Err(("missing argument to repetition operator", self.text(start, end)));
        }
        let operator = self.text(start, end);
        self.out.push_str(&operator);
        self.repeated_from = Some(start);
        self.at = end;
        Ok(())
    }

    /// Where `{n}`, `{n,}` or `{n,m}` ends, if that is what starts here.
    fn braces(&self) -> Result<Option<usize>, Mistake> {
        let Some(length) = self.chars[self.at..].iter().position(|c| *c == '}') else { return Ok(None) };
        let inside = self.text(self.at + 1, self.at + length);
        let (low, high) = inside.split_once(',').map_or((inside.as_str(), None), |(low, high)| (low, Some(high)));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(low) || high.is_some_and(|high| !high.is_empty() && !is_number(high)) {
            return Ok(None);
        }
        let value = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let low = value(low);
        let high = high.filter(|high| !high.is_empty()).map_or(low, value);
        let end = self.at + length + 1;
        if low > REPEAT_MAX || high > REPEAT_MAX || low > high {
            return Err(("invalid repeat count", self.text(self.at, end)));
        }
        Ok(Some(end))
    }

    fn open(&mut self) -> Result<(), Mistake> {
        if self.peek(1) != Some('?') {
            self.out.push('(');
            self.at += 1;
            self.depth += 1;
            self.repeatable = false;
            return Ok(());
        }
        let named = if self.peek(2) == Some('P') && self.peek(3) == Some('<') { Some(4) } else { None };
        if let Some(skip) = named.or((self.peek(2) == Some('<')).then_some(3)) {
            return self.named_group(skip);
        }
        let mut end = self.at + 2;
        while matches!(self.chars.get(end), Some('i' | 'm' | 's' | 'U' | '-')) {
            end += 1;
        }
        let flags = self.text(self.at + 2, end);
        let closing = self.chars.get(end).copied();
        let fits =
            flags.matches('-').count() <= 1 && !flags.ends_with('-') && !(flags.is_empty() && closing == Some(')'));
        match closing {
            Some(c @ (':' | ')')) if fits => {
                let _ = write!(self.out, "(?{flags}{c}");
                self.depth += u32::from(c == ':');
            }
            _ => return Err(("invalid or unsupported Perl syntax", self.text(self.at, end + 1))),
        }
        self.at = end + 1;
        self.repeatable = false;
        Ok(())
    }

    fn named_group(&mut self, skip: usize) -> Result<(), Mistake> {
        let length = self.chars[self.at..].iter().position(|c| *c == '>');
        let name = length.map(|length| self.text(self.at + skip, self.at + length));
        let fits = |name: &String| !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        match (length, name) {
            (Some(length), Some(name)) if fits(&name) => {
                // Nothing asks for captures, and names may repeat in this syntax.
                self.out.push('(');
                self.at += length + 1;
                self.depth += 1;
                self.repeatable = false;
                Ok(())
            }
            (Some(length), _) => Err(("invalid named capture", self.text(self.at, self.at + length + 1))),
            (None, _) => Err(("invalid named capture", self.text(self.at, self.chars.len()))),
        }
    }

    fn escape(&mut self) -> Result<(), Mistake> {
        let Some(c) = self.peek(1) else { return Err(("trailing backslash at end of expression", String::new())) };
        let ascii = match c {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => r"[\t\n\f\r ]",
            'S' => r"[^\t\n\f\r ]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            'b' => r"(?-u:\b)",
            'B' => r"\B",
            'A' => r"\A",
            'z' => r"\z",
            _ => "",
        };
        if !ascii.is_empty() {
            self.out.push_str(ascii);
            self.at += 2;
            return Ok(());
        }
        if c == 'Q' {
            self.quoted();
            return Ok(());
        }
        if matches!(c, 'p' | 'P') {
            return self.unicode_class();
        }
        let literal = self.escaped_char()?;
        self.out.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
        Ok(())
    }

    fn quoted(&mut self) {
        self.at += 2;
        while let Some(c) = self.peek(0) {
            if c == '\\' && self.peek(1) == Some('E') {
                self.at += 2;
                break;
            }
            self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
            self.at += 1;
        }
    }

    /// `\pL`, `\p{Greek}`, `\P{^Greek}`.
    fn unicode_class(&mut self) -> Result<(), Mistake> {
        let end = match self.peek(2) {
            Some('{') => self.chars[self.at..].iter().position(|c| *c == '}').map(|length| self.at + length + 1),
            Some(_) => Some(self.at + 3),
            None => None,
        };
        let bad = |text: String| ("invalid character class range", text);
        let Some(end) = end else { return Err(bad(self.text(self.at, self.chars.len()))) };
        let class = self.text(self.at, end);
        if Regex::new(&class).is_err() {
            return Err(bad(class));
        }
        self.out.push_str(&class);
        self.at = end;
        Ok(())
    }

    /// The character that an escape stands for; inside and outside of classes alike.
    fn escaped_char(&mut self) -> Result<char, Mistake> {
        let start = self.at;
        let Some(c) = self.peek(1) else { return Err(("trailing backslash at end of expression", String::new())) };
        self.at += 2;
        let invalid = |end: usize, this: &Self| ("invalid escape sequence", this.text(start, end));
        let digits = |this: &Self, max: usize, radix: u32| {
            this.chars[this.at..].iter().take(max).take_while(|c| c.is_digit(radix)).collect::<String>()
        };
        match c {
            'a' => Ok('\u{7}'),
            'f' => Ok('\u{c}'),
            't' => Ok('\t'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            'v' => Ok('\u{b}'),
            // One digit other than zero would be a reference to a group, which this syntax does not have.
            '1'..='7' if !matches!(self.peek(0), Some('0'..='7')) => Err(invalid(self.at, self)),
            '0'..='7' => {
                let more = digits(self, 2, 8);
                self.at += more.len();
                let code = u32::from_str_radix(&format!("{c}{more}"), 8).unwrap_or_default();
                Ok(char::from_u32(code).unwrap_or_default())
            }
            'x' => {
                let braced = self.peek(0) == Some('{');
                self.at += usize::from(braced);
                let hexadecimal = digits(self, if braced { 6 } else { 2 }, 16);
                self.at += hexadecimal.len();
                let closed = !braced || self.peek(0) == Some('}');
                self.at += usize::from(braced && closed);
                let code = u32::from_str_radix(&hexadecimal, 16).ok().and_then(char::from_u32);
                code.filter(|_| closed && (braced || hexadecimal.len() == 2)).ok_or_else(|| invalid(self.at, self))
            }
            c if c.is_ascii_punctuation() || c == ' ' => Ok(c),
            _ => Err(invalid(self.at, self)),
        }
    }

    fn class(&mut self) -> Result<(), Mistake> {
        let start = self.at;
        let unclosed = |this: &Self| ("missing closing ]", this.text(start, this.chars.len()));
        self.at += 1;
        self.out.push('[');
        if self.peek(0) == Some('^') {
            self.out.push('^');
            self.at += 1;
        }
        let mut first = true;
        loop {
            match self.peek(0) {
                None => return Err(unclosed(self)),
                Some(']') if !first => break,
                _ => self.class_item(start)?,
            }
            first = false;
        }
        self.out.push(']');
        self.at += 1;
        Ok(())
    }

    fn class_item(&mut self, class_start: usize) -> Result<(), Mistake> {
        if self.peek(0) == Some('[') && self.peek(1) == Some(':') {
            let rest = self.text(self.at, self.chars.len());
            if let Some(length) = rest.find(":]") {
                let named = &rest[..length + 2];
                let name = rest[2..length].trim_start_matches('^');
                if !ASCII_CLASSES.contains(&name) {
                    return Err(("invalid character class range", named.to_owned()));
                }
                self.out.push_str(named);
                self.at += named.chars().count();
                return Ok(());
            }
        }
        if self.peek(0) == Some('\\') {
            let class = match self.peek(1) {
                Some('d') => "0-9",
                Some('D') => "[^0-9]",
                Some('s') => r"\t\n\f\r ",
                Some('S') => r"[^\t\n\f\r ]",
                Some('w') => "0-9A-Za-z_",
                Some('W') => "[^0-9A-Za-z_]",
                Some('p' | 'P') => return self.unicode_class(),
                _ => "",
            };
            if !class.is_empty() {
                self.out.push_str(class);
                self.at += 2;
                return Ok(());
            }
        }
        let range_start = self.at;
        let low = self.class_char(class_start)?;
        push_class_char(&mut self.out, low);
        if self.peek(0) == Some('-') && !matches!(self.peek(1), None | Some(']')) {
            self.at += 1;
            let high = self.class_char(class_start)?;
            if high < low {
                return Err(("invalid character class range", self.text(range_start, self.at)));
            }
            self.out.push('-');
            push_class_char(&mut self.out, high);
        }
        Ok(())
    }

    fn class_char(&mut self, class_start: usize) -> Result<char, Mistake> {
        match self.peek(0) {
            None => Err(("missing closing ]", self.text(class_start, self.chars.len()))),
            Some('\\') => self.escaped_char(),
            Some(c) => {
                self.at += 1;
                Ok(c)
            }
        }
    }
}

/// Escapes what means something inside a class of the `regex` crate.
fn push_class_char(out: &mut String, c: char) {
    if matches!(c, '[' | ']' | '^' | '\\' | '-' | '&' | '~') {
        out.push('\\');
    }
    out.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_real_server() {
        let check = |pattern: &str, matching: &[&str], others: &[&str]| {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            for text in matching {
                assert!(regex.is_match(text), "{pattern} {text}");
            }
            for text in others {
                assert!(!regex.is_match(text), "{pattern} {text}");
            }
        };
        check(r"^\d+$", &["123"], &["१२३", "a"]);
        check(r"^[\d.-]+$", &["1.-2"], &["a"]);
        check(r"^\w+\s\W$", &["ab_1 !"], &["é !"]);
        check(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", &["a-b"], &["-a"]);
        check(r"^[[]$", &["["], &["]"]);
        check(r"^[]a]$", &["]", "a"], &["b"]);
        check(r"^[^]]$", &["a"], &["]"]);
        check(r"^[a&&b~~c]+$", &["a&b~"], &["d"]);
        check(r"^[+--]$", &["+", ",", "-"], &["."]);
        check(r"^[[:alpha:]_]+$", &["ab_"], &["1"]);
        check(r"^\Qa.b\E$", &["a.b"], &["axb"]);
        check(r"^a\<b\>$", &["a<b>"], &["ab"]);
        check(r"^a{,2}$", &["a{,2}"], &["aa"]);
        check(r"^a{2,3}?$", &["aa", "aaa"], &["a"]);
        check(r"(?i)^abc$", &["ABC"], &["abd"]);
        check(r"(?i:a)b", &["Ab"], &["AB"]);
        check(r"^(?P<x>a)(?<y>b)(?P<x>c)$", &["abc"], &["a"]);
        check(r"^\x41\x{42}\103$", &["ABC"], &["abc"]);
        check(r"\bfoo\b", &["a foo b"], &["afoo"]);
        check(r"^\p{Greek}\pL$", &["αβ"], &["ab"]);
        check(r"^.$", &["é"], &["\n", ""]);
        check(r"a$", &["a"], &["a\n"]);
        check("^x-[a-z/-]*$", &["x-a/-"], &["x-A"]);
    }

    #[test]
    fn mistakes_have_the_real_words() {
        let check = |pattern: &str, expected: &str| {
            let error = compile(pattern).expect_err(pattern);
            assert_eq!(error, format!("error parsing regexp: {expected}"), "{pattern}");
        };
        check("[", "missing closing ]: `[`");
        check("a[b-", "missing closing ]: `[b-`");
        check("(a", "missing closing ): `(a`");
        check("a)", "unexpected ): `a)`");
        check("*", "missing argument to repetition operator: `*`");
        check("a|*", "missing argument to repetition operator: `*`");
        check("(+)", "missing argument to repetition operator: `+`");
        check("a**", "invalid nested repetition operator: `**`");
        check("a{2}{3}", "invalid nested repetition operator: `{2}{3}`");
        check("a{1001}", "invalid repeat count: `{1001}`");
        check("a{3,2}", "invalid repeat count: `{3,2}`");
        check(r"\y", r"invalid escape sequence: `\y`");
        check(r"(a)\1", r"invalid escape sequence: `\1`");
        check("a\\", "trailing backslash at end of expression: ``");
        check("(?=a)", "invalid or unsupported Perl syntax: `(?=`");
        check("(?i", "invalid or unsupported Perl syntax: `(?i`");
        check("(?!a)", "invalid or unsupported Perl syntax: `(?!`");
        check("(?<=a)", "invalid named capture: `(?<=a)`");
        check("[z-a]", "invalid character class range: `z-a`");
        check(r"\p{Nope}", r"invalid character class range: `\p{Nope}`");
        check("[[:nope:]]", "invalid character class range: `[:nope:]`");
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in r"[\[\]()a-c*+?{}0-9,|\\^$:<>P!=.-]{0,24}") {
            let _ = compile(&pattern);
        }
    }
}
