//! Agrees with a client on the protocol for its connection: WebSocket with channels, SPDY, or SPDY in a WebSocket. Pure.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ronde_apiserver::error::ApiError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{channels::Channels, status::StatusForm};

const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const SPDY: &str = "SPDY/3.1";
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// The versions of the protocols over SPDY, newest first.
const COMMAND_VERSIONS: [(&str, Spdy); 4] = [
    ("v4.channel.k8s.io", Spdy { status: StatusForm::Object, can_resize: true }),
    ("v3.channel.k8s.io", Spdy { status: StatusForm::Text, can_resize: true }),
    ("v2.channel.k8s.io", Spdy { status: StatusForm::Text, can_resize: false }),
    ("channel.k8s.io", Spdy { status: StatusForm::Text, can_resize: false }),
];
const PORT_VERSIONS: [(&str, Spdy); 1] = [("portforward.k8s.io", Spdy { status: StatusForm::Text, can_resize: false })];

/// What a connection is used for after its upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Channels(Channels),
    Spdy(Spdy),
    /// SPDY in the messages of a WebSocket; for forwarded ports only.
    Tunnel,
}

/// A version of the protocol for commands over SPDY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spdy {
    pub status: StatusForm,
    pub can_resize: bool,
}

/// An agreement: the protocol, and what to answer.
#[derive(Debug)]
pub struct Agreed {
    pub protocol: Protocol,
    pub answer: Response,
}

/// Chooses the protocol for a command.
///
/// # Errors
/// If the client wants none that we have.
pub fn for_command(headers: &HeaderMap) -> Result<Agreed, ApiError> {
    if is_websocket(headers) {
        let found = offered(headers, &header::SEC_WEBSOCKET_PROTOCOL);
        return websocket(headers, &found, |name| Channels::find(name).map(Protocol::Channels));
    }
    spdy(headers, &COMMAND_VERSIONS)
}

/// Chooses the protocol for forwarded ports.
///
/// # Errors
/// As [`for_command`].
pub fn for_ports(headers: &HeaderMap) -> Result<Agreed, ApiError> {
    if is_websocket(headers) {
        let found = offered(headers, &header::SEC_WEBSOCKET_PROTOCOL);
        // Ports have no version 5: its clients offer 4 as well.
        return websocket(headers, &found, |name| match name {
            TUNNEL => Some(Protocol::Tunnel),
            name => Channels::find(name).filter(|channels| !channels.can_close).map(Protocol::Channels),
        });
    }
    spdy(headers, &PORT_VERSIONS)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    offered(headers, &header::UPGRADE).iter().any(|name| name.eq_ignore_ascii_case("websocket"))
}

/// The words in all headers of a name, in order.
fn offered<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty()).collect()
}

fn websocket(headers: &HeaderMap, names: &[&str], find: impl Fn(&str) -> Option<Protocol>) -> Result<Agreed, ApiError> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    let (Some(key), Some(b"13")) = (key, version.map(HeaderValue::as_bytes)) else {
        return Err(ApiError::bad_request("the request is not for a WebSocket of version 13"));
    };
    // No offer at all means the first version.
    let names = if names.is_empty() { &[""] } else { names };
    let found = names.iter().find_map(|name| find(name).map(|protocol| (*name, protocol)));
    let Some((name, protocol)) = found else {
        let why = format!("requested protocol(s) are not supported: [{}]", names.join(" "));
        return Err(ApiError::bad_request(why));
    };
    let mut answer = switching("websocket");
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("base64 fits into a header");
    answer.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if !name.is_empty() {
        let name = HeaderValue::from_str(name).expect("it came in a header");
        answer.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, name);
    }
    Ok(Agreed { protocol, answer })
}

