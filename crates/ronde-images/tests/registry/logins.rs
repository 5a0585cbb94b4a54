//! Who may pull what, and where secrets go: to the registry and its token server, and nowhere else.

use std::{os::unix::fs::PermissionsExt, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fs_err as fs;
use http::{Method, StatusCode, header};
use ronde_images::{Keyring, Login};

use crate::{
    front::{Act, Front, Seen},
    world::{PASSWORD, Registry, RegistryOptions, USER, World, digest_of, world},
};

fn registry_with_password(world: &World) -> (Registry, String) {
    let registry = world.registry_with(&RegistryOptions { tls: None, has_password: true });
    let name = registry.push(&world.image("one", 1), "team/app:1", &[]);
    (registry, name)
}

fn keyring(logins: &[(&str, Login)]) -> Keyring {
    let mut keyring = Keyring::default();
    logins.iter().for_each(|(place, login)| keyring.add(place, login.clone()));
    keyring
}

#[tokio::test]
async fn a_password_opens_a_registry_and_a_wrong_one_does_not() {
    let Some(world) = world() else { return };
    let (registry, name) = registry_with_password(&world);
    let host = registry.host();
    let (right, wrong) = (Login::new(USER, PASSWORD), Login::new(USER, "battery staple"));
    for refused in [Keyring::default(), keyring(&[(&host, wrong.clone())]), keyring(&[("other", right.clone())])] {
        let fault = world.pull_as(&name, &refused).await.unwrap_err();
        assert_eq!(fault.to_string(), format!("{name}: unauthorized: authentication required"));
        assert!(fault.is_missing());
        assert!(!format!("{fault:?}").contains("battery"), "{fault:?}");
    }
    // The longer path is tried first, and then the other.
    let both = keyring(&[(&host, right), (&format!("{host}/team"), wrong)]);
    assert_eq!(world.pull_as(&name, &both).await.unwrap().digest.to_string(), digest_of(&name));
}

#[tokio::test]
async fn a_pull_secret_opens_a_registry() {
    let Some(world) = world() else { return };
    let (registry, name) = registry_with_password(&world);
    let auth = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let secret = serde_json::json!({"auths": {format!("https://{}/v1/", registry.host()): {"auth": auth}}});
    let keyring = Keyring::from_docker_config(secret.to_string().as_bytes()).unwrap();
    world.pull_as(&name, &keyring).await.unwrap();
}

#[tokio::test]
async fn content_elsewhere_is_fetched_without_the_password() {
    let Some(world) = world() else { return };
    let (registry, name) = registry_with_password(&world);
    // Where the content is: it needs no password, and must not be told one.
    let open = world.registry();
    let elsewhere = Front::start(open.port, |_: &Seen| Act::Pass).await;
    let target = format!("http://{}", elsewhere.host());
    let redirect = move |path: &str| {
        let location = (header::LOCATION, format!("{target}{path}"));
        Act::Answer(StatusCode::TEMPORARY_REDIRECT, vec![location], String::new())
    };
    let decide = move |seen: &Seen| if seen.is_blob() { redirect(&seen.path) } else { Act::Pass };
    let front = Front::start(registry.port, decide).await;
    let through = name.replace(&registry.host(), &front.host());
    let keyring = keyring(&[(&front.host(), Login::new(USER, PASSWORD))]);
    world.pull_as(&through, &keyring).await.unwrap();
    assert!(front.seen_of("/blobs/").iter().all(|seen| seen.header(header::AUTHORIZATION).is_some()));
    let seen = elsewhere.seen();
    assert!(seen.len() == 2 && seen.iter().all(|seen| seen.header(header::AUTHORIZATION).is_none()), "{seen:?}");
}

/// Plays a registry that wants tokens, and its token server.
async fn front_with_tokens(registry: u16, is_good: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Front {
    Front::start(registry, move |seen: &Seen| {
        let host = seen.header(header::HOST).unwrap_or_default();
        if seen.path == "/token" {
            let token = format!(r#"{{"token":"t{}","expires_in":300}}"#, seen.earlier);
            let refused = Act::Answer(StatusCode::UNAUTHORIZED, vec![], r#"{"details":"wrong password"}"#.to_owned());
            return if is_good(seen) { Act::Answer(StatusCode::OK, vec![], token) } else { refused };
        }
        let challenge = format!(r#"Bearer realm="http://{host}/token",service="s",scope="repository:team/app:pull""#);
        let body = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
        // The first token ends with the manifest.
        let accepted = if seen.is_blob() { "Bearer t1" } else { "Bearer t0" };
        match seen.header(header::AUTHORIZATION) {
            Some(token) if token == accepted => Act::Pass,
            _ => Act::Answer(StatusCode::UNAUTHORIZED, vec![(header::WWW_AUTHENTICATE, challenge)], body.to_owned()),
        }
    })
    .await
}

#[tokio::test]
async fn a_login_without_the_right_is_not_the_last_one() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let expected = format!("Basic {}", STANDARD.encode("bob:b"));
    let front = Front::start(registry.port, move |seen: &Seen| match seen.header(header::AUTHORIZATION) {
        Some(login) if login == expected => Act::Pass,
        Some(_) => {
            let body = r#"{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}"#;
            Act::Answer(StatusCode::FORBIDDEN, vec![], body.to_owned())
        }
        None => {
            let challenge = (header::WWW_AUTHENTICATE, "Basic realm=\"r\"".to_owned());
            Act::Answer(StatusCode::UNAUTHORIZED, vec![challenge], String::new())
        }
    })
    .await;
    let (host, name) = (front.host(), format!("{}/team/app:1", front.host()));
    let (alice, bob) = ((host.as_str(), Login::new("alice", "a")), (host.as_str(), Login::new("bob", "b")));
    let fault = world.pull_as(&name, &keyring(std::slice::from_ref(&alice))).await.unwrap_err();
    assert_eq!(fault.to_string(), format!("{name}: denied: requested access to the resource is denied"));
    let fault = world.pull(&name).await.unwrap_err();
    assert_eq!(fault.to_string(), format!("{name}: 401 unauthorized"));
    world.pull_as(&name, &keyring(&[alice, bob])).await.unwrap();
}

const QUERY: &str = "service=s&scope=repository%3Ateam%2Fapp%3Apull";

#[tokio::test]
async fn tokens_are_had_without_a_login_and_renewed() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let front = front_with_tokens(registry.port, |seen| seen.header(header::AUTHORIZATION).is_none()).await;
    world.pull(&format!("{}/team/app:1", front.host())).await.unwrap();
    let asked = front.seen_of("/token");
    assert!(asked.iter().all(|seen| seen.query == QUERY && seen.method == Method::GET), "{asked:?}");
    assert_eq!(asked.len(), 2, "one, and one after it was refused");
}

#[tokio::test]
async fn tokens_are_had_for_a_password_or_another_token() {
    let Some(world) = world() else { return };
    let (registry, _) = world.filled_registry();
    let expected = format!("Basic {}", STANDARD.encode("u:p"));
    let by_password = move |seen: &Seen| seen.header(header::AUTHORIZATION) == Some(expected.as_str());
    let by_token = |seen: &Seen| {
        let form = "grant_type=refresh_token&service=s&client_id=ronde&scope=repository%3Ateam%2Fapp%3Apull&refresh_token=i%26d";
        seen.method == Method::POST && seen.body == form && seen.header(header::AUTHORIZATION).is_none()
    };
    let password = (front_with_tokens(registry.port, by_password).await, Login::new("u", "p"));
    let token = (front_with_tokens(registry.port, by_token).await, Login::IdentityToken("i&d".into()));
    for (front, login) in [password, token] {
        let name = format!("{}/team/app:1", front.host());
        world.pull_as(&name, &keyring(&[(&front.host(), login)])).await.unwrap();
        let fault = world.pull_as(&name, &keyring(&[(&front.host(), Login::new("u", "x"))])).await.unwrap_err();
        assert_eq!(fault.to_string(), format!("{name}: wrong password"));
        assert!(fault.is_missing());
    }
}

/// The helper must be in the `PATH`, which a test must not change for the others: so it runs itself with another.
#[tokio::test]
async fn a_credential_helper_is_asked() {
    let home = variable("RONDE_TEST_HELPER_HOME");
    match home {
        Some(home) => ask_helpers(Path::new(&home)).await,
        None => run_with_helpers(),
    }
}

fn run_with_helpers() {
    let home = tempfile::tempdir().unwrap();
    let helper = "#!/bin/sh\nread server\ncase $1.$server in\n\
        get.a.example) echo '{\"ServerURL\":\"x\",\"Username\":\"u\",\"Secret\":\"p\"}';;\n\
        get.https://index.docker.io/v1/) echo '{\"Username\":\"<token>\",\"Secret\":\"identity\"}';;\n\
        get.b.example) echo 'credentials not found in native keychain'; exit 1;;\n\
        get.c.example) yes;;\n\
        *) echo 'the keychain is locked'; exit 1;;\nesac\n";
    let path = home.path().join("docker-credential-test");
    fs::write(&path, helper).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(home.path().join(".docker")).unwrap();
    let config = r#"{"credsStore": "missing", "credHelpers": {"a.example": "test", "b.example": "test",
        "c.example": "test", "d.example": "test", "docker.io": "test"}, "auths": {"e.example": {}}}"#;
    fs::write(home.path().join(".docker/config.json"), config).unwrap();
    let search = format!("{}:{}", home.path().display(), variable("PATH").unwrap());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "logins::a_credential_helper_is_asked", "--nocapture"])
        .env("PATH", search)
        .env("RONDE_TEST_HELPER_HOME", home.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn ask_helpers(home: &Path) {
    let keyring = Keyring::of_user(home).unwrap();
    let ask = async |name: &str| keyring.logins(&name.parse().unwrap()).await;
    assert_eq!(ask("a.example/x").await.unwrap(), [Login::new("u", "p")]);
    assert_eq!(ask("busybox").await.unwrap(), [Login::IdentityToken("identity".into())]);
    assert_eq!(ask("b.example/x").await.unwrap(), []);
    // One that is written for all and is not installed is passed over.
    assert_eq!(ask("e.example/x").await.unwrap(), []);
    let fault = |error: ronde_images::RegistryError| error.to_string();
    let failed = "credential helper `docker-credential-test` failed: ";
    assert_eq!(ask("c.example/x").await.map_err(fault), Err(format!("{failed}the answer is too long")));
    assert_eq!(ask("d.example/x").await.map_err(fault), Err(format!("{failed}the keychain is locked")));
}

#[expect(clippy::disallowed_methods, reason = "the test speaks to itself through the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
