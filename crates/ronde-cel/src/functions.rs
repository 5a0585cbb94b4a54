//! Which functions rules may call: names, overloads and their types, as in the CEL environment of Kubernetes 1.34.
//!
//! A table, read by the checker (signatures), the cost estimate (overload ids) and the evaluator (implementations,
//! in the sibling modules). New rules are checked against the libraries of 1.33, as the real server does, so what
//! 1.34 adds (the extended list library) is not here; nor are the authorizer functions, which rules cannot reach.

use std::{collections::BTreeMap, sync::LazyLock};

use super::types::{Library, Type};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub id: &'static str,
    pub is_member: bool,
    /// The receiver first, if there is one.
    pub args: Vec<Type>,
    pub result: Type,
}

/// The overloads of a function, in the order they are tried.
pub(super) fn overloads(function: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(function).map(Vec::as_slice)
}

/// The type a name stands for, such as `int` in `type(x) == int`.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Type(Type::Dyn.into()),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "net.IP" => Type::Library(Library::Ip),
        "net.CIDR" => Type::Library(Library::Cidr),
        _ => return None,
    })
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for (function, id, signature) in STANDARD.iter().chain(EXTENSIONS).chain(KUBERNETES) {
        functions.entry(function).or_default().push(overload(id, signature));
    }
    for (function, prefix) in [("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")]
    {
        let orders = ORDERED.iter().map(|(suffix, args)| overload(order_id(prefix, suffix), &format!("({args}) bool")));
        functions.entry(function).or_default().extend(orders);
    }
    for format in FORMATS {
        functions.entry(format).or_default().push(overload(format, "() Format"));
    }
    functions
});

