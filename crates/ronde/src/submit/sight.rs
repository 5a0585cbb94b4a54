//! Whether the pods of a job will see what it names. Where pods run on the files of this machine, what they will not find is
//! told before anything is created. What an image may have is only warned of, and of a stored image, or of any other
//! cluster, nothing is known, and nothing is said.
//!
//! [`look`] is pure: what is on the disk is asked through a function. What is certain to fail is a fault; what may be meant
//! otherwise is a warning.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt as _};
use ronde_images::{Reference, Store};
use ronde_node::{
    images::policy::{Name, Wanted},
    machine::files::{self, MachineFiles},
};

use super::{
    check::Plain,
    shell::{self, Word},
};
use crate::{
    failure::{Blame, Failure},
    objects,
};

/// Where Kubernetes has files of its own in every pod.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Programs whose first word is a script.
const INTERPRETERS: [&str; 6] = ["python", "bash", "sh", "perl", "Rscript", "node"];
/// What the shell knows by itself and what only prepares.
const HARMLESS: [&str; 7] = ["export", "set", "echo", "true", ":", "ulimit", "umask"];
/// What runs the words behind it.
const PREFIXES: [&str; 4] = ["exec", "command", "nohup", "time"];
/// What the shell knows by itself, and what decides by more than its words.
const OTHER_BUILTINS: [&str; 11] =
    ["source", ".", "eval", "test", "[", "env", "sudo", "trap", "wait", "printf", "read"];
/// What a launcher finds without the PATH of pods.
const OF_AGENTS: [&str; 3] = ["horovodrun", "ssh", "ronde"];

/// What is on the disk of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Without symbolic links.
    pub real: PathBuf,
    pub is_program: bool,
}

/// Returns what is at a path of this machine.
pub type Find<'a> = &'a dyn Fn(&Path) -> Option<Found>;

/// The shell that a job is submitted from.
#[derive(Debug, Clone, Default)]
pub struct Shell {
    pub folder: Option<PathBuf>,
    pub path: Option<String>,
    pub python_path: Option<String>,
}

/// Pods will not see something that they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub text: String,
    pub hint: String,
}

/// Pods will not see what the job names.
#[derive(Debug, thiserror::Error)]
pub struct UnseenError {
    pub faults: Vec<Fault>,
}

impl std::fmt::Display for UnseenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.faults.as_slice() {
            [fault] => f.write_str(&fault.text),
            faults => {
                f.write_str("pods will not see what the job names")?;
                faults.iter().try_for_each(|fault| write!(f, "\n  {}", fault.text))
            }
        }
    }
}

impl Failure for UnseenError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        self.faults.first().map(|fault| fault.hint.clone())
    }
}

/// All that was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub faults: Vec<Fault>,
    pub warnings: Vec<String>,
}

/// How a pod sees a path.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Yes,
    /// It is on this machine, in a folder of which pods have another one.
    Private(String),
    No,
    /// It is in a volume, or in a folder that every pod has.
    Unknown,
}

/// Looks at everything that a job names.
pub fn look(plain: &Plain<'_>, machine: &Machine, shell: &Shell, find: Find<'_>) -> Findings {
    let mut look = Look { plain, files: &machine.files, shell, find, findings: Findings::default() };
    let origin = machine.origin_of(plain.image);
    if origin != Origin::Image {
        look.at_working_dir();
        // An image may have a command of its own.
        look.at_command(origin == Origin::Machine);
        look.at_python_path();
    }
    if origin == Origin::Unknown {
        look.findings.doubt(plain.image);
    }
    look.at_data_dirs();
    look.findings
}

/// A machine that pods run on.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub files: MachineFiles,
    /// The names of the images that are stored there.
    pub stored: BTreeSet<String>,
}

/// Where the files of a pod come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Machine,
    Image,
    /// The image may be pulled, or not.
    Unknown,
}

impl Machine {
    fn origin_of(&self, image: &str) -> Origin {
        let is_stored = |name: &Reference| self.stored.contains(&name.to_string());
        match (Name::parse(image), self.files.images) {
            (Name::Host, _) | (_, Wanted::Host) => Origin::Machine,
            (_, Wanted::Pull) => Origin::Image,
            (Name::Image(name), Wanted::Auto) if is_stored(&name) => Origin::Image,
            (Name::Invalid(_) | Name::Image(_), Wanted::Auto) => Origin::Unknown,
        }
    }
}

