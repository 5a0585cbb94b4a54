//! One container's log on its way to stdout: as it is, or line by line with the name of its pod in front.

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use crate::{
    args::LogsArgs,
    client::{self, ClientError, encode},
    objects,
    printer::{Printer, Reader},
};

/// What is written at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// A longer line is written in pieces, each as a line of its own.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Which log, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub namespace: String,
    pub pod: String,
    pub container: Option<String>,
    follow: bool,
    tail: Option<u64>,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<u64>,
    since_time: Option<String>,
}

impl Wanted {
    pub fn new(args: &LogsArgs, namespace: &str, pod: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: args.container.clone(),
            follow: args.follow,
            tail: args.tail.and_then(|tail| u64::try_from(tail).ok()),
            previous: args.previous,
            timestamps: args.timestamps,
            // Less than a second ago is not nothing: the API wants at least one.
            since_seconds: args.since.map(|since| since.to_std().as_secs().max(1)),
            since_time: args.since_time.clone(),
        }
    }

    /// The last lines of a container so far, each with its time in front.
    pub fn last_lines(namespace: &str, pod: &str, container: Option<String>, lines: u64) -> Self {
        let all = Self::new(&LogsArgs { container, timestamps: true, ..LogsArgs::default() }, namespace, pod);
        Self { tail: Some(lines), ..all }
    }

    fn path(&self) -> String {
        let pod = objects::path::<Pod>(Some(&self.namespace), Some(&self.pod));
        let mut path = format!("{pod}/log?follow={}", self.follow);
        if let Some(container) = &self.container {
            path.push_str(&format!("&container={}", encode(container)));
        }
        if let Some(lines) = self.tail {
            path.push_str(&format!("&tailLines={lines}"));
        }
        if self.previous {
            path.push_str("&previous=true");
        }
        if self.timestamps {
            path.push_str("&timestamps=true");
        }
        if let Some(seconds) = self.since_seconds {
            path.push_str(&format!("&sinceSeconds={seconds}"));
        }
        if let Some(time) = &self.since_time {
            path.push_str(&format!("&sinceTime={}", encode(time)));
        }
        path
    }
}

/// Opens a log.
pub async fn open(client: &Client, wanted: &Wanted) -> Result<impl AsyncBufRead + Unpin + use<>, ClientError> {
    client::stream_bytes(client, client::get(&wanted.path(), "*/*")).await
}

/// Writes a log as it is.
pub async fn copy(mut log: impl AsyncBufRead + Unpin, printer: Printer) -> Result<Reader, ClientError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = log.read(&mut chunk).await.map_err(broken)?;
        if read == 0 {
            return Ok(Reader::There);
        }
        if printer.bytes(&chunk[..read]) == Reader::Gone {
            return Ok(Reader::Gone);
        }
    }
}

/// Writes a log by lines, each with something in front of it.
pub async fn copy_lines(
    mut log: impl AsyncBufRead + Unpin,
    prefix: &str,
    printer: Printer,
) -> Result<Reader, ClientError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        let read = (&mut log).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.map_err(broken)?;
        if read == 0 {
            return Ok(Reader::There);
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if printer.bytes(&line) == Reader::Gone {
            return Ok(Reader::Gone);
        }
    }
}

/// Says that a log broke off.
pub fn broken(error: std::io::Error) -> ClientError {
    ClientError::Unreachable { source: error.into() }
}
