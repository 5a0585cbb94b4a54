//! `kubectl attach`: the client at the streams of a container's main process, through its supervisor.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, WriteHalf},
    net::UnixStream,
    sync::watch,
};

use crate::{
    streams::{Ended, Inlet, Size, Terminal},
    supervisor::{
        client,
        control::{FRAME_BYTES_MAX, FRAME_HEAD, Frame},
        folder::PodFolder,
    },
};

const CHUNK: usize = 64 << 10;

/// Connects the client until the container ends or the client leaves.
pub async fn run(folder: PodFolder, container: String, terminal: Terminal) -> Ended {
    match client::attach(&folder, &container).await {
        Ok(stream) => {
            pass(stream, terminal).await;
            Ended::Exit(0)
        }
        Err(error) => Ended::Failed(error.to_string()),
    }
}

async fn pass(stream: BufReader<UnixStream>, terminal: Terminal) {
    let Terminal { stdin, mut stdout, mut stderr, resize, .. } = terminal;
    let (mut from, to) = tokio::io::split(stream);
    let input = tokio::spawn(pass_input(to, stdin, resize));
    loop {
        let mut head = [0; FRAME_HEAD];
        if from.read_exact(&mut head).await.is_err() {
            break;
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > FRAME_BYTES_MAX {
            break;
        }
        let mut bytes = vec![0; length];
        if from.read_exact(&mut bytes).await.is_err() {
            break;
        }
        let to = match Frame::from_byte(head[0]) {
            Some(Frame::Stdout) => &mut stdout,
            Some(Frame::Stderr) => &mut stderr,
            _ => break,
        };
        if let Some(outlet) = to
            && outlet.write_all(&bytes).await.is_err()
        {
            break;
        }
    }
    input.abort();
}

async fn pass_input(
    mut to: WriteHalf<BufReader<UnixStream>>,
    stdin: Option<Inlet>,
    mut resize: Option<watch::Receiver<Size>>,
) {
    let mut buffer = vec![0; CHUNK];
    let mut stdin = stdin;
    loop {
        let sizes = async {
            match &mut resize {
                Some(sizes) => sizes.changed().await.map(|()| *sizes.borrow_and_update()),
                None => std::future::pending().await,
            }
        };
        let read = async {
            match &mut stdin {
                Some(stdin) => stdin.read(&mut buffer).await,
                None => std::future::pending().await,
            }
        };
        let frame = tokio::select! {
            size = sizes => match size {
                Ok(size) => resized(size),
                Err(_) => {
                    resize = None;
                    continue;
                }
            },
            count = read => match count {
                Ok(count @ 1..) => Frame::Stdin.encode(&buffer[..count]),
                _ => {
                    stdin = None;
                    Frame::CloseStdin.encode(b"")
                }
            },
        };
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

fn resized(size: Size) -> Vec<u8> {
    let mut bytes = size.columns.to_be_bytes().to_vec();
    bytes.extend_from_slice(&size.rows.to_be_bytes());
    Frame::Resize.encode(&bytes)
}
