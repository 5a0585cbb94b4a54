//! The errors are answers of a real kube-apiserver 1.34.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn selectors_match_labels() {
    let check = |selector: &str, matching: &[&str], others: &[&str]| {
        let parsed = LabelSelector::parse(selector).expect("the selector is valid");
        let matches = |text: &&str| parsed.matches(&labels(text));
        let wrong: Vec<&&str> =
            matching.iter().filter(|l| !matches(l)).chain(others.iter().filter(|l| matches(l))).collect();
        assert!(wrong.is_empty(), "{selector}: {wrong:?}");
    };
    check("", &["", "a=b"], &[]);
    check("a", &["a=", "a=b"], &["", "b=a"]);
    check("!a", &["", "b=a"], &["a=", "a=b"]);
    check("a=b", &["a=b"], &["", "a=c", "a="]);
    check("a==b", &["a=b"], &["", "a=c"]);
    check("a!=b", &["", "a=c"], &["a=b"]);
    check("a=", &["a="], &["", "a=b"]);
    check("a in (b,c)", &["a=b", "a=c"], &["", "a=d"]);
    check("a in ()", &["a="], &["", "a=b"]);
    check("a in (,b)", &["a=", "a=b"], &["", "a=c"]);
    check("a notin (b,)", &["", "a=c"], &["a=b", "a="]);
    check("a>1", &["a=2", "a=10"], &["", "a=1", "a=x"]);
    check("a<1", &["a=0", "a=-5"], &["", "a=1", "a=x"]);
    check("in in (in, notin)", &["in=in", "in=notin"], &["in=out"]);
    check("a=b,!c,d in (e)", &["a=b,d=e"], &["a=b,c=,d=e", "a=b"]);
    check(" a = b ,\tc != d\n", &["a=b"], &["a=b,c=d"]);
    check("example.com/a=b", &["example.com/a=b"], &["a=b"]);
}

#[test]
fn selectors_are_refused_with_the_words_of_the_real_server() {
    let check = |selector: &str, expected: &str| {
        let error = LabelSelector::parse(selector).expect_err("the selector is invalid");
        assert_eq!((error.code, error.message.as_str()), (400, expected), "{selector}");
    };
    check("a in (b", "unable to parse requirement: found '', expected: ',' or ')'");
    check("a in b", "unable to parse requirement: found 'b' expected: '('");
    check("a in", "unable to parse requirement: found '' expected: '('");
    check("a,", "found '', expected: identifier after ','");
    check("a,,b", "found ',', expected: identifier after ','");
    check(",a", "found ',', expected: !, identifier, or 'end of string'");
    check("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    check("!a=b", "found '=', expected: ',' or 'end of string'");
    check("a===b", "unable to parse requirement: found '=', expected: identifier");
    check("a=(b)", "unable to parse requirement: found '(', expected: identifier");
    check("x in ((a))", "unable to parse requirement: found '(', expected: ',', ')' or identifier");
    check("!", "unable to parse requirement: found '', expected: identifier");
    check(
        "a<x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an \
         integer",
    );
    check("-a=b", &format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {NAME_RULE}"));
    check("a=-b", &format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE_RULE}"));
    check("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty");
    check(
        "a in (-c,-d)",
        &format!(
            "unable to parse requirement: [values[0][a]: Invalid value: \"-c\": {VALUE_RULE}, values[1][a]: Invalid \
             value: \"-d\": {VALUE_RULE}]"
        ),
    );
    check(&"a=".repeat(100_000), "found '=', expected: ',' or 'end of string'");
}

#[test]
fn the_structured_form_selects_the_same() {
    let check = |value: Value, expected: Result<&str, &str>| {
        let selector = LabelSelector::from_value(&value).map(|selector| selector.to_string());
        assert_eq!(selector.as_deref().map_err(String::as_str), expected, "{value}");
    };
    check(json!({}), Ok(""));
    check(json!({"matchLabels": {"b": "2", "a": "1"}}), Ok("a=1,b=2"));
    check(
        json!({"matchLabels": {"c": "d"}, "matchExpressions": [
            {"key": "b", "operator": "NotIn", "values": ["y", "x"]}, {"key": "a", "operator": "DoesNotExist"},
            {"key": "z", "operator": "Exists"}, {"key": "e", "operator": "In", "values": ["1"]}]}),
        Ok("!a,b notin (x,y),c=d,e in (1),z"),
    );
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        Err("\"Near\" is not a valid label selector operator"),
    );
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
    );
    assert!(LabelSelector::from_value(&json!({})).is_ok_and(|selector| selector.is_everything()));
    let nothing = LabelSelector::from_value(&Value::Null).expect("null is a selector");
    assert!(!nothing.matches(&BTreeMap::new()) && !nothing.is_everything());
}

