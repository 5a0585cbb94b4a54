//! `ronde delete`: deletes the objects of manifests, or of kinds by name, and waits until they are gone.
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
    manifest,
    mirror::Mirror,
    objects::is_missing,
    refusals,
    resources::{Catalogue, Resource, ResourceError},
    wait::{self, Progress},
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
    #[error("`{word}` has no kind, and others have")]
    Mixed { word: String },
}

impl Failure for DeleteError {
    fn blame(&self) -> Blame {
        match self {
            Self::Refused { source, .. } => source.blame(),
            Self::UnknownKind { source, .. } => source.blame(),
            Self::NoName { .. } | Self::Mixed { .. } => Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { source, .. } if is_missing(source) => {
                Some("`--ignore-not-found` takes it for done".to_owned())
            }
            Self::Refused { source, .. } => source.hint(),
            Self::UnknownKind { source, .. } => source.hint(),
            Self::NoName { kind } => Some(format!("name them: `ronde delete {kind} NAME`")),
            Self::Mixed { word } => Some(format!("write `KIND/{word}`, or one kind and then only names")),
        }
    }
}

/// Runs the verb.
pub fn run(args: &DeleteArgs, context: &Context) -> Outcome {
    let is_by_kind = args.words.first().is_some_and(|word| word.contains('/'));
    let wishes = match (args.files.is_empty(), is_by_kind) {
        (true, true) => Some(by_words(&args.words)?),
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
            None => by_words(&args.words)?,
        };
        delete_all(&Run { client, catalogue, args }, &wishes, context).await
    })
}

/// Tells whether the words are names of jobs: kinds come first, so that a new job does not change what a script means.
fn names_jobs(args: &DeleteArgs, catalogue: &Catalogue, context: &Context) -> bool {
    let first = args.words.first().map(String::as_str).unwrap_or_default();
    args.job_type.is_some() || context.caller.is_arena || catalogue.find_word(first).is_err()
}

fn by_words(given: &[String]) -> Result<Vec<Wish>, DeleteError> {
    Ok(words(given)?.into_iter().map(Wish::Word).collect())
}

/// What a user wants to be gone.
enum Wish {
    Manifest(manifest::Manifest),
    Word(Word),
}

/// An object by the words of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    kind: String,
    name: String,
}

/// Reads `KIND NAME…` or `KIND/NAME…`.
fn words(words: &[String]) -> Result<Vec<Word>, DeleteError> {
    let word = |kind: &str, name: &str| Word { kind: kind.to_owned(), name: name.to_owned() };
    match words {
        [first, ..] if first.contains('/') => words
            .iter()
            .map(|text| match text.split_once('/') {
                Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(word(kind, name)),
                Some(_) => Err(DeleteError::NoName { kind: text.trim_matches('/').to_owned() }),
                None => Err(DeleteError::Mixed { word: text.clone() }),
            })
            .collect(),
        [kind] => Err(DeleteError::NoName { kind: kind.clone() }),
        [kind, names @ ..] => Ok(names.iter().map(|name| word(kind, name)).collect()),
        [] => Ok(Vec::new()),
    }
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
}

async fn delete_all(run: &Run<'_>, wishes: &[Wish], context: &Context) -> Outcome {
    let (mut going, mut refused) = (Vec::new(), Vec::new());
    for wish in wishes {
        match run.begin(wish).await {
            Ok(begun) => going.extend(begun),
            Err(error) => refused.push(error),
        }
    }
    for going in &going {
        finish(&run.client, going, run.args.wait, context).await?;
    }
    refusals::outcome(refused, wishes.len(), "deleted", context.printer)
}

impl Run<'_> {
    async fn begin(&self, wish: &Wish) -> Result<Option<Going>, DeleteError> {
        let (object, found, named) = match wish {
            Wish::Manifest(manifest) => (
                format!("{} `{}` ({})", manifest.kind, manifest.name, manifest.origin),
                self.catalogue.find_kind(&manifest.api_version, &manifest.kind),
                (manifest.namespace.as_ref(), &manifest.name),
            ),
            Wish::Word(word) => {
                (format!("{} `{}`", word.kind, word.name), self.catalogue.find_word(&word.kind), (None, &word.name))
            }
        };
        let resource = match found {
            Ok(resource) => resource.clone(),
            // An object of a kind that is not there is not there either.
            Err(_) if self.args.ignore_not_found && matches!(wish, Wish::Manifest(_)) => return Ok(None),
            Err(source) => return Err(DeleteError::UnknownKind { object, source }),
        };
        let namespace =
            named.0.or(self.args.namespace.as_ref()).map_or(self.client.default_namespace(), String::as_str);
        let namespace = resource.namespaced.then(|| namespace.to_owned());
        let target = Target { resource, namespace, name: named.1.clone() };
        match begin(&self.client, target, self.args.cascade).await {
            Err(error) if self.args.ignore_not_found && is_missing(&error) => Ok(None),
            Err(source) => Err(DeleteError::Refused { object, source }),
            Ok(going) => Ok(Some(going)),
        }
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
        let mirror = Mirror::start(client, &path, &[("fieldSelector", &only)]).await?;
        wait::until(&mut [mirror], args, context, |mirrors| Ok(progress(&title, uid, &mirrors[0]))).await?;
    }
    context.printer.data(format_args!("{title} {}", if args.wait { "deleted" } else { "is being deleted" }));
    Ok(Answer::Done)
}

fn progress(title: &str, uid: &str, mirror: &Mirror) -> Progress {
    // Another one of the same name may be there already.
    let left = mirror.objects().values().find(|object| object["metadata"]["uid"] == uid);
    left.map_or(Progress::Done, |object| Progress::Waits(obstacle(title, object)))
}

/// Says what keeps an object.
fn obstacle(title: &str, object: &Value) -> String {
    let finalizers = object["metadata"]["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    let finalizers: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
    match finalizers.as_slice() {
        [] => format!("{title} ends"),
        ["foregroundDeletion"] => format!("{title} waits for the objects that belong to it"),
        names => format!("{title} waits for its finalizers: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let given: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let shown = words(&given)
            .map(|found| found.iter().map(|word| format!("{}/{}", word.kind, word.name)).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.to_string());
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn objects_are_named_by_kind_and_name() {
        check("pods web", Ok("pods/web"));
        check("pods web db", Ok("pods/web pods/db"));
        check("pod/web vcjob/mnist", Ok("pod/web vcjob/mnist"));
        check("pods", Err("no name after the kind `pods`"));
        check("pods/", Err("no name after the kind `pods`"));
        check("pod/web mnist", Err("`mnist` has no kind, and others have"));
    }

    #[test]
    fn what_keeps_an_object_is_said() {
        let with = |finalizers: Value| obstacle("pod/web", &json!({"metadata": {"finalizers": finalizers}}));
        assert_eq!(with(json!(null)), "pod/web ends");
        assert_eq!(with(json!(["foregroundDeletion"])), "pod/web waits for the objects that belong to it");
        assert_eq!(with(json!(["a.b/c", "d"])), "pod/web waits for its finalizers: a.b/c, d");
    }

    #[test]
    fn both_answers_say_which_object_it_was() {
        assert_eq!(uid_of(&json!({"kind": "Status", "details": {"uid": "u1"}, "metadata": {}})), "u1");
        assert_eq!(uid_of(&json!({"kind": "Pod", "metadata": {"uid": "u2"}})), "u2");
    }
}
