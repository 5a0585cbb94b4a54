//! Subresources that are actions: binding, eviction, token, finalize, and those that a node answers.

use std::sync::Arc;

use bytes::Bytes;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Call, Shown, WriteOutcome, body::decode_as, delete::DeleteOptions, meta, update::Next};
use crate::{
    auth::{Account, Claims, ISSUER},
    clock_and_ids::rfc3339,
    error::{ApiError, FieldError, Subject},
    kinds::{
        self,
        eviction::{self, Eviction},
    },
    nodes::{NodeApi, PodRequest, What},
    store::{Key, Range},
};

/// What a client asks for when it asks for nothing.
const TOKEN_SECONDS_DEFAULT: i64 = 3600;
const TOKEN_SECONDS_MIN: i64 = 600;
/// Longer tokens are refused by the real server too.
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// A question, and whom to ask.
type Addressed = (Arc<dyn NodeApi>, PodRequest);

/// A drain evicts everything on a node at once, and each eviction makes the budget be counted anew.
const SPEND_TRIES_MAX: u32 = 100;

impl Call {
    /// Carries out the action that the path names.
    ///
    /// # Errors
    /// If the object does not exist, or the action is refused.
    pub async fn subresource(&mut self, content_type: &str, body: &Bytes) -> Result<WriteOutcome, ApiError> {
        let decode = |kind: &str| decode_as(content_type, body, kind).map(|body| body.value);
        match self.target.subresource.as_str() {
            "binding" => self.bind(&decode("Binding")?).await,
            "eviction" => self.evict(&decode("Eviction")?).await,
            "token" => self.token(decode("TokenRequest")?),
            "finalize" => self.finalize(&decode("Namespace")?).await,
            _ => Err(ApiError::no_such_resource()),
        }
    }

    async fn bind(&self, binding: &Value) -> Result<WriteOutcome, ApiError> {
        self.check_same_name(binding, "Binding")?;
        let now = self.api.clock_and_ids().now_text();
        let wanted = meta::text(binding, "uid");
        self.change(|old| {
            let mut value = old.clone();
            if !wanted.is_empty() && wanted != meta::text(old, "uid") {
                return Err(self.another_object(wanted, meta::text(old, "uid")));
            }
            kinds::pod::bind(&mut value, binding, &now)?;
            Ok(Next::own(value))
        })
        .await?;
        Ok(success())
    }

    async fn evict(&mut self, request: &Value) -> Result<WriteOutcome, ApiError> {
        self.check_same_name(request, "Eviction")?;
        let pod = self.resource.show(&*self.find()?);
        let mut options = DeleteOptions::parse(&request["deleteOptions"])?;
        options.dry_run |= self.options.dry_run;
        let only_this_version = self.spend_for(&pod, options.dry_run).await?;
        if only_this_version {
            options.resource_version = Some(meta::text(&pod, "resourceVersion").to_owned());
        }
        self.target.subresource.clear();
        if !only_this_version && !meta::is_deleting(&pod) && !options.dry_run {
            let now = self.api.clock_and_ids().now_text();
            self.change(|old| {
                let mut value = old.clone();
                eviction::mark_evicted(&mut value, &now);
                Ok(Next::own(value))
            })
            .await?;
        }
        self.delete(&options).await?;
        Ok(success())
    }

