//! Columns for people: capitals in the header, three spaces between, as wide as the widest cell so far.
//!
//! Reads the `Table` that the API makes for `kubectl get`, so that every kind is shown by its own columns; what the API
//! has no table for is built in the same form.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const GAP: usize = 3;

/// Which columns to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Also the columns that the API marks as less important.
    pub wide: bool,
    /// The namespace first, for lists over all of them.
    pub namespace: bool,
}

/// Lays out the rows of one list and of the changes that follow it.
#[derive(Debug)]
pub struct Layout {
    view: View,
    /// Index in the cells of a row, and the header.
    columns: Vec<(usize, String)>,
    widths: Vec<usize>,
}

impl Layout {
    pub fn new(view: View) -> Self {
        Self { view, columns: Vec::new(), widths: Vec::new() }
    }

    /// Lays out a `Table`. The header is written once; an empty table gives nothing.
    pub fn render(&mut self, table: &Value) -> Vec<String> {
        let mut rows = Vec::new();
        if self.columns.is_empty() {
            self.columns = columns(table, self.view.wide);
        }
        let items = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
        if self.widths.is_empty() && !items.is_empty() {
            rows.push(self.header());
        }
        rows.extend(items.iter().map(|row| self.cells(row)));
        for row in &rows {
            self.widen(row);
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn header(&self) -> Vec<String> {
        let namespace = self.view.namespace.then(|| "NAMESPACE".to_owned());
        namespace.into_iter().chain(self.columns.iter().map(|(_, name)| name.to_uppercase())).collect()
    }

    fn cells(&self, row: &Value) -> Vec<String> {
        let namespace = row["object"]["metadata"]["namespace"].as_str().unwrap_or_default();
        let namespace = self.view.namespace.then(|| namespace.to_owned());
        namespace.into_iter().chain(self.columns.iter().map(|(index, _)| cell(&row["cells"][index]))).collect()
    }

    fn widen(&mut self, row: &[String]) {
        self.widths.resize(self.widths.len().max(row.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&self.widths) {
            let _ = write!(line, "{cell:<width$}", width = width + GAP);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// A row of a table of our own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub namespace: String,
    pub cells: Vec<String>,
}

/// Builds a `Table` of our own, with columns that are always shown and some that are shown if it is wide.
pub fn build(always: &[&str], if_wide: &[&str], rows: &[Row]) -> Value {
    let always = always.iter().map(|name| json!({"name": name, "priority": 0}));
    let if_wide = if_wide.iter().map(|name| json!({"name": name, "priority": 1}));
    let row = |row: &Row| json!({"cells": row.cells, "object": {"metadata": {"namespace": row.namespace}}});
    let columns: Vec<Value> = always.chain(if_wide).collect();
    json!({"columnDefinitions": columns, "rows": rows.iter().map(row).collect::<Vec<_>>()})
}

/// Lays out a table of our own that is shown once.
pub fn render(columns: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    let rows: Vec<Row> = rows.into_iter().map(|cells| Row { namespace: String::new(), cells }).collect();
    Layout::new(View { wide: false, namespace: false }).render(&build(columns, &[], &rows))
}

fn columns(table: &Value, wide: bool) -> Vec<(usize, String)> {
    let definitions = table["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
    let shown =
        definitions.iter().enumerate().filter(|(_, column)| wide || column["priority"].as_i64().unwrap_or(0) == 0);
    shown.map(|(index, column)| (index, column["name"].as_str().unwrap_or_default().to_owned())).collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // A cell with line breaks or control characters would break the columns, or worse, the terminal.
        Value::String(text) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        other => other.to_string(),
    }
}

/// Says how long something has lasted, as kubectl does: `42s`, `5m`, `3h`, `12d`.
pub fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Says how long ago something was; nothing if it is not known.
pub fn age_since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map(|then| age(now.duration_since(then))).unwrap_or_default()
}

/// A span of time as arena writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub SignedDuration);

impl Span {
    pub fn between(then: Option<Timestamp>, now: Timestamp) -> Self {
        Self(then.map_or(SignedDuration::ZERO, |then| now.duration_since(then)))
    }

    /// Always in seconds, as in its JSON.
    pub fn seconds(self) -> String {
        format!("{}s", self.0.as_secs().max(0))
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_secs() {
            ..-1 => f.write_str("<invalid>"),
            -1 => f.write_str("0s"),
            seconds @ 0..60 => write!(f, "{seconds}s"),
            seconds @ 60..3_600 => write!(f, "{}m", seconds / 60),
            seconds @ 3_600..86_400 => write!(f, "{}h", seconds / 3_600),
            seconds @ 86_400..31_536_000 => write!(f, "{}d", seconds / 86_400),
            seconds => write!(f, "{}y", seconds / 31_536_000),
        }
    }
}

/// Lays out a table as arena does: two spaces between, and if it is so wanted an indent and dashes below the words.
pub fn arena(columns: &[&str], rows: Vec<Vec<String>>, dashed: bool) -> Vec<String> {
    let header = columns.iter().map(|name| (*name).to_owned()).collect();
    let dashes = dashed.then(|| columns.iter().map(|name| "-".repeat(name.chars().count())).collect());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(dashes).chain(rows).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| {
            let clean: String = cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{clean:<width$}  ", width = *width)
        });
        let text: String = padded.collect();
        format!("{}{}", if dashed { "  " } else { "" }, text.trim_end())
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Value {
        json!({
            "columnDefinitions": [
                { "name": "Name", "priority": 0 }, { "name": "Ready", "priority": 0 }, { "name": "Images", "priority": 1 },
            ],
            "rows": [
                { "cells": ["web", "0/3", "nginx"], "object": { "metadata": { "namespace": "demo" } } },
                { "cells": ["a-longer-name", 7, null], "object": { "metadata": { "namespace": "x" } } },
            ],
        })
    }

    fn check(name: &str, view: View, expected: &[&str]) {
        assert_eq!(Layout::new(view).render(&table()), expected, "{name}");
    }

    #[test]
    fn tables_are_laid_out() {
        let narrow = View { wide: false, namespace: false };
        check("plain", narrow, &["NAME            READY", "web             0/3", "a-longer-name   7"]);
        check(
            "wide shows all columns",
            View { wide: true, ..narrow },
            &["NAME            READY   IMAGES", "web             0/3     nginx", "a-longer-name   7"],
        );
        check(
            "the namespace comes first",
            View { namespace: true, ..narrow },
            &["NAMESPACE   NAME            READY", "demo        web             0/3", "x           a-longer-name   7"],
        );
    }

    #[test]
    fn changes_keep_the_columns_of_the_list() {
        let mut layout = Layout::new(View { wide: false, namespace: false });
        layout.render(&table());
        let change = json!({ "columnDefinitions": null, "rows": [{ "cells": ["web", "1/3\n\u{1b}[31m"] }] });
        assert_eq!(layout.render(&change), ["web             1/3  [31m"]);
    }

    #[test]
    fn an_empty_table_has_no_header_until_there_is_a_row() {
        let mut layout = Layout::new(View { wide: false, namespace: false });
        let mut empty = table();
        empty["rows"] = json!([]);
        assert_eq!(layout.render(&empty), [""; 0]);
        assert_eq!(layout.render(&table()).len(), 3);
    }

    #[test]
    fn our_own_tables_are_as_those_of_the_api() {
        let row = Row { namespace: "demo".to_owned(), cells: ["web", "7", "why"].map(str::to_owned).into() };
        let table = build(&["NAME", "SIZE"], &["MESSAGE"], &[row]);
        let wide = View { wide: true, namespace: true };
        let expected = ["NAMESPACE   NAME   SIZE   MESSAGE", "demo        web    7      why"];
        assert_eq!(Layout::new(wide).render(&table), expected);
        assert_eq!(render(&["NAME"], vec![vec!["web".to_owned()]]), ["NAME", "web"]);
    }

    #[test]
    fn spans_and_tables_of_arena_have_its_form() {
        let spans = [-5, -1, 13, 60, 3_599, 7_200, 172_800, 40_000_000];
        let spans = spans.map(|seconds| Span(SignedDuration::from_secs(seconds)).to_string());
        assert_eq!(spans, ["<invalid>", "0s", "13s", "1m", "59m", "2h", "2d", "1y"]);
        let rows = || vec![vec!["mnist-launcher".to_owned(), "Running".to_owned(), "a\nb".to_owned()]];
        let columns = ["NAME", "STATUS", "NODE"];
        let expected =
            ["  NAME            STATUS   NODE", "  ----            ------   ----", "  mnist-launcher  Running  a b"];
        assert_eq!(arena(&columns, rows(), true), expected);
        assert_eq!(arena(&columns, rows(), false), ["NAME            STATUS   NODE", "mnist-launcher  Running  a b"]);
    }

    #[test]
    fn ages_are_short() {
        let ages: Vec<String> =
            [-5, 0, 119, 120, 7_199, 7_200, 172_800].map(|s| age(SignedDuration::from_secs(s))).into();
        assert_eq!(ages, ["0s", "0s", "119s", "2m", "119m", "2h", "2d"]);
    }
}
