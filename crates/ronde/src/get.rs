//! `ronde get`: shows objects of any kind, by the columns that the API gives them, once or as they change.
//!
//! A word that is no kind is the name of a job, which [`crate::show`] tells about; kinds come first, so that a new job
//! does not change what a script means.

use std::io;

use futures::StreamExt as _;
use http::StatusCode;
use k8s_openapi::Resource as _;
use kube::Client;
use ronde_api::{Job, TrainingJob};
use serde_json::Value;

use crate::{
    Context,
    args::{GetArgs, GetOutput},
    client::{self, ClientError, encode},
    failure::{Answer, Failure, Outcome},
    jobs::{
        MissingError,
        any::{self, AnyJob},
    },
    list,
    mirror::strip,
    printer::{Printer, Reader},
    resources::{Catalogue, Resource},
    show,
    table::{Layout, View},
};

pub const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const AS_OBJECTS: &str = "application/json";

/// Runs the verb.
pub fn run(args: &GetArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let (kind, name) = match args.kind.split_once('/') {
            Some((kind, name)) => (kind, Some(name)),
            None => (args.kind.as_str(), args.name.as_deref()),
        };
        if args.job_type.is_some() || context.caller.is_arena && is_alone(args) {
            let job = any::fetch(&client, namespace(&client, args), &args.kind, args.job_type).await?;
            if watches_rows(args) {
                return list::watch_one(&client, &job, args, context.printer).await;
            }
            return show::training::run(&client, job, args, context).await;
        }
        let catalogue = Catalogue::fetch(&client).await?;
        let (resource, name) = match catalogue.find_word(kind) {
            Ok(resource) => (resource, name),
            Err(_) if is_alone(args) => match find_job(&client, args).await? {
                AnyJob::Training(job) if !args.watch => {
                    return show::training::run(&client, AnyJob::Training(job), args, context).await;
                }
                AnyJob::Batch(_) if args.output == GetOutput::Table && !args.watch => {
                    return show::run(&client, args, context).await;
                }
                // The row of the API does not say what a job waits for.
                job if watches_rows(args) => return list::watch_one(&client, &job, args, context.printer).await,
                AnyJob::Training(_) => (catalogue.find_kind(TrainingJob::API_VERSION, TrainingJob::KIND)?, Some(kind)),
                AnyJob::Batch(_) => (catalogue.find_kind(Job::API_VERSION, Job::KIND)?, Some(kind)),
            },
            Err(error) => return Err(error.into()),
        };
        let query = Query::new(args, name, &client, resource.clone());
        Show { client, query, args, printer: context.printer }.run().await
    })
}

fn watches_rows(args: &GetArgs) -> bool {
    args.watch && matches!(args.output, GetOutput::Table | GetOutput::Wide)
}

/// Tells whether the word may be the name of a job: a name alone is.
fn is_alone(args: &GetArgs) -> bool {
    !args.kind.contains('/') && args.name.is_none() && !args.all_namespaces && args.selector.is_none()
}

/// Looks for the job that a word which is no kind may mean.
async fn find_job(client: &Client, args: &GetArgs) -> Result<AnyJob, Box<dyn Failure>> {
    let namespace = namespace(client, args);
    let missing = || MissingError::KindOrJob { namespace: namespace.to_owned(), name: args.kind.clone() };
    Ok(any::find(client, namespace, &args.kind, None).await?.ok_or_else(missing)?)
}

fn namespace<'a>(client: &'a Client, args: &'a GetArgs) -> &'a str {
    args.namespace.as_deref().unwrap_or(client.default_namespace())
}

/// What is asked for.
struct Query {
    resource: Resource,
    namespace: Option<String>,
    name: Option<String>,
    selector: Option<String>,
}

impl Query {
    fn new(args: &GetArgs, name: Option<&str>, client: &Client, resource: Resource) -> Self {
        let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let namespace = (resource.namespaced && !args.all_namespaces).then_some(namespace);
        Self { resource, namespace, name: name.map(str::to_owned), selector: args.selector.clone() }
    }

    fn once(&self) -> String {
        let path = self.resource.path(self.namespace.as_deref(), self.name.as_deref());
        match &self.selector {
            Some(selector) => format!("{path}?labelSelector={}", encode(selector)),
            None => path,
        }
    }

    fn watch(&self, resource_version: &str) -> String {
        let path = self.resource.path(self.namespace.as_deref(), None);
        let mut path = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={resource_version}");
        if let Some(name) = &self.name {
            path.push_str(&format!("&fieldSelector={}", encode(&format!("metadata.name={name}"))));
        }
        if let Some(selector) = &self.selector {
            path.push_str(&format!("&labelSelector={}", encode(selector)));
        }
        path
    }

