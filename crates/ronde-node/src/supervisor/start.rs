//! How a supervisor comes to be: it leaves the daemon's process tree and takes namespaces for its pod.
//!
//! The caller's side returns when the supervisor listens on its socket, or with the words of what went wrong.

use std::{
    ffi::CString,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use fs_err as fs;
use ronde_process::{Alone, Fork, Namespaces, fork};
use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use serde::{Deserialize, Serialize};

use super::{folder::PodFolder, run::Supervisor};
use crate::sandbox::init::rustix_exit;

/// What a supervisor has to know of its pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    pub hostname: String,
    /// Whether it gets namespaces at all.
    pub isolated: bool,
    pub host_network: bool,
    /// Whether the network of its node is not the machine's. Then it comes as the standard input, and the pod has the
    /// name of its node.
    #[serde(default)]
    pub joins_node: bool,
    pub host_ipc: bool,
    /// Volumes in memory that the containers share.
    pub memory: Vec<MemoryVolume>,
}

impl Pod {
    /// Whether `hostname` prints something else than on the machine.
    fn has_own_name(&self) -> bool {
        self.isolated && (!self.host_network || self.joins_node)
    }
}

/// A volume in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryVolume {
    /// A folder of the machine that it covers, seen by this pod alone.
    pub path: PathBuf,
    pub bytes_max: Option<u64>,
    /// The group that owns it, as `fsGroup` says.
    #[serde(default)]
    pub group: Option<u32>,
}

/// Runs `ronde supervise FOLDER`: leaves a supervisor behind and returns.
pub fn main(alone: Alone, path: &Path) -> io::Result<()> {
    let folder = PodFolder(path.to_owned());
    let pod: Pod = serde_json::from_slice(&fs::read(folder.description())?).map_err(io::Error::other)?;
    let (mut ready, tell) = io::pipe()?;
    if pod.joins_node {
        move_into_link_name_space(rustix::stdio::stdin(), Some(LinkNameSpaceType::Network))?;
    }
    let namespaces = Namespaces {
        mount: pod.isolated,
        network: pod.isolated && !pod.host_network,
        hostname: pod.has_own_name(),
        ipc: pod.isolated && !pod.host_ipc,
        ..Namespaces::default()
    };
    match fork(alone, namespaces)? {
        Fork::Child => {
            drop(ready);
            match prepare(alone, &folder, &pod) {
                Ok(mut supervisor) => {
                    let _ = (&tell).write_all(b"ready");
                    drop(tell);
                    let _ = leave_streams(&folder);
                    supervisor.run();
                }
                Err(error) => {
                    let _ = (&tell).write_all(error.to_string().as_bytes());
                }
            }
            rustix_exit(0)
        }
        Fork::Parent(_) => {
            drop(tell);
            let mut said = String::new();
            ready.read_to_string(&mut said)?;
            match said.as_str() {
                "ready" => Ok(()),
                "" => Err(io::Error::other("the supervisor exited immediately")),
                words => Err(io::Error::other(words.to_owned())),
            }
        }
    }
}

fn prepare(alone: Alone, folder: &PodFolder, pod: &Pod) -> io::Result<Supervisor> {
    rustix::process::setsid()?;
    let _ = rustix::thread::set_name(c"ronde-pod");
    let lock = lock(folder)?;
    if pod.isolated {
        // What the machine mounts later is seen here too; what we mount is not seen there.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        fs::create_dir_all(folder.shared_memory())?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("shm", folder.shared_memory(), "tmpfs", flags, c"mode=1777")?;
        for volume in &pod.memory {
            mount_memory(volume, flags)?;
        }
        if pod.has_own_name() {
            rustix::system::sethostname(pod.hostname.as_bytes())?;
        }
    }
    Supervisor::new(alone, folder.clone(), lock)
}

fn mount_memory(volume: &MemoryVolume, flags: MountFlags) -> io::Result<()> {
    fs::create_dir_all(&volume.path)?;
    let size = volume.bytes_max.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    let put = |options: String| {
        let options = CString::new(options)?;
        io::Result::Ok(mount("memory", &volume.path, "tmpfs", flags, options.as_c_str())?)
    };
    match volume.group {
        // What is made in a group's folder is the group's. Where the group is not ours to name, everybody may write.
        Some(group) => put(format!("mode=02777,gid={group}{size}")).or_else(|_| put(format!("mode=0777{size}"))),
        None => put(format!("mode=0777{size}")),
    }
}

/// Takes the lock that says that this pod has a supervisor; the kernel gives it back when we die, however.
fn lock(folder: &PodFolder) -> io::Result<OwnedFd> {
    let file = rustix::fs::open(folder.lock(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::other("the pod has a supervisor already"))?;
    if !is_wanted(folder) {
        return Err(io::Error::other("the pod is no longer wanted"));
    }
    rustix::fs::ftruncate(&file, 0)?;
    rustix::io::write(&file, rustix::process::getpid().as_raw_nonzero().to_string().as_bytes())?;
    Ok(file)
}

/// Lets go of the daemon's streams and folder; what goes wrong from now on is written into the pod's folder.
fn leave_streams(folder: &PodFolder) -> io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let log = rustix::fs::open(folder.path().join("supervisor.log"), flags, Mode::from_raw_mode(0o600))?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&log)?;
    std::env::set_current_dir("/")
}

/// Says in a pod's folder that a supervisor is wanted; the counterpart of [`refuse`].
pub fn want(folder: &PodFolder, pod: &Pod) -> io::Result<()> {
    fs::create_dir_all(folder.path())?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    rustix::fs::open(folder.lock(), flags, Mode::from_raw_mode(0o600))?;
    fs::write(folder.description(), serde_json::to_vec(pod)?)
}

/// Whether a supervisor is wanted: it lives, or it may come at any moment, or it has died.
pub fn is_wanted(folder: &PodFolder) -> bool {
    folder.description().exists()
}

/// Says that no supervisor is wanted, so that one that was about to start when its daemon was killed ends itself.
///
/// Returns false, and has done nothing, while there is a living one. Whoever starts takes the lock and then looks for
/// the description; here it is removed under the lock: the two cannot miss each other.
pub fn refuse(folder: &PodFolder) -> io::Result<bool> {
    let file = match rustix::fs::open(folder.lock(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    match fs::remove_file(folder.description()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// Whether the pod in a folder has a living supervisor, and its process id.
pub fn living(folder: &PodFolder) -> io::Result<Option<u32>> {
    let file = match fs::File::open(folder.lock()) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let pid = fs::read_to_string(folder.lock())?;
            Ok(pid.trim().parse().ok())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_late_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = PodFolder(place.path().join("pod"));
        let pod = Pod {
            hostname: "h".into(),
            isolated: false,
            host_network: true,
            joins_node: false,
            host_ipc: true,
            memory: Vec::new(),
        };
        let why = |folder| lock(folder).unwrap_err().to_string();
        assert!(refuse(&folder).unwrap(), "where nothing is, nothing can come");

        want(&folder, &pod).unwrap();
        let living = lock(&folder).unwrap();
        assert!(!refuse(&folder).unwrap(), "one lives");
        assert_eq!(why(&folder), "the pod has a supervisor already");
        drop(living);

        assert!(refuse(&folder).unwrap());
        assert_eq!(why(&folder), "the pod is no longer wanted");
        want(&folder, &pod).unwrap();
        lock(&folder).unwrap();

        fs::remove_dir_all(folder.path()).unwrap();
        assert!(lock(&folder).is_err(), "it makes nothing in a place that is being removed");
        assert!(!folder.path().exists());
    }
}
