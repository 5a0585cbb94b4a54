//! The root of a container from the layers of an image: one overlay of all of them, or a copy where there is none.
//!
//! The kernel takes a page of options, and layers have long names. So they get short ones, as links in the attempt's
//! folder, and the options are relative to it.

use std::{ffi::CString, io, path::Path};

use rustix::mount::MountFlags;

use super::root::make_folder;

/// A page, with the zero at its end.
const OPTIONS_MAX: usize = 4095;

/// Mounts the layers, the lowest first, as `base`. The folder of this process is another one afterwards.
pub fn mount(folder: &Path, base: &Path, lowers: &[String], user_attributes: bool) -> io::Result<()> {
    let own = folder.join("layers").join("0");
    fs_err::create_dir_all(own.join("work"))?;
    make_folder(&own.join("upper"), 0o755)?;
    let links = folder.join("l");
    make_folder(&links, 0o755)?;
    let shown = once_each(lowers);
    for (number, lower) in shown.iter().enumerate() {
        fs_err::os::unix::fs::symlink(lower, links.join(number.to_string()))?;
    }
    if shown.is_empty() {
        // An image without layers is an empty folder.
        make_folder(&links.join("0"), 0o755)?;
    }
    std::env::set_current_dir(folder)?;
    let options = options(shown.len().max(1), user_attributes)?;
    rustix::mount::mount("overlay", base, "overlay", MountFlags::NODEV, options.as_c_str())
        .map_err(|error| super::paths::named(error, "mount the layers of the image on", "/"))
}

/// Copies the layers, the lowest first, into `base`, and makes it a mount.
pub fn copy(base: &Path, lowers: &[String]) -> io::Result<()> {
    ronde_images::store::flatten(lowers, base)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot copy the image: {error}")))?;
    rustix::mount::mount_bind(base, base).map_err(|error| super::paths::named(error, "mount", "/"))
}

/// Returns the layers from the top down, each where it is highest: the kernel takes no folder twice, and what a layer
/// did further down it does again further up.
fn once_each(lowers: &[String]) -> Vec<&String> {
    let mut shown: Vec<&String> = Vec::new();
    for lower in lowers.iter().rev() {
        if !shown.contains(&lower) {
            shown.push(lower);
        }
    }
    shown
}

fn options(count: usize, user_attributes: bool) -> io::Result<CString> {
    let lowers: Vec<String> = (0..count).map(|number| format!("l/{number}")).collect();
    let marks = if user_attributes { ",userxattr" } else { "" };
    let options = format!("lowerdir={},upperdir=layers/0/upper,workdir=layers/0/work{marks}", lowers.join(":"));
    if options.len() > OPTIONS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the image has {count} layers, too many")));
    }
    Ok(CString::new(options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_comes_first_and_none_twice() {
        let lowers = ["a", "b", "a", "c"].map(str::to_owned);
        assert_eq!(once_each(&lowers), ["c", "a", "b"]);
    }

    #[test]
    fn as_many_layers_as_an_image_may_have_fit_into_a_page() {
        assert!(options(ronde_images::manifest::LAYERS_MAX, true).is_ok());
        assert!(options(1000, true).is_err());
    }
}
