//! Names that users, scripts and other components rely on: labels, annotations, queues, plugins.
//!
//! They are Volcano's and et-operator's, letter for letter. A name that stands in two places of the system stands here.

/// The scheduler of jobs that name none.
pub const SCHEDULER: &str = "volcano";
/// The schedulers whose pods are ours whatever else is placed here.
pub const SCHEDULERS: [&str; 2] = [SCHEDULER, "ronde"];
/// The queue of jobs that name none.
pub const DEFAULT_QUEUE: &str = "default";
/// The queue above all others.
pub const ROOT_QUEUE: &str = "root";

/// The label of nodes that names the group of nodes they are in, for queues that go to some of them.
pub const NODE_GROUP: &str = "volcano.sh/nodegroup-name";

/// Labels and annotations of the pods of a job.
pub const JOB_NAME: &str = "volcano.sh/job-name";
pub const JOB_NAMESPACE: &str = "volcano.sh/job-namespace";
pub const QUEUE_NAME: &str = "volcano.sh/queue-name";
pub const TASK_SPEC: &str = "volcano.sh/task-spec";
pub const TASK_INDEX: &str = "volcano.sh/task-index";
pub const JOB_VERSION: &str = "volcano.sh/job-version";
pub const JOB_RETRY_COUNT: &str = "volcano.sh/job-retry-count";
pub const TEMPLATE_UID: &str = "volcano.sh/template-uid";
pub const PARTITION_ID: &str = "volcano.sh/partition-id";
pub const NUMA_TOPOLOGY_POLICY: &str = "volcano.sh/numa-topology-policy";
pub const JOB_FORWARDING: &str = "volcano.sh/job-forwarding";
/// On a pod: stands for the images, resources and priority that it was made with.
pub const POD_TEMPLATE: &str = "ronde.dev/template";
/// On a flow: `true` while it is to start no job.
pub const FLOW_SUSPENDED: &str = "ronde.dev/suspended";
/// On a pod that the controller itself has killed.
pub const OUT_OF_SYNC: &str = "volcano.sh/controller-out-of-sync";

/// Copied from jobs to their pods.
pub const PREEMPTABLE: &str = "volcano.sh/preemptable";
pub const COOLDOWN_TIME: &str = "volcano.sh/cooldown-time";
pub const REVOCABLE_ZONE: &str = "volcano.sh/revocable-zone";
pub const JDB_MIN_AVAILABLE: &str = "volcano.sh/jdb-min-available";
pub const JDB_MAX_UNAVAILABLE: &str = "volcano.sh/jdb-max-unavailable";

/// On a queue: until when workers of elastic jobs may move, so that its jobs find room.
pub const DEFRAGMENT_UNTIL: &str = "ronde.dev/defragment-until";

/// On a job that a flow has made, as label and annotation: the template and the flow, as `<namespace>.<name>`.
pub const CREATED_BY_TEMPLATE: &str = "volcano.sh/createdByJobTemplate";
pub const CREATED_BY_FLOW: &str = "volcano.sh/createdByJobFlow";

/// On a job that a CronJob has made: the time of the schedule, in its time zone.
pub const SCHEDULED_AT: &str = "volcano.sh/cronjob-scheduled-timestamp";

/// On a job: what kind of work it is, for people.
pub const JOB_TYPE: &str = "volcano.sh/job-type";

/// On a pod: the PodGroup it is a member of.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// On a pod or a namespace: the queue of groups that name none.
pub const GROUP_QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// On the owner of plain pods: `minMember` of the group they get.
pub const GROUP_MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// On plain pods: the network topology of the group they get.
pub const NETWORK_TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
pub const NETWORK_TOPOLOGY_HIGHEST_TIER: &str = "volcano.sh/network-topology-highest-tier";
/// On a PodGroup: the label of nodes that all its pods must have the same value of.
pub const TOPOLOGY_KEY: &str = "ronde.dev/topology-key";
/// On a PodGroup: `all` if its pods are evicted together or not at all.
pub const DISRUPTION_MODE: &str = "ronde.dev/disruption-mode";
pub const DISRUPTION_ALL: &str = "all";

/// The label of what we make for jobs beside pods and groups, and who has made it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "ronde";
/// Selects it.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=ronde";
/// On a queue: its place among others, in the older form of a path and the weights along it.
pub const HIERARCHY: &str = "volcano.sh/hierarchy";
pub const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";
/// On a queue that was closed because its parent was.
pub const CLOSED_BY_PARENT: &str = "volcano.sh/closed-by-parent";

/// The plugins of jobs.
pub mod plugins {
    pub const ENV: &str = "env";
    pub const SVC: &str = "svc";
    pub const SSH: &str = "ssh";
    pub const TENSORFLOW: &str = "tensorflow";
    pub const MPI: &str = "mpi";
    pub const PYTORCH: &str = "pytorch";
    pub const RAY: &str = "ray";
    pub const HCCLRANK: &str = "hcclrank";

