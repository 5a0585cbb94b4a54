//! Several streams in the messages of one WebSocket: the first byte of each says which. Pure.
//!
//! For commands the channels are 0 stdin, 1 stdout, 2 stderr, 3 error, 4 resize; for forwarded ports there are two
//! each, data and error. Version 5 lets a client close one of them with a message on channel 255.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut as _, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

use super::status::StatusForm;

/// The channel on which a client says which other one it closes.
const CLOSE: u8 = 255;

/// How streams are carried in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Text messages of base64, for clients that cannot send bytes.
    pub base64: bool,
    pub can_close: bool,
    pub status: StatusForm,
}

/// What a message of a client means.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    Data(u8, Bytes),
    Close(u8),
    Nothing,
}

impl Channels {
    /// Returns what a name in `Sec-WebSocket-Protocol` stands for; no name at all is the first version.
    pub fn find(name: &str) -> Option<Self> {
        let (version, base64) = match name.strip_suffix("base64.channel.k8s.io") {
            Some(version) => (version, true),
            None if name.is_empty() => ("", false),
            None => (name.strip_suffix("channel.k8s.io")?, false),
        };
        let (can_close, status) = match version {
            "" => (false, StatusForm::Text),
            "v4." => (false, StatusForm::Object),
            "v5." if !base64 => (true, StatusForm::Object),
            _ => return None,
        };
        Some(Self { base64, can_close, status })
    }

    pub fn encode(self, channel: u8, data: &[u8]) -> Message {
        if self.base64 {
            let text = format!("{}{}", char::from(b'0'.saturating_add(channel)), STANDARD.encode(data));
            return Message::text(text);
        }
        let mut bytes = BytesMut::with_capacity(1 + data.len());
        bytes.put_u8(channel);
        bytes.put_slice(data);
        Message::Binary(bytes.freeze())
    }

    pub fn decode(self, message: Message) -> Incoming {
        let mut bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            _ => return Incoming::Nothing,
        };
        if bytes.is_empty() {
            return Incoming::Nothing;
        }
        let channel = bytes.split_to(1)[0];
        if self.base64 {
            return match (channel.checked_sub(b'0'), STANDARD.decode(bytes)) {
                (Some(channel), Ok(data)) => Incoming::Data(channel, data.into()),
                _ => Incoming::Nothing,
            };
        }
        match (self.can_close && channel == CLOSE, bytes.first()) {
            (true, Some(closed)) => Incoming::Close(*closed),
            (true, None) => Incoming::Nothing,
            (false, _) => Incoming::Data(channel, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, prop_oneof, proptest};

    use super::*;

    fn channels(name: &str) -> Channels {
        Channels::find(name).expect("a known name")
    }

    #[test]
    fn names_are_known_or_not() {
        let check = |name: &str, expected: Option<(bool, bool, StatusForm)>| {
            let found = Channels::find(name).map(|known| (known.base64, known.can_close, known.status));
            assert_eq!(found, expected, "{name}");
        };
        check("", Some((false, false, StatusForm::Text)));
        check("channel.k8s.io", Some((false, false, StatusForm::Text)));
        check("base64.channel.k8s.io", Some((true, false, StatusForm::Text)));
        check("v4.channel.k8s.io", Some((false, false, StatusForm::Object)));
        check("v4.base64.channel.k8s.io", Some((true, false, StatusForm::Object)));
        check("v5.channel.k8s.io", Some((false, true, StatusForm::Object)));
        check("v5.base64.channel.k8s.io", None);
        check("v6.channel.k8s.io", None);
        check("SPDY/3.1+portforward.k8s.io", None);
    }

    #[test]
    fn messages_are_taken_apart() {
        let check = |name: &str, message: Message, expected: Incoming| {
            assert_eq!(channels(name).decode(message.clone()), expected, "{name} {message}");
        };
        let bytes = |bytes: &'static [u8]| Message::Binary(Bytes::from_static(bytes));
        check("v4.channel.k8s.io", bytes(b"\x00hi"), Incoming::Data(0, "hi".into()));
        check("v4.channel.k8s.io", bytes(b"\xff\x00"), Incoming::Data(255, Bytes::from_static(b"\0")));
        check("v5.channel.k8s.io", bytes(b"\xff\x00"), Incoming::Close(0));
        check("v5.channel.k8s.io", bytes(b"\xff"), Incoming::Nothing);
        check("v5.channel.k8s.io", bytes(b"\x00"), Incoming::Data(0, Bytes::new()));
        check("v5.channel.k8s.io", bytes(b""), Incoming::Nothing);
        check("base64.channel.k8s.io", Message::text("0aGk="), Incoming::Data(0, "hi".into()));
        check("base64.channel.k8s.io", Message::text("0!"), Incoming::Nothing);
        check("base64.channel.k8s.io", Message::text("\x01aGk="), Incoming::Nothing);
        check("v5.channel.k8s.io", Message::Ping(Bytes::new()), Incoming::Nothing);
    }

    proptest! {
        #[test]
        fn what_is_sent_comes_back(
            name in prop_oneof![Just("v4.channel.k8s.io"), Just("v5.channel.k8s.io"), Just("base64.channel.k8s.io")],
            channel in 0_u8..64,
            data: Vec<u8>,
        ) {
            let channels = channels(name);
            assert_eq!(channels.decode(channels.encode(channel, &data)), Incoming::Data(channel, data.into()));
        }
    }
}
