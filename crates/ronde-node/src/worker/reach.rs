//! How probes and hooks get at a container of this machine.

use std::{io, net::ToSocketAddrs as _, process::Stdio, sync::Arc};

use tokio::{io::AsyncReadExt as _, net::TcpStream};

use super::exec::Exec;
use crate::{
    node::Node,
    probes::{Executed, Reach},
    supervisor::folder::PodFolder,
};

/// As the kubelet: more output of a probe is not looked at.
const OUTPUT_BYTES_MAX: u64 = 10 << 10;

/// A container by its pod's folder and its name.
#[derive(Clone)]
pub struct InContainer {
    pub node: Arc<Node>,
    pub folder: PodFolder,
    pub container: String,
}

impl Reach for InContainer {
    type Stream = TcpStream;

    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let name = (host.to_owned(), port);
        let found = tokio::task::spawn_blocking(move || name.to_socket_addrs().map(|mut all| all.next())).await;
        let address =
            found.map_err(io::Error::other)??.ok_or_else(|| io::Error::other(format!("no address for {host}")))?;
        match &self.node.network {
            Some(network) => network.connect(None, address).await,
            None => TcpStream::connect(address).await,
        }
    }

    async fn exec(&self, command: &[String]) -> io::Result<Executed> {
        let exec = Exec {
            program: &self.node.program,
            folder: &self.folder,
            container: &self.container,
            argv: command.to_vec(),
            tty: false,
        };
        let (mut command, _) = exec.command()?;
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let read = async {
            if let Some(stdout) = stdout {
                let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut output).await;
            }
        };
        let read_errors = async {
            if let Some(stderr) = stderr {
                let _ = stderr.take(OUTPUT_BYTES_MAX).read_to_end(&mut errors).await;
            }
        };
        let (status, (), ()) = tokio::join!(child.wait(), read, read_errors);
        output.append(&mut errors);
        Ok(Executed { code: status?.code().unwrap_or(137), output })
    }
}