    pub const ALL: [&str; 8] = [ENV, SVC, SSH, TENSORFLOW, MPI, PYTORCH, RAY, HCCLRANK];
}

/// The names of training jobs.
pub mod elastic {
    /// The value of [`GROUP`] on every pod.
    pub const GROUP_VALUE: &str = "kai.alibabacloud.com";
    /// Labels of pods and services.
    pub const GROUP: &str = "group-name";
    pub const JOB: &str = "training-job-name";
    pub const ROLE: &str = "training-job-role";
    pub const INDEX: &str = "replica-index";
    /// On a worker: the ScaleOut that it was made for.
    pub const SCALE_OUT: &str = "scaleout-name";
    /// On what else is made for a job: its name.
    pub const APP: &str = "app";

    /// The values of [`ROLE`], also the tasks of the job's PodGroup.
    pub const LAUNCHER: &str = "launcher";
    pub const WORKER: &str = "worker";

    /// On a job: `true` while it is to give up all it has.
    pub const SUSPENDED: &str = "job-supervisor.kube-ai.io/job-suspended";
    /// On a job: the Secret with the keys of `launcherAttachMode: ssh`, if it is not to be made.
    pub const SSH_SECRET: &str = "arena.kubeflow.org/ssh-secret";
    /// On a job: how many seconds it may wait for its start.
    pub const MAX_WAIT_TIME: &str = "job-supervisor.kube-ai.io/max-wait-time";
    /// On a job: `auto` lets it grow into room that nobody needs, and give it back.
    pub const ELASTIC: &str = "ronde.dev/elastic";
    pub const AUTO: &str = "auto";
    /// On such a job: how long it stays as it is after a change before it grows again, such as `5m`.
    pub const COOLDOWN: &str = "ronde.dev/elastic-cooldown";
    /// On a pod: the run of the job that it was made for.
    pub const RUN: &str = "ronde.dev/run";
    /// On the launcher: changes with the list of hosts, so that a kubelet brings it into the pod at once.
    pub const HOSTS: &str = "ronde.dev/hosts";

    /// The longest name of a job: that of its worker number 999999 is a host name still.
    pub const JOB_NAME_MAX: usize = 49;

    /// Returns the name of a worker, of its pod and of its service.
    pub fn worker(job: &str, index: i32) -> String {
        super::pod(job, WORKER, index)
    }

    /// Returns the index in the name of a worker; none if it is the name of something else.
    pub fn worker_index(job: &str, name: &str) -> Option<i32> {
        name.strip_prefix(job)?.strip_prefix("-worker-")?.parse().ok().filter(|index| *index >= 0)
    }

    /// Returns the name of the launcher, of its pod, service account, role and role binding.
    pub fn launcher(job: &str) -> String {
        format!("{job}-{LAUNCHER}")
    }

    /// Returns the name of the ConfigMap with the list of hosts.
    pub fn config(job: &str) -> String {
        format!("{job}-config")
    }

    /// The types of conditions of training jobs and scale operations.
    pub mod conditions {
        pub const CREATED: &str = "Created";
        pub const WORKERS_CREATED: &str = "WorkersCreated";
        pub const WORKERS_READY: &str = "WorkersReady";
        pub const WORKERS_NOT_READY: &str = "WorkersNotReady";
        pub const LAUNCHER_CREATED: &str = "LauncherCreated";
        pub const RUNNING: &str = "Running";
        pub const RESTARTING: &str = "Restarting";
        pub const SCALING: &str = "Scaling";
        pub const SCALE_SUCCEEDED: &str = "ScaleSucceeded";
        pub const SCALE_FAILED: &str = "ScaleFailed";
        pub const SUCCEEDED: &str = "Succeeded";
        pub const FAILED: &str = "Failed";
        pub const SUSPENDED: &str = "Suspended";
    }
}

/// Returns the name of a pod of a job.
pub fn pod(job: &str, task: &str, index: impl std::fmt::Display) -> String {
    format!("{job}-{task}-{index}")
}

/// Returns the name of the job that a flow makes from a template.
pub fn flow_job(flow: &str, template: &str) -> String {
    format!("{flow}-{template}")
}

/// The longest name of a CronJob: a dash and ten digits make it one of a job.
pub const CRON_NAME_MAX: usize = 52;

/// Returns the name of the job that a CronJob makes for a time, in minutes since 1970.
pub fn cron_job(cron: &str, minutes: i64) -> String {
    format!("{cron}-{minutes}")
}

/// Returns the time in the name of the job of a CronJob, in minutes since 1970.
pub fn cron_minutes(cron: &str, job: &str) -> Option<i64> {
    job.strip_prefix(cron)?.strip_prefix('-')?.parse().ok().filter(|minutes| *minutes >= 0)
}

/// Returns the name of the PodGroup of a job.
pub fn pod_group(job: &str, job_uid: &str) -> String {
    format!("{job}-{job_uid}")
}
