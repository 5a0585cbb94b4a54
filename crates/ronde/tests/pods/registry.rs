//! Pods whose images come from a real registry: docker-registry on loopback, with a password, behind a line that can be
//! held.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use fs_err as fs;
use ronde_sim::{SmallDisk, program, wait_until};

use crate::{
    client::{Home, Program},
    cluster::Cluster,
    directory, has_static_busybox,
    sandbox::{LIMIT, Sandbox},
};

const USER: &str = "ann";
const PASSWORD: &str = "open-sesame";
/// The same as the registry wants it.
const HASH: &str = "$2b$05$6pb2ScziU0ts0xyjzGI50eyas3eCaUhOuCeJH0OFBdij9sK6dIQEK";
/// Larger than what kernels hold back on a connection.
const LAYER_BYTES: u64 = 24 << 20;
const LAYER_MEGABYTES: u64 = LAYER_BYTES >> 20;
/// What such an image takes: its layer and its program of two megabytes, packed and unpacked.
const IMAGE_MEGABYTES: u64 = 2 * (LAYER_MEGABYTES + 2);

/// A docker-registry that ends with its test.
struct Registry {
    process: Child,
    port: u16,
}

impl Registry {
    fn start(sandbox: &Sandbox) -> Self {
        sandbox.write("registry/htpasswd", &format!("{USER}:{HASH}\n"));
        let folder = sandbox.path("registry").display().to_string();
        let config = sandbox.write(
            "registry/config.yml",
            &format!(
                "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {folder}/content}}}}\n\
                 auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n"
            ),
        );
        let log = fs::File::create(sandbox.path("registry/log")).unwrap();
        let mut command = sandbox.command_of("docker-registry", &format!("serve {}", config.display()));
        let process = command.stdout(Stdio::null()).stderr(log.into_parts().0).spawn().unwrap();
        let port = wait_until("the registry listens", LIMIT, || {
            let log = sandbox.read("registry/log");
            let (_, rest) = log.split_once("listening on 127.0.0.1:")?;
            let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
            rest[..end].parse().ok()
        });
        Self { process, port }
    }

