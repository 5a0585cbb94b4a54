//! Frames as clients send them, whole, in pieces, and broken.

use proptest::{collection::vec, prelude::*};

use super::*;

fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn decode_all(bytes: &[u8], cut: usize) -> Result<Vec<Frame>, ProtocolError> {
    let mut decoder = Decoder::new();
    let mut buffer = BytesMut::new();
    let mut frames: Vec<Frame> = Vec::new();
    for piece in bytes.chunks(cut.max(1)) {
        buffer.extend_from_slice(piece);
        while let Some(frame) = decoder.decode(&mut buffer)? {
            match (frames.last_mut(), frame) {
                // How data is cut does not matter.
                (Some(Frame::Data { stream, data }), Frame::Data { stream: next, data: more }) if *stream == next => {
                    *data = [&**data, &*more].concat().into();
                }
                (_, frame) => frames.push(frame),
            }
        }
    }
    Ok(frames)
}

#[test]
fn a_conversation_is_understood_however_it_is_cut() {
    let (mut encoder, mut bytes) = (Encoder::new(), BytesMut::new());
    let error = headers(&[("streamtype", "error"), ("port", "80"), ("requestid", "0")]);
    let data = headers(&[("streamtype", "data"), ("port", "80"), ("requestid", "0")]);
    encoder.open(1, &error, true, &mut bytes);
    encoder.encode(&Outgoing::Pong(7), &mut bytes);
    encoder.open(3, &data, false, &mut bytes);
    encoder.encode(&Outgoing::Data(3, Bytes::from_static(b"hello")), &mut bytes);
    encoder.encode(&Outgoing::Data(3, Bytes::from_static(b"")), &mut bytes);
    encoder.encode(&Outgoing::Data(3, Bytes::from_static(b" world")), &mut bytes);
    encoder.encode(&Outgoing::Close(3), &mut bytes);
    encoder.encode(&Outgoing::Reset(1), &mut bytes);
    go_away(3, &mut bytes);
    let expected = vec![
        Frame::Open { stream: 1, headers: error },
        Frame::Close { stream: 1 },
        Frame::Ping(7),
        Frame::Open { stream: 3, headers: data },
        Frame::Data { stream: 3, data: "hello world".into() },
        Frame::Close { stream: 3 },
        Frame::Reset { stream: 1 },
        Frame::GoAway,
    ];
    for cut in [1, 2, 7, 8, 9, 100, 10_000] {
        assert_eq!(decode_all(&bytes, cut), Ok(expected.clone()), "in pieces of {cut}");
    }
}

#[test]
fn the_last_data_frame_may_close_its_stream() {
    let bytes = b"\0\0\0\x05\x01\0\0\x02hi";
    let expected = vec![Frame::Data { stream: 5, data: "hi".into() }, Frame::Close { stream: 5 }];
    for cut in 1..12 {
        assert_eq!(decode_all(bytes, cut), Ok(expected.clone()), "in pieces of {cut}");
    }
}

#[test]
fn replies_keep_the_headers_readable() {
    // A reply packs headers too: were it not unpacked, those of the next frame would be garbage.
    let (mut encoder, mut bytes) = (Encoder::new(), BytesMut::new());
    encoder.encode(&Outgoing::Accept(1), &mut bytes);
    let fields = headers(&[("streamtype", "stdin")]);
    encoder.open(3, &fields, false, &mut bytes);
    assert_eq!(decode_all(&bytes, 3), Ok(vec![Frame::Open { stream: 3, headers: fields }]));
}

#[test]
fn what_is_no_frame_is_refused() {
    let check = |name: &str, bytes: &[u8], expected: Result<Vec<Frame>, ProtocolError>| {
        assert_eq!(decode_all(bytes, 100), expected, "{name}");
    };
    check("half a head", b"\x80\x03\0", Ok(vec![]));
    check("another version", b"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01", Err(ProtocolError::Frame));
    check(
        "HTTP",
        b"GET / HTTP/1.1\r\n\r\n",
        Ok(vec![Frame::Data { stream: 0x4745_5420, data: "TP/1.1\r\n\r\n".into() }]),
    );
    check("a ping without a number", b"\x80\x03\0\x06\0\0\0\0", Err(ProtocolError::Frame));
    check("a control frame too large", b"\x80\x03\0\x01\0\x10\0\0", Err(ProtocolError::TooLarge));
    check("headers that are none", b"\x80\x03\0\x01\0\0\0\x0c\0\0\0\x01\0\0\0\0\0\0hi", Err(ProtocolError::Headers));
    check(
        "settings and window updates mean nothing",
        b"\x80\x03\0\x04\0\0\0\x04\0\0\0\0\x80\x03\0\x09\0\0\0\0",
        Ok(vec![]),
    );
}

proptest! {
    #[test]
    fn data_comes_back_however_it_is_cut(
        pieces in vec((1_u32..5, vec(any::<u8>(), 0..300)), 0..10),
        cut in 1_usize..400,
    ) {
        let (mut encoder, mut bytes) = (Encoder::new(), BytesMut::new());
        for (stream, data) in &pieces {
            encoder.encode(&Outgoing::Data(*stream, data.clone().into()), &mut bytes);
        }
        let mut found: Vec<(u32, Vec<u8>)> = Vec::new();
        for frame in decode_all(&bytes, cut).expect("frames") {
            let Frame::Data { stream, data } = frame else { panic!("{frame:?}") };
            found.push((stream, data.to_vec()));
        }
        let of = |all: &[(u32, Vec<u8>)]| -> Vec<Vec<u8>> {
            (1..5).map(|wanted| all.iter().filter(|(stream, _)| *stream == wanted).flat_map(|(_, data)| data.clone()).collect()).collect()
        };
        assert_eq!(of(&found), of(&pieces));
    }

    #[test]
    fn garbage_is_an_error_and_nothing_worse(garbage: Vec<u8>, cut in 1_usize..50) {
        let _ = decode_all(&garbage, cut);
    }
}
