//! `ronde get`: shows objects of any kind, by the columns that the API gives them, once or as they change.
//!
//! A word that is no kind is the name of a job, which [`crate::show`] tells about; kinds come first, so that a new job
//! does not change what a script means.

mod several;

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
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{
        MissingError,
        any::{self, AnyJob},
    },
    list,
    printer::{Printer, Reader},
    resources::{Catalogue, Resource, ResourceError},
    show,
    table::{Layout, View},
    watch::strip,
    words::{self, Word},
};

pub const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const AS_OBJECTS: &str = "application/json";

/// Why nothing can be shown as it is asked for.
#[derive(Debug, thiserror::Error)]
#[error("only one object, or the objects of one kind, can be watched at a time")]
pub struct WatchError;

impl Failure for WatchError {
    fn blame(&self) -> Blame {
        Blame::User
    }
}

/// Runs the verb.
pub fn run(args: &GetArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        if args.job_type.is_some() || context.caller.is_arena && is_alone(args) {
            let job = any::fetch(&client, namespace(&client, args), &args.kind, args.job_type).await?;
            if watches_rows(args) {
                return list::watch_one(&client, &job, args, context.printer).await;
            }
            return show::training::run(&client, job, args, context).await;
        }
        let catalogue = Catalogue::fetch(&client).await?;
        if is_alone(args) && !args.kind.contains(',') && catalogue.find_word(&args.kind).is_err() {
            return show_job(client, &catalogue, args, context).await;
        }
        show_objects(client, &catalogue, args, context).await
    })
}

/// Shows objects of kinds, whoever asks: words are never jobs.
pub fn objects(args: &GetArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let catalogue = Catalogue::fetch(&client).await?;
        show_objects(client, &catalogue, args, context).await
    })
}

async fn show_objects(client: Client, catalogue: &Catalogue, args: &GetArgs, context: &Context) -> Outcome {
    let words = words::read([&args.kind].into_iter().chain(&args.names))?;
    let query = |word: &Word| {
        let resource = catalogue.find_word(&word.kind)?.clone();
        Ok(Query::new(args, word.name.as_deref(), &client, resource))
    };
    let mut queries = words.iter().map(query).collect::<Result<Vec<_>, ResourceError>>()?;
    match queries.pop() {
        Some(query) if queries.is_empty() => Show { client, query, args, printer: context.printer }.run().await,
        _ if args.watch => Err(WatchError.into()),
        last => {
            queries.extend(last);
            several::run(&client, &queries, args, context.printer).await
        }
    }
}

/// Shows the job that a word which is no kind may mean.
async fn show_job(client: Client, catalogue: &Catalogue, args: &GetArgs, context: &Context) -> Outcome {
    let job = find_job(&client, args).await?;
    let (api_version, kind) = match &job {
        AnyJob::Training(_) if !args.watch => return show::training::run(&client, job, args, context).await,
        AnyJob::Batch(_) if args.output == GetOutput::Table && !args.watch => {
            return show::run(&client, args, context).await;
        }
        // The row of the API does not say what a job waits for.
        _ if watches_rows(args) => return list::watch_one(&client, &job, args, context.printer).await,
        AnyJob::Training(_) => (TrainingJob::API_VERSION, TrainingJob::KIND),
        AnyJob::Batch(_) => (Job::API_VERSION, Job::KIND),
    };
    let resource = catalogue.find_kind(api_version, kind)?;
    let query = Query::new(args, Some(&args.kind), &client, resource.clone());
    Show { client, query, args, printer: context.printer }.run().await
}

fn watches_rows(args: &GetArgs) -> bool {
    args.watch && matches!(args.output, GetOutput::Table | GetOutput::Wide)
}

/// Tells whether the word may be the name of a job: a name alone is.
fn is_alone(args: &GetArgs) -> bool {
    !args.kind.contains('/') && args.names.is_empty() && !args.all_namespaces && args.selector.is_none()
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
pub struct Query {
    pub resource: Resource,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub selector: Option<String>,
}

impl Query {
    fn new(args: &GetArgs, name: Option<&str>, client: &Client, resource: Resource) -> Self {
        let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let namespace = (resource.namespaced && !args.all_namespaces).then_some(namespace);
        Self { resource, namespace, name: name.map(str::to_owned), selector: args.selector.clone() }
    }

    /// Returns the path of the objects.
    pub fn once(&self) -> String {
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

    /// Says that nothing was found, and where else to look.
    fn say_nothing(&self, printer: Printer) {
        let elsewhere = if self.namespace.is_some() { " (use -A for all namespaces)" } else { "" };
        printer.say(format_args!("{}{elsewhere}", self.nothing()));
    }

    /// Says what was looked for when nothing was found.
    pub fn nothing(&self) -> String {
        let what = self.resource.full_name();
        let labelled = self.selector.as_ref().map(|selector| format!(" with labels `{selector}`")).unwrap_or_default();
        match &self.namespace {
            Some(namespace) => format!("no {what}{labelled} in namespace `{namespace}`"),
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
        let mut layout = Layout::new(view(self.args, &self.query.resource));
        loop {
            let answer =
                client::send(&self.client, client::get(&self.query.once(), accept(self.args.output)), Vec::new())
                    .await?;
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

    fn show_all(&self, list: &Value, layout: &mut Layout) -> Reader {
        let items = list.get("rows").or_else(|| list.get("items")).and_then(Value::as_array);
        if items.is_some_and(Vec::is_empty) && !matches!(self.args.output, GetOutput::Json | GetOutput::Yaml) {
            self.query.say_nothing(self.printer);
        }
        self.show(list, layout)
    }

    fn show(&self, value: &Value, layout: &mut Layout) -> Reader {
        let lines = match self.args.output {
            GetOutput::Table | GetOutput::Wide => layout.render(value),
            GetOutput::Name => titles(&self.query.resource, value),
            GetOutput::Json => vec![format!("{value:#}")],
            GetOutput::Yaml => vec![yaml(value)],
        };
        if lines.is_empty() { Reader::There } else { self.printer.data(lines.join("\n")) }
    }

    /// Shows changes from a version on, until the server or the reader ends it.
    async fn watch(&self, version: String, layout: &mut Layout) -> Result<Ended, Box<dyn Failure>> {
        let mut last = version;
        let request = client::get(&self.query.watch(&last), accept(self.args.output));
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

fn view(args: &GetArgs, resource: &Resource) -> View {
    View { wide: args.output == GetOutput::Wide, namespace: args.all_namespaces && resource.namespaced }
}

fn accept(output: GetOutput) -> &'static str {
    match output {
        GetOutput::Table | GetOutput::Wide | GetOutput::Name => AS_TABLE,
        GetOutput::Json | GetOutput::Yaml => AS_OBJECTS,
    }
}

/// Returns the names of the objects of a table, as in `pod/web`.
fn titles(resource: &Resource, table: &Value) -> Vec<String> {
    names_of(table).into_iter().map(|name| format!("{}/{name}", resource.singular_name())).collect()
}

/// Returns the names of the objects of a table.
pub fn names_of(table: &Value) -> Vec<String> {
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    rows.iter().filter_map(|row| row["object"]["metadata"]["name"].as_str()).map(str::to_owned).collect()
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
