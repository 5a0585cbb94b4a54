//! `ronde agent install DIR`: puts this program into a folder that pods share, with the names that other launchers use.
//!
//! The folder gets `ronde`, `bin/ssh` (in front of the `PATH`: a stock horovodrun or mpirun starts ranks through
//! agents) and `fallback/horovodrun` (at its end: for images without one).

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err::{self as fs, os::unix::fs::symlink};

/// The name of our program in the folder.
const PROGRAM: &str = "ronde";
/// What other names it has, with where they lead.
const LINKS: [(&str, &str); 2] = [("bin", "ssh"), ("fallback", "horovodrun")];

/// Installs a program in a folder. Can be repeated; whoever runs the old one goes on doing so.
pub fn install(program: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let copy = folder.join(format!(".{PROGRAM}.{}", std::process::id()));
    fs::copy(program, &copy)?;
    fs::rename(&copy, folder.join(PROGRAM))?;
    link_names(folder)
}

/// Makes a folder like that of an installed program, with an empty file in its place: the program is mounted there.
pub fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::File::create(folder.join(PROGRAM))?;
    link_names(folder)
}

fn link_names(folder: &Path) -> io::Result<()> {
    for (part, name) in LINKS {
        let part = folder.join(part);
        fs::create_dir_all(&part)?;
        let link = part.join(format!(".{name}.{}", std::process::id()));
        symlink(Path::new("..").join(PROGRAM), &link)?;
        fs::rename(&link, part.join(name))?;
    }
    Ok(())
}

/// Returns the folder that a program was installed in, if it was.
pub fn folder_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    LINKS.iter().all(|(part, name)| folder.join(part).join(name).is_symlink()).then(|| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_for_a_program_that_is_mounted_has_all_names_and_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("opt/kube");
        prepare(&target).unwrap();
        assert_eq!(fs::metadata(target.join("bin/ssh")).unwrap().len(), 0);
        assert_eq!(folder_of(&target.join("ronde")), Some(target));
    }

    #[test]
    fn an_installed_program_is_found_by_all_its_names_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("opt/kube"));
        for text in ["one", "two"] {
            fs::write(&source, text).unwrap();
            fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).unwrap();
            install(&source, &target).unwrap();
            for name in ["ronde", "bin/ssh", "fallback/horovodrun"] {
                assert_eq!(fs::read_to_string(target.join(name)).unwrap(), text);
            }
            let mode = fs::metadata(target.join("ronde")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        assert_eq!(fs::read_dir(&target).unwrap().count(), 3, "no copy is left behind");
        assert_eq!(folder_of(&target.join("ronde")), Some(target));
        assert_eq!(folder_of(&source), None);
    }
}
