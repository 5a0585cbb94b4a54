//! IP addresses, networks and URLs.

use std::{collections::BTreeMap, net::IpAddr, rc::Rc};

use super::{
    super::{
        containers::Map,
        value::{Eval, Key, Val, fault, no_such_overload},
    },
    Builtin,
};
use crate::text::url::Url;

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    ip_function(function).or_else(|| cidr_function(function)).or_else(|| url_function(function))
}

fn ip_function(function: &str) -> Option<Builtin> {
    Some(match function {
        "ip" => |_, args| match args {
            [Val::String(text)] => parse_ip(text).map(Val::Ip),
            [Val::Cidr(address, _)] => Ok(Val::Ip(*address)),
            _ => no_such_overload(),
        },
        "isIP" => |_, args| match args {
            [Val::String(text)] => Ok(Val::Bool(parse_ip(text).is_ok())),
            _ => no_such_overload(),
        },
        "ip.isCanonical" => |_, args| match args {
            [Val::String(text)] => parse_ip(text).map(|address| Val::Bool(address.to_string() == **text)),
            _ => no_such_overload(),
        },
        "family" => |_, args| match args {
            [Val::Ip(address)] => Ok(Val::Int(if address.is_ipv4() { 4 } else { 6 })),
            _ => no_such_overload(),
        },
        "isUnspecified" => |_, args| test(args, IpAddr::is_unspecified),
        "isLoopback" => |_, args| test(args, IpAddr::is_loopback),
        "isLinkLocalMulticast" => |_, args| {
            test(args, |address| match address {
                IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
                IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
            })
        },
        "isLinkLocalUnicast" => |_, args| test(args, is_link_local),
        "isGlobalUnicast" => |_, args| {
            test(args, |address| {
                let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
                let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
                !broadcast && !special && !is_link_local(address)
            })
        },
        _ => return None,
    })
}

fn cidr_function(function: &str) -> Option<Builtin> {
    Some(match function {
        "cidr" => |_, args| match args {
            [Val::String(text)] => parse_cidr(text).map(|(address, bits)| Val::Cidr(address, bits)),
            _ => no_such_overload(),
        },
        "isCIDR" => |_, args| match args {
            [Val::String(text)] => Ok(Val::Bool(parse_cidr(text).is_ok())),
            _ => no_such_overload(),
        },
        "containsIP" => |_, args| match args {
            [Val::Cidr(net, bits), Val::Ip(address)] => Ok(Val::Bool(holds(*net, *bits, *address))),
            [Val::Cidr(net, bits), Val::String(text)] => Ok(Val::Bool(holds(*net, *bits, parse_ip(text)?))),
            _ => no_such_overload(),
        },
        "containsCIDR" => |_, args| {
            let (other, other_bits) = match args {
                [_, Val::Cidr(address, bits)] => (*address, *bits),
                [_, Val::String(text)] => parse_cidr(text)?,
                _ => return no_such_overload(),
            };
            let Val::Cidr(net, bits) = args[0] else { return no_such_overload() };
            Ok(Val::Bool(bits <= other_bits && holds(net, bits, other)))
        },
        "prefixLength" => |_, args| match args {
            [Val::Cidr(_, bits)] => Ok(Val::Int(i64::from(*bits))),
            _ => no_such_overload(),
        },
        "masked" => |_, args| match args {
            [Val::Cidr(address, bits)] => Ok(Val::Cidr(mask(*address, *bits), *bits)),
            _ => no_such_overload(),
        },
        _ => return None,
    })
}

fn url_function(function: &str) -> Option<Builtin> {
    Some(match function {
        "url" => |_, args| match args {
            [Val::String(text)] => match Url::parse_request(text) {
                Ok(url) => Ok(Val::Url(Rc::new(url))),
                Err(error) => fault(format!("URL parse error during conversion from string: {error}")),
            },
            _ => no_such_overload(),
        },
        "isURL" => |_, args| match args {
            [Val::String(text)] => Ok(Val::Bool(Url::parse_request(text).is_ok())),
            _ => no_such_overload(),
        },
        "getScheme" => |_, args| part(args, |url| url.scheme.clone()),
        "getHost" => |_, args| part(args, |url| url.host.clone()),
        "getHostname" => |_, args| part(args, |url| url.hostname().to_owned()),
        "getPort" => |_, args| part(args, |url| url.port().to_owned()),
        "getEscapedPath" => |_, args| part(args, Url::escaped_path),
        "getQuery" => |_, args| match args {
            [Val::Url(url)] => Ok(Val::Map(Map::Made(Rc::new(query(url))))),
            _ => no_such_overload(),
        },
        _ => return None,
    })
}

fn query<'a>(url: &Url) -> BTreeMap<Key, Val<'a>> {
    let values = url.query_values().into_iter();
    values.map(|(key, all)| (Key::String(key.into()), Val::list(all.into_iter().map(Val::string).collect()))).collect()
}

fn test<'a>(args: &[Val<'a>], holds: fn(&IpAddr) -> bool) -> Eval<Val<'a>> {
    match args {
        [Val::Ip(address)] => Ok(Val::Bool(holds(address))),
        _ => no_such_overload(),
    }
}

fn part<'a>(args: &[Val<'a>], of: fn(&Url) -> String) -> Eval<Val<'a>> {
    match args {
        [Val::Url(url)] => Ok(Val::string(of(url))),
        _ => no_such_overload(),
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn parse_ip(text: &str) -> Eval<IpAddr> {
    if text.contains('%') && text.split('%').next().is_some_and(|address| address.parse::<IpAddr>().is_ok()) {
        return fault(format!("IP address {text:?} with zone value is not allowed"));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            fault(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => fault(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )),
    }
}

fn parse_cidr(text: &str) -> Eval<(IpAddr, u8)> {
    let what = "network address parse error during conversion from string";
    let parsed = (|| {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let canonical =
            !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits: u8 = bits.parse().ok().filter(|_| canonical)?;
        (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
    })();
    match parsed {
        Some((IpAddr::V6(v6), _)) if v6.to_ipv4_mapped().is_some() => {
            fault(format!("{what}: IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Some(network) => Ok(network),
        None => fault(format!("{what}: {what}: netip.ParsePrefix({text:?}): no '/'")),
    }
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u32::from(v4) & keep).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u128::from(v6) & keep).to_be_bytes())
        }
    }
}

fn holds(net: IpAddr, bits: u8, address: IpAddr) -> bool {
    net.is_ipv4() == address.is_ipv4() && mask(net, bits) == mask(address, bits)
}
