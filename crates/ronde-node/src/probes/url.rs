//! Addresses of HTTP probes, and where redirects lead.

use std::net::Ipv6Addr;

use http::Uri;
use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// An address that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
    /// With a leading slash, and with the query.
    pub path: String,
}

impl Url {
    pub fn for_action(action: &HTTPGetAction, container: &Container, pod_ip: &str) -> Result<Self, String> {
        let path = action.path.as_deref().unwrap_or_default();
        let path = path.split('#').next().unwrap_or_default();
        Ok(Self {
            is_tls: action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: action.host.clone().filter(|host| !host.is_empty()).unwrap_or_else(|| pod_ip.to_owned()),
            port: port_of(&action.port, container)?,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        })
    }

    /// Where a redirect from here leads; None if it makes no sense.
    pub fn join(&self, location: &str) -> Option<Self> {
        let location = location.split('#').next().unwrap_or_default();
        if location.contains("://") {
            let uri: Uri = location.parse().ok()?;
            let is_tls = uri.scheme_str()? == "https";
            let host = uri.host()?.trim_matches(['[', ']']).to_owned();
            let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
            let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
            return Some(Self { is_tls, host, port, path });
        }
        let path = match location.chars().next() {
            None => self.path.clone(),
            Some('/') => location.to_owned(),
            Some('?') => format!("{}{location}", self.path.split('?').next().unwrap_or_default()),
            Some(_) => {
                let folder = self.path.split('?').next().and_then(|path| path.rsplit_once('/')).map_or("", |(f, _)| f);
                format!("{folder}/{location}")
            }
        };
        Some(Self { path, ..self.clone() })
    }

    /// `host:port`, as the Host header and messages have it.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    pub fn text(&self) -> String {
        format!("http{}://{}{}", if self.is_tls { "s" } else { "" }, self.authority(), self.path)
    }
}

pub(super) fn authority(host: &str, port: u16) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Finds a port given by number or by the name it has in the container.
pub(super) fn port_of(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            match named {
                Some(port) => port.container_port,
                None => name.parse().map_err(|_| format!("strconv.Atoi: parsing \"{name}\": invalid syntax"))?,
            }
        }
    };
    u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| format!("invalid port number: {number}"))
}