fn spdy(headers: &HeaderMap, versions: &[(&'static str, Spdy)]) -> Result<Agreed, ApiError> {
    if !offered(headers, &header::UPGRADE).iter().any(|name| name.eq_ignore_ascii_case(SPDY)) {
        return Err(ApiError::bad_request("unable to upgrade: neither a WebSocket nor SPDY/3.1 is asked for"));
    }
    let names = offered(headers, &STREAM_PROTOCOL);
    if names.is_empty() {
        return Err(ApiError::bad_request("unable to upgrade: X-Stream-Protocol-Version is required"));
    }
    let Some((name, spdy)) = names.iter().find_map(|name| versions.iter().find(|(known, _)| known == name)) else {
        let known: Vec<&str> = versions.iter().map(|(name, _)| *name).collect();
        let (theirs, ours) = (names.join(" "), known.join(" "));
        let why = format!("unable to negotiate protocol: client supports [{theirs}], server accepts [{ours}]");
        return Err(ApiError::new(403, "Forbidden", format!("unable to upgrade: {why}")));
    };
    let mut answer = switching(SPDY);
    answer.headers_mut().insert(STREAM_PROTOCOL, HeaderValue::from_static(name));
    Ok(Agreed { protocol: Protocol::Spdy(*spdy), answer })
}

fn switching(protocol: &'static str) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(protocol));
    answer
}

/// Turns an error into an answer, as the API server does with its own.
pub fn refusal(error: &ApiError) -> Response {
    let mut answer = Response::new(Body::from(error.status().to_string()));
    *answer.status_mut() = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    type Choose = fn(&HeaderMap) -> Result<Agreed, ApiError>;

    fn ask(choose: Choose, pairs: &[(&'static str, &str)]) -> Result<(Protocol, HeaderMap), u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a header"));
        }
        match choose(&headers) {
            Ok(agreed) => Ok((agreed.protocol, agreed.answer.headers().clone())),
            Err(error) => Err(error.code),
        }
    }

    fn check_websocket(name: &str, choose: Choose, offers: &str, expected: Result<&str, u16>) {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let pairs = [
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", key),
            ("sec-websocket-protocol", offers),
        ];
        let found = ask(choose, &pairs).map(|(_, headers)| {
            assert_eq!(headers[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "as in the RFC");
            headers.get(header::SEC_WEBSOCKET_PROTOCOL).map_or("", |value| value.to_str().expect("text")).to_owned()
        });
        assert_eq!(found.as_deref().map_err(|status| *status), expected, "{name}");
    }

    #[test]
    fn the_first_known_protocol_is_chosen() {
        check_websocket("kubectl exec", for_command, "v5.channel.k8s.io", Ok("v5.channel.k8s.io"));
        check_websocket("a newer client", for_command, "v9.channel.k8s.io, v4.channel.k8s.io", Ok("v4.channel.k8s.io"));
        check_websocket("no offer", for_command, "", Ok(""));
        check_websocket("nothing known", for_command, "graphql-ws", Err(400));
        check_websocket("a tunnel for a command", for_command, TUNNEL, Err(400));
        check_websocket("kubectl port-forward", for_ports, TUNNEL, Ok(TUNNEL));
        check_websocket("kube-rs", for_ports, "v5.channel.k8s.io, v4.channel.k8s.io", Ok("v4.channel.k8s.io"));
    }

    #[test]
    fn spdy_has_versions_too() {
        let check = |choose: Choose, offers: &[&str], expected: Result<&str, u16>| {
            let mut pairs = vec![("upgrade", SPDY)];
            pairs.extend(offers.iter().map(|offer| ("x-stream-protocol-version", *offer)));
            let found = ask(choose, &pairs).map(|(_, headers)| headers[STREAM_PROTOCOL].to_str().map(str::to_owned));
            assert_eq!(found.map(|name| name.expect("text")), expected.map(str::to_owned), "{offers:?}");
        };
        check(for_command, &["v4.channel.k8s.io", "v3.channel.k8s.io"], Ok("v4.channel.k8s.io"));
        check(for_command, &["v7.channel.k8s.io", "v2.channel.k8s.io"], Ok("v2.channel.k8s.io"));
        check(for_command, &["portforward.k8s.io"], Err(403));
        check(for_command, &[], Err(400));
        check(for_ports, &["portforward.k8s.io"], Ok("portforward.k8s.io"));
    }

    #[test]
    fn other_requests_are_refused() {
        assert_eq!(ask(for_command, &[]).err(), Some(400));
        assert_eq!(ask(for_command, &[("upgrade", "h2c")]).err(), Some(400));
        assert_eq!(ask(for_command, &[("upgrade", "websocket")]).err(), Some(400), "no key");
    }
}
