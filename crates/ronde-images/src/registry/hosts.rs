//! Which hosts answer for a registry: mirrors first, then its own server.
//!
//! The format is containerd's `hosts.toml`, one folder for each registry: `<folder>/<registry>/hosts.toml`, and
//! `_default` for those that have none. Read once, when the program starts, so that a wrong file is told at once.
//! Keys that we do not need (`client`, `header`, …) are passed over.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Deserialize;
use toml::Spanned;
use url::{Host, Url};

use super::{error::RegistryError, tls::TlsSettings};

const FILE_NAME: &str = "hosts.toml";
const DEFAULT_FOLDER: &str = "_default";
/// Real files have a few hundred bytes.
const FILE_SIZE_MAX: u64 = 1 << 20;
/// Mirrors are tried one after the other.
const HOSTS_MAX: usize = 32;

/// Where images of Docker's registry really are.
const DOCKER_REGISTRY: &str = "docker.io";
const DOCKER_HOST: &str = "registry-1.docker.io";

/// What all files say.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    by_folder: BTreeMap<String, Configuration>,
}

/// What one file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Configuration {
    mirrors: Vec<Endpoint>,
    /// Else the registry's own name is its server.
    server: Option<Endpoint>,
    /// For the registry's own name, if no server is written.
    server_settings: Settings,
}

/// A host that is asked for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// With the path of the API, without a slash at the end: `https://host/v2`.
    pub base: Url,
    pub can_pull: bool,
    pub can_resolve: bool,
    pub tls: TlsSettings,
    /// HTTP is tried if the host does not speak TLS: only for this machine itself.
    pub may_be_plain: bool,
    /// A mirror is told for which registry it is asked.
    pub is_mirror: bool,
}

impl Endpoint {
    /// Returns the host and its port, as errors and credentials name it.
    pub(super) fn authority(&self) -> &str {
        self.base.authority()
    }
}

impl Hosts {
    /// Reads all files of some folders. A folder that is not there is empty; the first that has a registry wins.
    pub(super) fn read(folders: &[PathBuf]) -> Result<Self, RegistryError> {
        let mut by_folder = BTreeMap::new();
        for folder in folders {
            for (name, path) in list(folder)? {
                let Some(text) = read_file(&path.join(FILE_NAME))? else { continue };
                let fault = |cause| RegistryError::File { path: path.join(FILE_NAME), cause };
                let configuration = Configuration::parse(&text, &path).map_err(fault)?;
                by_folder.entry(name).or_insert(configuration);
            }
        }
        Ok(Self { by_folder })
    }

    /// Returns who is asked for a registry, in order; never nobody.
    pub(super) fn endpoints(&self, registry: &str) -> Result<Vec<Endpoint>, RegistryError> {
        let unescaped = registry.replace(':', "_") + "_";
        let folders = [registry, if registry.contains(':') { &unescaped } else { registry }, DEFAULT_FOLDER];
        let found = folders.iter().find_map(|folder| self.by_folder.get(*folder)).cloned().unwrap_or_default();
        let server = match found.server {
            Some(server) => server,
            None => own_server(registry, &found.server_settings)
                .map_err(|cause| RegistryError::Protocol { host: registry.to_owned(), what: cause })?,
        };
        Ok(found.mirrors.into_iter().chain([server]).collect())
    }
}

/// Lists the folders in a folder.
fn list(folder: &Path) -> Result<Vec<(String, PathBuf)>, RegistryError> {
    let fault = |source: io::Error| RegistryError::File { path: folder.to_owned(), cause: source.kind().to_string() };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fault(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(fault)?;
    let named = paths.into_iter().filter(|path| path.is_dir());
    Ok(named.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect())
}

fn read_file(path: &Path) -> Result<Option<String>, RegistryError> {
    let fault = |cause: String| RegistryError::File { path: path.to_owned(), cause };
    match fs::metadata(path) {
        Ok(found) if found.len() > FILE_SIZE_MAX => return Err(fault(format!("larger than {FILE_SIZE_MAX} bytes"))),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(error.kind().to_string())),
    }
    fs::read_to_string(path).map(Some).map_err(|error| fault(error.kind().to_string()))
}

/// The file as it is written.
#[derive(Deserialize)]
struct File {
    server: Option<String>,
    capabilities: Option<Vec<String>>,
    ca: Option<Paths>,
    skip_verify: Option<bool>,
    override_path: Option<bool>,
    #[serde(default)]
    host: BTreeMap<String, Spanned<HostSection>>,
}

