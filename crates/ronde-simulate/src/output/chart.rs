//! The picture: what the queues use over time, and a Gantt chart of the jobs, as one SVG without anything from elsewhere.

use std::fmt::Write as _;

use crate::{
    engine::history::{History, Record},
    scenario::{Job, Scenario},
    span::Span,
};

/// Jobs that have a row; of more, those that waited longest.
const ROWS_MAX: usize = 150;
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const USE_HEIGHT: f64 = 160.0;
const ROW: f64 = 14.0;
/// Names longer than this are cut.
const NAME_MAX: usize = 24;
/// Of queues, in their order; they can be told apart in grey, too.
const COLOURS: [&str; 8] = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#777777"];
const STYLE: &str = "text{font:11px sans-serif;fill:#222}.h{font-size:15px;font-weight:600}.q{fill:#666}.g{stroke:#ddd}\
.w{fill:#ddd}.c{fill:none;stroke:#222;stroke-dasharray:4 3}.b{fill:#fff}.x{fill:none;stroke:#c00}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.q{fill:#999}.g{stroke:#444}.w{fill:#555}.c{stroke:#ddd}.b{fill:#1b1b1b}}";

/// Draws a history.
pub fn svg(scenario: &Scenario, history: &History) -> String {
    let (shown, left_out) = chosen(history);
    let gantt = TOP + USE_HEIGHT + 50.0;
    let height = gantt + shown.len() as f64 * ROW + 40.0;
    let mut picture = Picture { text: String::new(), begin: history.begin, end: history.end.max(history.begin + 1) };
    picture.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" \
         aria-label=\"use of the cluster and jobs over time\"><style>{STYLE}</style><rect class=\"b\" width=\"100%\" height=\"100%\"/>"
    ));
    picture.head(history, left_out);
    picture.time_axis(height - 30.0);
    picture.usage(history);
    for (row, number) in shown.iter().enumerate() {
        let (job, record) = (&scenario.jobs[*number], &history.records[*number]);
        let colour = history.queues.iter().position(|queue| *queue == job.group.queue).unwrap_or(0);
        picture.job(gantt + row as f64 * ROW, job, record, colour);
    }
    picture.line(format_args!("</svg>"));
    picture.text
}

/// Returns the jobs that have a row, in the order of their arrival, and how many have none.
fn chosen(history: &History) -> (Vec<usize>, usize) {
    let mut all: Vec<usize> = (0..history.records.len()).collect();
    let wait = |number: &usize| {
        let record = &history.records[*number];
        record.wait().unwrap_or(history.end - record.arrival)
    };
    if all.len() > ROWS_MAX {
        all.sort_by_key(|number| (std::cmp::Reverse(wait(number)), *number));
    }
    let left_out = all.len().saturating_sub(ROWS_MAX);
    all.truncate(ROWS_MAX);
    all.sort_by_key(|number| (history.records[*number].arrival, *number));
    (all, left_out)
}

struct Picture {
    text: String,
    begin: i64,
    end: i64,
}

impl Picture {
    fn line(&mut self, words: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{words}");
    }

