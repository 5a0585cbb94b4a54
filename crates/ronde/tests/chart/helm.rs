//! Runs the real Helm on the charts, without a cluster, and takes out of its answer what differs from run to run.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use fs_err as fs;
use regex::Regex;

/// A chart of ours.
#[derive(Debug, Clone, Copy)]
pub enum Chart {
    Horovod,
    Operator,
}

impl Chart {
    /// Returns the chart's folder.
    pub fn folder(self) -> PathBuf {
        let name = match self {
            Self::Horovod => "horovod",
            Self::Operator => "ronde",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts").join(name).canonicalize().unwrap()
    }
}

/// Helm, and an empty home for it.
pub struct Helm {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Helm {
    /// Finds Helm, or skips the test.
    pub fn find() -> Option<Self> {
        let program = ronde_sim::program("helm")?;
        Some(Self { program, home: tempfile::tempdir().unwrap() })
    }

    /// Finds Helm 3 and Helm 4, as far as they are there.
    pub fn find_all() -> Vec<Self> {
        let programs = ["helm", "helm4"].into_iter().filter_map(ronde_sim::program);
        programs.map(|program| Self { program, home: tempfile::tempdir().unwrap() }).collect()
    }

    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(tests()).env_clear().env("HOME", self.home.path());
        // It is gone before collecting its garbage would pay.
        command.env("GOGC", "off").output().unwrap()
    }

    /// Renders the Horovod chart as release `mnist`.
    pub fn render(&self, options: &[&str]) -> Result<String, String> {
        self.render_chart(Chart::Horovod, "mnist", options)
    }

    /// Renders a chart.
    pub fn render_chart(&self, chart: Chart, release: &str, options: &[&str]) -> Result<String, String> {
        let chart = chart.folder().display().to_string();
        let words = [&["template", release, &chart], options].concat();
        let output = self.run(&words);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Writes a text into the home.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

/// Returns the folder of these tests.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart")
}

/// Names the scripts instead of showing them, and what is made anew or follows from everything else.
pub fn redact(rendered: &str) -> String {
    static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let patterns = [
            (r#"(?P<key>(horovod/(scripts|hostfile|secret|template)|value): )"?[0-9a-f]{8}"?$"#, "$key[DIGEST]"),
            (r"host-key: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0t\S+", "host-key: [AN EC PRIVATE KEY]"),
            (r"agent-token: \S{64}$", "agent-token: [48 LETTERS]"),
            (r" +$", ""),
        ];
        patterns.map(|(pattern, name)| (Regex::new(&format!("(?m){pattern}")).unwrap(), name)).into()
    });
    let mut text = rendered.to_owned();
    for entry in fs::read_dir(Chart::Horovod.folder().join("files")).unwrap() {
        let path = entry.unwrap().path();
        let script = fs::read_to_string(&path).unwrap();
        let indented: Vec<String> = script.trim_end().split('\n').map(|line| format!("    {line}")).collect();
        let name = format!("    ({})", path.file_name().unwrap().display());
        text = text.replace(&indented.join("\n"), &name);
    }
    for (pattern, name) in VARYING.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text
}