    /// Takes an eviction off the pod's budget; asks again when others spend or count at the same time.
    async fn spend_for(&self, pod: &Value, dry_run: bool) -> Result<bool, ApiError> {
        for tries in 1.. {
            let now = self.api.clock_and_ids().now();
            let Eviction { budget, only_this_version } = eviction::evict(pod, &self.budgets(), now)?;
            let Some(budget) = budget else { return Ok(only_this_version) };
            match self.spend(budget, dry_run).await {
                Ok(()) => return Ok(only_this_version),
                Err(error) if error.code == 409 && tries < SPEND_TRIES_MAX => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop ends with an answer")
    }

    fn check_same_name(&self, body: &Value, kind: &str) -> Result<(), ApiError> {
        let name = meta::text(body, "name");
        if name.is_empty() || name == self.target.name {
            return Ok(());
        }
        Err(ApiError::bad_request(format!("name in URL does not match name in {kind} object")))
    }

    /// The disruption budgets in the namespace of the pod.
    fn budgets(&self) -> Vec<Value> {
        let range = Range { namespace: Some(self.target.namespace.as_str().into()), ..Range::default() };
        let page = self.api.store().list("poddisruptionbudgets.policy", &range);
        page.map(|page| page.objects.iter().map(|object| object.value()).collect()).unwrap_or_default()
    }

    /// Writes back a budget that has one disruption less to give.
    async fn spend(&self, budget: Value, dry_run: bool) -> Result<(), ApiError> {
        let place = (meta::text(&budget, "namespace"), meta::text(&budget, "name"));
        let mut call = Self::internal(&self.api, "policy/v1", "PodDisruptionBudget", place, "status")?;
        call.options.dry_run = dry_run;
        call.change(|_| Ok(Next::own(budget.clone()))).await?;
        Ok(())
    }

    fn token(&self, mut request: Value) -> Result<WriteOutcome, ApiError> {
        let stored = self.find()?.value();
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(TOKEN_SECONDS_DEFAULT);
        check_token_seconds(seconds)?;
        let given = request["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut audiences: Vec<String> = given.map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let uid = meta::text(&stored, "uid").to_owned();
        let account = Account { namespace: self.target.namespace.clone(), name: self.target.name.clone(), uid };
        let issued = self.api.clock_and_ids().now();
        let expires = issued.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(issued);
        let id = self.api.clock_and_ids().uid();
        let claims = Claims { account: &account, audiences: &audiences, issued, expires, id };
        let token = self.api.keys().sign(&claims).map_err(ApiError::internal)?;
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["kind"] = "TokenRequest".into();
        request["metadata"] = json!({
            "name": account.name, "namespace": account.namespace, "creationTimestamp": rfc3339(issued),
        });
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = seconds.into();
        if request["spec"].get("boundObjectRef").is_none() {
            request["spec"]["boundObjectRef"] = Value::Null;
        }
        request["status"] = json!({"token": token, "expirationTimestamp": rfc3339(expires)});
        Ok(WriteOutcome::Created(Shown::Value(request)))
    }

    /// Takes the finalizers of a namespace from the request, and nothing else.
    async fn finalize(&self, wanted: &Value) -> Result<WriteOutcome, ApiError> {
        let version = meta::text(wanted, "resourceVersion");
        let done = self
            .change(|old| {
                let mut value = old.clone();
                value["spec"]["finalizers"] = wanted["spec"]["finalizers"].clone();
                if value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    value["spec"] = json!({});
                }
                self.refuse(&value, &kinds::cluster::validate_finalize(&value, old))?;
                meta::set(&mut value, "resourceVersion", version);
                Ok(Next::own(value))
            })
            .await?;
        Ok(done.outcome)
    }

    /// Returns what to ask the node of a pod, and whom; none if there is nothing to answer yet.
    ///
    /// # Errors
    /// If the pod, its node or the container does not exist.
    pub fn for_node(&self, mut what: What) -> Result<Option<Addressed>, ApiError> {
        let is_log = matches!(what, What::Log { .. });
        let pod = self.resource.show(&*self.find()?);
        what.choose_container(&pod)?;
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() && is_log {
            return Ok(None);
        }
        if node.is_empty() {
            return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", self.target.name)));
        }
        let Some(node_api) = self.api.nodes() else {
            let why = format!("no node named `{node}` is connected to this server");
            return Err(ApiError::new(503, "ServiceUnavailable", why));
        };
        if self.api.store().get(&Key::new(&"nodes".into(), "", node)).is_none() {
            return Err(ApiError::not_found(Subject { group: "", what: "nodes", name: node }));
        }
        Ok(Some((node_api, PodRequest { pod, what, user: self.user.name.clone() })))
    }
}

fn check_token_seconds(seconds: i64) -> Result<(), ApiError> {
    let wrong = |why: &str| FieldError::invalid("spec.expirationSeconds", seconds.into(), why);
    let errors: Vec<FieldError> = [
        (seconds < TOKEN_SECONDS_MIN).then(|| wrong("may not specify a duration less than 10 minutes")),
        (seconds > TOKEN_SECONDS_MAX).then(|| wrong("may not specify a duration larger than 2^32 seconds")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(Subject { group: "authentication.k8s.io", what: "TokenRequest", name: "" }, &errors))
}

fn success() -> WriteOutcome {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    WriteOutcome::Created(Shown::Value(status))
}