#[derive(Deserialize)]
struct HostSection {
    capabilities: Option<Vec<String>>,
    ca: Option<Paths>,
    skip_verify: Option<bool>,
    override_path: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`ca` must be a path or a list of paths")]
enum Paths {
    One(PathBuf),
    Many(Vec<PathBuf>),
}

/// What a file says about one host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    can_pull: bool,
    can_resolve: bool,
    tls: TlsSettings,
    override_path: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { can_pull: true, can_resolve: true, tls: TlsSettings::default(), override_path: false }
    }
}

impl Settings {
    fn of_section(section: HostSection, folder: &Path) -> Self {
        let can = |what: &str| section.capabilities.as_ref().is_none_or(|all| all.iter().any(|one| one == what));
        let ca = match section.ca {
            None => Vec::new(),
            Some(Paths::One(path)) => vec![path],
            Some(Paths::Many(paths)) => paths,
        };
        Self {
            can_pull: can("pull"),
            can_resolve: can("resolve"),
            tls: TlsSettings {
                ca: ca.into_iter().map(|path| folder.join(path)).collect(),
                skip_verify: section.skip_verify.unwrap_or_default(),
            },
            override_path: section.override_path.unwrap_or_default(),
        }
    }
}

impl Configuration {
    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| describe(text, &error))?;
        if file.host.len() > HOSTS_MAX {
            return Err(format!("more than {HOSTS_MAX} hosts"));
        }
        let mut sections: Vec<_> = file.host.into_iter().collect();
        // Mirrors are tried in the order of the file.
        sections.sort_by_key(|(_, section)| section.span().start);
        let mirror = |(written, section): (String, Spanned<HostSection>)| {
            let settings = Settings::of_section(section.into_inner(), folder);
            endpoint(&written, &settings, true)
        };
        let mirrors = sections.into_iter().map(mirror).collect::<Result<_, _>>()?;
        let own = HostSection {
            capabilities: file.capabilities,
            ca: file.ca,
            skip_verify: file.skip_verify,
            override_path: file.override_path,
        };
        let server_settings = Settings::of_section(own, folder);
        let server = file.server.filter(|written| !written.is_empty());
        let server = server.map(|written| endpoint(&written, &server_settings, false)).transpose()?;
        Ok(Self { mirrors, server, server_settings })
    }
}

fn describe(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().and_then(|span| text.get(..span.start));
    let line = at.map(|before| format!("line {}: ", before.matches('\n').count() + 1)).unwrap_or_default();
    line + &super::error::one_line(error.message())
}

fn own_server(registry: &str, settings: &Settings) -> Result<Endpoint, String> {
    let host = if registry == DOCKER_REGISTRY { DOCKER_HOST } else { registry };
    let mut server = endpoint(host, settings, false)?;
    server.may_be_plain = is_loopback(&server.base);
    Ok(server)
}

/// Reads the address of a host. Without a scheme it is `https`.
fn endpoint(written: &str, settings: &Settings, is_mirror: bool) -> Result<Endpoint, String> {
    let fault = |why: &str| format!("invalid host `{}`: {why}", super::error::one_line(written));
    let whole = if written.contains("://") { written.to_owned() } else { format!("https://{written}") };
    let mut base = Url::parse(&whole).map_err(|error| fault(&error.to_string()))?;
    if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
        return Err(fault("it must begin with `https://` or `http://`"));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err("a host must not have a password; use `ronde`'s credentials of Docker".to_owned());
    }
    base.set_query(None);
    base.set_fragment(None);
    let path = base.path().trim_end_matches('/').to_owned();
    let is_whole = settings.override_path || path.ends_with("/v2");
    base.set_path(&if is_whole { path } else { format!("{path}/v2") });
    let Settings { can_pull, can_resolve, ref tls, .. } = *settings;
    Ok(Endpoint { base, can_pull, can_resolve, tls: tls.clone(), may_be_plain: false, is_mirror })
}

