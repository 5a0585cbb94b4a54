//! What `ronde doctor` looks at: asks the API for it, and judges nothing.
//!
//! What the user may not see is kept as the refusal: that check is then left out, and the others go on.

use std::time::Duration;

use http::{StatusCode, header::DATE};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        authentication::v1::SelfSubjectReview,
        coordination::v1::Lease,
        core::v1::Pod,
        flowcontrol::v1::FlowSchema,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    client::Body,
};
use ronde_api::names::elastic;
use ronde_control::{
    install,
    operator::{LEASE, MACHINE},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::rights::{self, Right, Who};
use crate::{
    client::{self, ClientError, encode},
    environment,
};

const NODE_LEASES: &str = "kube-node-lease";
/// An operator answers within milliseconds, unless a network policy keeps the API server from it.
const PAGE_WAIT: Duration = Duration::from_secs(5);
/// The pods of training jobs that are looked at.
const PODS_MAX: u32 = 5000;

/// What was seen, or why it could not be.
pub type Looked<T> = Result<T, String>;

/// Everything that is judged.
#[derive(Debug, Clone)]
pub struct Seen {
    pub user: String,
    pub namespace: String,
    /// What the user may not do in that namespace, of what users of jobs do.
    pub denied: Looked<Vec<Right>>,
    pub deployments: Looked<Vec<Deployment>>,
    /// What the accounts of our operators may not do, each by namespace and name.
    pub operators_denied: Looked<Vec<(String, String, Vec<Right>)>>,
    /// Resources of our kinds that are not served in the version that this program knows.
    pub unserved: Looked<Vec<String>>,
    pub definitions: Looked<Vec<DynamicObject>>,
    pub lease: Looked<Option<Lease>>,
    /// The metrics of each operator that answers, by its name.
    pub metrics: Looked<Vec<(String, String)>>,
    /// Pods of training jobs.
    pub pods: Looked<Vec<Pod>>,
    pub node_leases: Looked<Vec<Lease>>,
    /// None if the server knows no priority and fairness.
    pub flow_schemas: Looked<Option<Vec<FlowSchema>>>,
    pub webhooks: Looked<Vec<Webhook>>,
    /// The clock of the API server, and of this machine at the same moment.
    pub server_time: Timestamp,
    pub own_time: Timestamp,
}

/// Something that is asked before objects are written.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The kind of its configuration as kubectl takes it, and the name.
    pub kind: &'static str,
    pub configuration: String,
    pub name: String,
    pub rules: Vec<RuleWithOperations>,
    /// Writes fail if nobody answers for it.
    pub must_answer: bool,
}

impl Seen {
    /// Looks at everything.
    ///
    /// # Errors
    /// If the API cannot be reached, or does not know the user.
    pub async fn collect(client: &Client, namespace: &str) -> Result<Self, ClientError> {
        // 1. who asks, and when
        let (server_time, own_time) = times(client).await?;
        let user = user(client).await?;
        // 2. the operators
        let deployments = looked(list_all::<Deployment>(client).await)?;
        let lease = looked(find_lease(client).await)?;
        let operators: Vec<Operator> = deployments.iter().flatten().filter_map(Operator::of).collect();
        let metrics = looked(metrics(client, &operators, lease.as_ref().ok().and_then(Option::as_ref)).await)?;
        // 3. everything else
        Ok(Self {
            denied: looked(rights::lacking(client, Who::Self_, rights::of_users(namespace)).await)?,
            operators_denied: looked(operators_denied(client, &operators).await)?,
            unserved: looked(install::missing(client).await.map_err(client::explain))?,
            definitions: looked(definitions(client).await)?,
            pods: looked(pods(client, namespace).await)?,
            node_leases: looked(list(Api::namespaced(client.clone(), NODE_LEASES)).await)?,
            flow_schemas: looked(flow_schemas(client).await)?,
            webhooks: looked(webhooks(client).await)?,
            user,
            namespace: namespace.to_owned(),
            deployments,
            lease,
            metrics,
            server_time,
            own_time,
        })
    }
}

