//! A YAML document as a tree that remembers where each node stands in the text.
//!
//! Built for [`super::edit`], which changes a few bytes of a kubeconfig and leaves all others alone. It resolves
//! neither tags nor aliases: the meaning of the document is read elsewhere, with a real YAML deserializer.

use serde_saphyr::granit_parser::{Event, Parser, ScanError, Span, StructureStyle};

/// A node and the bytes it covers: `start..end`, without the white space and comments around it.
#[derive(Debug)]
pub struct Node {
    pub start: usize,
    pub end: usize,
    pub content: Content,
}

/// What a node is.
#[derive(Debug)]
pub enum Content {
    Scalar(String),
    Alias,
    Sequence { style: StructureStyle, items: Vec<Node> },
    Mapping { style: StructureStyle, pairs: Vec<(Node, Node)> },
}

/// Why a text is not one YAML document.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    #[error("it holds more than one YAML document")]
    ManyDocuments,
}

impl Node {
    /// Returns the key node and the value of `key`, when this is a mapping that has it.
    pub fn find(&self, key: &str) -> Option<(&Self, &Self)> {
        let Content::Mapping { pairs, .. } = &self.content else { return None };
        pairs.iter().map(|(k, v)| (k, v)).find(|(k, _)| k.is_scalar(key))
    }

    fn is_scalar(&self, text: &str) -> bool {
        matches!(&self.content, Content::Scalar(own) if own == text)
    }
}

/// Parses a text; an empty one, or one of comments only, has no root.
pub fn parse(text: &str) -> Result<Option<Node>, TreeError> {
    let mut builder = Builder { text, open: Vec::new(), root: None };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        builder.take(event, &span)?;
    }
    Ok(builder.root)
}

fn syntax(error: &ScanError) -> TreeError {
    let marker = error.marker();
    TreeError::Syntax { line: marker.line(), column: marker.col() + 1, message: error.info() }
}

/// Collections that have begun and not ended yet, outermost first.
struct Builder<'t> {
    text: &'t str,
    open: Vec<Open>,
    root: Option<Node>,
}

struct Open {
    start: usize,
    style: StructureStyle,
    children: Children,
}

enum Children {
    Items(Vec<Node>),
    Pairs(Vec<(Node, Node)>, Option<Node>),
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), TreeError> {
        let bytes = span.byte_range().expect("a parser over a string knows byte offsets");
        match event {
            Event::DocumentStart(..) if self.root.is_some() => return Err(TreeError::ManyDocuments),
            Event::Scalar(value, ..) => {
                // A block scalar's span runs on to the next token, over blank lines.
                let end = bytes.start + self.text[bytes.clone()].trim_end().len();
                self.close(Node { start: bytes.start, end, content: Content::Scalar(value.into_owned()) });
            }
            Event::Alias(_) => {
                self.close(Node { start: bytes.start, end: bytes.end, content: Content::Alias });
            }
            Event::SequenceStart(style, ..) => {
                self.open.push(Open { start: bytes.start, style, children: Children::Items(Vec::new()) });
            }
            Event::MappingStart(style, ..) => {
                self.open.push(Open { start: bytes.start, style, children: Children::Pairs(Vec::new(), None) });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop().expect("the parser pairs the ends with the starts");
                self.close(open.into_node(bytes.end));
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, node: Node) {
        match self.open.last_mut().map(|open| &mut open.children) {
            None => self.root = Some(node),
            Some(Children::Items(items)) => items.push(node),
            Some(Children::Pairs(pairs, key)) => match key.take() {
                None => *key = Some(node),
                Some(key) => pairs.push((key, node)),
            },
        }
    }
}

impl Open {
    /// `closed_at` is where the closing bracket ends; a block collection has none and ends with its last child.
    fn into_node(self, closed_at: usize) -> Node {
        let (start, style) = (self.start, self.style);
        let (last, content) = match self.children {
            Children::Items(items) => (items.last().map(|n| n.end), Content::Sequence { style, items }),
            Children::Pairs(pairs, _) => {
                // An empty value is placed before its colon, so the key may end later.
                (pairs.last().map(|(k, v)| k.end.max(v.end)), Content::Mapping { style, pairs })
            }
        };
        let end = if style == StructureStyle::Flow { closed_at } else { last.unwrap_or(start) };
        Node { start, end, content }
    }
}
