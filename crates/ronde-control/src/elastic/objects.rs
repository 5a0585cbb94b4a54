//! Makes, corrects and deletes what a training job needs beside its pods. What is somebody else's is never touched.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{ConfigMap, Secret, Service, ServiceAccount, ServicePort, ServiceSpec},
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use rand::{TryRng as _, rngs::SysRng};
use ronde_api::{
    AttachMode, TrainingJob,
    names::{MANAGED_BY, MANAGER, elastic as names},
};
use ronde_runtime::{pods::controller_ref, runner::Ctx};

use super::{
    files::Files,
    plan::Objects,
    pod::{AGENT_PORT, AGENT_SECRET, labels, ssh_secret},
};
use crate::{
    reconcile::objects::{api, delete_only, ensure, is_owned, names_of, note, taken},
    ssh_keys::KeySource,
};

const SSH_CONFIG: &str = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n";
const SSH_PORT: i32 = 22;
const SECRET_BYTES: usize = 32;

/// Makes everything as it should be: what pods mount first, then the rights to enter workers, the host list that names
/// them to the launcher, and the names of workers.
///
/// # Errors
/// If a write fails, or a name is taken by an object that is not the job's.
pub async fn apply(ctx: &Ctx, keys: &KeySource, job: &TrainingJob, wanted: &Objects) -> Result<(), kube::Error> {
    ensure_secret(ctx, keys, job).await?;
    ensure_rights(ctx, job, &wanted.services).await?;
    let config = config(job, &wanted.files);
    let correct = |found: &ConfigMap| {
        (found.data != config.data).then(|| ConfigMap { data: config.data.clone(), ..found.clone() })
    };
    ensure(ctx, job, &config, correct).await?;
    ensure_services(ctx, job, &wanted.services).await
}

async fn ensure_rights(ctx: &Ctx, job: &TrainingJob, workers: &BTreeSet<String>) -> Result<(), kube::Error> {
    ensure(ctx, job, &account(job), |_: &ServiceAccount| None).await?;
    let role = role(job, workers);
    // That of et-operator has a resource that no cluster has, and nobody may give away a right to it.
    let correct = |found: &Role| {
        (!is_marked(found) && found.rules != role.rules).then(|| Role { rules: role.rules.clone(), ..found.clone() })
    };
    ensure(ctx, job, &role, correct).await?;
    ensure(ctx, job, &binding(job), |_: &RoleBinding| None).await?;
    Ok(())
}

async fn ensure_services(ctx: &Ctx, job: &TrainingJob, wanted: &BTreeSet<String>) -> Result<(), kube::Error> {
    let services = api::<Service, _>(ctx, job);
    let selector = format!("{}={}", names::JOB, job.name_any());
    let mut there = BTreeSet::new();
    for service in services.list(&ListParams::default().labels(&selector)).await? {
        if !is_owned(job, &service) {
            continue;
        }
        if wanted.contains(&service.name_any()) {
            note(ctx, &service);
            there.insert(service.name_any());
        } else {
            delete_only(&services, &service).await?;
        }
    }
    for name in wanted.difference(&there) {
        ensure(ctx, job, &service(job, name), |_: &Service| None).await?;
    }
    Ok(())
}

/// The secrets of a Secret that is there are kept: pods that run have them.
async fn ensure_secret(ctx: &Ctx, keys: &KeySource, job: &TrainingJob) -> Result<(), kube::Error> {
    let secrets = api::<Secret, _>(ctx, job);
    let name = job.name_any();
    let found = secrets.get_opt(&name).await?;
    if found.as_ref().is_some_and(|found| !is_owned(job, found)) {
        return Err(taken::<Secret>(&name));
    }
    let mut data = found.as_ref().and_then(|found| found.data.clone()).unwrap_or_default();
    let before = data.len();
    let mut put = |key: &str, text: String| {
        data.entry(key.to_owned()).or_insert_with(|| ByteString(text.into_bytes()));
    };
    put(AGENT_SECRET, random_text()?);
    if job.spec.attach_mode() == AttachMode::Ssh && ssh_secret(job) == name {
        let has_key = found.as_ref().and_then(|found| found.data.as_ref()).is_some_and(|it| it.contains_key("id_rsa"));
        if !has_key {
            let pair = keys.make().await?;
            put("id_rsa", pair.private);
            put("id_rsa.pub", pair.public);
        }
        put("config", SSH_CONFIG.to_owned());
    }
    match found {
        Some(found) if data.len() == before && is_marked(&found) => note(ctx, &found),
        Some(found) => {
            let mut secret = Secret { data: Some(data), ..found };
            secret.labels_mut().extend(mark());
            note(ctx, &secrets.replace(&name, &PostParams::default(), &secret).await?)
        }
        None => {
            let secret = Secret { metadata: meta(job, name), data: Some(data), ..Secret::default() };
            note(ctx, &secrets.create(&PostParams::default(), &secret).await?)
        }
    };
    Ok(())
}

/// The label by which what is made for jobs is watched.
fn mark() -> [(String, String); 1] {
    [(MANAGED_BY.to_owned(), MANAGER.to_owned())]
}

fn is_marked(object: &impl ResourceExt) -> bool {
    object.labels().get(MANAGED_BY).is_some_and(|by| by == MANAGER)
}

