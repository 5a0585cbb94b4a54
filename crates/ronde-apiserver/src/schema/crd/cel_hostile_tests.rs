//! Rules that mean harm: none may crash the server, exhaust its stack or memory, or run long.
//!
//! What is not cut off would run for minutes here, and for days in larger objects.

use proptest::prelude::*;
use ronde_cel::{Decl, Evaluation, Expression, Wanted, WorkLeft};
use serde_json::{Value, json};

use crate::schema::crd::{Compiled, build::build, props::Props};

/// The stack of a small thread. Tests run without optimisation, where frames are several times larger.
const STACK: usize = 2 << 20;
/// A tenth of what a call may do, so that tests without optimisation end soon.
const WORK: u64 = 200_000;

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "text": {"type": "string"},
        "blob": {"type": "string", "format": "byte"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "texts": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object",
            "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "deep": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "any": {"type": "object", "properties": {"x": {"x-kubernetes-preserve-unknown-fields": true}}}
    }})
}

fn compile(rule: &str) -> Result<Expression, String> {
    let decl = Decl::from_schema(&schema(), true).expect("rules can see the schema");
    Expression::compile(rule, &decl, false, Wanted::Bool)
}

fn large() -> Value {
    let numbers: Vec<i64> = (0..100_000).collect();
    let entries: serde_json::Map<String, Value> = (0..50_000).map(|at| (format!("k{at}"), at.into())).collect();
    json!({
        "n": 1,
        "text": "x".repeat(1_000_000),
        "blob": "QUFB".repeat(250_000),
        "list": numbers,
        "texts": vec!["y".repeat(1000); 1000],
        "set": [{"a": numbers}],
        "map": entries,
        "deep": [numbers],
        "any": {"x": numbers}
    })
}

/// Compiles and evaluates in a thread with a small stack.
fn run(rule: String, object: Value) -> Result<Evaluation, String> {
    let work = move || {
        let expression = compile(&rule)?;
        let built = build(Props(&schema()));
        let node = built.set.node(built.root);
        Ok(expression.evaluate(&object, Some(&object), node, &mut WorkLeft::new(WORK)).1)
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread");
    thread.join().expect("no panic")
}

#[test]
fn programs_are_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Compiled>();
}

#[test]
fn nesting_is_bounded() {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let forms: [(&str, &str, &str); 12] = [
        ("(", "true", ")"),
        ("[", "1", "]"),
        ("{'a': ", "1", "}"),
        ("!(", "true", ")"),
        ("-(", "1", ")"),
        ("true && (", "true", ")"),
        ("true ? (", "true", ") : false"),
        ("self.list.all(x, ", "true", ")"),
        ("[1].map(x, ", "1", ")"),
        ("{'a': 1}.transformMap(k, v, ", "1", ")"),
        ("optional.of(1).optMap(x, ", "1", ")"),
        ("dyn(", "true", ")"),
    ];
    for (open, inner, close) in forms {
        for depth in [10, 30, 1000, 10_000] {
            let rule = nested(open, inner, close, depth);
            let result = run(format!("type({rule}) != int || true"), json!({"list": [1]}));
            assert_eq!(result.is_err(), depth > 30, "{open} {depth}: {result:?}");
        }
    }
    for chain in ["true || ", "1 + ", "self.n + ", "'a' + "] {
        let result = run(format!("{}1 == 1", chain.repeat(3_000)), json!({"n": 1}));
        assert!(result.is_ok() == chain.contains("||") || result.is_err(), "{chain}");
    }
    for link in [".x", "[0]", ".map(x, x)", ".optMap(x, x)", ".or(optional.of(1))"] {
        let _ = run(format!("self.list{} == 1", link.repeat(90)), json!({"list": [1]}));
        assert!(run(format!("self.list{} == 1", link.repeat(3_000)), json!({"list": [1]})).is_err(), "{link}");
    }
}

#[test]
fn compiling_takes_no_longer_than_reading() {
    let rules = [
        format!("{}true", "true && ".repeat(12_000)),
        format!("[{}1].size() > 0", "1,".repeat(45_000)),
        format!("{}true", "self.list.map(x, [x]).exists(y, y == [1]) || ".repeat(1_000)),
        format!("[1]{}.size() > 0", ".map(a, {a: a})".repeat(22)),
        format!("self.text.matches('{}')", "(a|b)".repeat(5_000)),
        format!("{}1{} == 1", "dyn([".repeat(30), "])".repeat(30)),
    ];
    for rule in rules {
        let compiled = compile(&rule);
        assert!(compiled.is_ok(), "{rule:.40}: {compiled:?}");
    }
}

#[test]
fn macros_do_not_blow_up() {
    let rule = format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(40));
    let error = compile(&rule).expect_err("refused");
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn evaluations_are_cut_off() {
    let rules = [
        "self.list.all(a, self.list.all(b, a != b || a == b))",
        // What costs little but does much.
        "self.list.all(a, self.deep == oldSelf.deep)",
        "self.list.all(a, self.any == oldSelf.any)",
        "self.list.all(a, self.set == oldSelf.set)",
        "self.list.all(a, (self.set + self.set).size() > 0)",
        "self.list.all(a, self.text != 'x')",
        "self.list.all(a, self.text.size() > 0)",
        "self.list.all(a, self.text.charAt(999999) == 'x')",
        "self.list.all(a, self.blob != b'')",
        "self.list.all(a, !(self.text in self.map))",
        "self.list.all(a, (self.list + self.list).size() > 0)",
        "self.list.all(a, sets.contains(self.list, self.list))",
        "sets.equivalent(self.list, self.list)",
        "self.list.all(a, self.text.matches('x' + string(a)) || true)",
        "self.text.replace('', self.text) == ''",
        "self.list.map(a, self.list).size() == 0 || self.list.map(a, self.text + self.text).size() == 0",
        "self.list.all(a, int(self.text) == 1 || true)",
        "self.list.all(a, self.map[self.text] == 1 || true)",
        "self.list.all(a, '%s'.format([self.list]) != '')",
        "self.list.all(a, self.texts.join(self.text) != '')",
        // The same list in itself, over and over: small in memory, endless to look through.
        "[[1]].map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a])\
         .map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a])\
         .map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a])\
         .map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a]).map(a, [a,a])\
         .all(a, '%s'.format([a]) == '' || [dyn(a)].indexOf(a) == 0 && a == a)",
    ];
    let object = large();
    for rule in rules {
        assert_eq!(run(rule.to_owned(), object.clone()), Ok(Evaluation::TooExpensive), "{rule}");
    }
}