impl Findings {
    /// What is wrong here may be right in the image.
    fn doubt(&mut self, image: &str) {
        let faults = std::mem::take(&mut self.faults).into_iter();
        let doubts = faults.map(|fault| format!("{}, unless image `{image}` has it", fault.text));
        self.warnings = doubts.chain(self.warnings.drain(..)).collect();
    }
}

struct Look<'a> {
    plain: &'a Plain<'a>,
    files: &'a MachineFiles,
    shell: &'a Shell,
    find: Find<'a>,
    findings: Findings,
}

impl Look<'_> {
    fn fault(&mut self, text: String, hint: String) {
        self.findings.faults.push(Fault { text, hint });
    }

    fn at_working_dir(&mut self) {
        let folder = self.plain.common.working_dir.clone();
        if let Seen::Private(own) = self.seen(Path::new(&folder)) {
            let hint = format!("mount it with `--data-dir {folder}`, or use a folder outside of {own}");
            self.fault(format!("pods will not see --working-dir `{folder}`: {}", self.why(&own)), hint);
        }
    }

    fn at_data_dirs(&mut self) {
        for text in self.plain.common.data_dirs.clone() {
            let host = text.split_once(':').map_or(text.as_str(), |(host, _)| host);
            if (self.find)(Path::new(host)).is_none() {
                let hint = format!("create it with `mkdir -p {host}`, or check the path");
                self.fault(format!("--data-dir `{host}` does not exist on this machine"), hint);
            }
        }
    }

    fn why(&self, folder: &str) -> String {
        if self.files.hidden.iter().any(|hidden| hidden == folder) {
            format!("{folder} is the data directory of the cluster")
        } else {
            format!("they have a {folder} of their own")
        }
    }

    fn at_command(&mut self, is_needed: bool) {
        if is_needed && self.plain.command.trim().is_empty() {
            let hint = "put the command after the flags, in quotes".to_owned();
            self.fault("the job has no command, and this machine's files are no image with one".to_owned(), hint);
        }
        self.follow(Some(PathBuf::from(&self.plain.common.working_dir)), &self.plain.command.clone());
    }

    /// Follows a command to the first program that does something.
    fn follow(&mut self, mut folder: Option<PathBuf>, text: &str) {
        for command in shell::commands(text) {
            let changes_path = |word: &str| word.starts_with("PATH=");
            if command.assignments.iter().any(|word| changes_path(word)) {
                return;
            }
            let prefixes = command.words.iter().take_while(|word| is_one_of(word, &PREFIXES)).count();
            let words = &command.words[prefixes..];
            match words.first() {
                None => {}
                Some(first) if is_one_of(first, &["cd"]) => folder = self.enter(folder, words.get(1)),
                Some(_) if words.iter().flatten().any(|word| changes_path(word)) => return,
                Some(first) if is_one_of(first, &HARMLESS) => {}
                Some(Some(program)) if !OTHER_BUILTINS.contains(&program.as_str()) => {
                    return self.at_program(folder.as_deref(), program, words);
                }
                Some(_) => return,
            }
        }
    }

    /// Goes into a folder, if it is known which.
    fn enter(&mut self, folder: Option<PathBuf>, to: Option<&Word>) -> Option<PathBuf> {
        let path = folder?.join(to?.as_ref()?);
        self.check(&path, &path.display().to_string());
        Some(path)
    }

    fn at_program(&mut self, folder: Option<&Path>, program: &str, words: &[Word]) {
        let mut known = Vec::new();
        if program.contains('/') {
            known.extend(folder.map(|folder| (folder.join(program), program.to_owned())));
        } else {
            self.at_path(program);
        }
        let interpreter = words.iter().position(|word| word.as_deref().is_some_and(is_interpreter));
        if let Some(inner) = interpreter.and_then(|at| inner_command(&words[at..])) {
            return self.follow(folder.map(Path::to_owned), inner);
        }
        let script = interpreter.and_then(|at| script_of(&words[at + 1..]));
        if let (Some(script), Some(folder)) = (&script, folder) {
            known.push((folder.join(script), script.clone()));
        }
        for (path, text) in known {
            self.check(&path, &text);
        }
        let Some(folder) = folder else { return };
        for word in words.iter().skip(1).flatten().filter(|word| Some(*word) != script.as_ref()) {
            let value = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
            self.at_argument(folder, value);
        }
    }

    /// Checks something that the command cannot do without.
    fn check(&mut self, path: &Path, text: &str) {
        match self.seen(path) {
            Seen::Yes | Seen::Unknown => {}
            Seen::Private(own) => {
                let parent = path.parent().unwrap_or(path).display();
                let hint = format!("mount its folder with `--data-dir {parent}`, or move it out of {own}");
                self.fault(format!("pods will not see `{text}`: {}", self.why(&own)), hint);
            }
            Seen::No if Path::new(text).is_absolute() => {
                let hint = "check the path: pods see the files of this machine".to_owned();
                self.fault(format!("`{text}` does not exist on this machine"), hint);
            }
            Seen::No => {
                let folder = &self.plain.common.working_dir;
                let text = format!("pods will not find `{text}`: it is not in their working directory, `{folder}`");
                let hint = self.hint_for_relative(path);
                self.fault(text, hint);
            }
        }
    }

    fn hint_for_relative(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.plain.common.working_dir).unwrap_or(path);
        let here = self.shell.folder.as_deref().filter(|folder| (self.find)(&folder.join(name)).is_some());
        let Some(here) = here else { return "set `--working-dir` to the folder that it is in".to_owned() };
        let shown = here.display();
        match self.files.private_folder_of(here) {
            None => format!("it is in this folder: add `--working-dir {shown}`"),
            Some(_) => format!("it is in this folder: add `--data-dir {shown} --working-dir {shown}`"),
        }
    }

    fn at_path(&mut self, program: &str) {
        let given = self.plain.common.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let Some(path) = given.or(self.files.env.get("PATH").map(String::as_str)) else { return };
        let is_of_agent = OF_AGENTS.contains(&program) && self.plain.job_type.is_elastic_kind();
        let finds = |path: &str| {
            std::env::split_paths(path).map(|folder| folder.join(program)).find(|path| {
                !matches!(self.seen(path), Seen::No | Seen::Private(_))
                    && (self.find)(path).is_none_or(|found| found.is_program)
            })
        };
        if path.contains('$') || is_of_agent || finds(path).is_some() {
            return;
        }
        let own = self.shell.path.as_deref().unwrap_or_default();
        let own =
            std::env::split_paths(own).map(|folder| folder.join(program)).find(|path| (self.find)(path).is_some());
        let hint = match own {
            Some(own) => {
                let own = own.display();
                format!("write `{own}`, or run `ronde up` again in a shell with this PATH: pods inherit it from there")
            }
            None => format!("check the spelling; pods look in {path}"),
        };
        self.fault(format!("command `{program}` is not on the PATH of pods"), hint);
    }

    /// Warns of a file that is here, and not where the command runs: it may be meant, and may be made there.
    fn at_argument(&mut self, folder: &Path, text: &str) {
        let is_path = text.contains(['/', '.']) && !matches!(text.trim_end_matches('/'), "" | "." | "..");
        let here = self.shell.folder.as_ref().map(|here| here.join(text));
        if !is_path || here.is_none_or(|here| (self.find)(&here).is_none()) {
            return;
        }
        let warning = match self.seen(&folder.join(text)) {
            Seen::Private(own) => format!("pods will not see `{text}`: {}", self.why(&own)),
            Seen::No => {
                format!("`{text}` is in this folder, but not in the working directory of pods, `{}`", folder.display())
            }
            Seen::Yes | Seen::Unknown => return,
        };
        self.findings.warnings.push(warning);
    }

    fn at_python_path(&mut self) {
        let given = self.plain.common.env.iter().any(|(name, _)| name == "PYTHONPATH");
        let Some(own) = self.shell.python_path.as_ref().filter(|_| !given) else { return };
        if self.files.env.get("PYTHONPATH") != Some(own) {
            let warning =
                "pods will not have the PYTHONPATH of this shell; pass it on with `--env PYTHONPATH=$PYTHONPATH`";
            self.findings.warnings.push(warning.to_owned());
            return;
        }
        for folder in std::env::split_paths(own).filter(|folder| folder.is_absolute()) {
            if let Seen::Private(private) = self.seen(&folder) {
                let why = self.why(&private);
                self.findings.warnings.push(format!("pods will not see `{}` of PYTHONPATH: {why}", folder.display()));
            }
        }
    }

    /// Tells how pods see a path.
    fn seen(&self, path: &Path) -> Seen {
        if KERNEL.iter().any(|folder| path.starts_with(folder)) {
            return Seen::Unknown;
        }
        if let Some((target, host)) = self.mount_over(path) {
            let Some(host) = host else { return Seen::Unknown };
            let inside = path.strip_prefix(&target).unwrap_or(Path::new(""));
            let inside = if inside.as_os_str().is_empty() { host } else { host.join(inside) };
            return if (self.find)(&inside).is_some() { Seen::Yes } else { Seen::No };
        }
        match (self.find)(path) {
            None => Seen::No,
            Some(found) => match self.files.private_folder_of(&found.real) {
                Some(folder) => Seen::Private(folder.to_owned()),
                None => Seen::Yes,
            },
        }
    }

    /// Returns the innermost volume that a path is in: where it is mounted, and which folder of this machine it is.
    fn mount_over(&self, path: &Path) -> Option<(PathBuf, Option<PathBuf>)> {
        let mounts = self.plain.mounts.iter().map(|mount| {
            let target = PathBuf::from(mount.mount["mountPath"].as_str().unwrap_or_default());
            (target, mount.volume["hostPath"]["path"].as_str().map(PathBuf::from))
        });
        let files = self.plain.files.iter().map(|file| (PathBuf::from(&file.path), None));
        let over = mounts.chain(files).filter(|(target, _)| path.starts_with(target));
        over.max_by_key(|(target, _)| target.components().count())
    }
}

