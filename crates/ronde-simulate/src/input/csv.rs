//! Tables in text: a header with the names of the columns, and rows, separated by commas; fields may be quoted.

use std::collections::BTreeMap;

use super::InputError;

/// A table; rows keep the number of their line.
pub struct Table {
    columns: BTreeMap<String, usize>,
    rows: Vec<(usize, Vec<String>)>,
}

/// A row with the names of its columns.
pub struct Row<'a> {
    columns: &'a BTreeMap<String, usize>,
    pub line: usize,
    fields: &'a [String],
}

impl Table {
    /// Reads a table whose first line has the names of its columns.
    pub fn read(text: &str) -> Result<Self, InputError> {
        let mut rows = records(text)?;
        let header = if rows.is_empty() { Vec::new() } else { rows.remove(0).1 };
        Ok(Self::new(header, rows))
    }

    /// Reads a table without such a line.
    pub fn read_as(columns: &[&str], text: &str) -> Result<Self, InputError> {
        Ok(Self::new(columns.iter().map(|name| (*name).to_owned()).collect(), records(text)?))
    }

    fn new(header: Vec<String>, rows: Vec<(usize, Vec<String>)>) -> Self {
        let columns = header.into_iter().enumerate().map(|(number, name)| (name, number)).collect();
        Self { columns, rows }
    }

    pub fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, fields)| Row { columns: &self.columns, line: *line, fields })
    }
}

impl Row<'_> {
    /// Returns a field, which is empty if the row has none there.
    pub fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|number| self.fields.get(*number)).map_or("", String::as_str)
    }

    /// Returns a number rounded to the next integer above; what is empty is 0.
    pub fn integer(&self, column: &str) -> Result<i64, InputError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(0);
        }
        let number: f64 = text.parse().map_err(|_| self.wrong(format!("{column} {text:?} is no number")))?;
        #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused")]
        let whole = number.ceil() as i64;
        if number.abs() < 9e15 { Ok(whole) } else { Err(self.wrong(format!("{column} {text:?} is out of range"))) }
    }

    pub fn wrong(&self, what: impl ToString) -> InputError {
        InputError::at(self.line, what)
    }
}

/// Splits text into records; quotes may hold commas, line breaks and doubled quotes.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, InputError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows = Vec::new();
    let (mut fields, mut field) = (Vec::new(), String::new());
    let (mut line, mut first_line, mut is_quoted) = (1, 1, false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            '\n' if !is_quoted => {
                end_record(&mut rows, first_line, &mut fields, &mut field);
                line += 1;
                first_line = line;
            }
            _ => {
                line += usize::from(c == '\n');
                field.push(c);
            }
        }
    }
    if is_quoted {
        return Err(InputError::at(first_line, "a quote is not closed"));
    }
    end_record(&mut rows, first_line, &mut fields, &mut field);
    Ok(rows)
}

/// Keeps a record, unless its line is empty or a comment.
fn end_record(rows: &mut Vec<(usize, Vec<String>)>, line: usize, fields: &mut Vec<String>, field: &mut String) {
    fields.push(std::mem::take(field).trim().to_owned());
    let all = std::mem::take(fields);
    let is_nothing = all.iter().all(String::is_empty) || all[0].starts_with('#');
    if !is_nothing {
        rows.push((line, all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let table = Table::read("\u{feff}a, b\n# a comment\n1,\"x, \"\"y\"\"\nz\"\n\n2").expect("a table");
        let rows: Vec<_> =
            table.rows().map(|row| (row.line, row.text("a").to_owned(), row.text("b").to_owned())).collect();
        assert_eq!(rows, [(3, "1".into(), "x, \"y\"\nz".into()), (6, "2".into(), String::new())]);
        assert!(Table::read("a\n\"b").is_err());
        let row = |text: &str| {
            Table::read(&format!("n\n{text}"))
                .and_then(|table| table.rows().next().map_or(Ok(-1), |row| row.integer("n")))
        };
        assert_eq!((row("1.5"), row("7")), (Ok(2), Ok(7)));
        assert_eq!(row("x").expect_err("no number").to_string(), "line 2: n \"x\" is no number");
    }
}
