//! The types of training jobs, by the names and shorthands that arena takes for `--type`.

use std::{fmt, str::FromStr};

use ronde_api::{Job, TrainingJob};

/// A type of training job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobType {
    Etjob,
    Mpijob,
    Horovodjob,
    Deepspeedjob,
    Pytorchjob,
    Tfjob,
    Volcanojob,
}

/// The type, its name and its other names.
const NAMES: [(JobType, &str, [&str; 2]); 7] = [
    (JobType::Etjob, "etjob", ["elastictraining", "et"]),
    (JobType::Mpijob, "mpijob", ["mpi", "mj"]),
    (JobType::Horovodjob, "horovodjob", ["horovod", "hj"]),
    (JobType::Deepspeedjob, "deepspeedjob", ["deepspeed", "dp"]),
    (JobType::Pytorchjob, "pytorchjob", ["pytorch", "py"]),
    (JobType::Tfjob, "tfjob", ["tensorflow", "tf"]),
    (JobType::Volcanojob, "volcanojob", ["volcano", "vj"]),
];

/// The label that names the type of a job.
pub const TYPE_LABEL: &str = "app";

impl JobType {
    pub const ALL: [Self; 7] = [
        Self::Etjob,
        Self::Mpijob,
        Self::Horovodjob,
        Self::Deepspeedjob,
        Self::Pytorchjob,
        Self::Tfjob,
        Self::Volcanojob,
    ];

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(job_type, ..)| *job_type == self).map_or("", |(_, name, _)| name)
    }

    /// Whether it is a TrainingJob for the API; else it is a job of Volcano.
    pub fn is_elastic_kind(self) -> bool {
        matches!(self, Self::Etjob | Self::Mpijob | Self::Horovodjob | Self::Deepspeedjob)
    }

    /// The type of a job of a kind, by its label if that is one of this kind.
    pub fn of_training(job: &TrainingJob) -> Self {
        labelled(job.metadata.labels.as_ref()).filter(|found| found.is_elastic_kind()).unwrap_or(Self::Etjob)
    }

    /// The type of a job of Volcano.
    pub fn of_batch(job: &Job) -> Self {
        labelled(job.metadata.labels.as_ref()).filter(|found| !found.is_elastic_kind()).unwrap_or(Self::Volcanojob)
    }
}

fn labelled(labels: Option<&std::collections::BTreeMap<String, String>>) -> Option<JobType> {
    let label = labels?.get(TYPE_LABEL)?;
    NAMES.iter().find(|(_, name, _)| name == label).map(|(job_type, ..)| *job_type)
}

impl fmt::Display for JobType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.to_lowercase();
        let found = NAMES.iter().find(|(_, name, others)| *name == word || others.contains(&word.as_str()));
        let names = || NAMES.map(|(_, name, _)| name).join(", ");
        found.map(|(job_type, ..)| *job_type).ok_or_else(|| format!("is not one of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_and_shorthands() {
        for (word, expected) in [
            ("etjob", Ok("etjob")),
            ("ET", Ok("etjob")),
            ("ElasticTraining", Ok("etjob")),
            ("Tensorflow", Ok("tfjob")),
            ("py", Ok("pytorchjob")),
            ("sparkjob", Err("is not one of etjob, mpijob, horovodjob, deepspeedjob, pytorchjob, tfjob, volcanojob")),
        ] {
            let found = word.parse::<JobType>().map(JobType::name);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{word}");
        }
    }

    #[test]
    fn a_label_of_another_kind_is_none() {
        let labels = |name: &str| Some([("app".to_owned(), name.to_owned())].into());
        let mut job = Job::default();
        assert_eq!(JobType::of_batch(&job), JobType::Volcanojob);
        job.metadata.labels = labels("tfjob");
        assert_eq!(JobType::of_batch(&job), JobType::Tfjob);
        job.metadata.labels = labels("etjob");
        assert_eq!(JobType::of_batch(&job), JobType::Volcanojob);
    }
}
