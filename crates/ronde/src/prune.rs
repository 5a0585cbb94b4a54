//! `ronde prune`: deletes the jobs that ended some time ago. What runs, waits or is being scaled is never touched.

use jiff::{SignedDuration, Timestamp};

use crate::{
    Context,
    args::PruneArgs,
    client,
    delete::job,
    environment,
    failure::Outcome,
    jobs::any::{self, AnyJob},
    partial_failure::{self, Batch},
    resources::Catalogue,
    table::Span,
};

/// Runs the verb.
pub fn run(args: &PruneArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let catalogue = Catalogue::fetch(&client).await?;
        let own = args.namespace.as_deref().unwrap_or(client.default_namespace());
        let jobs = any::list(&client, (!args.all_namespaces).then_some(own)).await?;
        let (now, since) = (environment::now(), SignedDuration::from_nanos(args.since.nanoseconds()));
        let old: Vec<&AnyJob> = jobs.iter().filter(|job| is_old(job, since, now)).collect();
        if old.is_empty() {
            context.printer.data("No job need to be deleted");
        }
        let mut refused = Vec::new();
        for job in &old {
            if let Err(failure) = job::prune(&client, &catalogue, job).await {
                refused.push(failure);
                continue;
            }
            let age = Span::between(job.created(), now);
            context.printer.data(format_args!("Delete {} {} with Age {age}", job.job_type(), job.name()));
        }
        partial_failure::outcome(refused, Batch { total: old.len(), what: "jobs", done: "deleted" }, context.printer)
    })
}

fn is_old(job: &AnyJob, since: SignedDuration, now: Timestamp) -> bool {
    job.state().is_final() && job.ended().is_some_and(|ended| now.duration_since(ended) >= since)
}

#[cfg(test)]
mod tests {
    use ronde_api::TrainingJob;
    use serde_json::{Value, json};

    use super::*;

    fn check(name: &str, status: Value, expected: bool) {
        let job = json!({"metadata": {"name": "lm", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status});
        let job = AnyJob::from(serde_json::from_value::<TrainingJob>(job).unwrap());
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(is_old(&job, SignedDuration::from_hours(12), now), expected, "{name}");
    }

    #[test]
    fn only_what_has_ended_is_old() {
        let ended =
            |phase: &str, hour: u32| json!({"phase": phase, "completionTime": format!("2026-01-01T{hour:02}:00:00Z")});
        check("long ago", ended("Succeeded", 12), true);
        check("badly", ended("Failed", 12), true);
        check("lately", ended("Failed", 13), false);
        for phase in ["Created", "Running", "Scaling", "Suspended", "Waiting"] {
            check(phase, json!({"phase": phase}), false);
        }
        check("not seen by a controller", json!(null), false);
    }
}