/// A deployment of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    pub namespace: String,
    pub name: String,
    pub account: String,
    /// Whether jobs without `ronde` in their image get it, as far as the command line tells.
    pub has_agent_image: bool,
    /// Where it listens.
    port: Option<String>,
    selector: String,
}

impl Operator {
    /// Recognises `ronde operator` by the label of its chart, or by its command.
    pub fn of(deployment: &Deployment) -> Option<Self> {
        let spec = deployment.spec.as_ref()?;
        let pod = spec.template.spec.as_ref()?;
        let words = pod.containers.iter().map(|one| one.command.iter().chain(&one.args).flatten().collect::<Vec<_>>());
        let is_of_chart = deployment.labels().get("helm.sh/chart").is_some_and(|chart| chart.starts_with("ronde-"));
        let is_program = |word: &String| word == "ronde" || word.ends_with("/ronde");
        let mut ours = words.filter(|words| {
            let at = words.iter().position(|word| *word == "operator");
            at.is_some_and(|at| is_of_chart || at == 1 && is_program(words[0]))
        });
        let words = ours.next()?;
        let value = |flag: &str| words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        let has = |flag: &str| words.iter().any(|word| word.split('=').next() == Some(flag));
        let labels = spec.selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        Some(Self {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            account: pod.service_account_name.clone().unwrap_or_else(|| "default".to_owned()),
            // A file may say it, and is not seen here.
            has_agent_image: has("--agent-image") || has("--config"),
            port: value("--listen").and_then(|address| Some(address.rsplit_once(':')?.1.to_owned())),
            selector: labels.collect::<Vec<_>>().join(","),
        })
    }

    /// Returns `deployment/ronde`, for kubectl.
    pub fn title(&self) -> String {
        format!("--namespace {} deployment/{}", self.namespace, self.name)
    }
}

/// Keeps a refusal as a value; what makes further questions useless stays an error.
fn looked<T>(answer: Result<T, ClientError>) -> Result<Looked<T>, ClientError> {
    match answer {
        Ok(seen) => Ok(Ok(seen)),
        Err(ClientError::Refused { code, message, .. }) if code != StatusCode::UNAUTHORIZED => Ok(Err(message)),
        Err(error) => Err(error),
    }
}

/// Asks for something whose answer has the time of the server.
async fn times(client: &Client) -> Result<(Timestamp, Timestamp), ClientError> {
    let request = client::get("/version", "application/json").body(Body::empty()).expect("the path is valid");
    let answer = client.send(request).await.map_err(client::explain)?;
    let own_time = environment::now();
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    let parse = |date| DateTimeParser::new().parse_timestamp(date).ok();
    Ok((date.and_then(parse).unwrap_or(own_time), own_time))
}

async fn user(client: &Client) -> Result<String, ClientError> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = review.map_err(client::explain)?.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

async fn list<K: Clone + DeserializeOwned + std::fmt::Debug>(api: Api<K>) -> Result<Vec<K>, ClientError> {
    Ok(api.list(&ListParams::default()).await.map_err(client::explain)?.items)
}

async fn list_all<K>(client: &Client) -> Result<Vec<K>, ClientError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    list(Api::<K>::all(client.clone())).await
}

/// Turns a kind that the server does not have into nothing.
fn if_served<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Err(ClientError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(None),
        other => other.map(Some),
    }
}

async fn find_lease(client: &Client) -> Result<Option<Lease>, ClientError> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASE.0);
    leases.get_opt(LEASE.1).await.map_err(client::explain)
}

async fn operators_denied(
    client: &Client,
    operators: &[Operator],
) -> Result<Vec<(String, String, Vec<Right>)>, ClientError> {
    let mut all = Vec::new();
    for Operator { namespace, account, .. } in operators {
        let who = Who::Account { namespace, name: account };
        let lacking = rights::lacking(client, who, rights::of_operator()).await?;
        all.push((namespace.clone(), account.clone(), lacking));
    }
    Ok(all)
}

