//! A registry on loopback with two images: ten layers each, of which they share nine.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context as _;
use fs_err as fs;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

const LAYERS: usize = 10;
/// As in images with a Python environment: most files are small, most bytes are in large ones. 100 MB a layer.
const SMALL: Files = Files { count: 2_500, bytes: 4_000 };
const LARGE: Files = Files { count: 90, bytes: 1_000_000 };
/// Text of so many different words shrinks to about a third, as programs and libraries do.
const WORDS: u64 = 4_096;

struct Files {
    count: usize,
    bytes: usize,
}

pub struct Registry {
    folder: TempDir,
    port: u16,
    _server: Child,
}

impl Registry {
    /// Makes the images, starts the registry and pushes them.
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = serve(folder.path(), port)?;
        let registry = Self { folder, port, _server: server };
        registry.wait().await?;
        let layers = (0..=LAYERS).map(|number| registry.layer(number)).collect::<anyhow::Result<Vec<_>>>()?;
        registry.push("first", &layers[..LAYERS]).await?;
        let second = [&layers[..LAYERS - 1], &layers[LAYERS..]].concat();
        registry.push("second", &second).await?;
        Ok(registry)
    }

    pub fn image(&self, name: &str) -> String {
        format!("127.0.0.1:{}/{name}:1", self.port)
    }

    async fn wait(&self) -> anyhow::Result<()> {
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        anyhow::bail!("the registry does not answer")
    }

    /// Makes a layer. The lowest one has the shell that pods run.
    fn layer(&self, number: usize) -> anyhow::Result<PathBuf> {
        let root = self.folder.path().join(format!("root-{number}"));
        if number == 0 {
            put_shell(&root)?;
        }
        let mut random = Random(number as u64 + 1);
        for (kind, files) in [("small", &SMALL), ("large", &LARGE)] {
            for index in 0..files.count {
                // Fifty to a folder.
                let parent = root.join(format!("data/{number}/{kind}/{}", index / 50));
                fs::create_dir_all(&parent)?;
                write_text(&parent.join(index.to_string()), files.bytes, &mut random)?;
            }
        }
        let archive = self.folder.path().join(format!("{number}.tar"));
        let tar = std::process::Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status()?;
        anyhow::ensure!(tar.success(), "tar failed");
        fs::remove_dir_all(&root)?;
        Ok(archive)
    }

    /// Writes what `docker save` would, and lets skopeo compress and push it.
    async fn push(&self, name: &str, layers: &[PathBuf]) -> anyhow::Result<()> {
        let folder = self.folder.path();
        let digests = layers.iter().map(|layer| digest(layer)).collect::<anyhow::Result<Vec<_>>>()?;
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({"architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": digests}});
        let files: Vec<String> =
            layers.iter().filter_map(|layer| Some(layer.file_name()?.to_str()?.to_owned())).collect();
        let manifest = json!([{"Config": "config.json", "RepoTags": [format!("{name}:1")], "Layers": files}]);
        fs::write(folder.join("config.json"), config.to_string())?;
        fs::write(folder.join("manifest.json"), manifest.to_string())?;
        let archive = folder.join("image.tar");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(folder).arg("-cf").arg(&archive).args(["manifest.json", "config.json"]).args(&files);
        anyhow::ensure!(tar.status().await?.success(), "tar failed");
        let mut copy = Command::new("skopeo");
        copy.args(["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"]);
        copy.arg(format!("docker-archive:{}", archive.display())).arg(format!("docker://{}", self.image(name)));
        let copied = copy.status().await.context("cannot run skopeo: apt-get install skopeo")?;
        anyhow::ensure!(copied.success(), "skopeo could not push {name}");
        Ok(fs::remove_file(archive)?)
    }
}

fn serve(folder: &Path, port: u16) -> anyhow::Result<Child> {
    let config = json!({"version": "0.1", "log": {"level": "error", "accesslog": {"disabled": true}},
        "storage": {"filesystem": {"rootdirectory": folder.join("registry")}},
        "http": {"addr": format!("127.0.0.1:{port}")}});
    let path = folder.join("registry.yaml");
    fs::write(&path, config.to_string())?;
    let mut server = Command::new("docker-registry");
    server.arg("serve").arg(path).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    server.spawn().context("cannot start a registry: apt-get install docker-registry")
}

fn put_shell(root: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(root.join("bin"))?;
    fs::create_dir_all(root.join("tmp"))?;
    let list = std::process::Command::new("busybox").arg("--list").output();
    let list = list.context("cannot run busybox: apt-get install busybox-static")?;
    let program = std::process::Command::new("sh").args(["-c", "command -v busybox"]).output()?;
    fs::copy(String::from_utf8(program.stdout)?.trim(), root.join("bin/busybox"))?;
    for applet in String::from_utf8(list.stdout)?.lines().filter(|applet| *applet != "busybox") {
        fs::os::unix::fs::symlink("busybox", root.join("bin").join(applet))?;
    }
    Ok(())
}

fn write_text(path: &Path, bytes: usize, random: &mut Random) -> anyhow::Result<()> {
    let mut text = Vec::with_capacity(bytes + 8);
    while text.len() < bytes {
        write!(text, "{:x} ", (random.next() % WORDS).wrapping_mul(0x9e37_79b9))?;
    }
    text.truncate(bytes);
    Ok(fs::write(path, text)?)
}

fn digest(file: &Path) -> anyhow::Result<String> {
    let sum = std::process::Command::new("sha256sum").arg(file).output()?;
    let sum = String::from_utf8(sum.stdout)?;
    Ok(format!("sha256:{}", sum.split_whitespace().next().context("no digest")?))
}

/// Marsaglia's xorshift: the same images in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
