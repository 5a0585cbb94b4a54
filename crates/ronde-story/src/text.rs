//! A story for terminals: 80 columns, without colour.

use jiff::{Timestamp, Unit};

use crate::{
    Story,
    chart::{Chart, spark},
    story::{counted, span},
};

const WIDTH: usize = 80;
const FIELD: usize = 10;
/// The charts begin behind their name and their highest value.
const CHART_AT: usize = 18;
const COLUMNS: usize = WIDTH - CHART_AT - 2;

/// Lays a story out.
pub fn lines(story: &Story) -> Vec<String> {
    let mut lines = head(story);
    let charts = charts(story);
    if !charts.is_empty() {
        lines.push(String::new());
        lines.extend(charts);
    }
    lines.push(String::new());
    lines.extend(moments(story));
    lines.extend(story.gaps.iter().flat_map(|gap| wrapped("note      ", gap)));
    lines
}

fn head(story: &Story) -> Vec<String> {
    let mut fields = vec![
        ("job", format!("{} ({})", story.name, story.kind)),
        ("queue", story.queue.clone()),
        ("status", story.phase.clone()),
        ("waited", span(story.waited())),
    ];
    if let Some(started) = story.started {
        let sizes = match story.range() {
            Some((least, most)) if least == most => format!(", with {}", counted(most, story.unit)),
            Some((least, most)) => format!(", with {least} to {}", counted(most, story.unit)),
            None => String::new(),
        };
        fields.push(("ran", format!("{}{sizes}", span(story.until.duration_since(started)))));
    }
    if let Some(last) = story.samples.last() {
        fields.push(("progress", format!("step {}, loss {}", last.step, number(last.loss))));
    }
    if story.ended.is_none() && !story.message.is_empty() {
        fields.push(("message", story.message.clone()));
    }
    fields.iter().flat_map(|(name, value)| wrapped(&format!("{name:<FIELD$}"), value)).collect()
}

fn charts(story: &Story) -> Vec<String> {
    let chart = Chart::new(story, COLUMNS);
    let mut lines = Vec::new();
    let line = |name: &str, top: String, bars: String| {
        format!("{name:<FIELD$}{top:>width$} |{bars}|", width = CHART_AT - FIELD - 1)
    };
    if chart.size_max() > 0 {
        let top = f64::from(chart.size_max());
        let bars = spark(chart.sizes.iter().map(|size| Some(f64::from(*size))), top);
        lines.push(line(&format!("{}s", story.unit), chart.size_max().to_string(), bars));
    }
    if let Some(top) = chart.loss_max() {
        lines.push(line("loss", number(top), spark(chart.losses.iter().copied(), top)));
    }
    if !lines.is_empty() {
        let (from, to) = (clock(story, story.submitted), clock(story, story.until));
        let gap = (COLUMNS + 2).saturating_sub(from.len());
        lines.push(format!("{:CHART_AT$}{from}{to:>gap$}", ""));
    }
    lines
}

fn moments(story: &Story) -> Vec<String> {
    let width = clock(story, story.until).len().max("TIME".len()) + 3;
    let mut lines = vec![format!("{:<width$}WHAT", "TIME")];
    for moment in &story.moments {
        lines.extend(wrapped(&format!("{:<width$}", clock(story, moment.time)), &moment.text));
    }
    lines
}

/// Says when something was, in UTC; with the day if the story is of more than one.
fn clock(story: &Story, time: Timestamp) -> String {
    let day = |time: Timestamp| time.strftime("%F").to_string();
    let time = time.round(Unit::Second).unwrap_or(time);
    let has_days = day(story.submitted) != day(story.until);
    time.strftime(if has_days { "%m-%d %H:%M:%S" } else { "%H:%M:%S" }).to_string()
}

/// Writes a number in few characters.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 || size != 0.0 && size < 1e-3 => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Breaks a text between words; what follows stands below its beginning. Control characters would break the terminal.
fn wrapped(prefix: &str, text: &str) -> Vec<String> {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let indent = prefix.chars().count();
    let mut lines = vec![prefix.to_owned()];
    for word in clean.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        let width = line.chars().count();
        if width == indent {
            line.push_str(word);
        } else if width + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{:indent$}{word}", ""));
        }
    }
    lines
}
