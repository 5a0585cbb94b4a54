//! The charts that are part of this program: the very files of `charts/`, so that no folder has to be carried along.

use std::{io, path::Path};

use fs_err as fs;

/// A chart: the name that users know it by, and its files.
#[derive(Debug, Clone, Copy)]
pub struct Chart {
    pub name: &'static str,
    /// Where it goes if nobody says otherwise; none if that has to be said.
    pub place: Option<Place>,
    files: &'static [(&'static str, &'static str)],
}

/// Where a release of a chart goes that a cluster has once.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub release: &'static str,
    pub namespace: &'static str,
}

/// Lists files of a chart, relative to its folder, with what is in them.
macro_rules! files {
    ($chart:literal: $($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../charts/", $chart, "/", $file)))),+]
    };
}

/// Every chart.
pub const CHARTS: &[Chart] = &[
    Chart {
        name: "horovod",
        place: None,
        files: files!["horovod":
            ".helmignore",
            "Chart.yaml",
            "files/check.sh",
            "files/end.sh",
            "files/master.sh",
            "files/scale.sh",
            "files/ssh.sh",
            "files/wait.sh",
            "files/worker.sh",
            "templates/NOTES.txt",
            "templates/_files.tpl",
            "templates/_helpers.tpl",
            "templates/_master.tpl",
            "templates/_worker.tpl",
            "templates/configmap.yaml",
            "templates/job.yaml",
            "templates/podgroup.yaml",
            "templates/rbac.yaml",
            "templates/secret.yaml",
            "templates/service.yaml",
            "templates/statefulset.yaml",
            "values.schema.json",
            "values.yaml",
        ],
    },
    Chart {
        name: "operator",
        place: Some(Place { release: "ronde", namespace: "ronde-system" }),
        files: files!["ronde":
            ".helmignore",
            "Chart.yaml",
            "files/alerts.yaml",
            "files/dashboards/jobs.json",
            "files/dashboards/operator.json",
            "files/definitions.jsonl",
            "files/rules.yaml",
            "templates/NOTES.txt",
            "templates/_check.tpl",
            "templates/_helpers.tpl",
            "templates/clusterrole.yaml",
            "templates/crds.yaml",
            "templates/dashboards.yaml",
            "templates/deployment.yaml",
            "templates/flowschema.yaml",
            "templates/lease.yaml",
            "templates/metrics.yaml",
            "templates/networkpolicy.yaml",
            "templates/poddisruptionbudget.yaml",
            "templates/serviceaccount.yaml",
            "templates/users.yaml",
            "values.schema.json",
            "values.yaml",
        ],
    },
];

impl Chart {
    /// Finds a chart by its name; `stable/`, where it was once to be found, may stand before it.
    pub fn find(name: &str) -> Option<Self> {
        let name = name.strip_prefix("stable/").unwrap_or(name);
        CHARTS.iter().copied().find(|chart| chart.name == name)
    }

    /// Writes the files of the chart into a folder.
    pub fn unpack(self, folder: &Path) -> io::Result<()> {
        for (file, text) in self.files {
            let path = folder.join(file);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// What a chart's folder has for people, and the program has no use for.
    const FOR_PEOPLE: [&str; 2] = ["Dockerfile", "README.md"];

    fn files_below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_file_of_a_chart_is_in_the_program() {
        for (chart, folder) in CHARTS.iter().zip(["horovod", "ronde"]) {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts").join(folder);
            let mut expected: Vec<String> = files_below(&folder)
                .iter()
                .map(|path| path.strip_prefix(&folder).unwrap().display().to_string())
                .filter(|file| !FOR_PEOPLE.contains(&file.as_str()))
                .collect();
            expected.sort();
            assert_eq!(chart.files.iter().map(|(file, _)| *file).collect::<Vec<_>>(), expected, "{}", chart.name);
        }
    }

    #[test]
    fn a_chart_is_found_under_its_old_address_too() {
        let name = |text| Chart::find(text).map(|chart| chart.name);
        assert_eq!(name("horovod"), Some("horovod"));
        assert_eq!(name("stable/horovod"), Some("horovod"));
        assert_eq!(name("operator"), Some("operator"));
        assert_eq!(name("stable/mysql"), None);
    }
}
