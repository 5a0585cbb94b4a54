//! Whether a pod has written more than it may. Pure; the words and their order are a kubelet's.

use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use ronde_apiserver::quantity::Quantity as Amount;

use super::usage::Usage;
use crate::{lifecycle::Cause, worker::build::whole};

const STORAGE: &str = "ephemeral-storage";

/// Returns why a pod has to go, if it uses more than one of its limits allows.
pub fn exceeded(pod: &Pod, usage: &Usage) -> Option<Cause> {
    let spec = pod.spec.as_ref()?;
    let message = empty_dir(spec, usage).or_else(|| whole_pod(spec, usage)).or_else(|| container(spec, usage))?;
    Some(evicted(message))
}

/// The end of a pod that has to make room.
pub fn evicted(message: String) -> Cause {
    Cause { reason: "Evicted".to_owned(), message }
}

/// What a container asks for of the disk.
pub fn request(container: &Container) -> u64 {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.and_then(|requests| whole(requests.get(STORAGE)?)).unwrap_or(0)
}

fn limit(container: &Container) -> Option<&Quantity> {
    container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)
}

fn empty_dir(spec: &PodSpec, usage: &Usage) -> Option<String> {
    spec.volumes.iter().flatten().find_map(|volume| {
        let limit = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
        let bytes = whole(limit).filter(|bytes| *bytes > 0)?;
        let used = usage.volumes.get(&volume.name)?;
        (used.bytes > bytes)
            .then(|| format!("Usage of EmptyDir volume \"{}\" exceeds the limit \"{}\". ", volume.name, limit.0))
    })
}

fn whole_pod(spec: &PodSpec, usage: &Usage) -> Option<String> {
    let limits = spec.containers.iter().filter_map(|container| Amount::parse(&limit(container)?.0).ok());
    let total = limits.reduce(Amount::plus)?;
    (i128::from(usage.total().bytes) > total.value())
        .then(|| format!("Pod ephemeral local storage usage exceeds the total limit of containers {total}. "))
}

fn container(spec: &PodSpec, usage: &Usage) -> Option<String> {
    spec.containers.iter().find_map(|container| {
        let limit = limit(container)?;
        let bytes = whole(limit).filter(|bytes| *bytes > 0)?;
        let used = usage.containers.get(&container.name)?;
        (used.bytes > bytes).then(|| {
            format!("Container {} exceeded its local ephemeral storage limit \"{}\". ", container.name, limit.0)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::disk::usage::Used;

    /// Usage in MiB, such as `a=3 v:data=5`.
    fn usage(text: &str) -> Usage {
        let mut usage = Usage::default();
        for (name, mebibytes) in text.split_whitespace().filter_map(|one| one.split_once('=')) {
            let used = Used { bytes: mebibytes.parse::<u64>().unwrap() << 20, inodes: 1 };
            match name.strip_prefix("v:") {
                Some(volume) => usage.volumes.insert(volume.to_owned(), used),
                None => usage.containers.insert(name.to_owned(), used),
            };
        }
        usage
    }

    fn check(what: &str, used: &str, expected: &str) {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [
                {"name": "a", "resources": {"limits": {"ephemeral-storage": "10Mi"}}},
                {"name": "b", "resources": {"limits": {"ephemeral-storage": "20Mi"}}},
            ],
            "volumes": [{"name": "small", "emptyDir": {"sizeLimit": "5Mi"}}, {"name": "free", "emptyDir": {}}],
        }});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let said = exceeded(&pod, &usage(used)).map_or("stays".to_owned(), |cause| {
            assert_eq!(cause.reason, "Evicted");
            cause.message
        });
        assert_eq!(said, expected, "{what}");
    }

    #[test]
    fn who_uses_more_than_its_limits_goes_with_the_words_of_a_kubelet() {
        check("nothing", "", "stays");
        check("all at their limits", "a=10 b=15 v:small=5", "stays");
        check("a volume", "v:small=6", "Usage of EmptyDir volume \"small\" exceeds the limit \"5Mi\". ");
        check("a container", "a=11", "Container a exceeded its local ephemeral storage limit \"10Mi\". ");
        let total = "Pod ephemeral local storage usage exceeds the total limit of containers 30Mi. ";
        check("all together, through a volume without a limit", "a=5 b=5 v:free=21", total);
        check("a container that uses all of them", "a=31", total);
        check(
            "the volume is told first",
            "a=40 v:small=6",
            "Usage of EmptyDir volume \"small\" exceeds the limit \"5Mi\". ",
        );
        let free: Pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "a"}]}})).unwrap();
        assert_eq!(exceeded(&free, &usage("a=1000 v:x=1000")), None, "no limits");
    }
}
