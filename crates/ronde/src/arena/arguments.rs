//! The arguments before they are parsed: flags before the verb, arena's older flags, and the file of a job.
//!
//! Works on words alone. What stands behind `--` belongs to the job and is never looked at.

use clap::Command;

/// Flags with a value that may stand before the verb, and what they are called behind it; those that are called nothing have
/// no meaning and are dropped.
pub type Flags = [(&'static str, Option<&'static str>)];

/// Those of every verb of arena.
pub const ARENA: &Flags = &[
    ("--config", Some("--kubeconfig")),
    ("--namespace", Some("--namespace")),
    ("-n", Some("--namespace")),
    ("--loglevel", None),
    ("--arena-namespace", None),
];
/// Those of every verb of kubectl that a plugin is likely to be given.
pub const KUBECTL: &Flags = &[
    ("--context", Some("--context")),
    ("--kubeconfig", Some("--kubeconfig")),
    ("--namespace", Some("--namespace")),
    ("-n", Some("--namespace")),
];
/// Those of arena without a value: they would show how arena works inside.
const IGNORED: [&str; 3] = ["--pprof", "--trace", "--helm-binary"];

/// Arguments in our own words, and what is to be said about them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Translated {
    pub words: Vec<String>,
    pub notices: Vec<String>,
}

/// Brings flags behind the verb, where ours are. The first word is the program.
pub fn persistent(words: Vec<String>, flags: &Flags) -> Vec<String> {
    let mut words = words.into_iter();
    let mut done: Vec<String> = words.next().into_iter().collect();
    let (mut moved, mut has_verb) = (Vec::new(), false);
    while let Some(word) = words.next() {
        if word == "--" {
            // Before what is the job's.
            done.append(&mut moved);
            done.push(word);
            done.extend(words.by_ref());
            break;
        }
        let (flag, value) = word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        if flags == ARENA && IGNORED.contains(&flag) {
            continue;
        }
        let known = flags.iter().find(|(name, _)| *name == flag);
        // Behind the verb only what has another name, or none, needs a hand.
        match known.filter(|(name, ours)| !has_verb || Some(*name) != *ours && *name != "-n") {
            Some((_, ours)) => {
                let value = value.map(str::to_owned).or_else(|| words.next());
                if let (Some(ours), Some(value)) = (ours, value) {
                    moved.push(format!("{ours}={value}"));
                }
            }
            None => {
                has_verb |= !word.starts_with('-');
                done.push(word);
            }
        }
    }
    done.append(&mut moved);
    done
}

/// Replaces flags in camelCase by those that took their place, where the verb has such a flag.
pub fn deprecated(words: Vec<String>, program: &Command) -> Translated {
    let known = flags_of(&words, program);
    let mut translated = Translated::default();
    let mut is_ours = true;
    for word in words {
        is_ours &= word != "--";
        let (flag, value) = word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        let newer = flag.strip_prefix("--").filter(|name| is_ours && !known.contains(&(*name).to_owned()));
        let newer = newer.map(kebab).filter(|newer| known.contains(newer));
        translated.words.push(match newer {
            Some(newer) => {
                let notice = format!("Flag {flag} has been deprecated, please use --{newer} instead");
                translated.notices.push(notice);
                value.map_or(format!("--{newer}"), |value| format!("--{newer}={value}"))
            }
            None => word,
        });
    }
    translated
}

/// Returns the long flags of the verb that the words name.
fn flags_of(words: &[String], program: &Command) -> Vec<String> {
    let mut command = program;
    for word in words.iter().skip(1) {
        match command.find_subcommand(word) {
            Some(inner) => command = inner,
            None if word.starts_with('-') => {}
            None => break,
        }
    }
    let names = |arg: &clap::Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
    };
    command.get_arguments().flat_map(names).collect()
}

/// Writes `workingDir` as `working-dir`, and `taskCPU` as `task-cpu`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    let mut was_upper = true;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !was_upper {
            out.push('-');
        }
        was_upper = letter.is_ascii_uppercase();
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn check(line: &str, expected: &str) {
        let flags = if line.starts_with("arena") { ARENA } else { KUBECTL };
        assert_eq!(persistent(split(line), flags).join(" "), expected, "{line}");
    }

    #[test]
    fn flags_before_the_verb_are_brought_behind_it() {
        check("arena list", "arena list");
        check("arena -n ml --config=/k list -A", "arena list -A --namespace=ml --kubeconfig=/k");
        check("arena --loglevel debug --trace get x", "arena get x");
        check("arena get x --config /k -n ml", "arena get x -n ml --kubeconfig=/k");
        check("arena --namespace ml attach x -- ls --config y", "arena attach x --namespace=ml -- ls --config y");
        check("arena --config", "arena");
        check("kubectl-ronde list -n ml", "kubectl-ronde list -n ml");
        check("kubectl-ronde -n ml --context=c list --trace", "kubectl-ronde list --trace --namespace=ml --context=c");
        check("kubectl-ronde --kubeconfig /k get pods -o json", "kubectl-ronde get pods -o json --kubeconfig=/k");
        check("kubectl-ronde -n ml exec x -- ls -n", "kubectl-ronde exec x --namespace=ml -- ls -n");
        check("kubectl-ronde run -np 2 python -n 3", "kubectl-ronde run -np 2 python -n 3");
    }

    #[test]
    fn older_flags_are_replaced_and_said() {
        let program = Args::command();
        let line = "arena submit etjob --workingDir=/a --maxWorkers 3 --hostNetwork --unKnown -- run --workingDir";
        let found = deprecated(split(line), &program);
        let expected =
            "arena submit etjob --working-dir=/a --max-workers 3 --hostNetwork --unKnown -- run --workingDir";
        assert_eq!(found.words.join(" "), expected);
        assert_eq!(
            found.notices,
            [
                "Flag --workingDir has been deprecated, please use --working-dir instead",
                "Flag --maxWorkers has been deprecated, please use --max-workers instead",
            ]
        );
        let found = deprecated(split("arena list --allNamespaces"), &program);
        assert_eq!(found.words.join(" "), "arena list --all-namespaces");
        let found = deprecated(split("arena submit vj --taskCPU 1"), &program);
        assert_eq!(found.words.join(" "), "arena submit vj --task-cpu 1");
    }
}