    /// Says what was looked for when nothing was found.
    fn nothing(&self) -> String {
        let what = self.resource.full_name();
        let labelled = self.selector.as_ref().map(|selector| format!(" with labels `{selector}`")).unwrap_or_default();
        match &self.namespace {
            Some(namespace) => format!("no {what}{labelled} in namespace `{namespace}` (use -A for all namespaces)"),
            None => format!("no {what}{labelled}"),
        }
    }
}

struct Show<'a> {
    client: Client,
    query: Query,
    args: &'a GetArgs,
    printer: Printer,
}

/// Why a watch ended.
enum Ended {
    /// The reader of our output is gone.
    Unread,
    /// The server closed it; it goes on from this version.
    At(String),
    /// The version is no longer kept: the list has to be read again.
    Expired,
}

impl Show<'_> {
    async fn run(&self) -> Outcome {
        let view = View {
            wide: self.args.output == GetOutput::Wide,
            namespace: self.args.all_namespaces && self.query.resource.namespaced,
        };
        let mut layout = Layout::new(view);
        loop {
            let answer = client::send(&self.client, client::get(&self.query.once(), self.accept()), Vec::new()).await?;
            let list = without_managed_fields(answer.json()?);
            if self.show_all(&list, &mut layout) == Reader::Gone || !self.args.watch {
                return Ok(Answer::Done);
            }
            let mut version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            loop {
                match self.watch(version, &mut layout).await? {
                    Ended::Unread => return Ok(Answer::Done),
                    Ended::At(last) => version = last,
                    Ended::Expired => break,
                }
            }
        }
    }

    fn accept(&self) -> &'static str {
        match self.args.output {
            GetOutput::Table | GetOutput::Wide | GetOutput::Name => AS_TABLE,
            GetOutput::Json | GetOutput::Yaml => AS_OBJECTS,
        }
    }

    fn show_all(&self, list: &Value, layout: &mut Layout) -> Reader {
        let items = list.get("rows").or_else(|| list.get("items")).and_then(Value::as_array);
        if items.is_some_and(Vec::is_empty) && !matches!(self.args.output, GetOutput::Json | GetOutput::Yaml) {
            self.printer.say(self.query.nothing());
        }
        self.show(list, layout)
    }

    fn show(&self, value: &Value, layout: &mut Layout) -> Reader {
        let lines = match self.args.output {
            GetOutput::Table | GetOutput::Wide => layout.render(value),
            GetOutput::Name => self.names(value),
            GetOutput::Json => vec![format!("{value:#}")],
            GetOutput::Yaml => vec![yaml(value)],
        };
        if lines.is_empty() { Reader::There } else { self.printer.data(lines.join("\n")) }
    }

    fn names(&self, table: &Value) -> Vec<String> {
        let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let names = rows.iter().filter_map(|row| row["object"]["metadata"]["name"].as_str());
        names.map(|name| format!("{}/{name}", self.query.resource.singular_name())).collect()
    }

    /// Shows changes from a version on, until the server or the reader ends it.
    async fn watch(&self, version: String, layout: &mut Layout) -> Result<Ended, Box<dyn Failure>> {
        let mut last = version;
        let request = client::get(&self.query.watch(&last), self.accept());
        let mut events = match client::stream(&self.client, request).await {
            Err(ClientError::Refused { code: StatusCode::GONE, .. }) => return Ok(Ended::Expired),
            other => other?,
        };
        while let Some(event) = events.next().await {
            let mut event = event?;
            let object = &without_managed_fields(event["object"].take());
            match event["type"].as_str() {
                Some("ERROR") if object["code"] == 410 => return Ok(Ended::Expired),
                Some("ERROR") => return Err(watch_error(object).into()),
                Some("BOOKMARK") => {}
                _ if self.show(object, layout) == Reader::Gone => return Ok(Ended::Unread),
                _ => {}
            }
            if let Some(version) = version_of(object) {
                last = version;
            }
        }
        Ok(Ended::At(last))
    }
}

/// Returns the version of an object, or of the object in the one row of a table.
fn version_of(object: &Value) -> Option<String> {
    let row = &object["rows"][0]["object"]["metadata"]["resourceVersion"];
    let own = &object["metadata"]["resourceVersion"];
    [row, own].into_iter().filter_map(Value::as_str).find(|version| !version.is_empty()).map(str::to_owned)
}

/// Drops the bookkeeping of server-side apply from an object or a list.
fn without_managed_fields(mut value: Value) -> Value {
    strip(&mut value);
    if let Some(Value::Array(items)) = value.get_mut("items") {
        items.iter_mut().for_each(strip);
    }
    value
}

fn watch_error(status: &Value) -> ClientError {
    let message = status["message"].as_str().unwrap_or("the Kubernetes API ended the watch");
    ClientError::Unreachable { source: io::Error::other(message.to_owned()).into() }
}

/// Writes a document of YAML.
pub fn yaml(value: &Value) -> String {
    let text = serde_saphyr::to_string(value).expect("a JSON value can be written as YAML");
    format!("---\n{}", text.trim_end())
}
