//! What is wrong with a job as it was described: everything at once, before anything is asked of the cluster.
//!
//! A [`Plain`] is checked: whoever builds objects from it need not look again. Pure but for the files of `--config-file`,
//! which [`super::volumes`] has read.

use std::fmt;

use ronde_api::{names::elastic::JOB_NAME_MAX, rules::PODS_MAX};
use ronde_text::names;

use super::volumes::{self, ConfigFile, Mount};
use crate::{
    arena::JobType,
    args::{CommonArgs, EtjobArgs},
    failure::{Blame, Failure},
};

const GPU: &str = "nvidia.com/gpu";

/// Why a job cannot be submitted.
#[derive(Debug)]
pub struct Faults {
    pub job_type: JobType,
    pub faults: Vec<String>,
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.faults.as_slice() {
            [fault] => f.write_str(fault),
            faults => write!(f, "the job is invalid\n  {}", faults.join("\n  ")),
        }
    }
}

impl Failure for Faults {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        Some(format!("`ronde submit {} --help` explains the flags", self.job_type))
    }
}

/// A job whose common flags make sense.
#[derive(Debug)]
pub struct Plain<'a> {
    pub common: &'a CommonArgs,
    pub job_type: JobType,
    pub name: &'a str,
    /// Empty if the tasks have their own.
    pub image: &'a str,
    /// As it was written, in one text; empty only where the image's own will do.
    pub command: String,
    pub mounts: Vec<Mount>,
    pub files: Vec<ConfigFile>,
}

/// What a type of job does not need.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leave {
    pub image: bool,
    pub command: bool,
}

/// Checks the flags that all jobs have.
pub fn common<'a>(common: &'a CommonArgs, job_type: JobType, leave: Leave, faults: &mut Vec<String>) -> Plain<'a> {
    let name = common.name.as_deref().unwrap_or_default();
    faults.extend(name_fault(common.name.as_deref(), job_type));
    if common.image.as_deref().is_none_or(str::is_empty) && !leave.image {
        faults.push("--image must be set".to_owned());
    }
    let command = common.command.join(" ");
    if command.trim().is_empty() && !leave.command {
        faults.push("not found command args: put the command in quotes after the flags".to_owned());
    }
    if common.workers < 1 {
        faults.push(format!("--workers is {}, a job needs at least 1", common.workers));
    }
    if common.workers > PODS_MAX {
        faults.push(format!("--workers is {}, a job has at most {PODS_MAX}", common.workers));
    }
    if common.cpu_only && common.gpus > 0 {
        faults.push(format!("--cpu-only and --gpus={} contradict each other", common.gpus));
    }
    if common.devices.iter().any(|(device, _)| device == GPU) {
        faults.push(format!("--device cannot be {GPU}, use --gpus"));
    }
    if !common.working_dir.starts_with('/') {
        faults.push(format!("--working-dir `{}` is not an absolute path", common.working_dir));
    }
    let (mounts, files) = (volumes::mounts(common, faults), volumes::read_files(&common.config_files, faults));
    Plain { common, job_type, name, image: common.image.as_deref().unwrap_or_default(), command, mounts, files }
}

fn name_fault(name: Option<&str>, job_type: JobType) -> Option<String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Some("--name must be set".to_owned()) };
    if name.len() > JOB_NAME_MAX {
        let length = name.len();
        return Some(format!("--name has {length} characters, a job's name has at most {JOB_NAME_MAX}"));
    }
    // Workers with a launcher have services of their name, whose first character is a letter.
    let (faults, first) = if job_type.is_elastic_kind() {
        (names::is_dns1035_label(name), "a letter first")
    } else {
        (names::is_dns1123_label(name), "a letter or a digit first")
    };
    let rule = format!("lower case letters, digits and `-`, {first} and no `-` last");
    (!faults.is_empty()).then(|| format!("--name `{name}` is not made of {rule}"))
}

/// Checks the sizes of an elastic job.
pub fn sizes(args: &EtjobArgs, faults: &mut Vec<String>) {
    let (min, workers, max) = (args.min_workers, args.common.workers, args.max_workers);
    if min < 1 {
        faults.push(format!("--min-workers is {min}, a job needs at least 1"));
    }
    if max > PODS_MAX {
        faults.push(format!("--max-workers is {max}, a job has at most {PODS_MAX}"));
    }
    if workers < min {
        faults.push(format!("--workers is {workers}, less than --min-workers, which is {min}"));
    }
    if workers > max {
        faults.push(format!("--workers is {workers}, more than --max-workers, which is {max}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::fixtures::etjob;

    fn check(name: &str, line: &str, expected: &[&str]) {
        let args = etjob(line);
        let mut faults = Vec::new();
        common(&args.common, JobType::Etjob, Leave::default(), &mut faults);
        sizes(&args, &mut faults);
        assert_eq!(faults, expected, "{name}");
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let long = "a".repeat(50);
        check("nothing", "--name=a --image=i --workers=3 --max-workers=9 run", &[]);
        check("a name of 49 characters", &format!("--name={} --image=i run", "a".repeat(49)), &[]);
        check(
            "all of it",
            &format!("--name={long} --workers=0 --gpus=1 --cpu-only --working-dir=x --device=nvidia.com/gpu=1"),
            &[
                "--name has 50 characters, a job's name has at most 49",
                "--image must be set",
                "not found command args: put the command in quotes after the flags",
                "--workers is 0, a job needs at least 1",
                "--cpu-only and --gpus=1 contradict each other",
                "--device cannot be nvidia.com/gpu, use --gpus",
                "--working-dir `x` is not an absolute path",
                "--workers is 0, less than --min-workers, which is 1",
            ],
        );
        let name = |name: &str| {
            format!("--name `{name}` is not made of lower case letters, digits and `-`, a letter first and no `-` last")
        };
        check("capitals", "--name=Mnist --image=i run", &[&name("Mnist")]);
        check("a digit first", "--name=1a --image=i run", &[&name("1a")]);
        check("a dot", "--name=a.b --image=i run", &[&name("a.b")]);
        check("no name", "--image=i run", &["--name must be set"]);
        check(
            "too many",
            "--name=a --image=i --workers=5 --max-workers=4 run",
            &["--workers is 5, more than --max-workers, which is 4"],
        );
        check(
            "more than a controller can hold",
            "--name=a --image=i --workers=10001 --max-workers=2147483647 run",
            &["--workers is 10001, a job has at most 10000", "--max-workers is 2147483647, a job has at most 10000"],
        );
        check(
            "too few",
            "--name=a --image=i --workers=2 --min-workers=3 run",
            &["--workers is 2, less than --min-workers, which is 3"],
        );
    }

    #[test]
    fn one_fault_is_said_by_itself() {
        let one = Faults { job_type: JobType::Etjob, faults: vec!["--name must be set".to_owned()] };
        assert_eq!(one.to_string(), "--name must be set");
        let two = Faults { job_type: JobType::Etjob, faults: vec!["a".to_owned(), "b".to_owned()] };
        assert_eq!(two.to_string(), "the job is invalid\n  a\n  b");
    }
}