    fn x(&self, at: i64) -> f64 {
        let part = (at.clamp(self.begin, self.end) - self.begin) as f64 / (self.end - self.begin) as f64;
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    fn head(&mut self, history: &History, left_out: usize) {
        let jobs = history.records.len();
        let rest =
            if left_out > 0 { format!("; the {ROWS_MAX} that waited longest have a row") } else { String::new() };
        let title = format!("{jobs} jobs on {} nodes, {}{rest}", history.nodes, Span(self.end - self.begin));
        self.line(format_args!("<text class=\"h\" x=\"10\" y=\"22\">{}</text>", escaped(&title)));
        let mut x = LEFT;
        for (number, queue) in history.queues.iter().enumerate().take(COLOURS.len()) {
            let name = cut(queue.as_str());
            self.line(format_args!(
                "<rect x=\"{x:.1}\" y=\"34\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.1}\" y=\"43\">{}</text>",
                colour(number),
                x + 14.0,
                escaped(&name)
            ));
            x += 30.0 + 7.0 * name.chars().count() as f64;
        }
    }

    fn time_axis(&mut self, bottom: f64) {
        for tick in 0..=8_i64 {
            let at = self.begin + (self.end - self.begin) / 8 * tick;
            let x = self.x(at);
            self.line(format_args!("<path class=\"g\" d=\"M{x:.1} {TOP:.1}V{bottom:.1}\"/>"));
            let since = Span(at - self.begin);
            let anchor = if tick == 8 { "end" } else { "middle" };
            self.line(format_args!(
                "<text class=\"q\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{since}</text>",
                bottom + 16.0
            ));
        }
    }

    /// What the queues use of the resource that matters most, on top of each other.
    fn usage(&mut self, history: &History) {
        let most =
            history.samples.iter().map(|sample| sample.capacity.max(sample.used.iter().sum())).max().unwrap_or(0);
        let bottom = TOP + USE_HEIGHT;
        let y = |amount: i64| bottom - amount as f64 / i64::max(most, 1) as f64 * USE_HEIGHT;
        self.line(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            TOP + 10.0,
            escaped(&cut(&history.resource))
        ));
        let mut below = vec![0_i64; history.samples.len()];
        for queue in 0..history.queues.len() {
            let mut path = String::new();
            let top: Vec<i64> = history
                .samples
                .iter()
                .zip(&below)
                .map(|(sample, low)| low + sample.used.get(queue).unwrap_or(&0))
                .collect();
            if top != below {
                steps(
                    &mut path,
                    'M',
                    history.samples.iter().zip(&top).map(|(sample, top)| (self.x(sample.at), y(*top))),
                    self.x(self.end),
                );
                let back: Vec<(f64, f64)> = back_steps(
                    history.samples.iter().zip(&below).map(|(sample, low)| (self.x(sample.at), y(*low))),
                    self.x(self.end),
                );
                for (x, y) in back {
                    let _ = write!(path, "L{x:.1} {y:.1}");
                }
                self.line(format_args!("<path fill=\"{}\" d=\"{path}Z\"/>", colour(queue)));
            }
            below = top;
        }
        let mut capacity = String::new();
        steps(
            &mut capacity,
            'M',
            history.samples.iter().map(|sample| (self.x(sample.at), y(sample.capacity))),
            self.x(self.end),
        );
        self.line(format_args!("<path class=\"c\" d=\"{capacity}\"/>"));
    }

    fn job(&mut self, y: f64, job: &Job, record: &Record, queue: usize) {
        let name = job.group.id.name();
        let end = record.end.unwrap_or(self.end);
        let wait = Span(record.wait().unwrap_or(end - record.arrival));
        let fate = match (record.first_start, record.end) {
            (_, Some(_)) => format!("ran {}", Span(record.ran())),
            (Some(_), None) => "still runs".to_owned(),
            (None, None) => "never started".to_owned(),
        };
        self.line(format_args!(
            "<g><title>{}: waited {wait}, {fate}</title><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            escaped(name),
            LEFT - 6.0,
            y + 10.0,
            escaped(&cut(name))
        ));
        self.bar("class=\"w\"", (record.arrival, end), (y + 5.0, 3.0));
        let most = record.segments.iter().map(|run| run.pods).max().unwrap_or(1).max(1);
        for run in &record.segments {
            let height = (ROW - 3.0) * f64::from(run.pods) / f64::from(most);
            let fill = format!("fill=\"{}\"", colour(queue));
            self.bar(&fill, (run.from, run.to), (y + ROW - 2.0 - height, height));
        }
        self.line(format_args!("</g>"));
    }

    fn bar(&mut self, look: &str, (from, to): (i64, i64), (y, height): (f64, f64)) {
        let (left, right) = (self.x(from), self.x(to));
        let width = f64::max(right - left, 0.5);
        self.line(format_args!(
            "<rect {look} x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }
}

/// Draws values that hold until the next one.
fn steps(path: &mut String, begin: char, points: impl Iterator<Item = (f64, f64)>, end: f64) {
    let mut word = begin;
    for (x, y) in points {
        let _ = if word == 'M' { write!(path, "M{x:.1} {y:.1}") } else { write!(path, "H{x:.1}V{y:.1}") };
        word = 'H';
    }
    let _ = write!(path, "H{end:.1}");
}

/// Returns the corners of such values from the end to the beginning.
fn back_steps(points: impl Iterator<Item = (f64, f64)>, end: f64) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.collect();
    let mut corners = Vec::with_capacity(2 * points.len());
    let mut right = end;
    for (x, y) in points.into_iter().rev() {
        corners.extend([(right, y), (x, y)]);
        right = x;
    }
    corners
}

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

fn cut(name: &str) -> String {
    let short: String = name.chars().take(NAME_MAX).collect();
    if short.len() == name.len() { short } else { format!("{short}…") }
}

/// Names come from files of strangers.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
