//! `ronde apply`: sends manifests to the API by server-side apply, in the order they are given.
//!
//! One object that is refused does not keep the others back. Kinds that a manifest defines can be used further
//! down in the same run: it waits, for a bounded time, until the API serves them.

use std::time::Duration;

use http::{
    Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::Client;

use crate::{
    Context,
    args::ApplyArgs,
    client::{self, ClientError},
    failure::{Blame, Failure, Outcome},
    manifest::{self, Manifest},
    partial_failure::{self, Batch},
    printer::Printer,
    resources::{Catalogue, Resource, ResourceError},
};

/// Owns the fields that this program sets.
pub const FIELD_MANAGER: &str = "ronde";
const UNTYPED: &str = "failed to create typed patch object";
/// A definition is served within milliseconds; a real cluster takes a second or two.
const SERVED_ATTEMPTS: u32 = 100;
const SERVED_PAUSE: Duration = Duration::from_millis(100);

/// Why objects were not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("cannot apply {object} ({origin})")]
    Refused { object: String, origin: String, source: ClientError },
    #[error("cannot apply {object} ({origin})")]
    UnknownKind { object: String, origin: String, source: ResourceError },
}

impl Failure for ApplyError {
    fn blame(&self) -> Blame {
        match self {
            // The API calls a field it does not know in an applied object an internal error.
            Self::Refused { source: ClientError::Refused { message, .. }, .. } if message.starts_with(UNTYPED) => {
                Blame::User
            }
            Self::Refused { source, .. } => source.blame(),
            Self::UnknownKind { source, .. } => source.blame(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { source: ClientError::Refused { code: StatusCode::CONFLICT, .. }, .. } => {
                Some("take the fields over with `--force-conflicts`, or leave them out of the manifest".to_owned())
            }
            Self::Refused { source, .. } => source.hint(),
            Self::UnknownKind { source, .. } => source.hint(),
        }
    }
}

/// Runs the verb.
pub fn run(args: &ApplyArgs, context: &Context) -> Outcome {
    let manifests = manifest::read(&args.files)?;
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let catalogue = Catalogue::fetch(&client).await?;
        Run { client, catalogue, args, defines_kinds: false }.apply_all(&manifests, context.printer).await
    })
}

struct Run<'a> {
    client: Client,
    catalogue: Catalogue,
    args: &'a ApplyArgs,
    /// Whether a definition of a kind was applied, so that unknown kinds may still appear.
    defines_kinds: bool,
}

impl Run<'_> {
    async fn apply_all(&mut self, manifests: &[Manifest], printer: Printer) -> Outcome {
        let mut refused = Vec::new();
        for manifest in manifests {
            match self.apply(manifest).await {
                Ok(line) => drop(printer.data(line)),
                Err(error) if is_final(&error) => return Err(error.into()),
                Err(error) => refused.push(error.into()),
            }
        }
        let batch = Batch { total: manifests.len(), what: "objects", done: "applied" };
        partial_failure::outcome(refused, batch, printer)
    }

    /// Applies one object; returns the line to print.
    async fn apply(&mut self, manifest: &Manifest) -> Result<String, ApplyError> {
        let object = format!("{} `{}`", manifest.kind, manifest.name);
        let origin = manifest.origin.clone();
        let resource = match self.resource(manifest).await {
            Ok(resource) => resource,
            Err(source) => return Err(ApplyError::UnknownKind { object, origin, source }),
        };
        let namespace = manifest.namespace.as_deref().or(self.args.namespace.as_deref());
        let namespace = namespace.unwrap_or(self.client.default_namespace());
        let mut body = manifest.object.clone();
        if resource.namespaced {
            body["metadata"]["namespace"] = namespace.into();
        }
        let request = self.request(&resource.path(Some(namespace), Some(&manifest.name)));
        let code = match client::send(&self.client, request, body.to_string().into_bytes()).await {
            Ok(answer) => answer.code,
            Err(source) => return Err(ApplyError::Refused { object, origin, source }),
        };
        self.defines_kinds |= manifest.kind == "CustomResourceDefinition";
        let done = if code == StatusCode::CREATED { "created" } else { "applied" };
        let dry = if self.args.dry_run { " (dry run)" } else { "" };
        Ok(format!("{}/{} {done}{dry}", resource.singular_name(), manifest.name))
    }

    fn request(&self, path: &str) -> http::request::Builder {
        let mut path = format!("{path}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict");
        if self.args.force_conflicts {
            path.push_str("&force=true");
        }
        if self.args.dry_run {
            path.push_str("&dryRun=All");
        }
        // The answer is not read, so ask for the smallest form of it.
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        Request::patch(path).header(CONTENT_TYPE, "application/apply-patch+yaml").header(ACCEPT, accept)
    }

    async fn resource(&mut self, manifest: &Manifest) -> Result<Resource, ResourceError> {
        for _ in 0..SERVED_ATTEMPTS {
            match self.catalogue.find_kind(&manifest.api_version, &manifest.kind) {
                Ok(resource) => return Ok(resource.clone()),
                Err(error) if !self.defines_kinds => return Err(error),
                Err(_) => {}
            }
            if let Ok(newer) = Catalogue::fetch(&self.client).await {
                self.catalogue = newer;
            }
            tokio::time::sleep(SERVED_PAUSE).await;
        }
        self.catalogue.find_kind(&manifest.api_version, &manifest.kind).cloned()
    }
}

/// Without the API there is no point in trying the other objects.
fn is_final(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Refused { source, .. } if !matches!(source, ClientError::Refused { .. }))
}
