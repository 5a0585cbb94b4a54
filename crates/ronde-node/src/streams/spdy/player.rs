//! A client for tests: opens streams, sends, and collects what comes back.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::{
    Headers,
    frame::{Decoder, Encoder, Frame},
};
use crate::streams::pipe::Outgoing;

/// The client's end of a connection.
pub struct Player {
    io: DuplexStream,
    encoder: Encoder,
    decoder: Decoder,
    buffer: BytesMut,
    /// What has come on each stream.
    pub received: BTreeMap<u32, Vec<u8>>,
    /// Streams on which no more will come.
    pub closed: BTreeSet<u32>,
    pub refused: BTreeSet<u32>,
    pub pongs: Vec<u32>,
}

impl Player {
    pub fn new(io: DuplexStream) -> Self {
        let (encoder, decoder) = (Encoder::new(), Decoder::new());
        let [closed, refused] = [BTreeSet::new(), BTreeSet::new()];
        let buffer = BytesMut::new();
        Self { io, encoder, decoder, buffer, received: BTreeMap::new(), closed, refused, pongs: Vec::new() }
    }

    pub async fn open(&mut self, stream: u32, headers: &[(&str, &str)]) {
        let headers: Headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.send(|encoder, out| encoder.open(stream, &headers, false, out)).await;
    }

    pub async fn data(&mut self, stream: u32, data: &[u8]) {
        self.send_frame(Outgoing::Data(stream, data.to_vec().into())).await;
    }

    pub async fn close(&mut self, stream: u32) {
        self.send_frame(Outgoing::Close(stream)).await;
    }

    pub async fn ping(&mut self, id: u32) {
        self.send_frame(Outgoing::Pong(id)).await;
    }

    async fn send_frame(&mut self, outgoing: Outgoing) {
        self.send(|encoder, out| encoder.encode(&outgoing, out)).await;
    }

    async fn send(&mut self, encode: impl FnOnce(&mut Encoder, &mut BytesMut)) {
        let mut out = BytesMut::new();
        encode(&mut self.encoder, &mut out);
        self.io.write_all(&out).await.expect("a server");
    }

    /// Reads until `done`, or the server says goodbye.
    pub async fn read_until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            match self.decoder.decode(&mut self.buffer).expect("frames") {
                Some(Frame::Data { stream, data }) => self.received.entry(stream).or_default().extend_from_slice(&data),
                Some(Frame::Close { stream }) => drop(self.closed.insert(stream)),
                Some(Frame::Reset { stream }) => drop(self.refused.insert(stream)),
                Some(Frame::Ping(id)) => self.pongs.push(id),
                Some(Frame::GoAway) => return,
                Some(Frame::Open { .. }) => panic!("servers open no streams"),
                None if self.io.read_buf(&mut self.buffer).await.expect("a server") == 0 => return,
                None => {}
            }
        }
    }

    pub fn text(&self, stream: u32) -> String {
        String::from_utf8(self.received.get(&stream).cloned().unwrap_or_default()).expect("text")
    }
}
