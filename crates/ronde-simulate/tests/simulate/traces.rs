//! The samples of public traces in the repository, as jobs.

use ronde_simulate::{
    Job, Report, Scenario, Span,
    input::{
        cluster::{nodes, trace_nodes},
        jobs::read,
    },
    output::chart,
    simulate,
};

fn shown(job: &Job) -> String {
    let task = |task: &ronde_simulate::Task| format!("{}x[{}]", task.replicas, task.spec.requests);
    let tasks: Vec<String> = job.tasks.iter().map(task).collect();
    let times = (Span(job.arrival), Span(job.run.unwrap_or(0)));
    format!("{} {} {} at {} for {}", job.group.id.name(), job.group.queue, tasks.join("+"), times.0, times.1)
}

#[track_caller]
fn check(name: &str, text: &str, expected: &[&str], skipped: &[(&str, usize)]) {
    let work = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(work.format, name);
    assert_eq!(work.jobs.iter().map(shown).collect::<Vec<_>>(), expected, "{name}");
    assert_eq!(work.skipped.into_iter().collect::<Vec<_>>(), skipped, "{name}");
}

#[test]
fn traces_are_recognised_and_read() {
    let philly = [
        "application_1_0001 made-up-1 2x[4 nvidia.com/gpu]+1x[2 nvidia.com/gpu] at 0s for 2h1m",
        "application_1_0002 made-up-2 1x[1 nvidia.com/gpu] at 8m for 10m",
    ];
    let left_out = [("never ran", 1), ("still ran when the trace ended", 1)];
    check("Philly", include_str!("../../../../examples/simulate/philly.json"), &philly, &left_out);
    let helios = [
        "1001 vcone 1x[4 cpu, 1 nvidia.com/gpu] at 0s for 1h",
        "1002 vctwo 2x[32 cpu, 8 nvidia.com/gpu] at 26s for 4m9s",
        "1003 vcone 1x[8 cpu] at 8m59s for 1m",
    ];
    check("Helios", include_str!("../../../../examples/simulate/helios.csv"), &helios, &left_out[..1]);
    let pai = [
        "made0001 default 1x[6 cpu, 30000Mi memory]+2x[4 cpu, 30000Mi memory, 1 nvidia.com/gpu] at 0s for 8m57s",
        "made0002 default 1x[6 cpu, 14848Mi memory, 2 nvidia.com/gpu] at 21s for 1m",
    ];
    check("Alibaba 2020", include_str!("../../../../examples/simulate/pai_task_table.csv"), &pai, &left_out);
    let openb = [
        "made-pod-0000 default 1x[12 cpu, 16Gi memory, 1 nvidia.com/gpu] at 0s for 1h",
        "made-pod-0001 default 1x[6 cpu, 12Gi memory, 1 nvidia.com/gpu] at 1m for 4m50s",
        "made-pod-0002 default 1x[88 cpu, 320Gi memory, 8 nvidia.com/gpu] at 2m19s for 16m40s",
    ];
    check("Alibaba 2023", include_str!("../../../../examples/simulate/openb_pod_list.csv"), &openb, &left_out[..1]);
}

#[test]
fn pods_of_a_trace_go_where_its_models_are() {
    let known = trace_nodes(include_str!("../../../../examples/simulate/openb_node_list.csv")).expect("nodes");
    let jobs = read(include_str!("../../../../examples/simulate/openb_pod_list.csv")).expect("jobs").jobs;
    let scenario = Scenario { nodes: known.expect("it is one"), jobs, ..Scenario::default() };
    let mut placed = Vec::new();
    let history = simulate(&scenario, &mut |_, what| {
        if let ronde_simulate::Move::Binds { pod, node } = what {
            placed.push(format!("{} {node}", pod.name()));
        }
    });
    assert!(placed.contains(&"made-pod-0001-0 made-node-0001".to_owned()), "{placed:?}");
    assert!(placed.contains(&"made-pod-0002-0 made-node-0000".to_owned()), "{placed:?}");
    assert_eq!(history.records.iter().filter(|record| record.end.is_some()).count(), 3);
    assert_eq!(trace_nodes("a,b\n1,2\n"), Ok(None));
    let philly =
        trace_nodes("machineId,number of GPUs, single GPU mem\nm31,8, 24GB\n").expect("nodes").expect("it is one");
    assert_eq!((philly[0].name.as_str(), philly[0].allocatable.get("nvidia.com/gpu")), ("m31", Some(8)));
}

#[test]
fn the_example_is_reported_and_drawn() {
    let jobs = read(include_str!("../../../../examples/simulate/jobs.csv")).expect("jobs").jobs;
    let mut scenario = Scenario { nodes: nodes("4x8gpu").expect("nodes"), jobs, grace: 30_000, ..Scenario::default() };
    scenario.jobs[0].group.id = ronde_scheduler::GroupId::new("sim", "<script>&");
    let history = simulate(&scenario, &mut |_, _| {});
    let report = Report::new(&scenario, &history);
    assert_eq!((report.ended, report.queues.len(), report.stuck_total), (7, 2, 0));
    let hours: f64 = report.queues.iter().map(|queue| queue.hours).sum();
    let of_sizes: f64 = report.sizes.iter().map(|size| size.hours).sum();
    assert!((hours - of_sizes).abs() < 0.5, "counted both ways: {hours} and {of_sizes}");
    let picture = chart::svg(&scenario, &history);
    assert!(picture.contains("&lt;script&gt;&amp;") && !picture.contains("<script>"));
    assert_eq!(picture.matches("<g>").count(), 7, "a row for each job");
    assert_eq!(picture, chart::svg(&scenario, &simulate(&scenario, &mut |_, _| {})));
}
