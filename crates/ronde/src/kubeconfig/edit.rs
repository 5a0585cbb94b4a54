//! Changes one thing in the text of a kubeconfig and keeps every other byte: comments, order, quoting, line ends.
//!
//! Block style (what kubectl writes) is edited by whole lines, flow style (JSON) between the brackets. What it cannot
//! edit that way it gives back as [`Uneditable`]; the caller compares the meaning before and after, so a slip
//! here is refused and never written.

use std::ops::Range;

use serde_json::Value;
use serde_saphyr::granit_parser::StructureStyle;

use super::tree::{self, Content, Node};

/// The text is valid, but written in a way that cannot be edited in place.
#[derive(Debug, PartialEq, Eq)]
pub struct Uneditable;

/// Appends `entry` to the list under the top-level key `section`; adds the key when it is missing.
pub fn append_entry(text: &str, section: &str, entry: &Value) -> Result<String, Uneditable> {
    let root = root(text)?;
    let Some((key, list)) = root.find(section) else {
        return append_key(text, &root, section, &Value::Array(vec![entry.clone()]));
    };
    match &list.content {
        Content::Sequence { style: StructureStyle::Flow, items } => {
            let at = items.last().map_or(list.start + 1, |last| last.end);
            let comma = if items.is_empty() { "" } else { ", " };
            Ok(insert(text, at, &format!("{comma}{entry}")))
        }
        Content::Sequence { style: StructureStyle::Block, items } => {
            let indent = items.iter().find_map(|item| dash(text, item)).map(|dash| column(text, dash));
            let lines = block_item(entry, indent.ok_or(Uneditable)?);
            Ok(insert_lines(text, list.end, &lines))
        }
        Content::Scalar(_) if in_block(&root) => {
            let lines = block_item(entry, column(text, key.start));
            let emptied = replace(text, value_with_space(text, key, list)?, "");
            Ok(insert_lines(&emptied, key.end, &lines))
        }
        _ => Err(Uneditable),
    }
}

/// Removes the entry at `index` of the list under `section`. A block list that becomes empty is written `null`,
/// as kubectl does.
pub fn remove_entry(text: &str, section: &str, index: usize) -> Result<String, Uneditable> {
    let root = root(text)?;
    let (key, list) = root.find(section).ok_or(Uneditable)?;
    let Content::Sequence { style, items } = &list.content else { return Err(Uneditable) };
    let item = items.get(index).ok_or(Uneditable)?;
    if *style == StructureStyle::Flow {
        let spans: Vec<Range<usize>> = items.iter().map(|item| item.start..item.end).collect();
        return Ok(replace(text, flow_part(&spans, index), ""));
    }
    let start = line_start(text, dash(text, item).ok_or(Uneditable)?);
    let without = replace(text, start..line_end(text, item.end), "");
    if items.len() > 1 {
        return Ok(without);
    }
    Ok(insert(&without, colon(text, key)? + 1, " null"))
}

/// Sets the top-level `key` to a string, or removes it.
pub fn set_key(text: &str, key: &str, value: Option<&str>) -> Result<String, Uneditable> {
    let root = root(text)?;
    match (root.find(key), value) {
        (None, None) => Ok(text.to_owned()),
        (None, Some(value)) => append_key(text, &root, key, &Value::String(value.to_owned())),
        (Some((key, old)), Some(value)) => {
            let new = if in_block(&root) { scalar(value) } else { Value::String(value.to_owned()).to_string() };
            Ok(replace(text, value_with_space(text, key, old)?, &format!(" {new}")))
        }
        (Some(_), None) => remove_key(text, &root, key),
    }
}

fn root(text: &str) -> Result<Node, Uneditable> {
    tree::parse(text).ok().flatten().ok_or(Uneditable)
}

fn in_block(root: &Node) -> bool {
    matches!(root.content, Content::Mapping { style: StructureStyle::Block, .. })
}

fn append_key(text: &str, root: &Node, key: &str, value: &Value) -> Result<String, Uneditable> {
    let Content::Mapping { style, pairs } = &root.content else { return Err(Uneditable) };
    if *style == StructureStyle::Flow {
        let at = pairs.last().map_or(root.start + 1, |(_, value)| value.end);
        let comma = if pairs.is_empty() { "" } else { ", " };
        return Ok(insert(text, at, &format!("{comma}{}: {value}", Value::String(key.to_owned()))));
    }
    let mut lines = Vec::new();
    block_pair(key, value, column(text, root.start), &mut lines);
    Ok(insert_lines(text, root.end, &lines))
}

