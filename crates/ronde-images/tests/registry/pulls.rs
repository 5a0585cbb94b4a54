//! What arrives is what was pushed, by whatever name it is asked.

use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use ronde_images::{
    Keyring, Platform,
    manifest::{DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST},
};

use crate::world::{LAYER_SIZE, Registry, digest_of, reference, run, world};

#[tokio::test]
async fn an_image_is_pulled_by_tag_and_found_whole_by_digest() {
    let Some(world) = world() else { return };
    let (registry, name) = world.filled_registry();
    let first = world.pull(&name).await.unwrap();
    assert_eq!(first.digest.to_string(), digest_of(&name));

    let image = world.find(&name).unwrap();
    assert_eq!((image.config.config.cmd.clone(), image.layers.len()), (vec!["/file-0".to_owned()], 3));
    assert_eq!(first.bytes, image.size());
    for (number, layer) in image.layers.iter().enumerate() {
        let file = layer.join(format!("file-{number}"));
        assert_eq!(file.metadata().unwrap().len(), LAYER_SIZE as u64, "{}", file.display());
    }

    let second = world.pull(&name).await.unwrap();
    assert_eq!((second.digest, second.bytes), (first.digest, 0));
    let by_digest = format!("{}/team/app@{}", registry.host(), first.digest);
    let third = world.pull(&by_digest).await.unwrap();
    assert_eq!((third.digest, third.bytes), (first.digest, 0));
    assert_eq!(world.find(&by_digest).unwrap().digest, first.digest);
}

#[tokio::test]
async fn images_share_layers_and_may_be_in_dockers_format() {
    let Some(world) = world() else { return };
    let registry = world.registry();
    let image = world.image("one", 2);
    let oci = registry.push(&image, "team/oci:1", &[]);
    let docker = registry.push(&image, "team/docker:1", &["--format", "v2s2"]);
    let first = world.pull(&oci).await.unwrap();
    let second = world.pull(&docker).await.unwrap();
    assert_eq!(second.digest.to_string(), digest_of(&docker));
    assert_ne!(second.digest, first.digest);
    assert!(second.bytes < 5000, "only the documents differ: {second:?}");
    let manifest = world.find(&docker).unwrap().manifest;
    assert_eq!(manifest.media_type.as_deref(), Some(DOCKER_MANIFEST));
}

#[tokio::test]
async fn layers_may_be_packed_by_zstd() {
    let Some(world) = world() else { return };
    let registry = world.registry();
    let options = ["--dest-compress", "--dest-compress-format", "zstd"];
    let name = registry.push(&world.image("one", 2), "team/app:1", &options);
    world.pull(&name).await.unwrap();
    let image = world.find(&name).unwrap();
    assert!(image.manifest.layers.iter().all(|layer| layer.media_type.ends_with("tar+zstd")), "{:?}", image.manifest);
    for (number, layer) in image.layers.iter().enumerate() {
        assert_eq!(fs_err::metadata(layer.join(format!("file-{number}"))).unwrap().len(), LAYER_SIZE as u64);
    }
}

#[tokio::test]
async fn two_pulls_at_once_fetch_everything_once() {
    let Some(world) = world() else { return };
    let (_registry, name) = world.filled_registry();
    let (one, other) = tokio::join!(world.pull(&name), world.pull(&name));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.digest, other.digest);
    assert_eq!(one.bytes + other.bytes, world.find(&name).unwrap().size());
}

#[tokio::test]
async fn of_several_platforms_that_of_this_machine_is_taken() {
    let Some(world) = world() else { return };
    let registry = world.registry();
    let own = registry.push(&world.image("own", 1), "team/app:own", &[]);
    world.image("other", 1);
    let other_image = format!("{}:other", world.path("layout").display());
    run("umoci", &["config", "--image", &other_image, "--architecture", "s390x"]);
    let other = registry.push(&format!("oci:{other_image}"), "team/app:other", &[]);

    let here = Platform::of_this_machine();
    let entries = [entry(&other, "s390x"), entry(&own, &here.architecture)];
    put_index(&registry, "team/app", "multi", &entries).await;
    let pulled = world.pull(&format!("{}/team/app:multi", registry.host())).await.unwrap();
    assert_eq!(pulled.digest.to_string(), digest_of(&own));

    // The digest of the index means the same image.
    let by_digest =
        format!("{0}/team/app@{1}", registry.host(), digest_of(&format!("{}/team/app:multi", registry.host())));
    assert_eq!(world.pull(&by_digest).await.unwrap(), ronde_images::Pulled { bytes: 0, ..pulled });
    assert_eq!(world.find(&by_digest).unwrap().digest, pulled.digest);

    put_index(&registry, "team/app", "foreign", &entries[..1]).await;
    let fault = world.pull(&format!("{}/team/app:foreign", registry.host())).await.unwrap_err();
    assert!(fault.to_string().ends_with("; it is for linux/s390x"), "{fault}");
    // Not by an index, and not for this machine either.
    let fault = world.pull(&other).await.unwrap_err();
    assert!(fault.to_string().ends_with("; it is for linux/s390x"), "{fault}");
    assert!(world.find(&other).is_none());
}

#[tokio::test]
async fn what_is_not_there_is_missing_and_who_is_not_there_is_out_of_reach() {
    let Some(world) = world() else { return };
    let (registry, name) = world.filled_registry();
    for unknown in [format!("{name}-x"), format!("{}/team/other:1", registry.host())] {
        let fault = world.pull(&unknown).await.unwrap_err();
        assert_eq!(fault.to_string(), format!("{unknown}: not found"));
        assert!(fault.is_missing() && !fault.is_unreachable());
    }
    let resolved = ronde_images::resolve(&world.registries(), &Keyring::default(), &reference(&name)).await.unwrap();
    assert_eq!(resolved.digest.to_string(), digest_of(&name));
    let host = registry.host();
    drop(registry);
    let fault = world.pull(&name).await.unwrap_err();
    assert_eq!(fault.to_string(), format!("{name}: cannot reach `{host}`: connection refused"));
    assert!(fault.is_unreachable() && !fault.is_missing());
    assert!(world.find(&name).is_none());
}

#[tokio::test]
async fn a_host_without_a_name_is_out_of_reach() {
    let Some(world) = world() else { return };
    let fault = world.pull("no-such-host.invalid/app:1").await.unwrap_err();
    assert!(fault.is_unreachable(), "{fault}");
}

fn entry(name: &str, architecture: &str) -> serde_json::Value {
    let arguments = ["inspect", "--tls-verify=false", "--raw", &format!("docker://{name}")];
    let size = run("skopeo", &arguments).len();
    serde_json::json!({
        "mediaType": OCI_MANIFEST, "digest": digest_of(name), "size": size,
        "platform": {"os": "linux", "architecture": architecture},
    })
}

async fn put_index(registry: &Registry, repository: &str, tag: &str, entries: &[serde_json::Value]) {
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries});
    let request = Request::put(format!("http://{}/v2/{repository}/manifests/{tag}", registry.host()))
        .header(CONTENT_TYPE, OCI_INDEX)
        .body(Full::new(Bytes::from(index.to_string())))
        .unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}
