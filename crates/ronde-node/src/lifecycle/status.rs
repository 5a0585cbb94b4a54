//! The status to publish. Fields that others own are kept as they are.

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};

use super::{
    conditions::{self, Basis},
    container_status::{self, time},
    ending::Ending,
    phase::{Phase, of_containers},
    plan::PodPlan,
    seen::Sandbox,
    view::View,
};

pub(super) fn build(view: &View<'_>, ending: &Ending, plan: &PodPlan) -> PodStatus {
    let phase = phase(view, ending);
    let init = container_status::build(view, &view.init, plan);
    let mut main = container_status::build(view, &view.main, plan);
    let basis = Basis { phase, init: &init, main: &main };
    let conditions = conditions::build(view, &basis);
    let mut status = view.old.clone();
    explain(&mut status, phase, ending);
    status.phase = Some(phase.name().to_owned());
    status.conditions = Some(conditions);
    status.observed_generation = view.pod.metadata.generation;
    status.start_time.get_or_insert_with(|| time(view.now));
    status.host_ip = Some(view.host_ip.to_string());
    status.host_ips = Some(vec![HostIP { ip: view.host_ip.to_string() }]);
    set_pod_ip(&mut status, view);
    // A pod that was refused has no containers to speak of.
    let was_refused = view.is_terminal() && view.old.container_statuses.is_none();
    if view.refused.is_none() && !was_refused {
        main.sort_by(|a, b| a.name.cmp(&b.name));
        status.container_statuses = Some(main);
        status.init_container_statuses = (!init.is_empty()).then_some(init);
    }
    status
}

/// The phase to publish: never back, and not terminal while a container still runs.
pub(super) fn phase(view: &View<'_>, ending: &Ending) -> Phase {
    let old = match view.old.phase.as_deref() {
        Some("Succeeded") => return Phase::Succeeded,
        Some("Failed") => return Phase::Failed,
        Some("Running") => Phase::Running,
        _ => Phase::Pending,
    };
    let phase = of_containers(view, ending.is_over);
    if ending.is_over {
        return if ending.failure.is_none() && phase == Phase::Succeeded { phase } else { Phase::Failed };
    }
    if phase.is_terminal() || phase == Phase::Pending { old } else { phase }
}

/// Sets why the pod failed; what was said of a phase stays as long as the phase.
fn explain(status: &mut PodStatus, phase: Phase, ending: &Ending) {
    if let (Phase::Failed, Some(cause)) = (phase, &ending.failure) {
        status.reason = Some(cause.reason.clone());
        status.message = Some(cause.message.clone());
    } else if status.phase.as_deref() != Some(phase.name()) {
        status.reason = None;
        status.message = None;
    }
}

/// The address of the sandbox; after its end the last one stays.
fn set_pod_ip(status: &mut PodStatus, view: &View<'_>) {
    let ip = if view.spec.host_network == Some(true) {
        Some(view.host_ip)
    } else if let Sandbox::Ready { ip } = view.sandbox {
        *ip
    } else {
        None
    };
    if let Some(ip) = ip {
        status.pod_ip = Some(ip.to_string());
        status.pod_ips = Some(vec![PodIP { ip: ip.to_string() }]);
    }
}