fn is_one_of(word: &Word, words: &[&str]) -> bool {
    word.as_deref().is_some_and(|word| words.contains(&word))
}

/// Returns what is at a path of the disk.
pub fn on_disk(path: &Path) -> Option<Found> {
    use std::os::unix::fs::PermissionsExt as _;
    match fs_err::canonicalize(path) {
        Ok(real) => {
            let is_program = |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
            let is_program = fs_err::metadata(&real).is_ok_and(is_program);
            Some(Found { real, is_program })
        }
        // What this user may not look at may be there.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Some(Found { real: path.to_owned(), is_program: true })
        }
        Err(_) => None,
    }
}

/// Asks the nodes whether their pods see the files of this machine, and how.
pub async fn machine_of(client: &Client) -> Option<Machine> {
    // Who may not look at nodes is told nothing.
    let nodes = objects::list::<Node>(client, None, &[]).await.ok()?;
    let mut all = nodes.iter().map(|node| {
        let text = node.annotations().get(files::ANNOTATION)?;
        serde_json::from_str::<MachineFiles>(text).ok()
    });
    let first = all.next()??;
    let is_here = first.root == files::root().ok()?;
    let is_one = is_here && all.all(|other| other.as_ref() == Some(&first));
    let images = nodes.iter().filter_map(|node| node.status.as_ref()?.images.as_ref()).flatten();
    let listed = images.flat_map(|image| image.names.iter().flatten().cloned());
    let stored = listed.chain(names_in_store(&first)).collect();
    is_one.then_some(Machine { files: first, stored })
}