#[test]
fn all_evaluations_of_an_object_share_their_work() {
    let expression = compile("self.deep == oldSelf.deep").expect("a rule");
    let (object, built) = (large(), build(Props(&schema())));
    let mut left = WorkLeft::new(250_000);
    let mut answer = || expression.evaluate(&object, Some(&object), built.set.node(built.root), &mut left).1;
    // Each compares 100,000 items.
    assert_eq!(
        [answer(), answer(), answer()],
        [Evaluation::Bool(true), Evaluation::Bool(true), Evaluation::TooExpensive]
    );
}

#[test]
fn loops_end_early() {
    let object = large();
    for rule in
        ["self.list.all(a, a > 90000 || self.map.exists(k, true))", "self.list.exists(a, self.map.exists(k, true))"]
    {
        run(rule.to_owned(), object.clone()).expect("a rule");
    }
}

#[test]
fn odd_numbers_are_survived() {
    let rules = [
        "'%.70000f'.format([1.0]) != ''",
        "'%.99999999999999999999f'.format([1.0]) != ''",
        "-9223372036854775808 / -1 == 1",
        "-9223372036854775808 % -1 == 1",
        "-(-9223372036854775808) == 1",
        "int(9223372036854775808.0) == 1",
        "uint(-1.0) == 1u",
        "timestamp(-62135596801) == timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z') + duration('2562047h') == timestamp(0)",
        "'abc'.substring(-1) == '' || 'abc'.substring(2, 1) == ''",
        "'äöü'.substring(1, 2) == 'ö' && 'äöü'.charAt(2) == 'ü' && 'äöü'.indexOf('ü') == 2",
        "'äöü'.lastIndexOf('ä', 1) == 0 || 'äöü'.lastIndexOf('ö', 0) == 1",
        "'a'.split('', 9223372036854775807).size() == 1 || 'a'.replace('a', 'b', -5) == 'b'",
        "'a'.split(',', -9223372036854775807).size() == 1 && self.list[9223372036854775807] == 1",
        "quantity('9999999999999999999999999Ei').add(quantity('9999999999999999999999Ei')).isInteger()",
        "quantity('1').sub(9223372036854775807).asInteger() == 1",
        "[9223372036854775807, 1].sum() == 1 || duration('9223372036854775807ns') + duration('1ns') == duration('1s')",
    ];
    for rule in rules {
        let _ = run(rule.to_owned(), json!({"list": [1]}));
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        rule in "([a-z(){}\\[\\]?:.,'\"\\\\0-9ux+*/%!&|<=>@` ä-]|self|\\.all\\(|true|\\.optMap\\(x,|1\\.5|'a'){0,30}",
    ) {
        let _ = run(rule, json!({"list": [1, 2], "text": "a", "n": 3}));
    }

    #[test]
    fn no_call_makes_it_panic(
        target in prop::sample::select(VALUES),
        function in prop::sample::select(FUNCTIONS),
        args in prop::collection::vec(prop::sample::select(VALUES), 0..3),
    ) {
        let rule = format!("dyn({target}).{function}({}) == 1 || true", args.join(", "));
        let _ = run(rule, json!({"list": [1, 2], "text": "a", "n": 3}));
        let rule = format!("{target}.{function}({}) == {target}", args.join(", "));
        let _ = run(rule, json!({"list": [1, 2], "text": "a", "n": 3}));
    }
}

const VALUES: &[&str] = &[
    "self.n",
    "self.text",
    "self.list",
    "-1",
    "0",
    "9223372036854775807",
    "''",
    "'äö'",
    "'%s %d'",
    "1.5",
    "18446744073709551615u",
    "b'\\xff'",
    "[1, 2]",
    "[['a']]",
    "{'a': 1}",
    "optional.of(1)",
    "duration('-1h')",
    "timestamp('2020-01-01T00:00:00Z')",
    "quantity('1k')",
    "ip('::1')",
    "cidr('10.0.0.0/8')",
    "url('http://a/b')",
    "semver('1.2.3')",
    "dyn(1)",
    "null",
    "type(1)",
];

const FUNCTIONS: &[&str] = &[
    "size",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "substring",
    "replace",
    "split",
    "join",
    "format",
    "trim",
    "lowerAscii",
    "contains",
    "startsWith",
    "matches",
    "find",
    "findAll",
    "sum",
    "min",
    "max",
    "isSorted",
    "or",
    "orValue",
    "value",
    "first",
    "last",
    "getHours",
    "getFullYear",
    "getDayOfWeek",
    "add",
    "sub",
    "compareTo",
    "isGreaterThan",
    "asInteger",
    "asApproximateFloat",
    "sign",
    "family",
    "ip",
    "prefixLength",
    "masked",
    "containsIP",
    "containsCIDR",
    "getHost",
    "getQuery",
    "getPort",
    "major",
    "validate",
    "isInteger",
];
