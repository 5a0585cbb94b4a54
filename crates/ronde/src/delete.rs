//! `ronde delete`: deletes the objects of manifests, or of kinds by name or all of them, and waits until they are gone.
//!
//! All are asked for before the first is waited for: they may need each other to go. One that is refused does not keep
//! the others back. Words that are no kinds are jobs, see [`job`].

pub mod job;

use http::{Request, header::CONTENT_TYPE};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    Context,
    args::{CascadeArg, DeleteArgs},
    client::{self, ClientError},
    failure::{Answer, Blame, Failure, Outcome},
    get::{AS_TABLE, Query, names_of},
    manifest,
    objects::is_missing,
    partial_failure::{self, Batch},
    resources::{Catalogue, Resource, ResourceError},
    wait::{self, Progress},
    watch::Watch,
    words::{self, Word},
};

/// Why objects were not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("cannot delete {object}")]
    Refused { object: String, source: ClientError },
    #[error("cannot delete {object}")]
    UnknownKind { object: String, source: ResourceError },
    #[error("no name after the kind `{kind}`")]
    NoName { kind: String },
    #[error("`{flag}` deletes by kind and takes no names, but `{name}` is one")]
    NameTooMany { flag: &'static str, name: String },
}

impl Failure for DeleteError {
    fn blame(&self) -> Blame {
        match self {
            Self::Refused { source, .. } => source.blame(),
            Self::UnknownKind { source, .. } => source.blame(),
            Self::NoName { .. } | Self::NameTooMany { .. } => Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { source, .. } if is_missing(source) => {
                Some("`--ignore-not-found` ignores objects that do not exist".to_owned())
            }
            Self::Refused { source, .. } => source.hint(),
            Self::UnknownKind { source, .. } => source.hint(),
            Self::NoName { kind } => Some(format!("run `ronde delete {kind} NAME`, or `ronde delete {kind} --all`")),
            Self::NameTooMany { flag, .. } => Some(format!("leave out the names, or `{flag}`")),
        }
    }
}

/// Runs the verb.
pub fn run(args: &DeleteArgs, context: &Context) -> Outcome {
    let has_kinds = args.all || args.selector.is_some() || args.words.iter().any(|word| word.contains('/'));
    let wishes = match (args.files.is_empty(), has_kinds) {
        (true, true) => Some(by_words(args)?),
        (true, false) => None,
        (false, _) => Some(manifest::read(&args.files)?.into_iter().map(Wish::Manifest).collect::<Vec<_>>()),
    };
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let catalogue = Catalogue::fetch(&client).await?;
        let wishes = match wishes {
            Some(wishes) => wishes,
            None if names_jobs(args, &catalogue, context) => {
                let jobs = job::Jobs { client: &client, catalogue: &catalogue, args, context };
                return jobs.delete_all(&args.words).await;
            }
            None => by_words(args)?,
        };
        delete_all(&Run { client, catalogue, args, context }, &wishes).await
    })
}

/// Tells whether the words are names of jobs: kinds come first, so that a new job does not change what a script means.
fn names_jobs(args: &DeleteArgs, catalogue: &Catalogue, context: &Context) -> bool {
    let first = args.words.first().map(String::as_str).unwrap_or_default();
    let is_kind = first.split(',').any(|word| catalogue.find_word(word).is_ok());
    args.job_type.is_some() || context.caller.is_arena || !is_kind
}

/// Reads the words: names of objects, or with `--all` or a selector kinds alone.
fn by_words(args: &DeleteArgs) -> Result<Vec<Wish>, Box<dyn Failure>> {
    let flag = if args.all { "--all" } else { "-l" };
    let has_flag = args.all || args.selector.is_some();
    let wish = |Word { kind, name }| match name {
        Some(name) if has_flag => Err(DeleteError::NameTooMany { flag, name }),
        Some(name) => Ok(Wish::Named { kind, name }),
        None if has_flag => Ok(Wish::Every { kind }),
        None => Err(DeleteError::NoName { kind }),
    };
    Ok(words::read(&args.words)?.into_iter().map(wish).collect::<Result<_, _>>()?)
}

/// What a user wants to be gone.
enum Wish {
    Manifest(manifest::Manifest),
    Named {
        kind: String,
        name: String,
    },
    /// All objects of a kind, as far as the selector goes.
    Every {
        kind: String,
    },
}

