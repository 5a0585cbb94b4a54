//! One running container as its supervisor sees it: first process, streams, log, record.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use fs_err as fs;
use jiff::Timestamp;
use ronde_process::{
    Alone, Child, Fork, Namespaces,
    fork::{fork, keep_only},
    kill,
};
use rustix::{
    fs::{Mode, OFlags},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
        socketpair,
    },
    process::Signal,
    termios::Winsize,
    thread::move_into_link_name_space,
};

use super::{
    connection::Connection,
    control::Frame,
    folder::PodFolder,
    record::{End, Record, Unwritten},
    run::complain,
    spare,
};
use crate::{
    logs::{self, write::LogWriter},
    sandbox::{
        cgroup::Cgroup,
        init::{self, Folders, Report, Streams, rustix_exit},
        spec::{ContainerSpec, Pids, Root, Terminal},
    },
};

/// One read of a container's output. Pipes are made this large too.
const CHUNK: usize = 256 << 10;
/// Reports are a few words; an error may name a long path.
const REPORT_BYTES_MAX: usize = 16 << 10;
/// Exit code of a container that could not be started.
const NOT_STARTED: i32 = 128;
const KILLED: i32 = 137;
/// Of the words that say why a container did not start.
const MESSAGE_BYTES_MAX: usize = 2 << 10;
/// Input of an attached client that the container does not read.
const INPUT_BYTES_MAX: usize = 1 << 20;

pub struct Container {
    record: Record,
    record_path: PathBuf,
    init: Child,
    /// Whether the first process is the first of a pid namespace.
    owns_pids: bool,
    report: OwnedFd,
    /// A handle of the main process, once it runs.
    program: Option<OwnedFd>,
    outputs: Vec<Option<Output>>,
    /// The write end of the input, or the terminal.
    input: Option<OwnedFd>,
    terminal: Terminal,
    log: LogWriter,
    cgroup: Option<Cgroup>,
    ended: bool,
    /// What the first process said of the end.
    said: Option<Report>,
    buffer: Vec<u8>,
}

struct Output {
    stream: logs::Output,
    source: OwnedFd,
}

/// The ends of a container's streams that stay here.
struct Ours {
    input: Option<OwnedFd>,
    outputs: Vec<Option<Output>>,
}

impl Container {
    /// Records an attempt and starts it.
    ///
    /// # Errors
    /// If it could not even be tried; the record then says so too.
    pub fn start(
        alone: Alone,
        folder: &PodFolder,
        spec: ContainerSpec,
        pids: Option<&Child>,
        unwritten: &mut Unwritten,
        now: Timestamp,
    ) -> io::Result<Self> {
        let record_path = folder.record(&spec.name, spec.attempt);
        let mut record = Record::new(spec.attempt, now);
        record.create(&record_path)?;
        match Self::spawn(alone, folder, &spec, pids, record.clone(), record_path.clone()) {
            Ok(container) => Ok(container),
            Err(error) => {
                record.end = Some(failed(error.to_string(), now));
                write_record(unwritten, &record, &record_path);
                Err(error)
            }
        }
    }