/// Returns the objects that a job has, as far as they carry our mark, as `Kind/name`.
pub fn all_of(ctx: &Ctx, job: &TrainingJob) -> BTreeSet<String> {
    let uid = job.uid().unwrap_or_default();
    let named = |kind: &str, names: BTreeSet<String>| {
        names.into_iter().map(|name| format!("{kind}/{name}")).collect::<Vec<_>>()
    };
    let mut all = named("Secret", names_of::<Secret>(ctx, &uid));
    all.extend(named("ConfigMap", names_of::<ConfigMap>(ctx, &uid)));
    all.extend(named("ServiceAccount", names_of::<ServiceAccount>(ctx, &uid)));
    all.extend(named("Role", names_of::<Role>(ctx, &uid)));
    all.extend(named("RoleBinding", names_of::<RoleBinding>(ctx, &uid)));
    all.extend(named("Service", names_of::<Service>(ctx, &uid)));
    all.into_iter().collect()
}

/// Returns the objects that a job needs, as `Kind/name`.
pub fn needed(job: &str, services: &BTreeSet<String>) -> BTreeSet<String> {
    let launcher = names::launcher(job);
    let fixed = [
        format!("Secret/{job}"),
        format!("ConfigMap/{}", names::config(job)),
        format!("ServiceAccount/{launcher}"),
        format!("Role/{launcher}"),
        format!("RoleBinding/{launcher}"),
    ];
    fixed.into_iter().chain(services.iter().map(|worker| format!("Service/{worker}"))).collect()
}

fn random_text() -> Result<String, kube::Error> {
    let mut bytes = [0_u8; SECRET_BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| kube::Error::Service(error.into()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn meta(job: &TrainingJob, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: job.namespace(),
        labels: Some([(names::APP.to_owned(), job.name_any())].into_iter().chain(mark()).collect()),
        owner_references: Some(vec![controller_ref(job)]),
        ..ObjectMeta::default()
    }
}

fn config(job: &TrainingJob, files: &Files) -> ConfigMap {
    let name = names::config(&job.name_any());
    ConfigMap { metadata: meta(job, name), data: Some(files.data()), ..ConfigMap::default() }
}

/// A worker is found by its name, also before it is ready: ranks are started in it then.
fn service(job: &TrainingJob, worker: &str) -> Service {
    let index = names::worker_index(&job.name_any(), worker).unwrap_or_default();
    let mut selector: BTreeMap<String, String> = labels(job, names::WORKER);
    selector.insert(names::INDEX.to_owned(), index.to_string());
    let port = |(name, port): (&str, i32)| ServicePort { name: Some(name.to_owned()), port, ..ServicePort::default() };
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        selector: Some(selector.clone()),
        publish_not_ready_addresses: Some(true),
        ports: Some([("ssh-port", SSH_PORT), ("kubeai-service-port", AGENT_PORT)].map(port).into()),
        ..ServiceSpec::default()
    };
    let labels = selector.into_iter().chain(mark()).collect();
    let metadata = ObjectMeta { labels: Some(labels), ..meta(job, worker.to_owned()) };
    Service { metadata, spec: Some(spec), status: None }
}

fn account(job: &TrainingJob) -> ServiceAccount {
    ServiceAccount { metadata: meta(job, names::launcher(&job.name_any())), ..ServiceAccount::default() }
}

fn role(job: &TrainingJob, workers: &BTreeSet<String>) -> Role {
    let rules = launcher_rules(&job.name_any(), workers);
    Role { metadata: meta(job, names::launcher(&job.name_any())), rules: Some(rules) }
}

/// Returns what the launcher of a job may do in its namespace: enter the job's own workers and nothing else.
pub fn launcher_rules(job: &str, workers: &BTreeSet<String>) -> Vec<PolicyRule> {
    let rule = |resource: &str, verbs: &[&str], objects: Vec<String>| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: Some(objects).filter(|objects| !objects.is_empty()),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    // A rule that names no object would be about all of them.
    let enter = (!workers.is_empty()).then(|| rule("pods/exec", &["create"], workers.iter().cloned().collect()));
    let look = rule("pods", &["get", "list", "watch"], Vec::new());
    let hosts = rule("configmaps", &["get"], vec![names::config(job)]);
    [look, hosts].into_iter().chain(enter).collect()
}

fn binding(job: &TrainingJob) -> RoleBinding {
    let name = names::launcher(&job.name_any());
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.clone(),
        namespace: job.namespace(),
        ..Subject::default()
    };
    let role =
        RoleRef { api_group: "rbac.authorization.k8s.io".to_owned(), kind: "Role".to_owned(), name: name.clone() };
    RoleBinding { metadata: meta(job, name), role_ref: role, subjects: Some(vec![subject]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_enters_its_own_workers_only() {
        let entered = |workers: &[&str]| {
            let workers = workers.iter().map(|&worker| worker.to_owned()).collect();
            let rules = launcher_rules("j", &workers).into_iter();
            let entering = rules.filter(|rule| rule.resources.iter().flatten().any(|it| it == "pods/exec"));
            entering.map(|rule| rule.resource_names.unwrap_or_default().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(entered(&["j-worker-0", "j-worker-2"]), ["j-worker-0 j-worker-2"]);
        assert!(entered(&[]).is_empty(), "no names would mean all pods");
    }
}
