//! Which login is found for which image.

use super::*;

fn keyring(json: &str) -> Keyring {
    Keyring::from_docker_config(json.as_bytes()).unwrap()
}

/// The user names that are tried for an image, in order.
fn check(keyring: &Keyring, name: &str, expected: &[&str]) {
    let name: Reference = name.parse().unwrap();
    let found = keyring.find(&canonical(name.registry()), name.repository());
    let users: Vec<_> = found
        .iter()
        .map(|login| match login {
            Login::Password { username, .. } => username.as_str(),
            Login::IdentityToken(token) | Login::RegistryToken(token) => token.as_str(),
        })
        .collect();
    assert_eq!(users, expected, "{name}");
}

#[test]
fn all_forms_of_logins_are_read() {
    let keyring = keyring(
        r#"{"auths": {
            "a": {"auth": "YWxpY2U6cGFzczp3b3Jk"}, "b": {"username": "bob", "password": "p"},
            "c": {"auth": "PHRva2VuPjo=", "identitytoken": "identity"}, "d": {"registrytoken": "registry"}, "e": {},
            "f": {"username": "bob", "password": "p", "email": "x@y"}},
            "credsStore": "never-run", "HttpHeaders": {}}"#,
    );
    assert_eq!(keyring.find("a", "x"), [Login::new("alice", "pass:word")]);
    assert_eq!(keyring.find("b", "x"), [Login::new("bob", "p")]);
    assert_eq!(keyring.find("c", "x"), [Login::IdentityToken("identity".into())]);
    assert_eq!(keyring.find("d", "x"), [Login::RegistryToken("registry".into())]);
    assert_eq!(keyring.find("e", "x"), []);
    let legacy = Keyring::from_legacy_config(br#"{"h:5": {"username": "carol", "password": "p"}}"#).unwrap();
    check(&legacy, "h:5/a", &["carol"]);
    // A secret of the cluster starts no program.
    assert_eq!(keyring.helpers.find("e"), None);
}

#[test]
fn docker_has_several_names() {
    for name in
        ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io", "https://docker.io/v2/"]
    {
        let keyring = keyring(&format!(r#"{{"auths": {{"{name}": {{"username": "u", "password": "p"}}}}}}"#));
        check(&keyring, "busybox", &["u"]);
        check(&keyring, "quay.io/busybox", &[]);
    }
}

#[test]
fn the_longest_path_is_tried_first() {
    let keyring = keyring(
        r#"{"auths": {
            "h.io": {"username": "host", "password": "p"}, "h.io/a/b": {"username": "deep", "password": "p"},
            "https://h.io/a/": {"username": "folder", "password": "p"}, "*.io": {"username": "any", "password": "p"},
            "h.io:5000": {"username": "port", "password": "p"}, "H.IO/v2/c": {"username": "version", "password": "p"}}}"#,
    );
    check(&keyring, "h.io/a/b/c", &["deep", "folder", "host", "any"]);
    check(&keyring, "h.io/a/bc", &["folder", "host", "any"]);
    check(&keyring, "h.io/ab/c", &["host", "any"]);
    check(&keyring, "h.io/c", &["version", "host", "any"]);
    check(&keyring, "h.io:5000/a", &["port"]);
    check(&keyring, "h.io:5001/a", &[]);
}

#[test]
fn wildcards_stay_within_a_label() {
    let rows = [
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.example.com", false),
        ("*.example.com", "example.com", false),
        ("*.*.example.com", "a.b.example.com", true),
        ("pre*.example.com", "prefix.example.com", true),
        ("*fix.example.com", "prefix.example.com", true),
        ("p*f*x.example.com", "prefix.example.com", true),
        ("p*z*x.example.com", "prefix.example.com", false),
        ("ab*ba.x", "aba.x", false),
        ("*.example.com:5000", "a.example.com:5000", true),
        ("*.example.com", "a.example.com:5000", false),
        ("[::1]:5000", "[::1]:5000", true),
        ("*", "localhost", true),
    ];
    for (pattern, host, expected) in rows {
        assert_eq!(is_host_like(pattern, host), expected, "{pattern} {host}");
    }
}

#[test]
fn nothing_shows_a_secret() {
    let keyring =
        keyring(r#"{"auths": {"a": {"username": "u", "password": "hunter2"}, "b": {"identitytoken": "hunter2"}}}"#);
    let shown = format!("{keyring:?} {:?} {:?}", keyring.find("a", ""), keyring.find("b", ""));
    assert!(!shown.contains("hunter2"), "{shown}");
    for json in [r#"{"auths": {"a": "hunter2"}}"#, r#"{"auths": {"a": {"auth": "hunter2"}}}"#, r"hunter2"] {
        let fault = Keyring::from_docker_config(json.as_bytes()).unwrap_err();
        assert!(!format!("{fault} {fault:?}").contains("hunter2"), "{fault:?}");
    }
    let fault = Keyring::from_docker_config(b"{\n\"auths\": {\"a\": 1}}").unwrap_err().to_string();
    assert_eq!(fault, "invalid registry credentials: wrong type of a value at line 2 column 16");
}

#[test]
fn a_user_without_a_configuration_has_no_logins() {
    let home = tempfile::tempdir().unwrap();
    assert!(Keyring::of_user(home.path()).unwrap().logins.is_empty());
    fs::create_dir(home.path().join(".docker")).unwrap();
    fs::write(home.path().join(".docker/config.json"), "{").unwrap();
    let fault = Keyring::of_user(home.path()).unwrap_err().to_string();
    assert!(fault.contains(".docker/config.json`: invalid registry credentials: no valid JSON"), "{fault}");
}

#[tokio::test]
async fn a_helper_that_is_missing_or_misnamed_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".docker")).unwrap();
    let config =
        r#"{"credHelpers": {"https://a.example": "no-such-helper", "b.example": "../evil"}, "auths": {"c": {}}}"#;
    fs::write(home.path().join(".docker/config.json"), config).unwrap();
    let keyring = Keyring::of_user(home.path()).unwrap();
    let fault = keyring.logins(&"a.example/x".parse().unwrap()).await.unwrap_err().to_string();
    assert_eq!(fault, "credential helper `docker-credential-no-such-helper` failed: entity not found");
    let fault = keyring.logins(&"b.example/x".parse().unwrap()).await.unwrap_err().to_string();
    assert_eq!(fault, "credential helper `docker-credential-../evil` failed: invalid name");
    assert_eq!(keyring.logins(&"c/x".parse().unwrap()).await.unwrap(), []);
}