/// Returns the images that are in the store of this machine: what nodes list is seconds old. The store is in the data
/// directory, which pods do not see; who may not read it has the list.
fn names_in_store(files: &MachineFiles) -> impl Iterator<Item = String> {
    let stores = files.hidden.iter().map(|folder| Store::new(Path::new(folder).join("images")));
    let images = stores.filter_map(|store| store.list().ok()).flatten();
    images.flat_map(|image| image.names).map(|name| name.to_string())
}

/// Tells whether a program runs scripts: `/usr/bin/python3.12` does.
fn is_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    INTERPRETERS.contains(&name)
}

/// Returns the command that a shell gets as a word: `bash -ec 'python3 train.py'`. What a login shell (`-l`, `-i`) finds,
/// its profile decides.
fn inner_command(words: &[Word]) -> Option<&str> {
    let (shell, words) = words.split_first()?;
    let name = shell.as_deref()?.rsplit('/').next()?;
    let is_flag = |word: &&str| word.starts_with('-') && !word.starts_with("--");
    let flags: Vec<&str> = words.iter().map_while(Word::as_deref).take_while(is_flag).collect();
    let is_known = ["bash", "sh"].contains(&name) && !flags.iter().any(|flag| flag.contains(['l', 'i']));
    let takes_command = flags.last().is_some_and(|flag| flag.ends_with('c'));
    words.get(flags.len())?.as_deref().filter(|_| is_known && takes_command)
}

/// Returns the script among the words behind an interpreter.
fn script_of(words: &[Word]) -> Option<String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_deref()? {
            "-m" | "-e" | "-" | "-s" => return None,
            // Also as `-lc`, `-ec`.
            option if option.starts_with('-') && !option.starts_with("--") && option.ends_with('c') => return None,
            "-W" | "-X" | "-o" => drop(words.next()),
            option if option.starts_with('-') => {}
            script => return Some(script.to_owned()),
        }
    }
    None
}

#[cfg(test)]
mod tests;
