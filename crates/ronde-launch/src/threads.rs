//! How many threads a rank computes with. Libraries take one for each core, and ranks that share a host then stand in
//! each other's way: unless the user has chosen, each gets its share of the cores.
//!
//! Decided on the host of the rank, where the cores are known: by its keeper, or by the shell that ssh reached.

use std::{collections::BTreeMap, thread};

/// Says how many threads; OpenMP, MKL and OpenBLAS all read it.
const THREADS: &str = "OMP_NUM_THREADS";
/// Whoever sets one of these has chosen.
const CHOICES: [&str; 2] = [THREADS, "MKL_NUM_THREADS"];
/// How many ranks share a host.
const LOCAL_SIZE: &str = "HOROVOD_LOCAL_SIZE";

/// For a shell: the same as [`share_cores`], with the variables of a rank around.
pub(crate) const SHELL: &str = "if [ \"${HOROVOD_LOCAL_SIZE:-1}\" -gt 1 ] 2>/dev/null && \
                                [ -z \"$OMP_NUM_THREADS$MKL_NUM_THREADS\" ]; then \
                                OMP_NUM_THREADS=$(($(nproc 2>/dev/null || echo 1) / HOROVOD_LOCAL_SIZE)); \
                                [ \"$OMP_NUM_THREADS\" -gt 0 ] || OMP_NUM_THREADS=1; export OMP_NUM_THREADS; fi";

/// Cores of this machine that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Gives a program that is one of several ranks of this host its share of the cores.
pub(crate) fn share_cores(environment: &mut Vec<(String, String)>, cores: usize) {
    let find = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let ranks = find(LOCAL_SIZE).and_then(|ranks| ranks.parse().ok()).unwrap_or(1);
    let is_chosen = CHOICES.iter().any(|name| find(name).is_some_and(|value| !value.is_empty()));
    if ranks > 1 && !is_chosen {
        environment.retain(|(name, _)| name != THREADS);
        environment.push((THREADS.to_owned(), share(cores, ranks).to_string()));
    }
}

/// What the user is told once about ranks that share a host; nothing if there is nothing to tell. `cores` are those of
/// the one host of the job; elsewhere they are not known.
pub(crate) fn notice(environment: &BTreeMap<String, String>, ranks: usize, cores: Option<usize>) -> Option<String> {
    let is_chosen = CHOICES.iter().any(|name| environment.get(*name).is_some_and(|value| !value.is_empty()));
    if ranks <= 1 || is_chosen {
        return None;
    }
    let what = cores.map_or_else(
        || format!("{THREADS} is set on each host to its cores divided by its ranks"),
        |cores| {
            let plural = if cores == 1 { "" } else { "s" };
            format!("{THREADS}={} for each rank, since {ranks} ranks share {cores} core{plural}", share(cores, ranks))
        },
    );
    Some(format!("notice: {what}; set it to choose another number"))
}

fn share(cores: usize, ranks: usize) -> usize {
    (cores / ranks.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(text: &str) -> Vec<(String, String)> {
        let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.split_whitespace().filter_map(pair).collect()
    }

    /// By the keeper, and by a shell on a machine with as many cores as this.
    fn check(given: &str, cores: usize, expected: Option<&str>) {
        let mut environment = variables(given);
        share_cores(&mut environment, cores);
        let found = environment.iter().find(|(name, _)| name == THREADS).map(|(_, value)| value.as_str());
        assert_eq!(found, expected, "{given}, {cores} cores");
        let script = format!("nproc() {{ echo {cores}; }}; {SHELL}; printf %s \"$OMP_NUM_THREADS\"");
        let mut shell = std::process::Command::new("/bin/sh");
        let said = shell.args(["-ec", &script]).env_clear().envs(variables(given)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected.unwrap_or_default(), "{given}, {cores} cores");
        assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
    }

    #[test]
    fn ranks_share_the_cores_of_their_host_unless_the_user_has_chosen() {
        check("HOROVOD_LOCAL_SIZE=4", 2, Some("1"));
        check("HOROVOD_LOCAL_SIZE=4", 64, Some("16"));
        check("HOROVOD_LOCAL_SIZE=3 OMP_NUM_THREADS=", 8, Some("2"));
        check("HOROVOD_LOCAL_SIZE=1", 8, None);
        check("", 8, None);
        check("HOROVOD_LOCAL_SIZE=x", 8, None);
        check("HOROVOD_LOCAL_SIZE=4 OMP_NUM_THREADS=3", 8, Some("3"));
        check("HOROVOD_LOCAL_SIZE=4 MKL_NUM_THREADS=3", 8, None);
    }

    #[test]
    fn the_user_is_told() {
        let told = |given: &str, ranks, cores| notice(&variables(given).into_iter().collect(), ranks, cores);
        let expected =
            "notice: OMP_NUM_THREADS=1 for each rank, since 4 ranks share 2 cores; set it to choose another number";
        assert_eq!(told("", 4, Some(2)).as_deref(), Some(expected));
        assert!(told("", 4, None).is_some_and(|text| text.contains("its cores divided by its ranks")));
        assert_eq!(told("", 1, Some(2)), None);
        assert_eq!(told("OMP_NUM_THREADS=2", 4, Some(2)), None);
    }
}
