use std::collections::BTreeMap;

use super::*;
use crate::{
    arena::JobType,
    submit::{
        check::{self, Leave},
        fixtures::submit,
    },
};

/// What this machine has: programs end in `*`.
const DISK: [&str; 12] = [
    "/root",
    "/home/ann",
    "/home/ann/train.py",
    "/home/ann/conf.yaml",
    "/home/ann/run.sh*",
    "/tmp",
    "/tmp/x",
    "/tmp/x/train.py",
    "/data",
    "/usr/bin/python3*",
    "/opt/own/bin/tool*",
    "/var/lib/ronde/node",
];

fn find(path: &Path) -> Option<Found> {
    let found = DISK.iter().find(|one| Path::new(one.trim_end_matches('*')) == path)?;
    Some(Found { real: path.to_owned(), is_program: found.ends_with('*') })
}

fn files() -> MachineFiles {
    let env = [("PATH", "/usr/bin:/bin"), ("PYTHONPATH", "/home/ann/lib:/tmp/x")];
    MachineFiles {
        root: String::new(),
        own: ["/dev", "/proc", "/run", "/sys", "/tmp"].map(str::to_owned).into(),
        hidden: vec!["/var/lib/ronde".to_owned()],
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        images: Wanted::Host,
    }
}

fn machine(images: Wanted) -> Machine {
    let stored = BTreeSet::from(["docker.io/library/stored:1".to_owned()]);
    Machine { files: MachineFiles { images, ..files() }, stored }
}

/// Looks at a job with these flags and this command, submitted in a folder.
fn look_at(flags: &str, command: &str, folder: &str, python_path: Option<&str>) -> Findings {
    let words = ["--name=a", "--image=i"].into_iter().chain(flags.split_whitespace()).chain([command]);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let crate::args::SubmitJob::Etjob(args) = submit("etjob", &words) else { panic!("this is an etjob") };
    let plain =
        check::common(&args.common, JobType::Etjob, Leave { command: true, ..Leave::default() }, &mut Vec::new());
    let shell = Shell {
        folder: Some(folder.into()),
        path: Some("/usr/bin:/opt/own/bin".to_owned()),
        python_path: python_path.map(str::to_owned),
    };
    look(&plain, &machine(Wanted::Host), &shell, &find)
}

fn check(what: &str, flags: &str, command: &str, expected: &[&str]) {
    let Findings { faults, warnings } = look_at(flags, command, "/home/ann", None);
    let faults = faults.iter().map(|fault| format!("{} | {}", fault.text, fault.hint));
    let all: Vec<String> = faults.chain(warnings.iter().map(|text| format!("warning: {text}"))).collect();
    assert_eq!(all, expected, "{what}");
}

#[test]
fn folders_that_pods_have_for_themselves_are_named() {
    check("a folder that all see", "--working-dir=/home/ann", "python3 train.py", &[]);
    check("one that is made", "--working-dir=/nowhere", "python3 -c pass", &[]);
    check("the folder itself", "--working-dir=/tmp", "python3 -c pass", &[]);
    check(
        "in /tmp",
        "--working-dir=/tmp/x",
        "python3 -c pass",
        &[
            "pods will not see --working-dir `/tmp/x`: they have a /tmp of their own | mount it with `--data-dir /tmp/x`, \
           or use a folder outside of /tmp",
        ],
    );
    check("mounted", "--working-dir=/tmp/x --data-dir=/tmp/x", "python3 train.py", &[]);
    check("mounted elsewhere", "--working-dir=/code --data-dir=/tmp/x:/code", "python3 train.py", &[]);
    check(
        "the cluster's own",
        "--working-dir=/var/lib/ronde/node",
        "python3 -c pass",
        &[
            "pods will not see --working-dir `/var/lib/ronde/node`: /var/lib/ronde is the data directory of the cluster | \
           mount it with `--data-dir /var/lib/ronde/node`, or use a folder outside of /var/lib/ronde",
        ],
    );
    check(
        "not there",
        "--data-dir=/none",
        "python3 -c pass",
        &["--data-dir `/none` does not exist on this machine | create it with `mkdir -p /none`, or check the path"],
    );
}

