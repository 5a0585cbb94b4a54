//! Builds the root of a container in a mount namespace of its own, and moves into it.
//!
//! Called by [`super::init`] in a fresh process. All of it disappears with the last process of the namespace: there
//! is nothing to unmount, also after `kill -9`. What is on disk afterwards are plain folders.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{CWD, Mode},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
        fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, mount_bind,
        mount_bind_recursive, mount_change, mount_remount, move_mount, unmount,
    },
};

use super::{
    image,
    layers::{Layer, mount_points},
    paths::{self, Missing, find, is_folder, name_of, named},
    spec::{Mount, Source},
};

/// What everybody has in `/dev`.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// What of `/proc` container runtimes show without letting it be changed.
const MACHINE_SETTINGS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// What a root is built from.
pub struct RootPlan<'a> {
    /// A folder for this attempt alone.
    pub folder: &'a Path,
    pub layers: &'a [Layer],
    pub read_only: bool,
    pub hidden: &'a [String],
    pub volumes: &'a [String],
    pub devices: &'a [String],
    pub user_attributes: bool,
    pub mounts: &'a [Mount],
    /// A folder in memory that the containers of the pod share.
    pub shared_memory: &'a Path,
}

/// Builds the root and makes it ours. Nothing of the machine can be reached afterwards but what the plan names.
pub fn build_and_enter(plan: &RootPlan<'_>) -> io::Result<()> {
    // What happens to mounts from now on is our own affair.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let base = plan.folder.join("root");
    make_folder(&base, 0o755)?;
    match plan.layers {
        [Layer::Image { lowers, is_copied: false }] => image::mount(plan.folder, &base, lowers, plan.user_attributes)?,
        [Layer::Image { lowers, is_copied: true }] => image::copy(&base, lowers)?,
        _ => mount_bind(&base, &base).map_err(|error| named(error, "mount", "/"))?,
    }
    let root = paths::open_root(&base)?;
    for (number, layer) in plan.layers.iter().enumerate() {
        put_layer(plan, &base, number, layer)?;
    }
    for path in plan.hidden {
        hide(root.as_fd(), path)?;
    }
    put_own(plan, root.as_fd())?;
    for path in plan.volumes {
        keep_writable(root.as_fd(), path)?;
    }
    if plan.read_only {
        // Afterwards there is no making of mount points any more.
        for wanted in plan.mounts {
            find(root.as_fd(), &wanted.target, missing_of(&wanted.source)?)?;
        }
        make_read_only(&base, plan.layers)?;
    }
    for wanted in plan.mounts {
        put_mount(root.as_fd(), wanted)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot mount `{}`: {error}", wanted.target)))?;
    }
    enter(&root)
}

pub(super) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(named(error, "make", &path.display().to_string())),
    }
    // Whatever the umask says.
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?)
}

/// Joins a path of the container to the folder that will be its root.
fn below(base: &Path, path: &str) -> PathBuf {
    base.join(path.trim_start_matches('/'))
}

fn put_layer(plan: &RootPlan<'_>, base: &Path, number: usize, layer: &Layer) -> io::Result<()> {
    match layer {
        Layer::Folder { path, mode } => make_folder(&below(base, path), *mode),
        Layer::Link { path, to } => {
            rustix::fs::symlink(to, below(base, path)).map_err(|error| named(error, "link", path))
        }
        Layer::Overlay { path } => {
            let target = below(base, path);
            make_folder(&target, 0o755)?;
            let own = plan.folder.join("layers").join(number.to_string());
            match overlay(path, &own, plan.user_attributes) {
                Ok(layer) => Ok(move_mount(&layer, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?),
                // Some file systems cannot be below an overlay: then they are seen, not changed.
                Err(_) => bind_read_only(path, &target),
            }
        }
        // It was put in place as the root itself.
        Layer::Image { .. } => Ok(()),
        Layer::Bind { path } => {
            let target = below(base, path);
            if rustix::fs::stat(path).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir()) {
                make_folder(&target, 0o755)?;
            } else {
                fs_err::write(&target, "")?;
            }
            bind_read_only(path, &target)
        }
    }
}

