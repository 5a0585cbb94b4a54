//! Where in an object a rule looks: a chain of borrowed segments that becomes text only when there is an error.
//!
//! Used by every validation of this folder. Validation is on the path of every write and nearly always finds nothing,
//! so that a path costs no allocation until it is shown.

use std::fmt;

/// A place in an object, as in `spec.containers[0].image` or `metadata.labels[app]`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// Returns a path of one field, or of several with dots in between.
    pub const fn new(field: &'a str) -> Self {
        Self { parent: None, segment: Segment::Field(field) }
    }

    /// Returns the place of a field in the object here.
    #[must_use]
    pub const fn child(&'a self, field: &'a str) -> Self {
        Self { parent: Some(self), segment: Segment::Field(field) }
    }

    /// Returns the place of an item in the list here.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), segment: Segment::Index(index) }
    }

    /// Returns the place of a key of a map, shown in brackets.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), segment: Segment::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Field(field) if self.parent.is_none() => f.write_str(field),
            Segment::Field(field) => write!(f, ".{field}"),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn a_path_reads_like_the_real_server_writes_it() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        assert_eq!(containers.index(0).child("image").to_string(), "spec.containers[0].image");
        assert_eq!(Path::new("metadata").child("labels").key("a.b/c").to_string(), "metadata.labels[a.b/c]");
    }
}