/// An object that the API knows how to delete.
#[derive(Debug, Clone)]
pub struct Target {
    pub resource: Resource,
    pub namespace: Option<String>,
    pub name: String,
}

/// An object that is on its way out.
pub struct Going {
    target: Target,
    uid: String,
}

struct Run<'a> {
    client: Client,
    catalogue: Catalogue,
    args: &'a DeleteArgs,
    context: &'a Context,
}

async fn delete_all(run: &Run<'_>, wishes: &[Wish]) -> Outcome {
    let (mut targets, mut refused) = (Vec::new(), Vec::<Box<dyn Failure>>::new());
    for wish in wishes {
        match run.targets(wish).await {
            Ok(found) => targets.extend(found),
            Err(error) => refused.push(error.into()),
        }
    }
    let total = targets.len() + refused.len();
    let mut going = Vec::new();
    for (object, target) in targets {
        match begin(&run.client, target, run.args.cascade).await {
            Ok(begun) => going.push(begun),
            Err(error) if run.args.ignores_missing() && is_missing(&error) => {}
            Err(source) => refused.push(DeleteError::Refused { object, source }.into()),
        }
    }
    for going in &going {
        if let Err(failure) = finish(&run.client, going, run.args.wait, run.context).await {
            refused.push(failure);
        }
    }
    partial_failure::outcome(refused, Batch { total, what: "objects", done: "deleted" }, run.context.printer)
}

impl Run<'_> {
    /// Finds what is meant, each with its words for messages.
    async fn targets(&self, wish: &Wish) -> Result<Vec<(String, Target)>, DeleteError> {
        let (object, found) = match wish {
            Wish::Manifest(manifest) => (
                format!("{} `{}` ({})", manifest.kind, manifest.name, manifest.origin),
                self.catalogue.find_kind(&manifest.api_version, &manifest.kind),
            ),
            Wish::Named { kind, name } => (format!("{kind} `{name}`"), self.catalogue.find_word(kind)),
            Wish::Every { kind } => (kind.clone(), self.catalogue.find_word(kind)),
        };
        let resource = match found {
            Ok(resource) => resource.clone(),
            // An object of a kind that is not there is not there either.
            Err(_) if self.args.ignore_not_found && matches!(wish, Wish::Manifest(_)) => return Ok(Vec::new()),
            Err(source) => return Err(DeleteError::UnknownKind { object, source }),
        };
        let (own, name) = match wish {
            Wish::Manifest(manifest) => (manifest.namespace.as_ref(), &manifest.name),
            Wish::Named { name, .. } => (None, name),
            Wish::Every { .. } => return self.every(resource).await,
        };
        let target = Target { namespace: self.namespace(&resource, own), resource, name: name.clone() };
        Ok(vec![(object, target)])
    }

    fn namespace(&self, resource: &Resource, own: Option<&String>) -> Option<String> {
        let namespace = own.or(self.args.namespace.as_ref()).map_or(self.client.default_namespace(), String::as_str);
        resource.namespaced.then(|| namespace.to_owned())
    }

    /// Lists the objects of a kind in the namespace.
    async fn every(&self, resource: Resource) -> Result<Vec<(String, Target)>, DeleteError> {
        let query = Query {
            namespace: self.namespace(&resource, None),
            resource,
            name: None,
            selector: self.args.selector.clone(),
        };
        let answer = client::send(&self.client, client::get(&query.once(), AS_TABLE), Vec::new()).await;
        let list = answer.and_then(|answer| answer.json());
        let list = list.map_err(|source| DeleteError::Refused { object: query.resource.full_name(), source })?;
        let names = names_of(&list);
        if names.is_empty() {
            self.context.printer.say(query.nothing());
        }
        let Query { resource, namespace, .. } = query;
        let target = |name: String| {
            let object = format!("{} `{name}`", resource.singular_name());
            (object, Target { resource: resource.clone(), namespace: namespace.clone(), name })
        };
        Ok(names.into_iter().map(target).collect())
    }
}