/// Returns an overlay over a folder of the machine that is mounted nowhere yet.
pub fn overlay(lower: &str, own: &Path, user_attributes: bool) -> io::Result<OwnedFd> {
    let (upper, work) = (own.join("upper"), own.join("work"));
    fs_err::create_dir_all(&work)?;
    let stat = rustix::fs::stat(lower)?;
    make_folder(&upper, stat.st_mode & 0o7777)?;
    // The top folder of an overlay belongs to whom the upper one belongs.
    let _ = rustix::fs::chown(
        &upper,
        Some(rustix::fs::Uid::from_raw(stat.st_uid)),
        Some(rustix::fs::Gid::from_raw(stat.st_gid)),
    );
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", escape(lower))?;
    fsconfig_set_string(&context, "upperdir", &upper)?;
    fsconfig_set_string(&context, "workdir", &work)?;
    if user_attributes {
        fsconfig_set_flag(&context, "userxattr")?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NODEV)?)
}

/// The kernel splits lower folders at colons.
fn escape(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:")
}

fn bind_read_only(path: &str, target: &Path) -> io::Result<()> {
    mount_bind_recursive(path, target).map_err(|error| named(error, "bind", path))?;
    remount_tree_read_only(target)
}

/// Remounting changes one mount: those that came along below it are writable until each has had its turn.
fn remount_tree_read_only(target: &Path) -> io::Result<()> {
    // The kernel names mounts by their real paths.
    let top = fs_err::canonicalize(target)?;
    let mounts = mount_points(&fs_err::read_to_string("/proc/self/mountinfo")?);
    for mount in mounts.iter().filter(|mount| Path::new(mount).starts_with(&top)) {
        match remount_read_only(mount) {
            // Another mount covers it: nobody can reach it.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            // It is inside of what is closed to us, and so to the container.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error()) => {}
            done => done?,
        }
    }
    Ok(())
}

