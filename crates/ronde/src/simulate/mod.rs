//! `ronde simulate`: what a cluster would do with its work, decided by the real scheduler on virtual time.
//!
//! [`inputs`] brings cluster, work and faults together; `ronde-simulate` does the rest.

mod inputs;

use fs_err as fs;
use ronde_simulate::{History, Report, Scenario, Span, chart, input::what_if, simulate};
use serde_json::{Value, json};

use self::inputs::SimulateError;
use crate::{
    Context,
    args::{SimulateArgs, SimulateOutput},
    client,
    failure::{Answer, Failure, Outcome},
    printer::Printer,
    table,
};

/// Runs the verb.
pub fn run(args: &SimulateArgs, context: &Context) -> Outcome {
    let printer = context.printer;
    let scenario = client::runtime()?.block_on(inputs::read(args, printer))?;
    // Every change has to be one before the first simulation takes its time.
    let mut changes: Vec<(&str, Scenario)> = Vec::new();
    for text in &args.what_if {
        changes.push((text.as_str(), what_if::apply(text, &scenario).map_err(SimulateError::from)?));
    }
    let shown = (args.output == SimulateOutput::Moves).then_some(printer);
    let history = simulated(&scenario, shown);
    if let Some(file) = &args.chart {
        let picture = chart::svg(&scenario, &history);
        fs::write(file, picture).map_err(|source| SimulateError::Chart { source })?;
        printer.say(format!("drew {}", file.display()));
    }
    let report = Report::new(&scenario, &history);
    let others: Vec<(&str, Report)> =
        changes.iter().map(|(text, scenario)| (*text, Report::new(scenario, &simulated(scenario, None)))).collect();
    if args.output == SimulateOutput::Json {
        let text = serde_json::to_string_pretty(&as_json(&report, &others));
        printer.data(text.map_err(|source| SimulateError::Json { source })?);
    } else {
        let lines = if others.is_empty() { page(&report) } else { beside(&report, &others) };
        printer.data(lines.join("\n"));
    }
    Ok(Answer::Done)
}

fn as_json(report: &Report, others: &[(&str, Report)]) -> Value {
    if others.is_empty() {
        return report.to_json();
    }
    let other = |(change, report): &(&str, Report)| json!({"change": change, "report": report.to_json()});
    json!({"asItIs": report.to_json(), "whatIf": others.iter().map(other).collect::<Vec<_>>()})
}

/// Returns the reports side by side: what they say, and how long each queue waits.
fn beside(report: &Report, others: &[(&str, Report)]) -> Vec<String> {
    let reports = [report].into_iter().chain(others.iter().map(|(_, other)| other));
    let all: Vec<Vec<(String, String)>> = reports.map(comparable).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |rows: &Vec<(String, String)>, wanted: &str| {
        let found = rows.iter().find(|(name, _)| name == wanted);
        found.map_or("-".to_owned(), |(_, value)| value.clone())
    };
    let row = |name: &&str| {
        let mut cells = vec![(*name).to_owned()];
        cells.extend(all.iter().map(|rows| value(rows, name)));
        cells
    };
    let header: Vec<&str> = ["", "AS IT IS"].into_iter().chain(others.iter().map(|(change, _)| *change)).collect();
    table::render(&header, names.iter().map(row).collect())
}

fn comparable(report: &Report) -> Vec<(String, String)> {
    let mut rows = report.summary();
    for queue in &report.queues {
        rows.push((format!("wait p95 in {}", queue.name), Span(queue.waits.p95).to_string()));
    }
    rows
}

/// Runs a scenario; prints every move if that is wanted.
fn simulated(scenario: &Scenario, printer: Option<Printer>) -> History {
    let mut is_read = true;
    simulate(scenario, &mut |at, what| {
        if let Some(printer) = printer.filter(|_| is_read) {
            let line = format!("{:<10} {what}", Span(at - scenario.begin).to_string());
            is_read = printer.data(line) == crate::printer::Reader::There;
        }
    })
}

/// Returns the lines of the report for people.
fn page(report: &Report) -> Vec<String> {
    let summary = report.summary();
    let width = summary.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut lines: Vec<String> = summary.iter().map(|(name, value)| format!("{name:<width$}   {value}")).collect();
    let columns = report.columns();
    for (title, parts) in [("QUEUE", &report.queues), ("SIZE", &report.sizes)] {
        let header: Vec<&str> = [title].into_iter().chain(columns.iter().map(String::as_str)).collect();
        lines.push(String::new());
        lines.extend(table::render(&header, Report::rows(parts)));
    }
    if !report.fates.is_empty() {
        lines.push(String::new());
        lines.extend(table::render(&Report::JOB_COLUMNS, report.job_rows()));
    }
    lines.extend(stuck(report));
    lines
}

/// Names jobs that never started, and why.
fn stuck(report: &Report) -> Vec<String> {
    if report.stuck.is_empty() {
        return Vec::new();
    }
    let rows = report.stuck.iter().map(|(name, why)| vec![name.clone(), why.clone()]).collect();
    let mut lines = vec![String::new()];
    lines.extend(table::render(&["NEVER STARTED", "WHY"], rows));
    if report.stuck_total > report.stuck.len() {
        lines.push(format!("... and {} more", report.stuck_total - report.stuck.len()));
    }
    lines
}

impl Failure for SimulateError {
    fn blame(&self) -> crate::failure::Blame {
        match self {
            Self::Chart { .. } => crate::failure::Blame::Environment,
            Self::Json { .. } => crate::failure::Blame::Bug,
            _ => crate::failure::Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoWork => Some("`--jobs FILE` reads it, `--generate 1000` makes it up".to_owned()),
            Self::NoNodes => Some("`--nodes 4x8gpu` describes some".to_owned()),
            _ => None,
        }
    }
}
