//! Without root: a user namespace in which we are uid 0, and a network namespace for the bridge.
//!
//! A small process (the holder) keeps both alive when the daemon is killed; the next daemon finds it by its lock file and
//! joins. The program `slirp4netns`, if there is one, links the network namespace to the machine's network, and ends with
//! the holder. Called at the start of `ronde up`, while there is one thread.
//!
//! Whoever only works on files of the data directory, as `ronde image` does, needs the user namespace too: files of an
//! image belong to users that nobody but its root may touch.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::{Command, Stdio},
};

use fs_err as fs;
use ronde_process::{
    Alone, Child, Fork, Namespaces,
    fork::{fork, keep_only},
};
use rustix::{
    event::Timespec,
    fs::{FlockOperation, Mode, OFlags},
    process::{Pid, Signal},
    thread::move_into_link_name_space,
};

use super::probe::Missing;
use crate::{presence::Presence, sandbox::init::rustix_exit};

/// Subordinate ids that are mapped beside our own, if the machine gives us some.
const IDS_MAX: u32 = 65_536;
/// Larger packets make `slirp4netns` faster; this is the largest that it takes.
const MTU: &str = "--mtu=65520";
/// How often the holder looks for its folder.
const FOLDER_CHECK: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The namespaces without root.
pub struct Home {
    /// Where the bridge is.
    pub network: OwnedFd,
    pub missing: Vec<Missing>,
}

/// Joins the user namespace of this folder's holder, making both if there is none.
pub fn enter(alone: Alone, folder: &Path) -> io::Result<Home> {
    fs::create_dir_all(folder)?;
    let lock = folder.join("holder.lock");
    let (holder, missing) = match living_holder(&lock)? {
        Some(pid) => (pid, Vec::new()),
        None => make(alone, &lock)?,
    };
    // Both are opened from outside: inside, the holder's files would not be ours to look at.
    let (user, network) = (namespace_of(holder, "user")?, namespace_of(holder, "net")?);
    move_into_link_name_space(user.as_fd(), None)?;
    Ok(Home { network, missing })
}

/// Joins a user namespace in which all files of this folder's instance can be made, read and removed: that of its holder,
/// or if there is none one of our own. Nothing happens where the machine lends us no users: then all files are ours.
pub fn enter_for_files(alone: Alone, folder: &Path) -> io::Result<()> {
    let namespace = match living_holder(&folder.join("holder.lock"))? {
        Some(holder) => Some(namespace_of(holder, "user")?),
        None => make_for_files(alone)?,
    };
    match namespace {
        Some(namespace) => Ok(move_into_link_name_space(namespace.as_fd(), None)?),
        None => Ok(()),
    }
}

fn namespace_of(process: u32, name: &str) -> io::Result<OwnedFd> {
    let path = format!("/proc/{process}/ns/{name}");
    Ok(rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes a user namespace that lasts as long as who joins it.
fn make_for_files(alone: Alone) -> io::Result<Option<OwnedFd>> {
    let Some(lent) = Lent::find() else { return Ok(None) };
    let (mut wait, end) = io::pipe()?;
    let child = match fork(alone, Namespaces { user: true, ..Namespaces::default() }) {
        Ok(Fork::Child) => {
            drop(end);
            let _ = wait.read(&mut [0]);
            rustix_exit(0)
        }
        Ok(Fork::Parent(child)) => child,
        // A kernel that makes none has made none before, and so no files of other users.
        Err(_) => return Ok(None),
    };
    drop(wait);
    let pid = child.pid.as_raw_nonzero().get().cast_unsigned();
    let namespace = if lent.map_to(pid) { Some(namespace_of(pid, "user")) } else { None };
    drop(end);
    child.wait()?;
    namespace.transpose()
}

/// Ends the holder of a folder, and with it the namespaces, once nothing else is in them.
pub fn leave(folder: &Path) -> io::Result<()> {
    if let Some(pid) = living_holder(&folder.join("holder.lock"))?.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        rustix::process::kill_process(pid, Signal::KILL)?;
    }
    Ok(())
}

/// Whether this folder has a holder, that is, whether `ronde up` ran here without root.
pub fn living_holder(lock: &Path) -> io::Result<Option<u32>> {
    let file = match fs::File::open(lock) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(fs::read_to_string(lock)?.trim().parse().ok()),
        Err(error) => Err(error.into()),
    }
}

fn make(alone: Alone, lock: &Path) -> io::Result<(u32, Vec<Missing>)> {
    let (mut ready, tell) = io::pipe()?;
    let (go_read, go) = io::pipe()?;
    // The holder has one end, the link to the machine's network the other: it hears when the holder is no more.
    let (ended, alive) = io::pipe()?;
    match fork(alone, Namespaces { user: true, network: true, ..Namespaces::default() })? {
        Fork::Child => {
            // Our copy of the other end would keep the pipe open for ever.
            drop((go, ready, ended));
            hold(lock, go_read, &tell, &alive)
        }
        Fork::Parent(holder) => {
            drop((tell, go_read, alive));
            let missing = map_ids(&holder).inspect_err(|_| {
                let _ = holder.signal(Signal::KILL);
            })?;
            (&go).write_all(b"go")?;
            drop(go);
            let mut said = String::new();
            ready.read_to_string(&mut said)?;
            if said != "ready" {
                return Err(io::Error::other(format!("cannot hold the namespaces: {said}")));
            }
            let pid = holder.pid.as_raw_nonzero().get().cast_unsigned();
            // Without it pods reach nothing outside of the machine; who opens the network finds that out and says so.
            let _ = link_to_machine(pid, ended);
            Ok((pid, missing))
        }
    }
}

