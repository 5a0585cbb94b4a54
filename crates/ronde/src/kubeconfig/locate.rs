//! Which kubeconfig to change: the rules of `kubectl config`. Pure but for asking whether a file exists.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Returns the file that `kubectl config` would change: the one named, else the first existing one in `$KUBECONFIG`
/// (the last of the list when none exists), else `~/.kube/config`. `None` when there is no home directory either.
pub fn locate(
    named: Option<&Path>,
    variable: Option<&OsStr>,
    home: Option<&Path>,
    exists: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(named.to_owned());
    }
    let listed: Vec<PathBuf> = variable
        .map(|list| std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    let existing = listed.iter().find(|path| exists(path));
    existing.or(listed.last()).cloned().or_else(|| home.map(|home| home.join(".kube/config")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, named: Option<&str>, variable: Option<&str>, existing: &[&str], expected: &str) {
        let located = locate(named.map(Path::new), variable.map(OsStr::new), Some(Path::new("/home/ada")), |path| {
            existing.iter().any(|one| Path::new(one) == path)
        });
        assert_eq!(located.unwrap(), Path::new(expected), "{name}");
    }

    #[test]
    fn the_file_is_chosen_as_kubectl_does() {
        let home = "/home/ada/.kube/config";
        check("nothing said: the home directory", None, None, &[], home);
        check("an empty variable counts as none", None, Some(""), &[], home);
        check("a variable of separators counts as none", None, Some("::"), &[], home);
        check("the option wins", Some("/x"), Some("/a:/b"), &["/a"], "/x");
        check("one listed file is taken, existing or not", None, Some("/a"), &[], "/a");
        check("the first existing file of the list", None, Some("/a:/b:/c"), &["/b", "/c"], "/b");
        check("none exists: the last of the list", None, Some("/a:/b"), &[], "/b");
        check("empty parts of the list are skipped", None, Some(":/a:"), &["/a"], "/a");
    }

    #[test]
    fn without_a_home_directory_there_is_no_default() {
        assert_eq!(locate(None, None, None, |_| false), None);
    }
}
