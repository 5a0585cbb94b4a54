//! `ronde install` and `ronde uninstall`: the charts that come with this program, through the user's own Helm.
//!
//! What Helm says goes straight to the user, and what the user says goes straight to Helm, values from stdin included. A
//! release that is there already is upgraded. Whether Volcano or et-operator is in the way is looked at by the operator's
//! chart itself, so that `helm install` refuses the same.

mod adoption;
mod charts;

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use self::charts::{CHARTS, Chart};
use crate::{
    Context,
    args::{ClusterArgs, InstallArgs, UninstallArgs},
    failure::{Answer, Blame, Failure, Outcome},
    printer::Printer,
};

/// From this version on, Helm applies objects in the server. The master of a chart writes the scale of its workers, and
/// would own it in the server's eyes: the next upgrade were a conflict.
const HELM_THAT_APPLIES_IN_THE_SERVER: u32 = 4;

/// Why Helm was not asked, or not to be asked.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error("there is no chart `{chart}`")]
    NoChart { chart: String },
    #[error("a release of the chart `{chart}` needs a name")]
    NoRelease { chart: &'static str },
    #[error("the chart `{chart}` takes nothing over")]
    NothingToTakeOver { chart: &'static str },
    #[error("cannot write the chart into a folder for Helm")]
    Unpack { source: io::Error },
    #[error("`helm` is not installed")]
    NoHelm,
    #[error("cannot run `helm`")]
    Helm { source: io::Error },
}

impl Failure for InstallError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoChart { .. } | Self::NoRelease { .. } | Self::NothingToTakeOver { .. } => Blame::User,
            Self::Unpack { .. } | Self::NoHelm | Self::Helm { .. } => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoChart { .. } => {
                let names: Vec<_> = CHARTS.iter().map(|chart| format!("`{}`", chart.name)).collect();
                Some(format!("the charts are: {}; for others, use `helm` itself", names.join(", ")))
            }
            Self::NoRelease { chart } => Some(format!("`ronde install {chart} NAME`")),
            Self::NothingToTakeOver { .. } => Some("`--take-over` is for `ronde install operator`".to_owned()),
            Self::NoHelm => Some(
                "install Helm 3 (https://github.com/helm/helm/releases) or later; it is one program that only needs to \
                 be in the PATH"
                    .to_owned(),
            ),
            Self::Unpack { .. } | Self::Helm { .. } => None,
        }
    }
}

/// Runs `ronde install`.
pub fn install(args: &InstallArgs, context: &Context) -> Outcome {
    let chart = Chart::find(&args.chart).ok_or_else(|| InstallError::NoChart { chart: args.chart.clone() })?;
    let release = Release::of_args(args, chart)?;
    let wrap = |source| InstallError::Unpack { source };
    let folder = TempDir::with_prefix("ronde-chart-").map_err(wrap)?;
    chart.unpack(folder.path()).map_err(wrap)?;
    if args.dry_run {
        return run_helm(&words_to_print(args, &release, folder.path()), context.printer);
    }
    let helm_version = helm_version()?;
    let adopts = chart.place.is_some() && adoption::is_needed(args)?;
    run_helm(&words_to_install(args, &release, folder.path(), helm_version, adopts), context.printer)
}

/// A release: its name, and where it goes.
struct Release {
    name: String,
    namespace: Option<String>,
    /// Whether the namespace is made if it is not there.
    makes_namespace: bool,
}

impl Release {
    fn of_args(args: &InstallArgs, chart: Chart) -> Result<Self, InstallError> {
        if chart.place.is_none() && !args.take_over.is_empty() {
            return Err(InstallError::NothingToTakeOver { chart: chart.name });
        }
        let told = args.release.as_ref().or(args.name.as_ref()).cloned();
        let name = told.or_else(|| chart.place.map(|place| place.release.to_owned()));
        let name = name.ok_or(InstallError::NoRelease { chart: chart.name })?;
        let usual = chart.place.map(|place| place.namespace.to_owned());
        Ok(Self { name, namespace: args.namespace.clone().or(usual), makes_namespace: chart.place.is_some() })
    }
}

/// Runs `ronde uninstall`.
pub fn uninstall(args: &UninstallArgs, context: &Context) -> Outcome {
    run_helm(&words_to_uninstall(args), context.printer)
}

fn words_to_install(
    args: &InstallArgs,
    release: &Release,
    chart: &Path,
    helm_version: u32,
    adopts: bool,
) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        vec!["upgrade".into(), "--install".into(), release.name.clone().into(), chart.into()];
    if helm_version >= HELM_THAT_APPLIES_IN_THE_SERVER {
        words.push("--server-side=false".into());
    }
    if adopts {
        words.push("--take-ownership".into());
    }
    words.extend(words_of_values(args));
    words.extend(words_of_place(&args.cluster, release.namespace.as_deref()));
    if release.makes_namespace {
        words.push("--create-namespace".into());
    }
    if args.wait {
        words.push("--wait".into());
    }
    words.extend(args.more.iter().cloned());
    words
}

fn words_to_print(args: &InstallArgs, release: &Release, chart: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["template".into(), release.name.clone().into(), chart.into()];
    words.extend(words_of_values(args));
    words.extend(words_of_place(&args.cluster, release.namespace.as_deref()));
    words.extend(args.more.iter().cloned());
    words
}

fn words_of_values(args: &InstallArgs) -> Vec<OsString> {
    let mut words = Vec::new();
    for file in &args.values {
        words.extend(["--values".into(), file.into()]);
    }
    for value in &args.set {
        words.extend(["--set".into(), value.into()]);
    }
    if !args.take_over.is_empty() {
        let peers: Vec<_> = args.take_over.iter().map(|peer| peer.name()).collect();
        words.extend(["--set".into(), format!("takeOver={{{}}}", peers.join(",")).into()]);
    }
    words
}

