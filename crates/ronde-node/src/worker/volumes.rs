//! Puts the pod's volumes in place on this machine; says where each is.
//!
//! What their files contain is decided in [`crate::volumes`]; this is the part with folders, claims and requests.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Volume};
use ronde_runtime::watch::{Caches, Key};

use super::build::whole;
use crate::{
    lifecycle::Cause,
    supervisor::{MemoryVolume, folder::PodFolder},
};

/// The volumes in memory that the supervisor mounts before anything runs.
pub fn in_memory(pod: &Pod, folder: &PodFolder) -> Vec<MemoryVolume> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let group = pod.spec.as_ref().and_then(fs_group);
    volumes
        .filter_map(|volume| {
            let empty = volume.empty_dir.as_ref().filter(|empty| empty.medium.as_deref() == Some("Memory"))?;
            let path = folder.volumes().join(&volume.name);
            Some(MemoryVolume { path, bytes_max: empty.size_limit.as_ref().and_then(whole), group })
        })
        .collect()
}

/// Says why a volume is not there, as an event `FailedMount` will.
pub fn failed(volume: &str, why: impl std::fmt::Display) -> Cause {
    Cause {
        reason: "FailedMount".to_owned(),
        message: format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}"),
    }
}

/// What volumes come from that are more than a folder of their pod.
#[derive(Clone, Copy)]
pub struct Supplies<'a> {
    pub caches: &'a Caches,
    /// What all pods share, by the name of its CSI driver.
    pub shared: &'a BTreeMap<String, PathBuf>,
}

/// Where the volumes are that need no content of ours.
pub fn place(pod: &Pod, folder: &PodFolder, supplies: Supplies<'_>) -> Result<BTreeMap<String, String>, Cause> {
    let Some(spec) = &pod.spec else { return Ok(BTreeMap::new()) };
    let mut places = BTreeMap::new();
    for volume in spec.volumes.iter().flatten() {
        let path = place_one(pod, spec, folder, supplies, volume)?;
        places.insert(volume.name.clone(), path.to_string_lossy().into_owned());
    }
    Ok(places)
}

fn place_one(
    pod: &Pod,
    spec: &PodSpec,
    folder: &PodFolder,
    supplies: Supplies<'_>,
    volume: &Volume,
) -> Result<PathBuf, Cause> {
    let name = &volume.name;
    let ours = folder.volumes().join(name);
    if volume.empty_dir.is_some() {
        make_empty(&ours, spec).map_err(|error| failed(name, error))?;
        return Ok(ours);
    }
    if has_content(volume) {
        return Ok(ours);
    }
    if let Some(host) = &volume.host_path {
        return host_path(host).map_err(|why| failed(name, why));
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let path = claimed(supplies.caches, namespace, &claim.claim_name).map_err(|why| failed(name, why))?;
        own_by_group(&path, spec);
        return Ok(path);
    }
    if let Some(csi) = &volume.csi {
        let found = supplies.shared.get(&csi.driver).cloned();
        return found.ok_or_else(|| failed(name, format!("driver name {} not found", csi.driver)));
    }
    Err(failed(name, "this kind of volume is not supported on one machine"))
}

/// Whether no pod may change a volume, because all of them share it.
pub fn is_shared(pod: &Pod, volume: &str) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.any(|it| it.name == volume && it.csi.is_some())
}

/// Whether the files of a volume come from the API.
pub fn has_content(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
}

fn make_empty(path: &Path, spec: &PodSpec) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    own_by_group(path, spec);
    Ok(())
}

/// The group that owns the pod's volumes.
pub fn fs_group(spec: &PodSpec) -> Option<u32> {
    spec.security_context.as_ref()?.fs_group.and_then(|group| u32::try_from(group).ok())
}

/// The pod's group owns what it shares; where that is not ours to say, everybody may write anyway.
fn own_by_group(path: &Path, spec: &PodSpec) {
    if let Some(gid) = fs_group(spec) {
        let _ = rustix::fs::chown(path, None, Some(rustix::fs::Gid::from_raw(gid)));
        let _ = fs::metadata(path).and_then(|meta| {
            let mode = meta.permissions().mode() | 0o2070;
            fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        });
    }
}

fn host_path(host: &HostPathVolumeSource) -> Result<PathBuf, String> {
    let path = PathBuf::from(&host.path);
    let wanted = host.type_.as_deref().unwrap_or_default();
    let made = match wanted {
        "DirectoryOrCreate" if !path.exists() => fs::create_dir_all(&path),
        "FileOrCreate" if !path.exists() => fs::write(&path, ""),
        _ => Ok(()),
    };
    made.map_err(|error| error.to_string())?;
    let kind = fs::metadata(&path).map_err(|error| error.to_string())?.file_type();
    let fits = match wanted {
        "Directory" | "DirectoryOrCreate" => kind.is_dir(),
        "File" | "FileOrCreate" => kind.is_file(),
        "Socket" => kind.is_socket(),
        "CharDevice" => kind.is_char_device(),
        "BlockDevice" => kind.is_block_device(),
        _ => true,
    };
    if fits { Ok(path) } else { Err(format!("hostPath type check failed: {} is not a {wanted}", host.path)) }
}

fn claimed(caches: &Caches, namespace: &str, name: &str) -> Result<PathBuf, String> {
    let claim = caches
        .get::<PersistentVolumeClaim>(&Key::new(namespace, name))
        .ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
    let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|_| bound);
    let volume = volume.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" is not bound"))?;
    let volume = caches
        .get::<PersistentVolume>(&Key::new("", volume))
        .ok_or_else(|| format!("persistentvolume \"{volume}\" not found"))?;
    let spec = volume.spec.as_ref();
    let path = spec.and_then(|spec| spec.host_path.as_ref().map(|host| host.path.clone()));
    let path = path.or_else(|| spec.and_then(|spec| spec.local.as_ref().map(|local| local.path.clone())));
    let path = path.map(PathBuf::from).ok_or("this kind of persistent volume is not supported on one machine")?;
    fs::create_dir_all(&path).map_err(|error| error.to_string())?;
    Ok(path)
}