#[test]
fn field_selectors_are_read() {
    let check = |selector: &str, expected: Result<&[(&str, bool, &str)], &str>| {
        let parsed = FieldSelector::parse(selector).map_err(|error| error.message);
        let term =
            |&(path, equal, value): &(&str, bool, &str)| FieldTerm { path: path.into(), equal, value: value.into() };
        let expected = expected.map(|terms| terms.iter().map(term).collect::<Vec<_>>()).map_err(str::to_owned);
        assert_eq!(parsed.map(|selector| selector.terms().to_vec()), expected, "{selector}");
    };
    check("", Ok(&[]));
    check(",,", Ok(&[]));
    check("=", Ok(&[]));
    check("a.b=c", Ok(&[("a.b", true, "c")]));
    check("a==b", Ok(&[("a", true, "b")]));
    check("a!=b,", Ok(&[("a", false, "b")]));
    check("a=", Ok(&[("a", true, "")]));
    check("=a", Ok(&[("", true, "a")]));
    check("b=1,a!=2", Ok(&[("a", false, "2"), ("b", true, "1")]));
    check(r"a=b\,c\=d\\", Ok(&[("a", true, r"b,c=d\")]));
    check("a!b=c", Ok(&[("a!b", true, "c")]));
    check("a= b ", Ok(&[("a", true, " b ")]));
    check("a", Err("invalid selector: 'a'; can't understand 'a'"));
    check("foo,bar", Err("invalid selector: 'foo,bar'; can't understand 'bar'"));
    check("a=b=c", Err("invalid field selector: unescaped character in value: 61"));
    check(r"a=\x", Err(r"invalid field selector: invalid escape sequence: \x"));
    check(r"a=b\", Err(r"invalid field selector: invalid escape sequence: \"));
}

#[test]
fn field_terms_compare() {
    let term = |equal| FieldTerm { path: "a".to_owned(), equal, value: "b".to_owned() };
    assert!(term(true).accepts("b") && !term(true).accepts(""));
    assert!(term(false).accepts("c") && !term(false).accepts("b"));
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z0-9]([a-z0-9._-]{0,4}[a-z0-9])?"]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let operator = prop_oneof![
        Just(Operator::Equals),
        Just(Operator::NotEquals),
        Just(Operator::In),
        Just(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
    ];
    ("(x\\.y/)?[a-e]", operator, prop::collection::vec(value(), 1..4)).prop_map(|(key, operator, values)| {
        let count = match operator {
            Operator::Exists | Operator::DoesNotExist => 0,
            Operator::In | Operator::NotIn => values.len(),
            _ => 1,
        };
        let values = values.into_iter().take(count).collect();
        Requirement::new(&key, operator, values).expect("the parts are valid")
    })
}

proptest! {
    #[test]
    fn a_written_selector_reads_the_same(requirements in prop::collection::vec(requirement(), 0..5)) {
        let selector = LabelSelector::from_requirements(requirements);
        let again = LabelSelector::parse(&selector.to_string()).expect("what we write, we read");
        prop_assert_eq!(selector, again);
    }

    #[test]
    fn any_text_is_a_selector_or_an_error(text in "[ab=!<>(), in\\\\\t\u{0}é]{0,20}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn an_escaped_field_value_survives(value in "[a,=\\\\é]{0,8}") {
        let escaped = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let selector = FieldSelector::parse(&format!("x={escaped}")).expect("the value is escaped");
        prop_assert_eq!(&selector.terms()[0].value, &value);
    }
}