fn words_to_uninstall(args: &UninstallArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["uninstall".into()];
    words.extend(args.releases.iter().map(OsString::from));
    words.extend(words_of_place(&args.cluster, args.namespace.as_deref()));
    words.extend(args.more.iter().cloned());
    words
}

fn words_of_place(cluster: &ClusterArgs, namespace: Option<&str>) -> Vec<OsString> {
    let kubeconfig = cluster.kubeconfig.as_ref().map(|file| ("--kubeconfig", file.into()));
    let context = cluster.context.as_ref().map(|name| ("--kube-context", name.into()));
    let namespace = namespace.map(|name| ("--namespace", name.into()));
    let options = [kubeconfig, context, namespace].into_iter().flatten();
    options.flat_map(|(option, value): (&str, OsString)| [option.into(), value]).collect()
}

/// Runs Helm and says whether it did its work; why not, it has said itself.
fn run_helm(words: &[OsString], printer: Printer) -> Outcome {
    let mut command = Command::new("helm");
    command.args(words);
    if printer.quiet {
        command.stdout(Stdio::null());
    }
    let status = command.status().map_err(not_run)?;
    Ok(if status.success() { Answer::Done } else { Answer::No })
}

/// Asks Helm for the first number of its version.
fn helm_version() -> Result<u32, InstallError> {
    let mut command = Command::new("helm");
    command.args(["version", "--template", "{{.Version}}"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(not_run)?;
    Ok(major(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the first number of a version like `v3.17.0`; of what is no version, 3: it has no words that are new.
fn major(version: &str) -> u32 {
    let number = version.trim().trim_start_matches('v').split('.').next();
    number.and_then(|number| number.parse().ok()).unwrap_or(3)
}

fn not_run(source: io::Error) -> InstallError {
    match source.kind() {
        io::ErrorKind::NotFound => InstallError::NoHelm,
        _ => InstallError::Helm { source },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Verb};

    fn check(line: &str, expected: &str) {
        check_with("v3.17.0", line, expected);
    }

    fn check_with(version: &str, line: &str, expected: &str) {
        let words = match Args::try_parse_from(line.split(' ')).unwrap().verb {
            Verb::Install(args) => {
                let release = Release::of_args(&args, Chart::find(&args.chart).unwrap()).unwrap();
                let adopts = !args.take_over.is_empty();
                if args.dry_run {
                    words_to_print(&args, &release, Path::new("CHART"))
                } else {
                    words_to_install(&args, &release, Path::new("CHART"), major(version), adopts)
                }
            }
            Verb::Uninstall(args) => words_to_uninstall(&args),
            other => panic!("{other:?}"),
        };
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words.join(" "), expected, "{version}: {line}");
    }

    #[test]
    fn helm_gets_what_was_asked_for() {
        check("ronde install horovod mnist", "upgrade --install mnist CHART");
        check(
            "ronde install --values v.yaml --name mnist stable/horovod",
            "upgrade --install mnist CHART --values v.yaml",
        );
        check(
            "ronde install horovod mnist -f a -f b --set worker.number=2 --set gang=true -n team",
            "upgrade --install mnist CHART --values a --values b --set worker.number=2 --set gang=true --namespace team",
        );
        check(
            "ronde install horovod mnist --kubeconfig k --context c -- --wait --timeout 5m",
            "upgrade --install mnist CHART --kubeconfig k --kube-context c --wait --timeout 5m",
        );
        check("ronde install horovod mnist --wait", "upgrade --install mnist CHART --wait");
        check("ronde install horovod mnist --dry-run --set gang=true", "template mnist CHART --set gang=true");
        check("ronde uninstall mnist", "uninstall mnist");
        check("ronde uninstall a b -n team -- --wait", "uninstall a b --namespace team --wait");
    }

    #[test]
    fn the_operator_has_a_place_of_its_own() {
        let place = "--namespace ronde-system --create-namespace";
        check("ronde install operator", &format!("upgrade --install ronde CHART {place}"));
        check("ronde install operator --wait", &format!("upgrade --install ronde CHART {place} --wait"));
        check(
            "ronde install operator batch -n infra --set replicas=1",
            "upgrade --install batch CHART --set replicas=1 --namespace infra --create-namespace",
        );
        check(
            "ronde install operator --take-over volcano,et-operator",
            &format!("upgrade --install ronde CHART --take-ownership --set takeOver={{volcano,et-operator}} {place}"),
        );
        check("ronde install operator --dry-run", "template ronde CHART --namespace ronde-system");
    }

    #[test]
    fn helm_4_applies_in_the_client_unless_the_user_says_otherwise() {
        let install = "ronde install horovod mnist";
        check_with("v4.0.1", install, "upgrade --install mnist CHART --server-side=false");
        check_with(
            "v4.1.0",
            "ronde install horovod mnist -- --server-side=true",
            "upgrade --install mnist CHART --server-side=false --server-side=true",
        );
        for version in ["v3.9.4+gdbc6d8e\n", "v3.22.0", "", "unknown"] {
            check_with(version, install, "upgrade --install mnist CHART");
        }
        check_with("v4.0.1", "ronde uninstall mnist", "uninstall mnist");
    }

    #[test]
    fn a_release_has_one_name() {
        let is_taken = |line: &str| Args::try_parse_from(line.split(' ')).is_ok();
        assert!(!is_taken("ronde install horovod mnist --name other"));
        assert!(!is_taken("ronde install operator --wait --dry-run"));
        assert!(!is_taken("ronde install operator --take-over kueue"));
        assert!(!is_taken("ronde uninstall"));
    }
}