/// Asks for the end of an object.
pub async fn begin(client: &Client, target: Target, cascade: CascadeArg) -> Result<Going, ClientError> {
    let policy = match cascade {
        CascadeArg::Background => "Background",
        CascadeArg::Foreground => "Foreground",
        CascadeArg::Orphan => "Orphan",
    };
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    let path = target.resource.path(target.namespace.as_deref(), Some(&target.name));
    let request = Request::delete(path).header(CONTENT_TYPE, "application/json");
    let answer = client::send(client, request, options.to_string().into_bytes()).await?.json()?;
    Ok(Going { target, uid: uid_of(&answer) })
}

/// Returns which object it was, from a `Status` or from the object that is still there.
fn uid_of(answer: &Value) -> String {
    let uids = [&answer["details"]["uid"], &answer["metadata"]["uid"]];
    uids.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

/// Waits until an object is gone, if that is wanted, and says so.
pub async fn finish(
    client: &Client,
    Going { target, uid }: &Going,
    args: crate::args::WaitArgs,
    context: &Context,
) -> Result<Answer, Box<dyn Failure>> {
    let title = format!("{}/{}", target.resource.singular_name(), target.name);
    if args.wait {
        let path = target.resource.path(target.namespace.as_deref(), None);
        let only = format!("metadata.name={}", target.name);
        let watch = Watch::start(client, &path, &[("fieldSelector", &only)]).await?;
        wait::until(&mut [watch], args, context, |watches| Ok(progress(&title, uid, &watches[0]))).await?;
    }
    context.printer.data(format_args!("{title} {}", if args.wait { "deleted" } else { "is being deleted" }));
    Ok(Answer::Done)
}

fn progress(title: &str, uid: &str, watch: &Watch) -> Progress {
    // Another one of the same name may be there already.
    let left = watch.objects().values().find(|object| object["metadata"]["uid"] == uid);
    left.map_or(Progress::Done, |object| Progress::Waits(obstacle(title, object)))
}

/// Says what keeps an object.
fn obstacle(title: &str, object: &Value) -> String {
    let finalizers = object["metadata"]["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    let finalizers: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
    match finalizers.as_slice() {
        [] => format!("{title} is terminating"),
        ["foregroundDeletion"] => format!("{title} waits for the objects that it owns"),
        names => format!("{title} waits for its finalizers: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<&str, &str>) {
        use clap::Parser as _;
        let words = ["ronde", "delete"].into_iter().chain(line.split_whitespace());
        let crate::args::Verb::Delete(args) = crate::args::Args::parse_from(words).verb else { panic!("{line}") };
        let show = |wish: &Wish| match wish {
            Wish::Manifest(manifest) => manifest.origin.clone(),
            Wish::Named { kind, name } => format!("{kind}/{name}"),
            Wish::Every { kind } => format!("every {kind}"),
        };
        let shown = by_words(&args).map(|found| found.iter().map(show).collect::<Vec<_>>().join(" "));
        let shown = shown.map_err(|failure| failure.to_string());
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{line}");
    }

    #[test]
    fn objects_are_named_or_all_are_meant() {
        check("pods web db", Ok("pods/web pods/db"));
        check("pod/web vcjob/mnist", Ok("pod/web vcjob/mnist"));
        check("pods", Err("no name after the kind `pods`"));
        check("pods --all", Ok("every pods"));
        check("pods,svc -l app=web", Ok("every pods every svc"));
        check("pods web --all", Err("`--all` deletes by kind and takes no names, but `web` is one"));
        check("pod/web -l app=web", Err("`-l` deletes by kind and takes no names, but `web` is one"));
    }

    #[test]
    fn what_keeps_an_object_is_said() {
        let with = |finalizers: Value| obstacle("pod/web", &json!({"metadata": {"finalizers": finalizers}}));
        assert_eq!(with(json!(null)), "pod/web is terminating");
        assert_eq!(with(json!(["foregroundDeletion"])), "pod/web waits for the objects that it owns");
        assert_eq!(with(json!(["a.b/c", "d"])), "pod/web waits for its finalizers: a.b/c, d");
    }

    #[test]
    fn both_answers_say_which_object_it_was() {
        assert_eq!(uid_of(&json!({"kind": "Status", "details": {"uid": "u1"}, "metadata": {}})), "u1");
        assert_eq!(uid_of(&json!({"kind": "Pod", "metadata": {"uid": "u2"}})), "u2");
    }
}
