//! How far a training is, as its script prints it: `Step #340    Loss: 0.047924`.

/// What one line says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    pub step: u64,
    pub loss: f64,
}

/// Reads a line that has `step` with a number and behind it `loss` with one, in any case; whatever stands around them.
pub fn read(line: &str) -> Option<Progress> {
    let (step, rest) = number_after(line, "step")?;
    let (loss, _) = number_after(rest, "loss")?;
    let loss: f64 = loss.parse().ok().filter(|loss: &f64| loss.is_finite())?;
    Some(Progress { step: step.parse().ok()?, loss })
}

/// Returns the number behind a word, and what follows it. Between them are only `#`, `:`, `=`, `[` and spaces.
fn number_after<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let at = text.as_bytes().windows(word.len()).position(|piece| piece.eq_ignore_ascii_case(word.as_bytes()))?;
    let rest = text[at + word.len()..].trim_start_matches(|c: char| "#:=[".contains(c) || c.is_whitespace());
    let end = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(rest.len());
    Some((rest[..end].trim_end_matches('.'), &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(u64, f64)>) {
        assert_eq!(read(line), expected.map(|(step, loss)| Progress { step, loss }), "{line}");
    }

    #[test]
    fn lines_of_trainings_are_understood() {
        check("Step #340    Loss: 0.047924", Some((340, 0.047_924)));
        check("[1]<stdout>:Step #10\tLoss: 2.25", Some((10, 2.25)));
        check("step 7, loss=1.5e-3, 120 images/s", Some((7, 0.0015)));
        check("Step: 12 Loss: 3.", Some((12, 3.0)));
        check("Epoch 1 step [100] - loss: 0.5", Some((100, 0.5)));
    }

    #[test]
    fn other_lines_are_not() {
        check("", None);
        check("Step #340", None);
        check("Loss: 0.5 at step 3", None);
        check("Step #-1 Loss: 0.5", None);
        check("Step #1 Loss: nan", None);
        check("Step #99999999999999999999 Loss: 1", None);
        check("Schritt 3 Löss", None);
        check("step ü loss", None);
    }
}