    fn spawn(
        alone: Alone,
        folder: &PodFolder,
        spec: &ContainerSpec,
        pids: Option<&Child>,
        record: Record,
        record_path: PathBuf,
    ) -> io::Result<Self> {
        if let Some(cgroup) = &spec.cgroup {
            cgroup.create()?;
        }
        fs::create_dir_all(folder.logs(&spec.name))?;
        let log = LogWriter::new(&folder.logs(&spec.name), spec.attempt);
        let (report, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        rustix::fs::fcntl_setfl(&theirs, OFlags::empty())?;
        let (ours, standard) = streams(spec.terminal)?;
        let attempt = folder.attempt(&spec.name, spec.attempt);
        let init = fork_into(alone, pids, namespaces(spec))?;
        let init = match init {
            Fork::Parent(child) => child,
            Fork::Child => {
                let folders = Folders { attempt: &attempt, shared_memory: &folder.shared_memory() };
                let standard_kept = standard.iter().flatten().map(AsFd::as_fd);
                keep_only(&standard_kept.chain([theirs.as_fd()]).collect::<Vec<_>>());
                init::run(alone, spec, &folders, Streams { report: theirs, standard });
                rustix_exit(0)
            }
        };
        Ok(Self {
            record,
            record_path,
            init,
            owns_pids: namespaces(spec).pid,
            report,
            program: None,
            outputs: ours.outputs,
            input: ours.input,
            terminal: spec.terminal,
            log,
            cgroup: spec.cgroup.clone(),
            ended: false,
            said: None,
            buffer: vec![0; CHUNK],
        })
    }

    pub fn report(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }

    pub fn init(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }

    pub fn outputs(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let open = self.outputs.iter().enumerate();
        open.filter_map(|(index, output)| Some((index, output.as_ref()?.source.as_fd())))
    }

    /// Takes what the first process has to say; returns whether the record has changed.
    pub fn take_reports(&mut self, now: Timestamp, unwritten: &mut Unwritten) -> bool {
        let mut changed = false;
        while let Some((report, handle)) = receive(self.report.as_fd()) {
            match report {
                Report::Terminal => self.take_terminal(handle),
                Report::Started => {
                    self.program = handle;
                    self.record.started_at = Some(now);
                    self.record.pid = Some(self.init.pid.as_raw_nonzero().get().cast_unsigned());
                    write_record(unwritten, &self.record, &self.record_path);
                    changed = true;
                }
                Report::Failed { .. } | Report::Ended { .. } => self.said = Some(report),
            }
        }
        changed
    }

    fn take_terminal(&mut self, handle: Option<OwnedFd>) {
        let Some(ours) = handle else { return };
        let _ = rustix::fs::fcntl_setfl(&ours, OFlags::NONBLOCK);
        self.input = ours.try_clone().ok();
        self.outputs = vec![Some(Output { stream: logs::Output::Stdout, source: ours })];
    }

    /// Moves what is there from one output to the log and to whoever is attached.
    pub fn pump(&mut self, index: usize, now: Timestamp, connections: &mut [Connection]) {
        while self.pump_once(index, now, connections) {}
    }

    /// Returns whether there may be more at once.
    fn pump_once(&mut self, index: usize, now: Timestamp, connections: &mut [Connection]) -> bool {
        let Some(output) = self.outputs.get(index).and_then(Option::as_ref) else { return false };
        match rustix::io::read(&output.source, &mut self.buffer) {
            Ok(0) => {
                self.outputs[index] = None;
                false
            }
            Ok(count) => {
                let bytes = &self.buffer[..count];
                self.log.write(output.stream, bytes, now);
                let frame = if output.stream == logs::Output::Stdout { Frame::Stdout } else { Frame::Stderr };
                let name = self.name();
                for connection in connections.iter_mut() {
                    connection.give(&name, frame, bytes, now);
                }
                // A container that writes without end must not keep the others from being served.
                false
            }
            Err(rustix::io::Errno::INTR) => true,
            Err(rustix::io::Errno::AGAIN) => false,
            // A terminal says this when its last process is gone.
            Err(_) => {
                self.outputs[index] = None;
                false
            }
        }
    }

    fn name(&self) -> String {
        let folder = self.record_path.parent().and_then(Path::parent);
        folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Gives input to the container; what it does not take is dropped when there is too much of it.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(input) = &self.input else { return };
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(input, rest) {
                Ok(count) => rest = &rest[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if rest.len() <= INPUT_BYTES_MAX => {
                    let mut set = [rustix::event::PollFd::new(input, rustix::event::PollFlags::OUT)];
                    // At most a moment: the other containers of the pod wait meanwhile.
                    let moment = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    if matches!(rustix::event::poll(&mut set, Some(&moment)), Ok(0) | Err(_)) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// An attached client has closed its input, or has gone.
    pub fn input_ended(&mut self) {
        if self.terminal.stdin_once && !self.terminal.tty {
            self.input = None;
        }
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        if let (true, Some(terminal)) = (self.terminal.tty, &self.input) {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            let _ = rustix::termios::tcsetwinsize(terminal, size);
        }
    }

    pub fn signal(&self, number: i32, all: bool) -> io::Result<()> {
        let signal = Signal::from_named_raw(number).ok_or_else(|| io::Error::other(format!("no signal {number}")))?;
        match &self.program {
            Some(program) if !all => kill::signal(program.as_fd(), signal),
            // Where the first process heads a pid namespace, everything dies with it.
            _ if self.owns_pids => self.init.signal(signal),
            Some(program) => kill::signal(program.as_fd(), signal),
            None => self.init.signal(signal),
        }
    }

    pub fn note_end(&mut self) {
        match self.init.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => self.ended = true,
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Writes down the end: the rest of the output first, then the record.
    pub fn finish(mut self, now: Timestamp, connections: &mut [Connection], unwritten: &mut Unwritten) {
        self.take_reports(now, unwritten);
        for index in 0..self.outputs.len() {
            self.drain(index, now, connections);
        }
        self.record.end = Some(self.end(now));
        self.log.finish(now);
        write_record(unwritten, &self.record, &self.record_path);
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
    }

    /// Reads what is left. A process outside of the container may still hold the other end: that is not waited for.
    fn drain(&mut self, index: usize, now: Timestamp, connections: &mut [Connection]) {
        while let Some(output) = self.outputs.get(index).and_then(Option::as_ref) {
            let mut set = [rustix::event::PollFd::new(&output.source, rustix::event::PollFlags::IN)];
            let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            if matches!(rustix::event::poll(&mut set, Some(&at_once)), Ok(0) | Err(_)) {
                return;
            }
            self.pump_once(index, now, connections);
        }
    }

    fn end(&self, now: Timestamp) -> End {
        match &self.said {
            Some(Report::Failed { message }) => failed(message.clone(), now),
            Some(Report::Ended { code, signal }) => {
                let number = code.or(signal.map(|number| 128 + number)).unwrap_or(KILLED);
                let out_of_memory = number != 0 && self.cgroup.as_ref().is_some_and(Cgroup::has_run_out_of_memory);
                End { at: now, code: number, signal: *signal, out_of_memory, failed: None, lost: false }
            }
            // The first process was killed before it could say anything.
            _ => {
                let out_of_memory = self.cgroup.as_ref().is_some_and(Cgroup::has_run_out_of_memory);
                End { at: now, code: KILLED, signal: Some(9), out_of_memory, failed: None, lost: false }
            }
        }
    }
}

fn write_record(unwritten: &mut Unwritten, record: &Record, path: &Path) {
    if let Err(error) = unwritten.write(path, record) {
        complain("cannot write a record", &error);
    }
}

fn failed(mut message: String, at: Timestamp) -> End {
    // The rest of its block is for the record.
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    End { at, code: NOT_STARTED, signal: None, out_of_memory: false, failed: Some(message), lost: false }
}

fn namespaces(spec: &ContainerSpec) -> Namespaces {
    let isolated = matches!(spec.root, Root::Layers { .. });
    Namespaces { pid: isolated && spec.pids == Pids::Own, mount: isolated, ..Namespaces::default() }
}

/// Forks, into the pid namespace of another process if one is given.
fn fork_into(alone: Alone, pids: Option<&Child>, namespaces: Namespaces) -> io::Result<Fork> {
    let Some(first) = pids else { return fork(alone, namespaces) };
    let open = |path: String| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let shared = open(format!("/proc/{}/ns/pid", first.pid.as_raw_nonzero()))?;
    // For good: there is no way back without root, and all containers of such a pod belong there.
    move_into_link_name_space(shared.as_fd(), None)?;
    fork(alone, namespaces)
}

/// Makes the streams of a container: our ends, and those for the program unless it gets a terminal.
fn streams(terminal: Terminal) -> io::Result<(Ours, Option<[OwnedFd; 3]>)> {
    if terminal.tty {
        return Ok((Ours { input: None, outputs: Vec::new() }, None));
    }
    let output = |stream| {
        let (read, write) = io::pipe()?;
        let (source, write) = (OwnedFd::from(read), OwnedFd::from(write));
        // More than is allowed is no reason to fail.
        let _ = rustix::pipe::fcntl_setpipe_size(&source, CHUNK);
        rustix::fs::fcntl_setfl(&source, OFlags::NONBLOCK)?;
        io::Result::Ok((Some(Output { stream, source }), write))
    };
    let (stdout, stdout_theirs) = output(logs::Output::Stdout)?;
    let (stderr, stderr_theirs) = output(logs::Output::Stderr)?;
    let (input, input_theirs) = if terminal.stdin {
        let (read, write) = io::pipe()?;
        let write = OwnedFd::from(write);
        rustix::fs::fcntl_setfl(&write, OFlags::NONBLOCK)?;
        (Some(write), OwnedFd::from(read))
    } else {
        (None, init::nothing()?)
    };
    let ours = Ours { input, outputs: vec![stdout, stderr] };
    Ok((ours, Some([input_theirs, stdout_theirs, stderr_theirs])))
}

/// Takes one message off the report socket.
fn receive(socket: BorrowedFd<'_>) -> Option<(Report, Option<OwnedFd>)> {
    let mut bytes = [0; REPORT_BYTES_MAX];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [io::IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let handle = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
        _ => None,
    });
    let report = serde_json::from_slice(bytes.get(..got.bytes).unwrap_or_default()).ok()?;
    Some((report, handle))
}

/// Deletes what only a running attempt needs: its changed files, the way into it, and the room for its end.
pub fn remove_files(folder: &PodFolder, container: &str, number: u32) -> io::Result<()> {
    let attempt = folder.attempt(container, number);
    let trees = ["root", "layers", "l", "tmp"].map(|part| fs::remove_dir_all(attempt.join(part)));
    let record = folder.record(container, number);
    let files = [folder.entry(container, number), spare::spare_path(&record)].map(fs::remove_file);
    for removed in trees.into_iter().chain(files) {
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
