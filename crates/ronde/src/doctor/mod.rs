//! `ronde doctor`: looks for what keeps jobs from running, and says of each finding what to do.
//!
//! `seen.rs` asks the API, `judge.rs` decides, `rights.rs` knows who needs which rights. Changes nothing.

mod judge;
mod rights;
mod seen;
#[cfg(test)]
mod tests;

use self::{
    judge::{Finding, Report, Severity},
    seen::Seen,
};
use crate::{
    Context,
    args::{DoctorArgs, StatusOutput},
    client,
    failure::{Answer, Outcome},
};

/// Runs the verb.
pub fn run(args: &DoctorArgs, context: &Context) -> Outcome {
    let report = client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        Seen::collect(&client, &namespace).await.map(|seen| judge::judge(&seen))
    })?;
    match args.output {
        StatusOutput::Json => {
            let json = serde_json::to_string_pretty(&report).expect("a report has only plain fields");
            context.printer.data(json);
        }
        StatusOutput::Text => {
            context.printer.data(render(&report, context.caller.name()));
        }
    }
    Ok(if report.findings.is_empty() { Answer::Done } else { Answer::No })
}

/// Shows the findings, each with its command, then what was left out, then how many there are.
fn render(report: &Report, program: &str) -> String {
    let mut lines = Vec::new();
    for Finding { severity, message, command, .. } in &report.findings {
        let word = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let command = match command.strip_prefix("ronde ") {
            Some(rest) => format!("{program} {rest}"),
            None => command.clone(),
        };
        lines.extend([format!("{word}: {message}"), format!("  try: {command}"), String::new()]);
    }
    lines.extend(report.skipped.iter().map(|skipped| format!("not checked: {}: {}", skipped.check, skipped.reason)));
    let count = |wanted: Severity| report.findings.iter().filter(|it| it.severity == wanted).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let found = match (errors, warnings) {
        (0, 0) => "nothing found".to_owned(),
        (errors, 0) => number(errors, "error"),
        (0, warnings) => number(warnings, "warning"),
        (errors, warnings) => format!("{}, {}", number(errors, "error"), number(warnings, "warning")),
    };
    let all = report.checked.len() + report.skipped.len();
    lines.push(format!("{found} in {} of {all} checks", report.checked.len()));
    lines.join("\n")
}

fn number(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
