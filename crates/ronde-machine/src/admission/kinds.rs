//! Each kind with its rules: JSON is read into the kind's type, the rules work on that.

use std::sync::Arc;

use k8s_openapi::Resource;
use ronde_api::{
    Command, CronJob, HyperNode, Job, JobFlow, JobTemplate, PodGroup, Queue, ScaleIn, ScaleOut, TrainingJob,
    rules::{self, Fault, Queues, Stage},
};
use ronde_apiserver::{admission::check_pod_template, error::FieldError, schema::crd::Verdict};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{field_error, overlay};

/// What rules need to know beside the object.
pub(super) struct Surroundings {
    /// The queue that the namespace has for those that name none.
    pub namespace_queue: Option<String>,
    pub queues: Arc<Queues>,
}

/// The rules of a kind, on JSON.
pub(super) trait Kind: Sync {
    /// Sets what the object leaves open; does nothing to one that is not of its form.
    fn default(&self, new: &mut Value, old: Option<&Value>, around: &Surroundings);

    /// None for an object that is not of its form.
    fn check(&self, new: &Value, old: Option<&Value>, around: &Surroundings) -> Option<Verdict>;
}

/// Returns the rules of a kind, if it has any here.
pub(super) fn find(api_version: &str, kind: &str) -> Option<&'static dyn Kind> {
    let kinds: [(&str, &str, &'static dyn Kind); 11] = [
        (Job::API_VERSION, Job::KIND, &JOB),
        (CronJob::API_VERSION, CronJob::KIND, &CRON_JOB),
        (JobFlow::API_VERSION, JobFlow::KIND, &JOB_FLOW),
        (JobTemplate::API_VERSION, JobTemplate::KIND, &JOB_TEMPLATE),
        (PodGroup::API_VERSION, PodGroup::KIND, &POD_GROUP),
        (Queue::API_VERSION, Queue::KIND, &QUEUE),
        (Command::API_VERSION, Command::KIND, &COMMAND),
        (HyperNode::API_VERSION, HyperNode::KIND, &HYPER_NODE),
        (TrainingJob::API_VERSION, TrainingJob::KIND, &TRAINING_JOB),
        (ScaleOut::API_VERSION, ScaleOut::KIND, &SCALE_OUT),
        (ScaleIn::API_VERSION, ScaleIn::KIND, &SCALE_IN),
    ];
    kinds.into_iter().find(|row| (row.0, row.1) == (api_version, kind)).map(|row| row.2)
}

/// The rules of one kind as functions on its type.
struct Rules<K: 'static> {
    default: fn(&mut K, Option<&K>, &Surroundings),
    check: fn(&K, Option<&K>, &Surroundings) -> Vec<Fault>,
    /// What else is wrong, which only the API server itself can tell.
    check_raw: fn(&Value) -> Vec<FieldError>,
    warnings: fn(&K) -> Vec<String>,
}

static JOB: Rules<Job> = Rules {
    default: |new, old, around| {
        let of_namespace = around.namespace_queue.as_deref();
        match old {
            None => rules::job::default(new, Stage::Create, of_namespace),
            Some(old) => {
                rules::job::default(new, Stage::Update, of_namespace);
                keep_queue(&mut new.spec.queue, &old.spec.queue, of_namespace);
            }
        }
    },
    check: |new, old, around| match old {
        None => rules::job::validate(new, &around.queues),
        Some(old) => rules::job::validate_update(old, new),
    },
    check_raw: |job| check_templates(templates_of_job(job)),
    warnings: rules::job::warnings,
};

static CRON_JOB: Rules<CronJob> = Rules {
    default: |_, _, _| {},
    check: |new, old, _| match old {
        None => rules::cron_job::validate(new),
        Some(old) => rules::cron_job::validate_update(old, new),
    },
    check_raw: |cron| check_templates(templates_of_cron_job(cron)),
    warnings: rules::cron_job::warnings,
};

static JOB_FLOW: Rules<JobFlow> = Rules {
    default: |_, _, _| {},
    check: |new, _, _| rules::job_flow::validate(new),
    check_raw: |_| Vec::new(),
    warnings: |_| Vec::new(),
};

/// A template need not be a whole job: a flow may patch it.
static JOB_TEMPLATE: Rules<JobTemplate> = Rules {
    default: |_, _, _| {},
    check: |_, _, _| Vec::new(),
    check_raw: |_| Vec::new(),
    warnings: rules::job_flow::template_warnings,
};

static POD_GROUP: Rules<PodGroup> = Rules {
    default: |new, old, around| {
        let of_namespace = around.namespace_queue.as_deref();
        match old {
            None => rules::pod_group::default(new, Stage::Create, of_namespace),
            Some(old) => keep_queue(&mut new.spec.queue, &old.spec.queue, of_namespace),
        }
    },
    check: |new, old, around| match old {
        None => rules::pod_group::validate(new, &around.queues),
        Some(old) => rules::pod_group::validate_update(old, new, &around.queues),
    },
    check_raw: |_| Vec::new(),
    warnings: |_| Vec::new(),
};