/// Returns those of our definitions that are there.
async fn definitions(client: &Client) -> Result<Vec<DynamicObject>, ClientError> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut found = Vec::new();
    for (name, _) in ronde_api::crd::COMMITTED {
        found.extend(api.get_opt(name).await.map_err(client::explain)?);
    }
    Ok(found)
}

/// Returns the pods of training jobs: all of them, or those of the namespace if the user sees no others.
async fn pods(client: &Client, namespace: &str) -> Result<Vec<Pod>, ClientError> {
    let labels = format!("{}={}", elastic::GROUP, elastic::GROUP_VALUE);
    let some = ListParams::default().labels(&labels).limit(PODS_MAX);
    let found = match Api::<Pod>::all(client.clone()).list(&some).await.map_err(client::explain) {
        Err(ClientError::Refused { code: StatusCode::FORBIDDEN, .. }) => {
            Api::<Pod>::namespaced(client.clone(), namespace).list(&some).await.map_err(client::explain)
        }
        other => other,
    };
    Ok(found?.items)
}

async fn flow_schemas(client: &Client) -> Result<Option<Vec<FlowSchema>>, ClientError> {
    if_served(list_all(client).await)
}

async fn webhooks(client: &Client) -> Result<Vec<Webhook>, ClientError> {
    let mutating = if_served(list_all::<MutatingWebhookConfiguration>(client).await)?.unwrap_or_default();
    let validating = if_served(list_all::<ValidatingWebhookConfiguration>(client).await)?.unwrap_or_default();
    let webhook = |kind, configuration: &str, name, rules: Option<_>, policy: Option<String>| Webhook {
        kind,
        configuration: configuration.to_owned(),
        name,
        rules: rules.unwrap_or_default(),
        must_answer: policy.is_none_or(|policy| policy != "Ignore"),
    };
    let mut all = Vec::new();
    for configuration in mutating {
        let name = configuration.name_any();
        let webhooks = configuration.webhooks.into_iter().flatten();
        all.extend(
            webhooks.map(|it| webhook("mutatingwebhookconfiguration", &name, it.name, it.rules, it.failure_policy)),
        );
    }
    for configuration in validating {
        let name = configuration.name_any();
        let webhooks = configuration.webhooks.into_iter().flatten();
        all.extend(
            webhooks.map(|it| webhook("validatingwebhookconfiguration", &name, it.name, it.rules, it.failure_policy)),
        );
    }
    Ok(all)
}

/// Reads the metrics of every operator, through the API server; on one machine, those of the machine.
async fn metrics(
    client: &Client,
    operators: &[Operator],
    lease: Option<&Lease>,
) -> Result<Vec<(String, String)>, ClientError> {
    let mut pages = Vec::new();
    if lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref()) == Some(MACHINE) {
        pages.push((MACHINE.to_owned(), client::get_text(client, "/metrics").await?));
    }
    for Operator { namespace, selector, port, .. } in operators {
        let Some(port) = port else { continue };
        let some = ListParams::default().labels(selector);
        let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&some).await.map_err(client::explain)?;
        for pod in pods.items.iter().filter(|pod| is_running(pod)) {
            let (name, namespace) = (pod.name_any(), encode(namespace));
            let path = format!("/api/v1/namespaces/{namespace}/pods/{}:{port}/proxy/metrics", encode(&name));
            match timeout(PAGE_WAIT, client::get_text(client, &path)).await {
                Ok(Ok(page)) => pages.push((name, page)),
                // It cannot be reached from there, which is no fault of its own.
                Ok(Err(ClientError::Refused { code, .. })) if code.is_server_error() => {}
                Err(_) => {}
                Ok(Err(error)) => return Err(error),
            }
        }
    }
    Ok(pages)
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}