/// Links the holder's network to the machine's; returns when it works.
fn link_to_machine(holder: u32, ended: io::PipeReader) -> io::Result<()> {
    let (mut ready, tell) = io::pipe()?;
    for end in [ended.as_fd(), tell.as_fd()] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::empty())?;
    }
    let mut command = Command::new("slirp4netns");
    command.args(["--configure", MTU, "--disable-host-loopback"]);
    command.arg(format!("--exit-fd={}", ended.as_raw_fd())).arg(format!("--ready-fd={}", tell.as_raw_fd()));
    command.args([&holder.to_string(), "tap0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Of its own group: a Ctrl-C is not meant for it.
    let mut link = command.process_group(0).current_dir("/").spawn()?;
    drop((tell, ended));
    // One byte, or nothing if it has ended.
    ready.read_exact(&mut [0]).inspect_err(|_| {
        let _ = link.wait();
    })
}

/// The holder's life: take the lock, say so, and sleep until killed or until its folder is gone.
fn hold(lock: &Path, mut go: io::PipeReader, tell: &io::PipeWriter, alive: &io::PipeWriter) -> ! {
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ronde-holder");
    let mut word = String::new();
    let _ = go.read_to_string(&mut word);
    let taken = try_lock(lock);
    match &taken {
        Ok(_) => (&*tell).write_all(b"ready"),
        Err(error) => (&*tell).write_all(error.to_string().as_bytes()),
    }
    .unwrap_or_default();
    let Ok(mut presence) = taken.and_then(|file| Presence::new(file, lock)) else { rustix_exit(1) };
    keep_only(&[presence.as_fd(), alive.as_fd()]);
    if let Ok(nothing) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&nothing);
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
    let _ = std::env::set_current_dir("/");
    while !presence.is_gone() {
        let _ = rustix::event::poll(&mut [], Some(&FOLDER_CHECK));
    }
    rustix_exit(0)
}

fn try_lock(lock: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(lock, flags, Mode::from_raw_mode(0o600))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    rustix::fs::ftruncate(&file, 0)?;
    rustix::io::write(&file, rustix::process::getpid().as_raw_nonzero().to_string().as_bytes())?;
    Ok(file)
}

/// Says who is who in the namespace: we are its root; others need the machine's consent.
fn map_ids(holder: &Child) -> io::Result<Vec<Missing>> {
    let pid = holder.pid.as_raw_nonzero().get().cast_unsigned();
    if Lent::find().is_some_and(|lent| lent.map_to(pid)) {
        return Ok(Vec::new());
    }
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let _ = fs::write(format!("/proc/{pid}/setgroups"), "deny");
    fs::write(format!("/proc/{pid}/uid_map"), format!("0 {uid} 1"))?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("0 {gid} 1"))?;
    Ok(vec![Missing::new(
        "no subordinate ids (packages `uidmap`, files /etc/subuid and /etc/subgid)",
        "pods have a single user: root inside, you outside; runAsUser and programs that switch users, such as sshd, do not \
         work, and all files of an image belong to root",
    )])
}

/// The users and groups that the machine lends to us: the first of each.
struct Lent {
    users: u32,
    groups: u32,
}

impl Lent {
    fn find() -> Option<Self> {
        let uid = rustix::process::getuid().as_raw();
        let name = user_name(uid);
        let first = |file| subordinate(&fs::read_to_string(file).ok()?, uid, &name);
        Some(Self { users: first("/etc/subuid")?, groups: first("/etc/subgid")? })
    }

    /// Makes us root in the user namespace of a process, and those who are lent the others. Only programs of the machine
    /// may do that.
    fn map_to(&self, pid: u32) -> bool {
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        run("newuidmap", pid, uid, self.users) && run("newgidmap", pid, gid, self.groups)
    }
}

fn user_name(uid: u32) -> String {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2).is_some_and(|id| *id == uid.to_string()));
    found.and_then(|fields| fields.first().map(|name| (*name).to_owned())).unwrap_or_default()
}

/// Returns the first id that the machine lends to a user, if there are enough.
fn subordinate(text: &str, uid: u32, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let [who, first, count] = line.split(':').collect::<Vec<_>>()[..] else { return None };
        let is_ours = (!name.is_empty() && who == name) || who == uid.to_string();
        (is_ours && count.trim().parse::<u32>().ok()? >= IDS_MAX - 1).then(|| first.parse().ok()).flatten()
    })
}

fn run(program: &str, pid: u32, own: u32, first: u32) -> bool {
    let numbers = [pid, 0, own, 1, 1, first, IDS_MAX - 1].map(|number| number.to_string());
    Command::new(program).args(numbers).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::subordinate;

    #[test]
    fn a_range_is_found_by_name_or_number_if_it_is_large_enough() {
        let file = "ann:100000:65536\nbob:200000:1000\n1002:300000:65536\nnonsense\nbob:400000:65535\n";
        for (who, uid, name, expected) in [
            ("by name", 1000, "ann", Some(100_000)),
            ("the second is large enough", 1001, "bob", Some(400_000)),
            ("by number, without a name", 1002, "", Some(300_000)),
            ("nobody", 1003, "eve", None),
            ("no name is not everybody's", 1004, "", None),
        ] {
            assert_eq!(subordinate(file, uid, name), expected, "{who}");
        }
    }
}