/// Tells whether a URL is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Configuration, String> {
        Configuration::parse(text, Path::new("/etc/r/docker.io"))
    }

    fn shown(endpoints: &[Endpoint]) -> Vec<String> {
        let show = |one: &Endpoint| {
            let (pull, resolve) =
                (if one.can_pull { " pull" } else { "" }, if one.can_resolve { " resolve" } else { "" });
            let (mirror, plain) =
                (if one.is_mirror { " mirror" } else { "" }, if one.may_be_plain { " plain" } else { "" });
            let ca: String = one.tls.ca.iter().map(|path| format!(" ca={}", path.display())).collect();
            let skip = if one.tls.skip_verify { " skip-verify" } else { "" };
            format!("{}{pull}{resolve}{mirror}{plain}{ca}{skip}", one.base)
        };
        endpoints.iter().map(show).collect()
    }

    fn hosts(files: &[(&str, &str)]) -> Hosts {
        let by_folder = files.iter().map(|(name, text)| ((*name).to_owned(), parse(text).unwrap())).collect();
        Hosts { by_folder }
    }

    #[test]
    fn a_registry_without_a_file_is_its_own_server() {
        let check = |registry: &str, expected: &str| {
            assert_eq!(shown(&Hosts::default().endpoints(registry).unwrap()), [expected], "{registry}");
        };
        check("docker.io", "https://registry-1.docker.io/v2 pull resolve");
        check("quay.io", "https://quay.io/v2 pull resolve");
        check("host:5000", "https://host:5000/v2 pull resolve");
        check("localhost:5000", "https://localhost:5000/v2 pull resolve plain");
        check("127.0.0.7:5000", "https://127.0.0.7:5000/v2 pull resolve plain");
        check("[::1]:5000", "https://[::1]:5000/v2 pull resolve plain");
        check("[::2]:5000", "https://[::2]:5000/v2 pull resolve");
        check("localhost.example", "https://localhost.example/v2 pull resolve");
    }

    #[test]
    fn mirrors_come_first_and_in_the_order_of_the_file() {
        let file = r#"
            server = "https://own.example"
            [host."https://z.example"]
            capabilities = ["pull", "resolve"]
            [host."http://a.example:5000/prefix"]
            capabilities = ["pull"]
            [host."https://m.example/whole/path"]
            override_path = true
            skip_verify = true
            ca = ["ca.pem", "/abs.pem"]
            client = [["/client.pem", ""]]
            [host."https://m.example/whole/path".header]
            x = "y"
        "#;
        let expected = [
            "https://z.example/v2 pull resolve mirror",
            "http://a.example:5000/prefix/v2 pull mirror",
            "https://m.example/whole/path pull resolve mirror ca=/etc/r/docker.io/ca.pem ca=/abs.pem skip-verify",
            "https://own.example/v2 pull resolve",
        ];
        assert_eq!(shown(&hosts(&[("docker.io", file)]).endpoints("docker.io").unwrap()), expected);
    }

    #[test]
    fn the_default_is_for_registries_without_a_folder() {
        let hosts = hosts(&[
            ("_default", "[host.\"https://mirror\"]\ncapabilities = [\"pull\"]"),
            ("own:5000", "skip_verify = true"),
            ("other_5000_", "server = \"http://other:5000/v2/\"\nca = \"ca.pem\""),
        ]);
        let check =
            |registry: &str, expected: &[&str]| assert_eq!(shown(&hosts.endpoints(registry).unwrap()), expected);
        check("quay.io", &["https://mirror/v2 pull mirror", "https://quay.io/v2 pull resolve"]);
        check("own:5000", &["https://own:5000/v2 pull resolve skip-verify"]);
        check("other:5000", &["http://other:5000/v2 pull resolve ca=/etc/r/docker.io/ca.pem"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let check = |text: &str, part: &str| {
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        };
        check("server = 7", "line 1: invalid type: integer `7`");
        check("\n\n[host.\"https://a\"]\nskip_verify = \"yes\"", "line 4: invalid type: string");
        check("ca = 1", "`ca` must be a path or a list of paths");
        check("server = \"ftp://a\"", "invalid host `ftp://a`: it must begin with");
        check("server = \"https://user:secret@a\"", "must not have a password");
        check("[host.\"https://\"]", "invalid host `https://`");
        check("server = ", "line 1: ");
        assert!(!parse("server = \"https://user:secret@a\"").unwrap_err().contains("secret"));
    }

    #[test]
    fn a_wrong_file_is_named_and_a_missing_folder_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let none = Hosts::read(&[folder.path().join("none"), folder.path().to_owned()]).unwrap();
        assert!(none.by_folder.is_empty());
        fs::create_dir(folder.path().join("quay.io")).unwrap();
        fs::write(folder.path().join("quay.io/hosts.toml"), "server = []").unwrap();
        let fault = Hosts::read(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(fault.contains("quay.io/hosts.toml`: line 1: invalid type"), "{fault}");
    }

    proptest! {
        #[test]
        fn no_file_panics(text: String) {
            let _ = parse(&text);
        }

        #[test]
        fn no_file_of_the_right_words_panics(
            text in "((server|ca|skip_verify|capabilities|override_path) = (true|\"[a-z:/@%\\[\\]]{0,12}\"|\\[\"a\"\\]|1)\n|\\[host\\.\"(https?://)?[a-z:/]{0,9}\"\\]\n){0,8}",
        ) {
            if let Ok(configuration) = parse(&text) {
                let hosts = Hosts { by_folder: [("x".to_owned(), configuration)].into() };
                prop_assert!(!hosts.endpoints("x").unwrap().is_empty());
            }
        }
    }
}
