//! Repairs texts inside a JSON document as the real server does: what is not UTF-8 there is no reason to refuse it.

/// Returns the document with U+FFFD for what is not UTF-8 and for escapes of half surrogate pairs.
pub(super) fn with_clean_texts(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        clean.push_str(before);
        let length = match escape_code(escape) {
            Some(0xd800..=0xdbff) if matches!(escape.get(6..).and_then(escape_code), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                clean.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        clean.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    clean.push_str(rest);
    clean
}

/// The code unit of a text that starts with `\uXXXX`.
fn escape_code(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}
