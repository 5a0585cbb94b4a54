//! A story as a picture: how many took part, and how the loss fell. Nothing in it comes from another host.

use crate::{
    Moment, Story, What,
    chart::{Chart, place},
    story::span,
    text::number,
};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
const MARGIN: f64 = 40.0;
/// Below the title of a chart and above its axis.
const ROOM: f64 = HEIGHT - 60.0;
const AXIS: f64 = HEIGHT - 20.0;
const COLUMNS: usize = 320;

/// Draws a story.
pub fn picture(story: &Story) -> String {
    let chart = Chart::new(story, COLUMNS);
    let mut charts = vec![panel(0, &format!("{}s", story.unit), &sizes(story), story)];
    if let Some(top) = chart.loss_max() {
        charts.push(panel(1, "loss", &losses(story, &chart, top), story));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#1e293b\"><title>{}</title><rect width=\"100%\" height=\"100%\" fill=\"white\"/>{}</svg>\n",
        HEIGHT * charts.len() as f64,
        escaped(&format!("{} {}: {}", story.kind, story.name, story.phase)),
        charts.concat(),
    )
}

fn panel(number: usize, name: &str, chart: &str, story: &Story) -> String {
    let (top, right, below) = (number as f64 * HEIGHT, WIDTH - MARGIN, HEIGHT - 5.0);
    let end = span(story.until.duration_since(story.submitted));
    format!(
        "<g transform=\"translate(0,{top})\"><text x=\"{MARGIN}\" y=\"20\" font-weight=\"bold\">{name}</text>{chart}\
         <line x1=\"{MARGIN}\" y1=\"{AXIS}\" x2=\"{right}\" y2=\"{AXIS}\" stroke=\"#94a3b8\"/>\
         <text x=\"{MARGIN}\" y=\"{below}\">0s</text>\
         <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{end}</text></g>"
    )
}

/// Steps, with the number above each that is wide enough, and a mark where something was lost or began anew.
fn sizes(story: &Story) -> String {
    let top = story.range().map_or(1, |(_, most)| most);
    let mut parts = Vec::new();
    for (at, size) in story.sizes.iter().enumerate() {
        let end = story.sizes.get(at + 1).map_or(story.until, |next| next.time);
        let (x, right) = (across(place(story, size.time)), across(place(story, end)));
        let (width, height) = (right - x, f64::from(size.count) / f64::from(top) * ROOM);
        if size.count <= 0 {
            continue;
        }
        let y = AXIS - height;
        // Neighbours touch, however short they were.
        let drawn = width.max(1.0);
        parts.push(format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{drawn:.1}\" height=\"{height:.1}\" fill=\"#3b82f6\"/>"
        ));
        if width >= 12.0 {
            let (middle, above) = (x + width / 2.0, y - 6.0);
            parts
                .push(format!("<text x=\"{middle:.1}\" y=\"{above:.1}\" text-anchor=\"middle\">{}</text>", size.count));
        }
    }
    parts.extend(story.moments.iter().filter(|moment| is_marked(moment)).map(|moment| mark(story, moment)));
    format!("<g shape-rendering=\"crispEdges\">{}</g>", parts.concat())
}

fn is_marked(moment: &Moment) -> bool {
    matches!(moment.what, What::Lost | What::Restarted | What::Suspended)
}

/// A red line that says what it is to who points at it.
fn mark(story: &Story, moment: &Moment) -> String {
    let x = across(place(story, moment.time));
    format!(
        "<line x1=\"{x:.1}\" y1=\"30\" x2=\"{x:.1}\" y2=\"{AXIS}\" stroke=\"#dc2626\" stroke-width=\"2\"><title>{}</title></line>",
        escaped(&moment.text)
    )
}

/// A line; where nothing was said it goes straight on.
fn losses(story: &Story, chart: &Chart, top: f64) -> String {
    let top = if top > 0.0 { top } else { 1.0 };
    let known = chart.losses.iter().enumerate().filter_map(|(column, loss)| Some((column, (*loss)?)));
    let points: Vec<String> = known
        .map(|(column, loss)| {
            let x = across((column as f64 + 0.5) / COLUMNS as f64);
            format!("{x:.1},{:.1}", AXIS - loss.max(0.0) / top * ROOM)
        })
        .collect();
    let last = story.samples.last().map(|last| format!("step {}, loss {}", last.step, number(last.loss)));
    format!(
        "<text x=\"{}\" y=\"20\" text-anchor=\"end\">{}</text><polyline fill=\"none\" stroke=\"#f97316\" \
         stroke-width=\"2.5\" stroke-linejoin=\"round\" points=\"{}\"/>",
        WIDTH - MARGIN,
        last.unwrap_or_default(),
        points.join(" ")
    )
}

fn across(place: f64) -> f64 {
    MARGIN + place * (WIDTH - 2.0 * MARGIN)
}

fn escaped(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => clean.push_str("&lt;"),
            '>' => clean.push_str("&gt;"),
            '&' => clean.push_str("&amp;"),
            '"' => clean.push_str("&quot;"),
            // XML has no form for them.
            c if c.is_control() => clean.push(' '),
            c => clean.push(c),
        }
    }
    clean
}
