//! Facts of the machine that a node reports: processors, memory, disk, GPUs, kernel, name.

use std::path::Path;

use fs_err as fs;

/// Where control groups are, for the limit that the machine may have put on us.
const CGROUPS: &str = "/sys/fs/cgroup";

/// What a kernel allows by default, where it does not tell.
const PROCESSES_MAX: u64 = 32_768;

/// What one machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub cpu_milli: u64,
    pub memory_bytes: u64,
    /// Of the disk that pods write to.
    pub storage_bytes: u64,
    /// Processes and threads that the kernel allows.
    pub processes_max: u64,
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
    /// Reads them; pods write into `folder`, or what is there of it.
    pub fn read(folder: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let release = text("/etc/os-release");
        let name = rustix::system::uname();
        let of = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            cpu_milli: std::thread::available_parallelism().map_or(1000, |count| count.get() as u64 * 1000),
            memory_bytes: memory_total(&text("/proc/meminfo")).unwrap_or(1 << 30).min(memory_limit(&text)),
            storage_bytes: storage_total(folder).unwrap_or(0),
            processes_max: ["/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"]
                .iter()
                .filter_map(|path| text(path).parse().ok())
                .min()
                .unwrap_or(PROCESSES_MAX),
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

/// The memory that our control group may use, and those around it; without a limit, any.
fn memory_limit(read: &dyn Fn(&str) -> String) -> u64 {
    let own = read("/proc/self/cgroup");
    let groups = own.lines().filter_map(|line| {
        let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { return None };
        match controllers {
            "" => Some((CGROUPS.to_owned(), path, "memory.max")),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Some((format!("{CGROUPS}/memory"), path, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let files = groups.flat_map(|(root, path, file)| {
        let around = Path::new(path).ancestors().map(|path| path.to_string_lossy().trim_matches('/').to_owned());
        around.map(move |path| format!("{root}/{path}/{file}")).collect::<Vec<_>>()
    });
    // No limit is told as `max`, or as a number beyond everything.
    files.filter_map(|file| read(&file).parse().ok()).min().unwrap_or(u64::MAX)
}

fn storage_total(folder: &Path) -> Option<u64> {
    let stat = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    stat.f_blocks.checked_mul(stat.f_frsize)
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
    use super::{memory_limit, memory_total, pretty_name};

    #[test]
    fn the_least_limit_around_us_counts() {
        let check = |what: &str, files: &[(&str, &str)], expected: u64| {
            let read = |path: &str| {
                files.iter().find(|(known, _)| *known == path).map_or(String::new(), |(_, text)| (*text).to_owned())
            };
            assert_eq!(memory_limit(&read), expected, "{what}");
        };
        check("no control groups", &[], u64::MAX);
        let unified = ("/proc/self/cgroup", "0::/a/b");
        check("none", &[unified, ("/sys/fs/cgroup/a/b/memory.max", "max")], u64::MAX);
        let around = ("/sys/fs/cgroup/a/memory.max", "1000");
        check("of the group around", &[unified, around, ("/sys/fs/cgroup/a/b/memory.max", "max")], 1000);
        check("its own is less", &[unified, around, ("/sys/fs/cgroup/a/b/memory.max", "10")], 10);
        let split = ("/proc/self/cgroup", "3:cpu:/x\n4:memory:/y\n0::/");
        let own = ("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "77");
        check("split", &[split, own], 77);
        let inside = ("/sys/fs/cgroup/memory//memory.limit_in_bytes", "88");
        check("seen from inside of a container", &[split, inside], 88);
    }

    #[test]
    fn files_of_the_system_are_understood() {
        assert_eq!(memory_total("MemTotal:       24682416 kB\nMemFree: 1 kB"), Some(24_682_416 * 1024));
        assert_eq!(memory_total("nonsense"), None);
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
    }
}
