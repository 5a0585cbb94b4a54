//! The scenario files of a folder and their recordings.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{ParseError, Scenario, Transcript, run_scenario, transcript::differences};

/// A scenario file.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    path: PathBuf,
    text: String,
}

/// Says which file of the suite could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("cannot read or write the suite")]
    File(#[from] io::Error),
    #[error("scenario `{name}` is malformed")]
    Malformed { name: String, source: ParseError },
}

/// Returns the scenarios of a folder, by name.
///
/// # Errors
///
/// When the folder or a file cannot be read.
pub fn cases(folder: &Path) -> Result<Vec<Case>, SuiteError> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "scenario") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push(Case { name, text: fs_err::read_to_string(&path)?, path });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Case {
    /// Returns the parsed steps.
    ///
    /// # Errors
    ///
    /// When the file is malformed.
    pub fn scenario(&self) -> Result<Scenario, SuiteError> {
        let malformed = |source| SuiteError::Malformed { name: self.name.clone(), source };
        self.text.parse().map_err(malformed)
    }

    /// Returns the transcript recorded from the real server, if there is one.
    #[must_use]
    pub fn recording(&self) -> Option<Transcript> {
        let text = fs_err::read_to_string(self.recording_path()).ok()?;
        Some(Transcript::parse(&text))
    }

    /// Runs the scenario.
    ///
    /// # Errors
    ///
    /// When the file is malformed.
    pub async fn run(&self, client: &kube::Client) -> Result<Transcript, SuiteError> {
        let malformed = |source| SuiteError::Malformed { name: self.name.clone(), source };
        run_scenario(client, &self.text).await.map_err(malformed)
    }

    /// Runs the scenario and keeps the transcript as the recording.
    ///
    /// # Errors
    ///
    /// When the file is malformed or the recording cannot be written.
    pub async fn record(&self, client: &kube::Client) -> Result<Transcript, SuiteError> {
        let transcript = self.run(client).await?;
        fs_err::write(self.recording_path(), transcript.to_string())?;
        Ok(transcript)
    }

    /// Runs the scenario and returns where it departs from the recording; empty when it agrees.
    ///
    /// # Errors
    ///
    /// When the file is malformed.
    pub async fn check(&self, client: &kube::Client) -> Result<Vec<String>, SuiteError> {
        let Some(recording) = self.recording() else { return Ok(vec![NO_RECORDING.into()]) };
        let transcript = self.run(client).await?;
        Ok(transcript.compare(&recording, &self.scenario()?))
    }

    /// Runs the scenario on a server such as the one it was recorded from and returns what is not
    /// as recorded, whether marked as a difference or not.
    ///
    /// # Errors
    ///
    /// When the file is malformed.
    pub async fn verify(&self, client: &kube::Client) -> Result<Vec<String>, SuiteError> {
        let Some(recording) = self.recording() else { return Ok(vec![NO_RECORDING.into()]) };
        Ok(differences(&recording, &self.run(client).await?))
    }

    /// Returns what is wrong with the recording itself: missing, of other steps, or of a run in
    /// which a step could not be carried out.
    ///
    /// # Errors
    ///
    /// When the scenario is malformed.
    pub fn recording_faults(&self) -> Result<Vec<String>, SuiteError> {
        let scenario = self.scenario()?;
        let Some(recording) = self.recording() else { return Ok(vec!["is missing".into()]) };
        let steps = scenario.steps.iter().filter(|step| !step.options.quiet).map(|s| &s.line);
        let blocks = recording.blocks.iter().map(|block| request_line(block));
        let mut faults = Vec::new();
        if !steps.eq(blocks) {
            faults.push("has other steps than the scenario".to_owned());
        }
        let failed = |block: &&String| block.lines().any(|line| line.starts_with("failed"));
        faults.extend(recording.blocks.iter().filter(failed).cloned());
        Ok(faults)
    }

    fn recording_path(&self) -> PathBuf {
        self.path.with_extension("expected")
    }
}

const NO_RECORDING: &str = "there is no recording; run `ronde-e2e record`";

fn request_line(block: &str) -> &str {
    let is_request = |line: &&str| !line.starts_with('#') && !line.starts_with("failed before");
    block.lines().find(is_request).unwrap_or_default()
}
