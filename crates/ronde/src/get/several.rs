//! `ronde get` for several kinds or several names: one table for each kind, as kubectl prints them.
//!
//! What is missing or refused does not keep the others back.

use kube::Client;
use serde_json::{Value, json};

use super::{Query, accept, titles, view, without_managed_fields, yaml};
use crate::{
    args::{GetArgs, GetOutput},
    client::{self, ClientError},
    failure::{Failure, Outcome},
    partial_failure::{self, Batch},
    printer::Printer,
    resources::Resource,
    table::Layout,
};

/// What the API answered for one kind: a table, or objects.
struct Found<'a> {
    resource: &'a Resource,
    answers: Vec<Value>,
}

/// Shows the answers to all queries.
pub async fn run(client: &Client, queries: &[Query], args: &GetArgs, printer: Printer) -> Outcome {
    let (mut found, mut refused) = (Vec::<Found<'_>>::new(), Vec::<Box<dyn Failure>>::new());
    for query in queries {
        let answer = match fetch(client, query, args.output).await {
            Ok(answer) => answer,
            Err(error) => {
                refused.push(error.into());
                continue;
            }
        };
        match found.iter_mut().find(|found| *found.resource == query.resource) {
            Some(found) => found.answers.push(answer),
            None => found.push(Found { resource: &query.resource, answers: vec![answer] }),
        }
    }
    show(&found, queries, args, printer);
    partial_failure::outcome(refused, Batch { total: queries.len(), what: "objects", done: "shown" }, printer)
}

async fn fetch(client: &Client, query: &Query, output: GetOutput) -> Result<Value, ClientError> {
    let answer = client::send(client, client::get(&query.once(), accept(output)), Vec::new()).await?;
    Ok(without_managed_fields(answer.json()?))
}

fn show(found: &[Found<'_>], queries: &[Query], args: &GetArgs, printer: Printer) {
    let is_mixed = found.len() > 1;
    let list = || {
        let items: Vec<&Value> = found.iter().flat_map(Found::objects).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    };
    let text = match args.output {
        GetOutput::Table | GetOutput::Wide => {
            let tables = found.iter().map(|found| found.lay_out(args, is_mixed).join("\n"));
            tables.filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n\n")
        }
        GetOutput::Name => {
            let titles = found.iter().flat_map(|found| titles(found.resource, &found.table()));
            titles.collect::<Vec<_>>().join("\n")
        }
        GetOutput::Json => format!("{:#}", list()),
        GetOutput::Yaml => yaml(&list()),
    };
    if !text.is_empty() {
        printer.data(text);
    } else if !found.is_empty() {
        queries.iter().for_each(|query| query.say_nothing(printer));
    }
}

impl Found<'_> {
    fn objects(&self) -> impl Iterator<Item = &Value> {
        self.answers.iter().flat_map(|answer| match answer["items"].as_array() {
            Some(items) => items.iter().collect::<Vec<_>>(),
            None => vec![answer],
        })
    }

    /// Joins the tables of the kind to one.
    fn table(&self) -> Value {
        let rows = self.answers.iter().flat_map(|answer| answer["rows"].as_array().into_iter().flatten());
        let rows: Vec<&Value> = rows.collect();
        json!({"columnDefinitions": self.answers[0]["columnDefinitions"], "rows": rows})
    }

    /// Lays the table out; where there are several kinds, names say theirs.
    fn lay_out(&self, args: &GetArgs, is_mixed: bool) -> Vec<String> {
        let mut table = self.table();
        let columns = table["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
        let name = columns.iter().position(|column| column["name"] == "Name").filter(|_| is_mixed);
        for row in table["rows"].as_array_mut().into_iter().flatten() {
            if let Some(cell) = name.and_then(|name| row["cells"].get_mut(name)) {
                *cell = format!("{}/{}", self.resource.singular_name(), cell.as_str().unwrap_or_default()).into();
            }
        }
        Layout::new(view(args, self.resource)).render(&table)
    }
}