#[test]
fn scripts_that_pods_will_not_find_are_named() {
    let tmp = "pods will not see `/tmp/x/train.py`: they have a /tmp of their own | mount its folder with \
               `--data-dir /tmp/x`, or move it out of /tmp";
    check("in /tmp", "", "python3 /tmp/x/train.py", &[tmp]);
    check("behind a launcher", "", "horovodrun -np $((${workers}*1)) python3 -u /tmp/x/train.py", &[tmp]);
    check("behind another shell", "", "horovodrun -np 2 bash -e -c 'cd /root; python3 /tmp/x/train.py'", &[tmp]);
    check("a login shell has a PATH of its own", "", "horovodrun -np 1 bash -lc 'tool --x'", &[]);
    check("behind words for the shell", "", "export A=1; cd /root && exec python3 /tmp/x/train.py", &[tmp]);
    let relative = "pods will not find `train.py`: it is not in their working directory, `/root` | it is in this \
                    folder: add `--working-dir /home/ann`";
    check("in this folder", "", "python3 train.py", &[relative]);
    check("where the command goes", "", "cd /home/ann && python3 train.py", &[]);
    check("in a volume", "-d claim:/code", "cd /code && python3 train.py", &[]);
    check(
        "nowhere",
        "",
        "python3 /none.py",
        &["`/none.py` does not exist on this machine | check the path: pods see \
        the files of this machine"],
    );
    check(
        "a module",
        "",
        "python3 -m torch.distributed.run train.py",
        &["warning: `train.py` is in this folder, but not in the working directory of pods, `/root`"],
    );
    check("a program by its path", "--working-dir=/home/ann", "./run.sh --config=conf.yaml", &[]);
    check(
        "made by the command",
        "",
        "git clone x && python3 train.py",
        &["command `git` is not on the PATH of pods | check the spelling; pods look in /usr/bin:/bin"],
    );
    check("only a shell knows", "", "for i in 1 2; do python3 $i.py; done", &[]);
    let output = look_at("", "python3 -c pass --out /tmp/x --lr 0.1", "/tmp/x", None);
    assert_eq!(output.faults, []);
    assert_eq!(output.warnings, ["pods will not see `/tmp/x`: they have a /tmp of their own"]);
    let here = look_at("", "python3 train.py", "/tmp/x", None);
    assert_eq!(here.faults[0].hint, "it is in this folder: add `--data-dir /tmp/x --working-dir /tmp/x`");
}

#[test]
fn programs_and_libraries_are_looked_for_where_pods_do() {
    check(
        "of this shell only",
        "",
        "tool --x",
        &["command `tool` is not on the PATH of pods | write \
        `/opt/own/bin/tool`, or run `ronde up` again in a shell with this PATH: pods inherit it from there"],
    );
    check("with a PATH of its own", "--env=PATH=/opt/own/bin", "tool --x", &[]);
    check("with one that is put together", "--env=PATH=/x:$(PATH)", "tool --x", &[]);
    check("set by the command", "", "PATH=/opt/own/bin tool", &[]);
    check("set before", "", "export PATH=/opt/own/bin; tool", &[]);
    check("of the launcher", "", "horovodrun -np 1 /opt/own/bin/tool", &[]);
    check(
        "no command",
        "",
        "",
        &["the job has no command, and this machine's files are no image with one | put the command \
        after the flags, in quotes"],
    );
    let python_path = |own: &str, flags: &str| look_at(flags, "python3 -c pass", "/root", Some(own)).warnings;
    assert_eq!(
        python_path("/other", ""),
        ["pods will not have the PYTHONPATH of this shell; pass it on with \
        `--env PYTHONPATH=$PYTHONPATH`"]
    );
    assert_eq!(python_path("/other", "--env=PYTHONPATH=/other"), [""; 0]);
    let private = "pods will not see `/tmp/x` of PYTHONPATH: they have a /tmp of their own";
    assert_eq!(python_path("/home/ann/lib:/tmp/x", ""), [private]);
}

#[test]
fn pods_without_isolation_see_everything() {
    let files = MachineFiles { own: Vec::new(), hidden: Vec::new(), env: BTreeMap::new(), ..files() };
    let crate::args::SubmitJob::Etjob(args) = submit("etjob", &["--name=a", "--image=i", "python3 /tmp/x/train.py"])
    else {
        panic!("this is an etjob")
    };
    let plain = check::common(&args.common, JobType::Etjob, Leave::default(), &mut Vec::new());
    let machine = Machine { files, ..Machine::default() };
    assert_eq!(look(&plain, &machine, &Shell::default(), &find), Findings::default());
}

#[test]
fn what_an_image_may_have_is_not_refused() {
    let check = |what: &str, images: Wanted, image: &str, command: &str, faults: usize, warnings: &[&str]| {
        let image = format!("--image={image}");
        let words: Vec<&str> =
            ["--name=a", "--data-dir=/data", &image, command].into_iter().filter(|word| !word.is_empty()).collect();
        let crate::args::SubmitJob::Etjob(args) = submit("etjob", &words) else { panic!("this is an etjob") };
        let leave = Leave { command: true, ..Leave::default() };
        let plain = check::common(&args.common, JobType::Etjob, leave, &mut Vec::new());
        let findings = look(&plain, &machine(images), &Shell::default(), &find);
        assert_eq!(
            (findings.faults.len(), findings.warnings.iter().map(String::as_str).collect()),
            (faults, warnings.to_vec()),
            "{what}"
        );
    };
    let doubt = "command `train` is not on the PATH of pods, unless image `other:1` has it";
    check("this machine by name", Wanted::Pull, "host", "train", 1, &[]);
    check("this machine by setting", Wanted::Host, "stored:1", "train", 1, &[]);
    check("stored", Wanted::Auto, "stored:1", "train", 0, &[]);
    check("may be pulled", Wanted::Auto, "other:1", "train", 0, &[doubt]);
    check("is pulled", Wanted::Pull, "other:1", "train", 0, &[]);
    check("the command of the image", Wanted::Auto, "other:1", "", 0, &[]);
    check("no command, and no image", Wanted::Host, "other:1", "", 1, &[]);
}