    /// Pushes the image without a shell under another name.
    fn push(&self, home: &Home, name: &str) {
        let to = format!("docker://127.0.0.1:{}/{name}", self.port);
        let login = format!("--dest-tls-verify=false --dest-creds {USER}:{PASSWORD}");
        home.succeed(&format!("skopeo --insecure-policy copy {login} docker-archive:box.tar:test/bare:1 {to}"));
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A line to the registry that passes only so much.
#[derive(Clone)]
struct Line {
    port: u16,
    state: Arc<(Mutex<Passed>, Condvar)>,
}

#[derive(Clone, Copy)]
struct Passed {
    bytes: u64,
    max: u64,
}

impl Line {
    fn to(registry: &Registry) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new((Mutex::new(Passed { bytes: 0, max: u64::MAX }), Condvar::new()));
        let (line, target) = (Self { port, state }, registry.port);
        let used = line.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from_client, to_server, |_| {}));
                let line = used.clone();
                thread::spawn(move || pass(server, client, |bytes| line.take(bytes)));
            }
        });
        line
    }

    fn passed(&self) -> Passed {
        *self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets so many more bytes come from the registry.
    fn hold_after(&self, more: u64) {
        let mut passed = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.max = passed.bytes.saturating_add(more);
        self.state.1.notify_all();
    }

    /// Waits until some bytes may pass.
    fn take(&self, bytes: u64) {
        let passed = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut passed = self.state.1.wait_while(passed, |passed| passed.bytes >= passed.max).unwrap();
        passed.bytes += bytes;
    }

    fn until_held(&self) {
        wait_until("the line is held", LIMIT, || {
            let passed = self.passed();
            (passed.bytes >= passed.max).then_some(())
        });
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn(u64)) {
    let mut buffer = vec![0; 1 << 14];
    while let Ok(read) = from.read(&mut buffer) {
        before(read as u64);
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// A machine beside a registry, with a secret for it in the namespace `default`.
struct Place {
    cluster: Cluster,
    home: Home,
    registry: Registry,
    line: Line,
}

impl Place {
    fn start(images: &str) -> Option<Self> {
        Self::start_in(Sandbox::new(), images)
    }

    fn start_in(sandbox: Sandbox, images: &str) -> Option<Self> {
        if Program::find_all(&[]).is_none() || !has_static_busybox() {
            return None;
        }
        if ["docker-registry", "skopeo"].map(program).contains(&None) {
            return None;
        }
        let registry = Registry::start(&sandbox);
        let line = Line::to(&registry);
        let cluster = Cluster::start(sandbox, &up(images))?;
        let home = Home::of(&cluster.sandbox, &directory().join("bin"));
        home.succeed(&format!("busybox-image box.tar {LAYER_MEGABYTES}"));
        let server = format!("--docker-server 127.0.0.1:{}", line.port);
        home.succeed(&format!(
            "kubectl create secret docker-registry team {server} --docker-username {USER} --docker-password {PASSWORD}"
        ));
        Some(Self { cluster, home, registry, line })
    }

    /// The name by which pods reach an image.
    fn image(&self, name: &str) -> String {
        format!("127.0.0.1:{}/{name}", self.line.port)
    }

    fn run(&self, pod: &str, image: &str, secrets: &[&str]) {
        let secrets: Vec<String> = secrets.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
        let overrides =
            format!(r#"{{"spec":{{"terminationGracePeriodSeconds":0,"imagePullSecrets":[{}]}}}}"#, secrets.join(","));
        self.home.succeed(&format!("kubectl run {pod} --image {} --overrides '{overrides}'", self.image(image)));
    }

    fn until_ready(&self, pod: &str) {
        self.home.succeed(&format!("kubectl wait --for=condition=Ready pod/{pod} --timeout 120s"));
    }

    fn until_waiting(&self, pod: &str, reason: &str) -> String {
        let of = |field: &str| format!("{{.status.containerStatuses[0].state.waiting.{field}}}");
        self.home.succeed(&format!("kubectl wait --for=jsonpath='{}'={reason} pod/{pod} --timeout 120s", of("reason")));
        self.home.succeed(&format!("kubectl get pod {pod} -o jsonpath='{}'", of("message")))
    }

    fn until_event(&self, pod: &str, text: &str) {
        self.home.succeed(&format!("eventually 'kubectl events --for pod/{pod} | grep -F \"{text}\"'"));
    }
}

fn up(images: &str) -> String {
    format!("--nodes 1 --images {images}")
}

#[test]
fn a_private_image_is_pulled_with_the_secrets_of_its_pod_or_account() {
    let Some(place) = Place::start("pull") else { return };
    place.registry.push(&place.home, "team/app:1");
    // 1. Without one it is not.
    place.run("stranger", "team/app:1", &[]);
    let why = place.until_waiting("stranger", "ErrImagePull");
    assert!(why.contains("team/app:1"), "{why}");
    let why = place.until_waiting("stranger", "ImagePullBackOff");
    let expected = format!("Back-off pulling image \"{}\": ErrImagePull: ", place.image("team/app:1"));
    assert!(why.starts_with(&expected), "{why}");
    for text in ["Pulling image", "Failed to pull image", "Error: ErrImagePull", "Back-off pulling image"] {
        place.until_event("stranger", text);
    }
    place.home.succeed(&format!("kubectl run never --image {} --image-pull-policy Never", place.image("team/app:1")));
    place.until_waiting("never", "ErrImageNeverPull");
    // 2. With one it is, and what is not there is told.
    place.run("member", "team/app:1", &["absent", "team"]);
    place.until_ready("member");
    place.until_event("member", "Unable to retrieve some image pull secrets (absent); attempting to pull");
    place.until_event("member", "Successfully pulled image");
    let id = place.home.succeed("kubectl get pod member -o jsonpath='{.status.containerStatuses[0].imageID}'");
    assert!(id.starts_with(&format!("{}@sha256:", place.image("team/app"))), "{id}");
    // 3. The account's secrets are its pods'; and what is stored is not pulled again.
    place.home.succeed(r#"kubectl patch serviceaccount default -p '{"imagePullSecrets":[{"name":"team"}]}'"#);
    place.home.succeed(&format!("kubectl run heir --image {} --image-pull-policy Always", place.image("team/app:1")));
    place.until_ready("heir");
    assert!(place.line.passed().bytes < 2 * LAYER_BYTES, "only what has changed is fetched");
    // 4. Nobody has heard the password.
    let said = place.cluster.sandbox.read("data/ronde.log") + &place.home.succeed("kubectl get events -o yaml");
    assert!(said.contains("Pulled") && !said.contains(PASSWORD), "{said}");
}

#[test]
fn two_pods_wait_for_one_pull_and_one_of_them_is_deleted() {
    let Some(place) = Place::start("pull") else { return };
    place.registry.push(&place.home, "team/app:1");
    place.line.hold_after(LAYER_BYTES / 2);
    for pod in ["one", "two", "three"] {
        place.run(pod, "team/app:1", &["team"]);
        place.until_event(pod, "Pulling image");
    }
    place.line.until_held();
    place.home.succeed("kubectl delete pod one --timeout 30s");
    place.line.hold_after(u64::MAX);
    place.until_ready("two");
    place.until_ready("three");
    assert!(place.line.passed().bytes < 3 * LAYER_BYTES / 2, "the image came once");
}

#[test]
fn a_pull_that_failed_is_tried_again() {
    let Some(place) = Place::start("pull") else { return };
    place.run("early", "team/late:1", &["team"]);
    place.until_waiting("early", "ImagePullBackOff");
    place.registry.push(&place.home, "team/late:1");
    place.until_ready("early");
}

#[test]
fn a_pull_goes_on_after_the_daemon_was_killed() {
    let Some(place) = Place::start("pull") else { return };
    place.registry.push(&place.home, "team/app:1");
    place.line.hold_after(LAYER_BYTES * 3 / 4);
    place.run("app", "team/app:1", &["team"]);
    place.line.until_held();
    place.cluster.sandbox.kill_9();
    place.line.hold_after(u64::MAX);
    place.cluster.up(&up("pull"));
    place.until_ready("app");
    assert!(place.line.passed().bytes < 3 * LAYER_BYTES / 2, "what was there is not fetched again");
}

/// As `docker login` leaves it.
#[test]
fn a_user_pulls_with_their_own_credentials() {
    let Some(place) = Place::start("pull") else { return };
    place.registry.push(&place.home, "team/app:1");
    let line = format!("image pull {}", place.image("team/app:1"));
    let denied = place.cluster.sandbox.run(&line);
    assert_eq!(denied.status.code(), Some(2), "{}", place.cluster.sandbox.describe(&line, &denied));
    let login = format!("printf %s {USER}:{PASSWORD} | base64");
    let login = place.home.succeed(&login);
    let config = format!(r#"{{"auths":{{"127.0.0.1:{}":{{"auth":"{}"}}}}}}"#, place.line.port, login.trim());
    place.cluster.sandbox.write(".docker/config.json", &config);
    let pulled = place.cluster.sandbox.run(&line);
    let said = place.cluster.sandbox.describe(&line, &pulled);
    assert!(pulled.status.success() && said.contains("pulled 127.0.0.1:"), "{said}");
    // What is stored is started without the registry; what is not, with the credentials of who runs the node.
    place.registry.push(&place.home, "team/other:1");
    place.run("other", "team/other:1", &[]);
    place.until_ready("other");
}

#[test]
fn an_image_that_a_registry_does_not_give_means_this_machine() {
    let Some(place) = Place::start("auto") else { return };
    let run = |pod: &str, image: &str, more: &str| {
        let image = place.image(image);
        place.home.succeed(&format!(
            "kubectl run {pod} --image {image} --restart Never {more} --command -- test -d /usr/bin"
        ));
        place
            .home
            .succeed(&format!("kubectl wait --for=jsonpath='{{.status.phase}}'=Succeeded pod/{pod} --timeout 120s"));
        let id = "{.status.containerStatuses[0].imageID}";
        assert_eq!(place.home.succeed(&format!("kubectl get pod {pod} -o jsonpath='{id}'")), "host", "{pod}");
    };
    // 1. Unknown, private, and with nobody there.
    place.registry.push(&place.home, "team/app:1");
    run("unknown", "team/none:1", "");
    place.until_event("unknown", "is not pulled (its registry does not have it)");
    run("private", "team/app:1", "");
    // 2. Known: it is pulled, and the choice stands though the next pod of that name gets another.
    place.run("member", "team/app:1", &["team"]);
    place.until_ready("member");
    // 3. Stored: it is used also without the registry.
    let Place { registry, home, cluster, line } = place;
    drop(registry);
    home.succeed(&format!("kubectl run later --image 127.0.0.1:{}/team/app:1 --image-pull-policy Always", line.port));
    home.succeed("kubectl wait --for=condition=Ready pod/later --timeout 120s");
    home.succeed("kubectl run nobody --image 127.0.0.1:1/a:1 --restart Never -- true");
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/nobody --timeout 60s");
    home.succeed(
        "eventually 'kubectl events --for pod/nobody | grep -F \"is not pulled (cannot reach its registry)\"'",
    );
    drop(cluster);
}

/// A disk that has room for three images, and a bit.
#[test]
fn images_make_room_for_others_and_what_runs_stays() {
    if Program::find_all(&[]).is_none() || !has_static_busybox() {
        return;
    }
    let sandbox = Sandbox::new();
    // Less than another packed layer is left.
    let size = 3 * IMAGE_MEGABYTES + LAYER_MEGABYTES - 4;
    let Some(disk) = SmallDisk::mount(&sandbox.path("data"), &format!("size={size}m")) else { return };
    let Some(place) = Place::start_in(sandbox, "pull") else { return };
    let names = || place.cluster.sandbox.run("image list -o name");
    let is_here = |image: &str| String::from_utf8_lossy(&names().stdout).contains(&format!("/team/{image}:1\n"));
    for image in ["one", "two", "three", "four"] {
        place.home.succeed(&format!("busybox-image box.tar {LAYER_MEGABYTES}"));
        place.registry.push(&place.home, &format!("team/{image}:1"));
    }

    // 1. The disk is nearly full of images, of which one runs.
    for image in ["one", "two", "three"] {
        place.run(image, &format!("team/{image}:1"), &["team"]);
        place.until_ready(image);
    }
    place.home.succeed("kubectl delete pod two three --timeout 60s");
    let save = |image: &str| place.cluster.sandbox.run(&format!("image save {} -", place.image(image)));
    assert!(save("team/one:1").status.success() && ["one", "two", "three"].iter().all(|image| is_here(image)));

    // 2. Another one comes all the same. First packed layers went, then the image that was not used for longest.
    place.run("four", "team/four:1", &["team"]);
    place.until_ready("four");
    assert!(is_here("one") && is_here("four") && !is_here("two"), "{:?}", names());
    assert!(!save("team/one:1").status.success(), "what runs has no packed layers any more");
    let restarts = "kubectl get pod one -o jsonpath='{.status.containerStatuses[0].restartCount}{.status.phase}'";
    assert_eq!(place.home.succeed(restarts), "0Running");
    assert!(place.cluster.sandbox.read("data/ronde.log").contains("no room for an image"));
    place.cluster.sandbox.run("down");
    drop(disk);
}