fn remove_key(text: &str, root: &Node, key: &str) -> Result<String, Uneditable> {
    let Content::Mapping { style, pairs } = &root.content else { return Err(Uneditable) };
    let spans: Vec<Range<usize>> = pairs.iter().map(|(k, v)| k.start..v.end.max(k.end)).collect();
    let (name, _) = root.find(key).ok_or(Uneditable)?;
    let index = spans.iter().position(|span| span.start == name.start).ok_or(Uneditable)?;
    if *style == StructureStyle::Flow {
        return Ok(replace(text, flow_part(&spans, index), ""));
    }
    Ok(replace(text, line_start(text, name.start)..line_end(text, spans[index].end), ""))
}

/// Returns the bytes to cut so that one of several comma-separated parts goes, with one comma.
fn flow_part(spans: &[Range<usize>], index: usize) -> Range<usize> {
    match (index, spans.get(index + 1)) {
        (0, None) => spans[0].clone(),
        (0, Some(next)) => spans[0].start..next.start,
        _ => spans[index - 1].end..spans[index].end,
    }
}

/// Returns where the value of `key` stands, with the blanks between the colon and it.
fn value_with_space(text: &str, key: &Node, value: &Node) -> Result<Range<usize>, Uneditable> {
    let start = colon(text, key)? + 1;
    // The span of an absent value is empty and lies before the colon.
    let end = value.end.max(start);
    let between = &text[start..value.start.max(start)];
    if between.chars().all(|c| c == ' ') { Ok(start..end) } else { Err(Uneditable) }
}

fn colon(text: &str, key: &Node) -> Result<usize, Uneditable> {
    let rest = &text[key.end..];
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    if rest[blanks..].starts_with(':') { Ok(key.end + blanks) } else { Err(Uneditable) }
}

/// Returns where the dash of a block item stands, when nothing but white space is between them.
fn dash(text: &str, item: &Node) -> Option<usize> {
    let before = text[..item.start].trim_end();
    let at = before.strip_suffix('-')?.len();
    text[line_start(text, at)..at].chars().all(|c| c == ' ').then_some(at)
}

fn column(text: &str, at: usize) -> usize {
    at - line_start(text, at)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the byte after the line end that follows `at`, or the end of the text.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

fn insert(text: &str, at: usize, new: &str) -> String {
    replace(text, at..at, new)
}

fn replace(text: &str, range: Range<usize>, new: &str) -> String {
    let mut out = String::with_capacity(text.len() + new.len());
    out.push_str(&text[..range.start]);
    out.push_str(new);
    out.push_str(&text[range.end..]);
    out
}

/// Inserts whole lines below the line that holds `at`, with the line ends the text already uses.
fn insert_lines(text: &str, at: usize, lines: &[String]) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let at = line_end(text, at);
    let mut new = String::new();
    if !text[..at].ends_with('\n') {
        new.push_str(newline);
    }
    for line in lines {
        new.push_str(line);
        new.push_str(newline);
    }
    insert(text, at, &new)
}

/// Renders a value as the lines of a block list item whose dash is at column `indent`.
fn block_item(value: &Value, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    block_value(value, indent + 2, &mut lines);
    if let Some(first) = lines.first_mut() {
        first.replace_range(indent..=indent, "-");
    }
    lines
}

fn block_pair(key: &str, value: &Value, indent: usize, lines: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            lines.push(format!("{pad}{}:", scalar(key)));
            block_value(value, indent + 2, lines);
        }
        Value::Array(items) if !items.is_empty() => {
            lines.push(format!("{pad}{}:", scalar(key)));
            lines.extend(items.iter().flat_map(|item| block_item(item, indent)));
        }
        Value::String(text) => lines.push(format!("{pad}{}: {}", scalar(key), scalar(text))),
        other => lines.push(format!("{pad}{}: {other}", scalar(key))),
    }
}

fn block_value(value: &Value, indent: usize, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                block_pair(key, value, indent, lines);
            }
        }
        Value::String(text) => lines.push(format!("{}{}", " ".repeat(indent), scalar(text))),
        other => lines.push(format!("{}{other}", " ".repeat(indent))),
    }
}

/// Writes a string plainly when no YAML reader could take it for anything else, quoted otherwise.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_alphanumeric() || "-_./:+=@".contains(c))
        && !text.ends_with(':')
        && !["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}
