//! What the tests share: programs, images, a registry, and a store.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fs_err as fs;
use ronde_images::{
    Image, Keyring, PullError, Pulled, Reference, Registries, RegistriesOptions, Store, registry::Proxies, store::Quiet,
};
use ronde_sim::{find_program, skip, wait_until};
use tempfile::TempDir;

const PROGRAMS: [&str; 3] = ["docker-registry", "skopeo", "umoci"];
const START_MAX: Duration = Duration::from_secs(30);
/// The password is `correct horse`.
const HTPASSWD: &str = "alice:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n";
pub const USER: &str = "alice";
pub const PASSWORD: &str = "correct horse";
/// What each layer has, so that a connection can be cut in the middle of it. No gzip makes it smaller.
pub const LAYER_SIZE: usize = 300_000;

/// Returns nothing, and counts the test as skipped, if a program is missing.
pub fn world() -> Option<World> {
    if let Some(missing) = PROGRAMS.into_iter().find(|name| find_program(name).is_none()) {
        skip(&format!("`{missing}` is not installed (it is a Debian package)"));
        return None;
    }
    Some(World { folder: tempfile::tempdir().unwrap() })
}

pub struct World {
    pub folder: TempDir,
}

impl World {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn store(&self) -> Store {
        Store::new(self.path("images"))
    }

    /// Writes the configuration of a registry's hosts.
    pub fn write_hosts(&self, registry: &str, text: &str) {
        let folder = self.path("registries").join(registry);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("hosts.toml"), text).unwrap();
    }

    pub fn options(&self) -> RegistriesOptions {
        RegistriesOptions {
            folders: vec![self.path("registries")],
            proxies: Proxies::default(),
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(10),
        }
    }

    pub fn registries(&self) -> Registries {
        Registries::new(self.options()).unwrap()
    }

    pub async fn pull(&self, name: &str) -> Result<Pulled, PullError> {
        self.pull_as(name, &Keyring::default()).await
    }

    pub async fn pull_as(&self, name: &str, keyring: &Keyring) -> Result<Pulled, PullError> {
        ronde_images::pull(&self.registries(), keyring, &self.store(), &reference(name), Arc::new(Quiet)).await
    }

    /// Returns an image that is stored, or nothing.
    pub fn find(&self, name: &str) -> Option<Image> {
        self.store().find(&reference(name)).unwrap()
    }

    /// Starts a registry in the clear that lets everybody in.
    pub fn registry(&self) -> Registry {
        self.registry_with(&RegistryOptions::default())
    }

    /// Starts a registry. All of one world have the same content.
    pub fn registry_with(&self, options: &RegistryOptions) -> Registry {
        let folder = tempfile::tempdir_in(&self.folder).unwrap().keep();
        let mut config = format!(
            "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\nhttp:\n  addr: 127.0.0.1:0\n",
            self.path("registry-data").display()
        );
        if let Some((certificate, key)) = &options.tls {
            config += &format!("  tls: {{certificate: {}, key: {}}}\n", certificate.display(), key.display());
        }
        if options.has_password {
            fs::write(folder.join("htpasswd"), HTPASSWD).unwrap();
            config += &format!("auth: {{htpasswd: {{realm: test, path: {}/htpasswd}}}}\n", folder.display());
        }
        fs::write(folder.join("config.yml"), config).unwrap();
        Registry::start(&folder)
    }

    /// Makes an image of some layers, each with a file of random bytes, and returns it as skopeo calls it.
    pub fn image(&self, tag: &str, layers: usize) -> String {
        let (layout, bundle) = (self.path("layout"), self.path(&format!("bundle-{tag}")));
        let image = format!("{}:{tag}", layout.display());
        if !layout.exists() {
            run("umoci", &["init", "--layout", text(&layout)]);
        }
        run("umoci", &["new", "--image", &image]);
        run("umoci", &["unpack", "--rootless", "--image", &image, text(&bundle)]);
        for layer in 0..layers {
            fs::write(bundle.join(format!("rootfs/file-{layer}")), noise(tag, layer)).unwrap();
            run("umoci", &["repack", "--refresh-bundle", "--image", &image, text(&bundle)]);
        }
        run("umoci", &["config", "--image", &image, "--config.cmd", "/file-0"]);
        format!("oci:{image}")
    }

    /// Makes a registry with one image of three layers, and returns it with the name of the image.
    pub fn filled_registry(&self) -> (Registry, String) {
        let registry = self.registry();
        let name = registry.push(&self.image("one", 3), "team/app:1", &[]);
        (registry, name)
    }
}

#[derive(Default)]
pub struct RegistryOptions {
    /// Files of a certificate and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    pub has_password: bool,
}

/// A running registry, which ends with this.
pub struct Registry {
    child: Child,
    pub port: u16,
}

impl Registry {
    fn start(folder: &Path) -> Self {
        let log = folder.join("log");
        let output = fs::File::create(&log).unwrap().into_parts().0;
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(folder.join("config.yml"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let find_port = || {
            let said = fs::read_to_string(&log).unwrap();
            let (_, after) = said.split_once("listening on 127.0.0.1:")?;
            let end = after.find(|letter: char| !letter.is_ascii_digit())?;
            after[..end].parse().ok()
        };
        let port = wait_until("the registry listens", START_MAX, find_port);
        Self { child, port }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Puts an image into the registry, and returns its whole name.
    pub fn push(&self, image: &str, name: &str, options: &[&str]) -> String {
        let name = format!("{}/{name}", self.host());
        let credentials = format!("{USER}:{PASSWORD}");
        let common = ["--insecure-policy", "copy", "-q", "--dest-tls-verify=false", "--dest-creds", &credentials];
        let ends = [image, &format!("docker://{name}")];
        run("skopeo", &[&common[..], options, &ends].concat());
        name
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the digest of an image as skopeo sees it.
pub fn digest_of(name: &str) -> String {
    let credentials = format!("{USER}:{PASSWORD}");
    let image = format!("docker://{name}");
    let manifest = run("skopeo", &["inspect", "--tls-verify=false", "--creds", &credentials, "--raw", &image]);
    ronde_images::Digest::of_bytes(&manifest).to_string()
}

/// Runs a program, and returns what it prints.
pub fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    output.stdout
}

pub fn reference(name: &str) -> Reference {
    name.parse().unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Bytes that no compressor makes smaller, the same each time.
fn noise(tag: &str, layer: usize) -> Vec<u8> {
    let seed = tag.bytes().fold(layer as u64 + 1, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    std::iter::repeat_with(next).take(LAYER_SIZE).collect()
}
