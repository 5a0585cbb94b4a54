//! What a table says about a column, and the columns that most kinds share.
//!
//! Names, types, formats and priorities are the real server's, because clients act on those. The descriptions are our
//! own, shorter words, since no client shows them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::{
    age,
    field::{name, text},
};

pub(super) const META_V1: &str = "meta.k8s.io/v1";
pub(super) const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

const NAME_DESCRIPTION: &str = "The name of the object.";
pub(super) const CREATED_DESCRIPTION: &str = "When the object was created.";

/// One entry of `columnDefinitions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: Cow<'static, str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub cell_type: Cow<'static, str>,
    /// `name` for the column with the object's name, else mostly empty.
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// Above zero: shown only on `kubectl get -o wide`.
    pub priority: i64,
}

pub(super) const NAME: Column = name_column(0);
/// The name in the table of a scale, which the real server does not mark as such.
pub(super) const UNMARKED_NAME: Column = text_column("Name", NAME_DESCRIPTION);
pub(super) const AGE: Column = text_column("Age", CREATED_DESCRIPTION);
pub(super) const CONTAINERS: Column = wide_column("Containers", "The names of the containers in the pod template.");
pub(super) const IMAGES: Column = wide_column("Images", "The images of the containers in the pod template.");

/// The columns of a kind without columns of its own.
pub(super) static DEFAULT: [Column; 2] = [NAME, column("Created At", "date", 0, CREATED_DESCRIPTION)];

/// The cells of [`DEFAULT`].
pub(super) fn default_cells(object: &Value) -> Vec<Value> {
    let created = text(&object["metadata"]["creationTimestamp"]);
    let created = if created.is_empty() { age::ZERO_TIME } else { created };
    vec![name(object).into(), created.into()]
}

pub(super) const fn name_column(priority: i64) -> Column {
    Column {
        name: Cow::Borrowed("Name"),
        cell_type: Cow::Borrowed("string"),
        format: Cow::Borrowed("name"),
        description: Cow::Borrowed(NAME_DESCRIPTION),
        priority,
    }
}

pub(super) const fn text_column(name: &'static str, description: &'static str) -> Column {
    column(name, "string", 0, description)
}

pub(super) const fn wide_column(name: &'static str, description: &'static str) -> Column {
    column(name, "string", 1, description)
}

pub(super) const fn integer_column(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", 0, description)
}

pub(super) const fn column(
    name: &'static str,
    cell_type: &'static str,
    priority: i64,
    description: &'static str,
) -> Column {
    Column {
        name: Cow::Borrowed(name),
        cell_type: Cow::Borrowed(cell_type),
        format: Cow::Borrowed(""),
        description: Cow::Borrowed(description),
        priority,
    }
}