static QUEUE: Rules<Queue> = Rules {
    default: |new, _, _| rules::queue::default(new),
    check: |new, old, around| match old {
        None => rules::queue::validate(new, &around.queues),
        Some(old) => rules::queue::validate_update(old, new, &around.queues),
    },
    check_raw: |_| Vec::new(),
    warnings: rules::queue::warnings,
};

static COMMAND: Rules<Command> = Rules {
    default: |_, _, _| {},
    check: |new, _, _| rules::command::validate(new),
    check_raw: |_| Vec::new(),
    warnings: rules::command::warnings,
};

static HYPER_NODE: Rules<HyperNode> = Rules {
    default: |_, _, _| {},
    check: |new, old, _| match old {
        None => rules::hyper_node::validate(new),
        Some(old) => rules::hyper_node::validate_update(old, new),
    },
    check_raw: |_| Vec::new(),
    warnings: |_| Vec::new(),
};

static TRAINING_JOB: Rules<TrainingJob> = Rules {
    default: |new, _, _| rules::training_job::default(new),
    check: |new, old, _| match old {
        None => rules::training_job::validate(new),
        Some(old) => rules::training_job::validate_update(old, new),
    },
    check_raw: |job| check_templates(templates_of_training_job(job)),
    warnings: rules::training_job::warnings,
};

static SCALE_OUT: Rules<ScaleOut> = Rules {
    default: |_, _, _| {},
    check: |new, old, _| match old {
        None => rules::scaler::validate_out(new),
        Some(old) => rules::scaler::validate_change(old.spec != new.spec),
    },
    check_raw: |_| Vec::new(),
    warnings: |scaler| rules::scaler::warnings(scaler),
};

static SCALE_IN: Rules<ScaleIn> = Rules {
    default: |_, _, _| {},
    check: |new, old, _| match old {
        None => rules::scaler::validate_in(new),
        Some(old) => rules::scaler::validate_change(old.spec != new.spec),
    },
    check_raw: |_| Vec::new(),
    warnings: |scaler| rules::scaler::warnings(scaler),
};

/// Who applies a manifest without a queue again means the queue that the namespace has given the object.
fn keep_queue(queue: &mut String, was: &str, of_namespace: Option<&str>) {
    if rules::queue_in_namespace(queue, of_namespace) == was {
        was.clone_into(queue);
    }
}

/// A pod template, and where it stands.
type Template<'a> = (String, &'a Value);

/// Returns the templates that the controller of a kind makes pods from.
pub(super) fn pod_templates<'a>(api_version: &str, kind: &str, object: &'a Value) -> Vec<Template<'a>> {
    match (api_version, kind) {
        (Job::API_VERSION, Job::KIND) => templates_of_job(object),
        (TrainingJob::API_VERSION, TrainingJob::KIND) => templates_of_training_job(object),
        _ => Vec::new(),
    }
}

fn templates_of_job(job: &Value) -> Vec<Template<'_>> {
    templates_of_tasks(&job["spec"], "spec")
}

fn templates_of_cron_job(cron: &Value) -> Vec<Template<'_>> {
    templates_of_tasks(&cron["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec")
}

fn templates_of_tasks<'a>(spec: &'a Value, path: &str) -> Vec<Template<'a>> {
    let tasks = spec["tasks"].as_array().into_iter().flatten().enumerate();
    tasks.map(|(at, task)| (format!("{path}.tasks[{at}].template"), &task["template"])).collect()
}

fn templates_of_training_job(job: &Value) -> Vec<Template<'_>> {
    let template =
        |role: &str| (format!("spec.etReplicaSpecs.{role}.template"), &job["spec"]["etReplicaSpecs"][role]["template"]);
    ["launcher", "worker"].map(template).to_vec()
}

fn check_templates(templates: Vec<Template<'_>>) -> Vec<FieldError> {
    templates.into_iter().flat_map(|(path, template)| check_pod_template(template, &path)).collect()
}

impl<K: Serialize + DeserializeOwned + Clone + Sync> Kind for Rules<K> {
    fn default(&self, new: &mut Value, old: Option<&Value>, around: &Surroundings) {
        let Some(mut typed) = read::<K>(new) else { return };
        let before = serde_json::to_value(&typed).unwrap_or_default();
        (self.default)(&mut typed, old.and_then(read::<K>).as_ref(), around);
        let after = serde_json::to_value(&typed).unwrap_or_default();
        overlay::carry_over(new, &before, &after);
    }

    fn check(&self, new: &Value, old: Option<&Value>, around: &Surroundings) -> Option<Verdict> {
        let typed = read::<K>(new)?;
        let faults = (self.check)(&typed, old.and_then(read::<K>).as_ref(), around);
        let mut errors: Vec<FieldError> = faults.iter().map(field_error).collect();
        // What was wrong with the old object and has not changed is no reason to refuse the new one.
        let before = old.map(|old| (self.check_raw)(old)).unwrap_or_default();
        for error in (self.check_raw)(new) {
            if !before.contains(&error) && !errors.iter().any(|told| told.path == error.path) {
                errors.push(error);
            }
        }
        Some(Verdict { errors, warnings: (self.warnings)(&typed) })
    }
}

fn read<K: DeserializeOwned>(value: &Value) -> Option<K> {
    K::deserialize(value).ok()
}