/// Only strings and bytes have ids of their own, because only they have costs of their own.
fn order_id(prefix: &str, suffix: &'static str) -> &'static str {
    match (prefix, suffix) {
        ("less", "string") => "less_string",
        ("less_equals", "string") => "less_equals_string",
        ("greater", "string") => "greater_string",
        ("greater_equals", "string") => "greater_equals_string",
        (_, "bytes") => "less_bytes",
        _ => "less_scalar",
    }
}

/// Reads `receiver.(args) result` or `(args) result`.
fn overload(id: &'static str, signature: &str) -> Overload {
    let (receiver, rest) = signature.split_once('(').expect("a signature has parentheses");
    let (args, result) = split_signature(rest);
    let receiver = receiver.strip_suffix('.');
    let args = receiver.into_iter().chain(split_list(args)).map(read_type).collect();
    Overload { id, is_member: receiver.is_some(), args, result: read_type(result) }
}

/// Splits at the parenthesis that closes the arguments.
fn split_signature(rest: &str) -> (&str, &str) {
    let mut depth = 0;
    let close = rest.find(|c| match c {
        '<' => {
            depth += 1;
            false
        }
        '>' => {
            depth -= 1;
            false
        }
        c => c == ')' && depth == 0,
    });
    let close = close.expect("a signature closes its parentheses");
    (&rest[..close], rest[close + 1..].trim())
}

/// Splits at commas outside of `<>`.
fn split_list(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn read_type(text: &str) -> Type {
    if let Some((outer, inner)) = text.split_once('<') {
        let inner = inner.strip_suffix('>').expect("a type closes its brackets");
        return match (outer, split_list(inner).as_slice()) {
            ("list", [item]) => Type::list(read_type(item)),
            ("optional", [value]) => Type::optional(read_type(value)),
            ("type", [of]) => Type::Type(read_type(of).into()),
            (_, [key, value]) => Type::map(read_type(key), read_type(value)),
            _ => Type::Error,
        };
    }
    match text {
        "dyn" => Type::Dyn,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "Quantity" => Type::Library(Library::Quantity),
        "URL" => Type::Library(Library::Url),
        "IP" => Type::Library(Library::Ip),
        "CIDR" => Type::Library(Library::Cidr),
        "Semver" => Type::Library(Library::Semver),
        "Format" => Type::Library(Library::Format),
        name => type_named(name).unwrap_or_else(|| Type::Param(name.into())),
    }
}

type Row = (&'static str, &'static str, &'static str);

const ORDERED: &[(&str, &str)] = &[
    ("scalar", "bool, bool"),
    ("scalar", "int, int"),
    ("scalar", "int, double"),
    ("scalar", "int, uint"),
    ("scalar", "uint, uint"),
    ("scalar", "uint, double"),
    ("scalar", "uint, int"),
    ("scalar", "double, double"),
    ("scalar", "double, int"),
    ("scalar", "double, uint"),
    ("string", "string, string"),
    ("bytes", "bytes, bytes"),
    ("scalar", "timestamp, timestamp"),
    ("scalar", "duration, duration"),
];

const FORMATS: [&str; 13] = [
    "format.dns1123Label",
    "format.dns1123Subdomain",
    "format.dns1035Label",
    "format.qualifiedName",
    "format.dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
];

const STANDARD: &[Row] = &[
    ("_?_:_", "conditional", "(bool, A, A) A"),
    ("_&&_", "logical_and", "(bool, bool) bool"),
    ("_||_", "logical_or", "(bool, bool) bool"),
    ("!_", "logical_not", "(bool) bool"),
    ("@not_strictly_false", "not_strictly_false", "(bool) bool"),
    ("_==_", "equals", "(A, A) bool"),
    ("_!=_", "not_equals", "(A, A) bool"),
    ("_+_", "add_bytes", "(bytes, bytes) bytes"),
    ("_+_", "add_double", "(double, double) double"),
    ("_+_", "add_duration_duration", "(duration, duration) duration"),
    ("_+_", "add_duration_timestamp", "(duration, timestamp) timestamp"),
    ("_+_", "add_timestamp_duration", "(timestamp, duration) timestamp"),
    ("_+_", "add_int64", "(int, int) int"),
    ("_+_", "add_list", "(list<A>, list<A>) list<A>"),
    ("_+_", "add_string", "(string, string) string"),
    ("_+_", "add_uint64", "(uint, uint) uint"),
    ("_/_", "divide_double", "(double, double) double"),
    ("_/_", "divide_int64", "(int, int) int"),
    ("_/_", "divide_uint64", "(uint, uint) uint"),
    ("_%_", "modulo_int64", "(int, int) int"),
    ("_%_", "modulo_uint64", "(uint, uint) uint"),
    ("_*_", "multiply_double", "(double, double) double"),
    ("_*_", "multiply_int64", "(int, int) int"),
    ("_*_", "multiply_uint64", "(uint, uint) uint"),
    ("-_", "negate_double", "(double) double"),
    ("-_", "negate_int64", "(int) int"),
    ("_-_", "subtract_double", "(double, double) double"),
    ("_-_", "subtract_duration_duration", "(duration, duration) duration"),
    ("_-_", "subtract_int64", "(int, int) int"),
    ("_-_", "subtract_timestamp_duration", "(timestamp, duration) timestamp"),
    ("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) duration"),
    ("_-_", "subtract_uint64", "(uint, uint) uint"),
    ("_[_]", "index_list", "(list<A>, int) A"),
    ("_[_]", "index_map", "(map<A, B>, A) B"),
    ("@in", "in_list", "(A, list<A>) bool"),
    ("@in", "in_map", "(A, map<A, B>) bool"),
    ("size", "size_bytes", "(bytes) int"),
    ("size", "bytes_size", "bytes.() int"),
    ("size", "size_list", "(list<A>) int"),
    ("size", "list_size", "list<A>.() int"),
    ("size", "size_map", "(map<A, B>) int"),
    ("size", "map_size", "map<A, B>.() int"),
    ("size", "size_string", "(string) int"),
    ("size", "string_size", "string.() int"),
    ("type", "type", "(A) type<A>"),
    ("bool", "bool_to_bool", "(bool) bool"),
    ("bool", "string_to_bool", "(string) bool"),
    ("bytes", "bytes_to_bytes", "(bytes) bytes"),
    ("bytes", "string_to_bytes", "(string) bytes"),
    ("double", "double_to_double", "(double) double"),
    ("double", "int64_to_double", "(int) double"),
    ("double", "string_to_double", "(string) double"),
    ("double", "uint64_to_double", "(uint) double"),
    ("duration", "duration_to_duration", "(duration) duration"),
    ("duration", "int64_to_duration", "(int) duration"),
    ("duration", "string_to_duration", "(string) duration"),
    ("dyn", "to_dyn", "(A) dyn"),
    ("int", "int64_to_int64", "(int) int"),
    ("int", "double_to_int64", "(double) int"),
    ("int", "duration_to_int64", "(duration) int"),
    ("int", "string_to_int64", "(string) int"),
    ("int", "timestamp_to_int64", "(timestamp) int"),
    ("int", "uint64_to_int64", "(uint) int"),
    ("string", "string_to_string", "(string) string"),
    ("string", "bool_to_string", "(bool) string"),
    ("string", "bytes_to_string", "(bytes) string"),
    ("string", "double_to_string", "(double) string"),
    ("string", "duration_to_string", "(duration) string"),
    ("string", "int64_to_string", "(int) string"),
    ("string", "timestamp_to_string", "(timestamp) string"),
    ("string", "uint64_to_string", "(uint) string"),
    ("timestamp", "timestamp_to_timestamp", "(timestamp) timestamp"),
    ("timestamp", "int64_to_timestamp", "(int) timestamp"),
    ("timestamp", "string_to_timestamp", "(string) timestamp"),
    ("uint", "uint64_to_uint64", "(uint) uint"),
    ("uint", "double_to_uint64", "(double) uint"),
    ("uint", "int64_to_uint64", "(int) uint"),
    ("uint", "string_to_uint64", "(string) uint"),
    ("contains", "contains_string", "string.(string) bool"),
    ("endsWith", "ends_with_string", "string.(string) bool"),
    ("startsWith", "starts_with_string", "string.(string) bool"),
    ("matches", "matches", "(string, string) bool"),
    ("matches", "matches_string", "string.(string) bool"),
    ("getFullYear", "timestamp_to_year", "timestamp.() int"),
    ("getFullYear", "timestamp_to_year_with_tz", "timestamp.(string) int"),
    ("getMonth", "timestamp_to_month", "timestamp.() int"),
    ("getMonth", "timestamp_to_month_with_tz", "timestamp.(string) int"),
    ("getDayOfYear", "timestamp_to_day_of_year", "timestamp.() int"),
    ("getDayOfYear", "timestamp_to_day_of_year_with_tz", "timestamp.(string) int"),
    ("getDayOfMonth", "timestamp_to_day_of_month", "timestamp.() int"),
    ("getDayOfMonth", "timestamp_to_day_of_month_with_tz", "timestamp.(string) int"),
    ("getDate", "timestamp_to_day_of_month_1_based", "timestamp.() int"),
    ("getDate", "timestamp_to_day_of_month_1_based_with_tz", "timestamp.(string) int"),
    ("getDayOfWeek", "timestamp_to_day_of_week", "timestamp.() int"),
    ("getDayOfWeek", "timestamp_to_day_of_week_with_tz", "timestamp.(string) int"),
    ("getHours", "timestamp_to_hours", "timestamp.() int"),
    ("getHours", "timestamp_to_hours_with_tz", "timestamp.(string) int"),
    ("getHours", "duration_to_hours", "duration.() int"),
    ("getMinutes", "timestamp_to_minutes", "timestamp.() int"),
    ("getMinutes", "timestamp_to_minutes_with_tz", "timestamp.(string) int"),
    ("getMinutes", "duration_to_minutes", "duration.() int"),
    ("getSeconds", "timestamp_to_seconds", "timestamp.() int"),
    ("getSeconds", "timestamp_to_seconds_tz", "timestamp.(string) int"),
    ("getSeconds", "duration_to_seconds", "duration.() int"),
    ("getMilliseconds", "timestamp_to_milliseconds", "timestamp.() int"),
    ("getMilliseconds", "timestamp_to_milliseconds_with_tz", "timestamp.(string) int"),
    ("getMilliseconds", "duration_to_milliseconds", "duration.() int"),
];

const EXTENSIONS: &[Row] = &[
    ("optional.of", "optional_of", "(V) optional<V>"),
    ("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) optional<V>"),
    ("optional.none", "optional_none", "() optional<V>"),
    ("value", "optional_value", "optional<V>.() V"),
    ("hasValue", "optional_hasValue", "optional<V>.() bool"),
    ("or", "optional_or_optional", "optional<V>.(optional<V>) optional<V>"),
    ("orValue", "optional_orValue_value", "optional<V>.(V) V"),
    ("_?._", "select_optional_field", "(dyn, string) optional<V>"),
    ("_[?_]", "list_optindex_optional_int", "(list<V>, int) optional<V>"),
    ("_[?_]", "optional_list_optindex_optional_int", "(optional<list<V>>, int) optional<V>"),
    ("_[?_]", "map_optindex_optional_value", "(map<K, V>, K) optional<V>"),
    ("_[?_]", "optional_map_optindex_optional_value", "(optional<map<K, V>>, K) optional<V>"),
    ("_[_]", "optional_list_index_int", "(optional<list<V>>, int) optional<V>"),
    ("_[_]", "optional_map_index_value", "(optional<map<K, V>>, K) optional<V>"),
    ("last", "list_last", "list<V>.() optional<V>"),
    ("first", "list_first", "list<V>.() optional<V>"),
    ("optional.unwrap", "optional_unwrap", "(list<optional<V>>) list<V>"),
    ("unwrapOpt", "optional_unwrapOpt", "list<optional<V>>.() list<V>"),
    ("cel.@mapInsert", "@mapInsert_map_key_value", "(map<K, V>, K, V) map<K, V>"),
    ("cel.@mapInsert", "@mapInsert_map_map", "(map<K, V>, map<K, V>) map<K, V>"),
    ("sets.contains", "list_sets_contains_list", "(list<T>, list<T>) bool"),
    ("sets.equivalent", "list_sets_equivalent_list", "(list<T>, list<T>) bool"),
    ("sets.intersects", "list_sets_intersects_list", "(list<T>, list<T>) bool"),
    ("charAt", "string_char_at_int", "string.(int) string"),
    ("indexOf", "string_index_of_string", "string.(string) int"),
    ("indexOf", "string_index_of_string_int", "string.(string, int) int"),
    ("lastIndexOf", "string_last_index_of_string", "string.(string) int"),
    ("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) int"),
    ("lowerAscii", "string_lower_ascii", "string.() string"),
    ("upperAscii", "string_upper_ascii", "string.() string"),
    ("replace", "string_replace_string_string", "string.(string, string) string"),
    ("replace", "string_replace_string_string_int", "string.(string, string, int) string"),
    ("split", "string_split_string", "string.(string) list<string>"),
    ("split", "string_split_string_int", "string.(string, int) list<string>"),
    ("substring", "string_substring_int", "string.(int) string"),
    ("substring", "string_substring_int_int", "string.(int, int) string"),
    ("trim", "string_trim", "string.() string"),
    ("format", "string_format", "string.(list<dyn>) string"),
    ("strings.quote", "strings_quote", "(string) string"),
    ("join", "list_join", "list<string>.() string"),
    ("join", "list_join_string", "list<string>.(string) string"),
];

const KUBERNETES: &[Row] = &[
    ("isSorted", "list_int_is_sorted_bool", "list<int>.() bool"),
    ("isSorted", "list_uint_is_sorted_bool", "list<uint>.() bool"),
    ("isSorted", "list_double_is_sorted_bool", "list<double>.() bool"),
    ("isSorted", "list_bool_is_sorted_bool", "list<bool>.() bool"),
    ("isSorted", "list_duration_is_sorted_bool", "list<duration>.() bool"),
    ("isSorted", "list_timestamp_is_sorted_bool", "list<timestamp>.() bool"),
    ("isSorted", "list_string_is_sorted_bool", "list<string>.() bool"),
    ("isSorted", "list_bytes_is_sorted_bool", "list<bytes>.() bool"),
    ("sum", "list_int_sum_int", "list<int>.() int"),
    ("sum", "list_uint_sum_uint", "list<uint>.() uint"),
    ("sum", "list_double_sum_double", "list<double>.() double"),
    ("sum", "list_duration_sum_duration", "list<duration>.() duration"),
    ("max", "list_int_max_int", "list<int>.() int"),
    ("max", "list_uint_max_uint", "list<uint>.() uint"),
    ("max", "list_double_max_double", "list<double>.() double"),
    ("max", "list_bool_max_bool", "list<bool>.() bool"),
    ("max", "list_duration_max_duration", "list<duration>.() duration"),
    ("max", "list_timestamp_max_timestamp", "list<timestamp>.() timestamp"),
    ("max", "list_string_max_string", "list<string>.() string"),
    ("max", "list_bytes_max_bytes", "list<bytes>.() bytes"),
    ("min", "list_int_min_int", "list<int>.() int"),
    ("min", "list_uint_min_uint", "list<uint>.() uint"),
    ("min", "list_double_min_double", "list<double>.() double"),
    ("min", "list_bool_min_bool", "list<bool>.() bool"),
    ("min", "list_duration_min_duration", "list<duration>.() duration"),
    ("min", "list_timestamp_min_timestamp", "list<timestamp>.() timestamp"),
    ("min", "list_string_min_string", "list<string>.() string"),
    ("min", "list_bytes_min_bytes", "list<bytes>.() bytes"),
    ("indexOf", "list_a_index_of_int", "list<A>.(A) int"),
    ("lastIndexOf", "list_a_last_index_of_int", "list<A>.(A) int"),
    ("find", "string_find_string", "string.(string) string"),
    ("findAll", "string_find_all_string", "string.(string) list<string>"),
    ("findAll", "string_find_all_string_int", "string.(string, int) list<string>"),
    ("url", "string_to_url", "(string) URL"),
    ("isURL", "is_url_string", "(string) bool"),
    ("getScheme", "url_get_scheme", "URL.() string"),
    ("getHost", "url_get_host", "URL.() string"),
    ("getHostname", "url_get_hostname", "URL.() string"),
    ("getPort", "url_get_port", "URL.() string"),
    ("getEscapedPath", "url_get_escaped_path", "URL.() string"),
    ("getQuery", "url_get_query", "URL.() map<string, list<string>>"),
    ("ip", "string_to_ip", "(string) IP"),
    ("ip", "cidr_ip", "CIDR.() IP"),
    ("ip.isCanonical", "ip_is_canonical", "(string) bool"),
    ("isIP", "is_ip", "(string) bool"),
    ("family", "ip_family", "IP.() int"),
    ("isUnspecified", "ip_is_unspecified", "IP.() bool"),
    ("isLoopback", "ip_is_loopback", "IP.() bool"),
    ("isLinkLocalMulticast", "ip_is_link_local_multicast", "IP.() bool"),
    ("isLinkLocalUnicast", "ip_is_link_local_unicast", "IP.() bool"),
    ("isGlobalUnicast", "ip_is_global_unicast", "IP.() bool"),
    ("string", "ip_to_string", "(IP) string"),
    ("cidr", "string_to_cidr", "(string) CIDR"),
    ("isCIDR", "is_cidr", "(string) bool"),
    ("containsIP", "cidr_contains_ip_string", "CIDR.(string) bool"),
    ("containsIP", "cidr_contains_ip_ip", "CIDR.(IP) bool"),
    ("containsCIDR", "cidr_contains_cidr_string", "CIDR.(string) bool"),
    ("containsCIDR", "cidr_contains_cidr", "CIDR.(CIDR) bool"),
    ("prefixLength", "cidr_prefix_length", "CIDR.() int"),
    ("masked", "cidr_masked", "CIDR.() CIDR"),
    ("string", "cidr_to_string", "(CIDR) string"),
    ("quantity", "string_to_quantity", "(string) Quantity"),
    ("isQuantity", "is_quantity_string", "(string) bool"),
    ("sign", "quantity_sign", "(Quantity) int"),
    ("isGreaterThan", "quantity_is_greater_than", "Quantity.(Quantity) bool"),
    ("isLessThan", "quantity_is_less_than", "Quantity.(Quantity) bool"),
    ("compareTo", "quantity_compare_to", "Quantity.(Quantity) int"),
    ("asApproximateFloat", "quantity_get_float", "Quantity.() double"),
    ("asInteger", "quantity_get_int", "Quantity.() int"),
    ("isInteger", "quantity_is_integer", "Quantity.() bool"),
    ("add", "quantity_add", "Quantity.(Quantity) Quantity"),
    ("add", "quantity_add_int", "Quantity.(int) Quantity"),
    ("sub", "quantity_sub", "Quantity.(Quantity) Quantity"),
    ("sub", "quantity_sub_int", "Quantity.(int) Quantity"),
    ("semver", "string_to_semver", "(string) Semver"),
    ("semver", "string_bool_to_semver", "(string, bool) Semver"),
    ("isSemver", "is_semver_string", "(string) bool"),
    ("isSemver", "is_semver_string_bool", "(string, bool) bool"),
    ("isGreaterThan", "semver_is_greater_than", "Semver.(Semver) bool"),
    ("isLessThan", "semver_is_less_than", "Semver.(Semver) bool"),
    ("compareTo", "semver_compare_to", "Semver.(Semver) int"),
    ("major", "semver_major", "Semver.() int"),
    ("minor", "semver_minor", "Semver.() int"),
    ("patch", "semver_patch", "Semver.() int"),
    ("validate", "format-validate", "Format.(string) optional<list<string>>"),
    ("format.named", "format-named", "(string) optional<Format>"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_read_back() {
        let shown = |function: &str| {
            overloads(function)
                .map(|all| all.iter().map(|o| format!("{} {:?} {}", o.is_member, o.args, o.result)).collect::<Vec<_>>())
        };
        assert_eq!(shown("sets.contains").map(|all| all.len()), Some(1));
        assert_eq!(shown("_<_").map(|all| all.len()), Some(14));
        let (_, member) = (0, &overloads("getQuery").expect("declared")[0]);
        assert_eq!((member.is_member, member.result.to_string()), (true, "map(string, list(string))".to_owned()));
        assert!(overloads("reverse").is_none());
        let no_type_is_unknown = |t: &Type| !matches!(t, Type::Error) && !matches!(t, Type::Param(p) if p.len() > 1);
        for (name, overload) in FUNCTIONS.iter().flat_map(|(name, all)| all.iter().map(move |o| (name, o))) {
            assert!(overload.args.iter().chain([&overload.result]).all(no_type_is_unknown), "{name} {}", overload.id);
        }
    }
}
