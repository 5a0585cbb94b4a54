//! The named formats that rules can check strings against: `format.dns1123Label().validate(x)`.

use ronde_text::names;

use super::{
    super::value::{Val, no_such_overload},
    Builtin,
};
use crate::{formats, text::url::Url};

/// A format with its check: what is wrong with a text.
#[derive(Debug)]
pub(in super::super) struct NamedFormat {
    pub name: &'static str,
    check: fn(&str) -> Vec<String>,
    /// The length of the pattern behind it, which its cost follows from.
    pub regex_size: u64,
}

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "validate" => |_, args| match args {
            [Val::Format(format), Val::String(text)] => {
                let problems = (format.check)(text);
                Ok(if problems.is_empty() {
                    Val::Optional(None)
                } else {
                    Val::some(Val::list(problems.into_iter().map(Val::string).collect()))
                })
            }
            _ => no_such_overload(),
        },
        "format.named" => |_, args| match args {
            [Val::String(name)] => Ok(named(name).map_or(Val::Optional(None), |format| Val::some(Val::Format(format)))),
            _ => no_such_overload(),
        },
        "format.dns1123Label" => |_, _| constant("dns1123Label"),
        "format.dns1123Subdomain" => |_, _| constant("dns1123Subdomain"),
        "format.dns1035Label" => |_, _| constant("dns1035Label"),
        "format.qualifiedName" => |_, _| constant("qualifiedName"),
        "format.dns1123LabelPrefix" => |_, _| constant("dns1123LabelPrefix"),
        "format.dns1123SubdomainPrefix" => |_, _| constant("dns1123SubdomainPrefix"),
        "format.dns1035LabelPrefix" => |_, _| constant("dns1035LabelPrefix"),
        "format.labelValue" => |_, _| constant("labelValue"),
        "format.uri" => |_, _| constant("uri"),
        "format.uuid" => |_, _| constant("uuid"),
        "format.byte" => |_, _| constant("byte"),
        "format.date" => |_, _| constant("date"),
        "format.datetime" => |_, _| constant("datetime"),
        _ => return None,
    })
}

fn constant<'a>(name: &str) -> super::super::value::Eval<Val<'a>> {
    named(name).map_or_else(no_such_overload, |format| Ok(Val::Format(format)))
}

fn named(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| format)
}

const fn format(name: &'static str, regex_size: u64, check: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { name, check, regex_size }
}

static FORMATS: [(&str, NamedFormat); 13] = [
    ("dns1123Label", format("DNS1123Label", 30, names::is_dns1123_label)),
    ("dns1123Subdomain", format("DNS1123Subdomain", 60, names::is_dns1123_subdomain)),
    ("dns1035Label", format("DNS1035Label", 30, names::is_dns1035_label)),
    ("qualifiedName", format("QualifiedName", 60, names::is_qualified_name)),
    ("dns1123LabelPrefix", format("DNS1123LabelPrefix", 30, |text| names::is_dns1123_label(&names::as_prefix(text)))),
    (
        "dns1123SubdomainPrefix",
        format("DNS1123SubdomainPrefix", 60, |text| names::is_dns1123_subdomain(&names::as_prefix(text))),
    ),
    ("dns1035LabelPrefix", format("DNS1035LabelPrefix", 30, |text| names::is_dns1035_label(&names::as_prefix(text)))),
    ("labelValue", format("LabelValue", 40, names::is_valid_label_value)),
    ("uri", format("URI", 1103, |text| Url::parse_request(text).err().into_iter().collect())),
    ("uuid", format("uuid", 71, |text| unless(formats::matches("uuid", text), "does not match the UUID format"))),
    ("byte", format("byte", 84, |text| unless(formats::matches("byte", text), "invalid base64"))),
    ("date", format("date", 73, |text| unless(formats::matches("date", text), "invalid date"))),
    ("datetime", format("datetime", 73, |text| unless(formats::matches("datetime", text), "invalid datetime"))),
];

fn unless(fits: bool, problem: &str) -> Vec<String> {
    if fits { Vec::new() } else { vec![problem.to_owned()] }
}
