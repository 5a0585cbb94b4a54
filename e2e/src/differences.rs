//! Writes `known-differences.md`: what our server does not have, and every `@differs` of the suite
//! with its reason. A test compares the text with the file that is committed.

use std::fmt::Write;

use crate::{Case, SuiteError};

const HEAD: &str = "# Known differences from kube-apiserver\n\nWritten by `ronde-e2e differences`.\n\n";

/// What the suite asks nothing about, because our server has nothing to compare.
const NOT_THERE: &str = "\
## What is not there

- **Kinds**: daemon sets, replication controllers, cron jobs, horizontal pod autoscalers, limit
  ranges, runtime classes, pod templates, component statuses, certificate signing requests, flow
  schemas and priority levels, admission policies and webhook configurations, CSI objects, volume
  attachments and attributes classes, resource claims, IP addresses, service CIDRs, API services.
  A request for one is answered as for any resource that the server does not know.
- **Subresources**: `pods/ephemeralcontainers`, `pods/resize`, and `proxy` of pods, services and
  nodes.
- **Answers in protobuf**: bodies in protobuf are read, answers are JSON or YAML.
- **Admission that watches over other objects**: limits of a namespace (`LimitRanger`); quotas
  (stored, not enforced); the finalizers that keep a claim or a volume in use; the taint of new
  nodes (`TaintNodesByCondition`).
- **Anonymous access**: without a token only the health checks are answered.
- **Default roles** of components that one machine does not have (`system:node`,
  `system:kube-scheduler`, controllers); impersonation with extra fields.
- **API priority and fairness**, **audit**, and with it the mode `audit` of Pod Security.
- **Webhooks**, for admission and for conversion between the versions of a custom resource.
- **Aggregation** of other API servers.
- **The history of a watch after a restart**: a watch from a version of before gets 410, and the
  client lists again.

";

/// What is different but too large for a step.
const NOT_SHOWN: &str = "\
## What no step shows

- **The size of an object**: at most 3 MiB, as of a body. What patches grow beyond that gets 413,
  with the words of a body that is too large: it is the client that asks for too much. Behind the
  real server etcd refuses a write above 1.5 MiB, whether it came whole or by patches, and the
  client gets 500 with etcd's words.
- **Pods of others than the administrator** in a namespace without the label
  `pod-security.kubernetes.io/enforce` are held to `baseline`, and so are the templates of
  workloads that they write: here a privileged pod is root on the user's own machine. The real
  server holds nobody to anything there. The versions in labels are shown and not told apart, and
  nothing is taken easier for pods of Windows or with users of their own.

";

const DIFFERENT: &str = "\
## What is different

Each of these is a step of a scenario, marked `@differs`, and is checked: a difference that is
gone fails the suite until its mark is removed.
";

/// Returns the text of `known-differences.md`.
///
/// # Errors
///
/// When a scenario is malformed.
pub fn known_differences(cases: &[Case]) -> Result<String, SuiteError> {
    let mut text = [HEAD, NOT_THERE, NOT_SHOWN, DIFFERENT].concat();
    for case in cases {
        let steps = case.scenario()?.steps;
        let marked: Vec<_> =
            steps.iter().filter_map(|step| Some((&step.line, step.options.differs.as_ref()?))).collect();
        if !marked.is_empty() {
            let _ = write!(text, "\n### {}\n\n", case.name);
        }
        for (line, reason) in marked {
            let _ = writeln!(text, "- `{line}`: {reason}");
        }
    }
    Ok(text)
}
