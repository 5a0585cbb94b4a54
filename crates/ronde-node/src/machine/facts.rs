//! Facts of the machine that a node reports: processors, memory, GPUs, kernel, name.

use fs_err as fs;

/// What one machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub cpu_milli: u64,
    pub memory_bytes: u64,
    /// Device files of NVIDIA GPUs, by number.
    pub gpus: Vec<String>,
    pub hostname: String,
    pub kernel: String,
    pub os_image: String,
    pub architecture: &'static str,
    pub machine_id: String,
    pub boot_id: String,
}

impl Facts {
    /// Reads them.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let release = text("/etc/os-release");
        let name = rustix::system::uname();
        let of = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            cpu_milli: std::thread::available_parallelism().map_or(1000, |count| count.get() as u64 * 1000),
            memory_bytes: memory_total(&text("/proc/meminfo")).unwrap_or(1 << 30),
            gpus: gpus(),
            hostname: of(name.nodename()).to_lowercase(),
            kernel: of(name.release()),
            os_image: pretty_name(&release).unwrap_or_else(|| "Linux".to_owned()),
            architecture: if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            machine_id: text("/etc/machine-id"),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
        }
    }
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

fn pretty_name(release: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

fn gpus() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/dev") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_gpu = |name: &String| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut found: Vec<String> = names.filter(is_gpu).map(|name| format!("/dev/{name}")).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::{memory_total, pretty_name};

    #[test]
    fn files_of_the_system_are_understood() {
        assert_eq!(memory_total("MemTotal:       24682416 kB\nMemFree: 1 kB"), Some(24_682_416 * 1024));
        assert_eq!(memory_total("nonsense"), None);
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
    }
}
