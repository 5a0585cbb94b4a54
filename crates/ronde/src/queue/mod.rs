//! `ronde queue`: shows, creates, opens, closes, defragments and deletes queues.

mod defragment;
mod show;
mod state;

use k8s_openapi::{Resource as _, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Client;
use ronde_api::{Guarantee, Queue, QueueSpec};

use crate::{
    Context,
    args::{Amounts, CascadeArg, QueueArgs, QueueCreateArgs, QueueDeleteArgs, QueueVerb},
    client,
    delete::{self, Target},
    failure::{Answer, Failure, Outcome},
    jobs::MissingError,
    objects,
    resources::Catalogue,
};

/// Runs the verb.
pub fn run(args: &QueueArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        match &args.verb {
            QueueVerb::List(args) => show::list(args, context).await,
            QueueVerb::Get(args) => show::get(args, context).await,
            QueueVerb::Create(args) => create(args, context).await,
            QueueVerb::Open(args) => state::open(args, context).await,
            QueueVerb::Close(args) => state::close(args, context).await,
            QueueVerb::Defragment(args) => defragment::defragment(args, context).await,
            QueueVerb::Delete(args) => delete(args, context).await,
        }
    })
}

/// Returns a queue, which has to be there.
async fn fetch(client: &Client, name: &str) -> Result<Queue, Box<dyn Failure>> {
    let missing = || MissingError::Queue { name: name.to_owned() };
    Ok(objects::find::<Queue>(client, None, name).await?.ok_or_else(missing)?)
}

async fn create(args: &QueueCreateArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    objects::create(&client, None, &build(args)).await?;
    context.printer.data(format_args!("{} created", objects::title::<Queue>(&args.name)));
    Ok(Answer::Done)
}

fn build(args: &QueueCreateArgs) -> Queue {
    let amounts = |amounts: &Option<Amounts>| amounts.clone().map(|Amounts(amounts)| amounts);
    let guarantee = amounts(&args.guarantee).map(|resource| Guarantee { resource: Some(resource) });
    let strategy = args.dequeue_strategy.map(|strategy| strategy.to_string());
    let spec = QueueSpec {
        weight: args.weight,
        capability: amounts(&args.capability),
        deserved: amounts(&args.deserved),
        guarantee,
        reclaimable: args.reclaimable,
        parent: args.parent.clone().unwrap_or_default(),
        priority: args.priority,
        max_running_jobs: args.max_running_jobs,
        min_runtime: args.min_runtime,
        reclaim_delay: args.reclaim_delay,
        dequeue_strategy: strategy.unwrap_or_default(),
        ..QueueSpec::default()
    };
    let metadata = ObjectMeta { name: Some(args.name.clone()), ..ObjectMeta::default() };
    Queue { metadata, spec, status: None }
}

async fn delete(args: &QueueDeleteArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let resource = Catalogue::fetch(&client).await?.find_kind(Queue::API_VERSION, Queue::KIND)?.clone();
    let target = Target { resource, namespace: None, name: args.name.clone() };
    match delete::begin(&client, target, CascadeArg::Background).await {
        Ok(going) => delete::finish(&client, &going, args.wait, context).await,
        Err(error) if objects::is_missing(&error) && args.ignore_not_found => Ok(Answer::Done),
        Err(error) if objects::is_missing(&error) => Err(MissingError::Queue { name: args.name.clone() }.into()),
        Err(error) => Err(error.into()),
    }
}