/// Remounting may not drop flags that are locked, so those of the mount are asked first.
fn remount_read_only(target: &str) -> io::Result<()> {
    let stat = rustix::fs::statvfs(target)?;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (has, flag) in [
        (rustix::fs::StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (rustix::fs::StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (rustix::fs::StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (rustix::fs::StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (rustix::fs::StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if stat.f_flag.contains(has) {
            flags |= flag;
        }
    }
    mount_remount(target, flags, "").map_err(|error| named(error, "make read-only", target))
}

/// Covers a folder. What cannot be covered may not be shown: it has the keys to the machine in it.
fn hide(root: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    match find(root, path, Missing::Refuse) {
        Ok(place) => memory(&place, "size=4k,mode=0555", MountFlags::RDONLY),
        // Below a folder that the container has for itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn memory(place: &OwnedFd, options: &str, flags: MountFlags) -> io::Result<()> {
    let options = std::ffi::CString::new(options).expect("options have no zero bytes");
    let flags = flags | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", name_of(place), "tmpfs", flags, options.as_c_str())?)
}

/// Makes a path a mount of its own: it begins with what is there, is changed as the rest is, and stays writable when the
/// rest becomes read-only.
fn keep_writable(root: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    let found = find(root, path, Missing::Folder)?;
    mount_bind(name_of(&found), name_of(&found)).map_err(|error| named(error, "mount", path))
}

/// The folders that a container has for itself.
fn put_own(plan: &RootPlan<'_>, root: BorrowedFd<'_>) -> io::Result<()> {
    // Those of an image are the image's, with what it has in them; those of the machine are not for pods.
    if !matches!(plan.layers, [Layer::Image { .. }]) {
        put_scratch(plan, root)?;
    }
    put_proc(root)?;
    put_sys(root)?;
    put_dev(plan, root)
}

fn put_scratch(plan: &RootPlan<'_>, root: BorrowedFd<'_>) -> io::Result<()> {
    let tmp = plan.folder.join("tmp");
    make_folder(&tmp, 0o1777)?;
    mount_bind(&tmp, name_of(&find(root, "/tmp", Missing::Folder)?))?;
    memory(&find(root, "/run", Missing::Folder)?, "mode=0755", MountFlags::empty())?;
    find(root, "/run/lock", Missing::Folder)?;
    Ok(())
}

/// A new one, or where the kernel refuses because parts of the machine's are covered, the machine's.
fn put_proc(root: BorrowedFd<'_>) -> io::Result<()> {
    let target = find(root, "/proc", Missing::Folder)?;
    let place = name_of(&target);
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if mount("proc", &place, "proc", flags, None).is_err() {
        mount_bind_recursive("/proc", &place).map_err(|error| named(error, "mount", "/proc"))?;
    }
    // Parts of it are the machine's settings, which root may change without any capability.
    for part in MACHINE_SETTINGS {
        let Ok(found) = find(root, part, Missing::Refuse) else { continue };
        mount_bind(name_of(&found), name_of(&found)).map_err(|error| named(error, "bind", part))?;
        remount_read_only(&name_of(&find(root, part, Missing::Refuse)?))?;
    }
    Ok(())
}

fn put_sys(root: BorrowedFd<'_>) -> io::Result<()> {
    let target = find(root, "/sys", Missing::Folder)?;
    let place = name_of(&target);
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    if mount("sysfs", &place, "sysfs", flags, None).is_err() {
        mount_bind_recursive("/sys", &place).map_err(|error| named(error, "mount", "/sys"))?;
        // The machine's control groups came along, which root could change: rather nothing at all.
        let covered = find(root, "/sys", Missing::Refuse)?;
        if remount_tree_read_only(Path::new(&name_of(&covered))).is_err() {
            hide(root, "/sys")?;
        }
    }
    Ok(())
}

fn put_dev(plan: &RootPlan<'_>, root: BorrowedFd<'_>) -> io::Result<()> {
    let place = find(root, "/dev", Missing::Folder)?;
    let options = c"mode=0755,size=65536k";
    mount("tmpfs", name_of(&place), "tmpfs", MountFlags::NOSUID, options)?;
    for name in DEVICES.iter().map(|name| format!("/dev/{name}")).chain(plan.devices.iter().cloned()) {
        let inside = find(root, &name, Missing::File)?;
        mount_bind(&name, name_of(&inside)).map_err(|error| named(error, "bind", &name))?;
    }
    let dev = find(root, "/dev", Missing::Refuse)?;
    for (name, to) in LINKS {
        rustix::fs::symlinkat(to, &dev, name)?;
    }
    let terminals = find(root, "/dev/pts", Missing::Folder)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", name_of(&terminals), "devpts", flags, c"newinstance,ptmxmode=0666,mode=0620")
        .map_err(|error| named(error, "mount", "/dev/pts"))?;
    mount_bind(plan.shared_memory, name_of(&find(root, "/dev/shm", Missing::Folder)?))
        .map_err(|error| named(error, "mount", "/dev/shm"))?;
    let queues = find(root, "/dev/mqueue", Missing::Folder)?;
    // Without it the container lives as well.
    let _ = mount("mqueue", name_of(&queues), "mqueue", flags | MountFlags::NODEV, None);
    Ok(())
}

fn make_read_only(base: &Path, layers: &[Layer]) -> io::Result<()> {
    for layer in layers {
        if let Layer::Overlay { path } = layer {
            remount_read_only(&below(base, path).to_string_lossy())?;
        }
    }
    remount_read_only(&base.to_string_lossy())
}

fn put_mount(root: BorrowedFd<'_>, wanted: &Mount) -> io::Result<()> {
    match &wanted.source {
        Source::Memory { bytes_max } => {
            let place = find(root, &wanted.target, Missing::Folder)?;
            let size = bytes_max.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
            memory(&place, &format!("mode=1777{size}"), MountFlags::empty())
        }
        Source::Path { path, inside } => {
            let source = open_source(path, inside.as_deref())?;
            let place = find(root, &wanted.target, missing_of(&wanted.source)?)?;
            mount_bind_recursive(name_of(&source), name_of(&place))?;
            if wanted.read_only {
                remount_read_only(&name_of(&find(root, &wanted.target, Missing::Refuse)?))?;
            }
            Ok(())
        }
    }
}

/// What a source is to be mounted on.
fn missing_of(source: &Source) -> io::Result<Missing> {
    match source {
        Source::Path { path, inside } if !is_folder(&open_source(path, inside.as_deref())?)? => Ok(Missing::File),
        _ => Ok(Missing::Folder),
    }
}

fn open_source(path: &str, inside: Option<&str>) -> io::Result<OwnedFd> {
    match inside {
        Some(inside) => find(paths::open_root(path)?.as_fd(), inside, Missing::Folder),
        None => {
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| named(error, "open", path))
        }
    }
}

/// Makes the folder the root of this mount namespace and lets go of the old one.
fn enter(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    // Both in one place: the old root is then on top of the new one, and can be let go of without a folder for it.
    rustix::process::pivot_root(".", ".").map_err(|error| named(error, "enter", "/"))?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}
