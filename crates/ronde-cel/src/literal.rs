//! Decodes the string and bytes literals of CEL: quotes, raw prefixes and escapes.

/// The value of a literal as it stands in the text, with quotes and prefix.
///
/// # Errors
/// The words of the real server for a bad escape.
pub(super) fn decode(text: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let body = if is_bytes { &text[1..] } else { text };
    let raw = body.starts_with(['r', 'R']);
    let body = if raw { &body[1..] } else { body };
    let quotes = if body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\"")) { 3 } else { 1 };
    let inner = body.get(quotes..body.len() - quotes).ok_or("unable to unescape string")?;
    if raw {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            escape(&mut chars, is_bytes, &mut out)?;
        } else {
            push(&mut out, c);
        }
    }
    Ok(out)
}

fn escape(chars: &mut std::str::Chars<'_>, is_bytes: bool, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let unable = "unable to unescape string";
    let code = chars.next().ok_or("unable to unescape string, found '\\' as last character")?;
    let (digits, radix, first) = match code {
        'x' | 'X' => (2, 16, 0),
        'u' if !is_bytes => (4, 16, 0),
        'U' if !is_bytes => (8, 16, 0),
        '0'..='3' => (2, 8, u32::from(code) - u32::from('0')),
        _ => {
            out.push(simple_escape(code).ok_or(unable)?);
            return Ok(());
        }
    };
    let failure = if radix == 8 { "unable to unescape octal sequence in string" } else { unable };
    let mut value = first;
    for _ in 0..digits {
        let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or(failure)?;
        value = value.checked_mul(radix).and_then(|v| v.checked_add(digit)).ok_or("invalid unicode code point")?;
    }
    if is_bytes {
        out.push(u8::try_from(value).map_err(|_| unable)?);
    } else {
        push(out, char::from_u32(value).ok_or("invalid unicode code point")?);
    }
    Ok(())
}

fn simple_escape(code: char) -> Option<u8> {
    Some(match code {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => u8::try_from(code).ok()?,
        _ => return None,
    })
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_decode() {
        let string = |text: &str, expected: &str| {
            assert_eq!(decode(text, false).as_deref(), Ok(expected.as_bytes()), "{text}");
        };
        string(r"'a'", "a");
        string(r#""a'b""#, "a'b");
        string(r"'\n\t\\\''", "\n\t\\'");
        string(r"r'\d+'", r"\d+");
        string("'''a'b'''", "a'b");
        string(r"'\u00e9\x41\101'", "éAA");
        string("''", "");
        assert_eq!(decode(r"b'\xff\101é'", true).as_deref(), Ok(&[0xff, 0x41, 0xc3, 0xa9][..]));
        let error = |text: &str, expected: &'static str| assert_eq!(decode(text, false), Err(expected), "{text}");
        error(r"'\d'", "unable to unescape string");
        error(r"'\ud800'", "invalid unicode code point");
        error(r"'\09'", "unable to unescape octal sequence in string");
    }
}
