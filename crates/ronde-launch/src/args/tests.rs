use clap::CommandFactory as _;

use super::*;

fn split(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn read(line: &str) -> Arguments {
    Arguments::read("horovodrun", &split(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn the_command_line_is_well_formed() {
    Arguments::command().debug_assert();
}

#[test]
fn words_of_argparse_become_words_of_clap() {
    let check = |given: &str, expected: &str| {
        assert_eq!(words::canonical(&Arguments::command(), &split(given)).join(" "), expected, "{given}");
    };
    check("-np 2 python t.py", "--num-proc=2 -- python t.py");
    check("-np 2 -cb", "--num-proc=2 --check-build");
    check("-hostfile h -prefix-timestamp x", "--hostfile=h --prefix-output-with-timestamp -- x");
    check("--num-proc=2 x -np 3 --verbose", "--num-proc=2 -- x -np 3 --verbose");
    check("--out d x", "--output-filename=d -- x");
    check("--min-num-proc 1 --max-np 3 x", "--min-np=1 --max-np=3 -- x");
    check("--blacklist-cooldown-range 1 5 x", "--blacklist-cooldown-range 1 5 -- x");
    check("-p 22 -i key -H a:1 x", "-p 22 -i key -H a:1 -- x");
    check("--cycle-time-ms -1 x", "--cycle-time-ms=-1 -- x");
    check("--mpi-args --oversubscribe x", "--mpi-args=--oversubscribe -- x");
    check("--autotune-log f x", "--autotune-log-file=f -- x");
    check("-np 1 -- -x --y", "--num-proc=1 -- -x --y");
    // Not one option but several: clap says so.
    check("--autotune- f x", "--autotune- -- f x");
    check("--nonsense f", "--nonsense -- f");
    check("-np", "--num-proc");
}

#[test]
fn the_command_is_passed_verbatim() {
    let arguments = read("-np 2 -H localhost:2 python -u train.py --epochs 3 -np 7 -- x");
    assert_eq!(arguments.command, split("python -u train.py --epochs 3 -np 7 -- x"));
    assert_eq!((arguments.num_proc, arguments.hosts.hosts.as_deref()), (Some(2), Some("localhost:2")));
    assert_eq!(read("-np 1 -- -x").command, ["-x"]);
}

#[test]
fn wrong_arguments_are_refused() {
    for line in [
        "-np 0 x",
        "-np two x",
        "-np -1 x",
        "-np",
        "--nonsense x",
        "--autotune- 3 x",
        "--cycle-time-ms -1 x",
        "--fusion-threshold-mb -1 x",
        "--cache-capacity 1.5 x",
        "--log-level LOUD x",
        "-H a:1 -hostfile f x",
        "-H a:1 --host-discovery-script f x",
        "--gloo --mpi x",
        "--blacklist-cooldown-range 1 x",
        "-p 99999 x",
    ] {
        let error = Arguments::read("horovodrun", &split(line)).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

fn variables(line: &str) -> String {
    let all = read(line).parameters().variables();
    all.iter()
        .map(|(name, value)| format!("{}={value}", name.trim_start_matches("HOROVOD_")))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn flags_become_variables() {
    let check = |line: &str, expected: &str| assert_eq!(variables(line), expected, "{line}");
    check("x", "");
    check(
        "--fusion-threshold-mb 10 --cycle-time-ms 20 --cache-capacity 512 x",
        "CACHE_CAPACITY=512 CYCLE_TIME=20.0 FUSION_THRESHOLD=10485760",
    );
    check(
        "--hierarchical-allreduce --no-hierarchical-allgather --torus-allreduce x",
        "HIERARCHICAL_ALLGATHER=0 HIERARCHICAL_ALLREDUCE=1 TORUS_ALLREDUCE=1",
    );
    check("--autotune --no-autotune x", "AUTOTUNE=0");
    check("--autotune-log-file f --autotune-warmup-samples 1 x", "");
    check(
        "--autotune --autotune-log-file f --autotune-warmup-samples 1 --autotune-steps-per-sample 5 \
         --autotune-bayes-opt-max-samples 10 --autotune-gaussian-process-noise 0.2 x",
        "AUTOTUNE=1 AUTOTUNE_BAYES_OPT_MAX_SAMPLES=10 AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.2 AUTOTUNE_LOG=f \
         AUTOTUNE_STEPS_PER_SAMPLE=5 AUTOTUNE_WARMUP_SAMPLES=1",
    );
    check("--timeline-filename t --timeline-mark-cycles x", "TIMELINE=t TIMELINE_MARK_CYCLES=1");
    check("--no-stall-check x", "STALL_CHECK_DISABLE=1");
    check("--no-stall-check --stall-check x", "STALL_CHECK_DISABLE=0");
    check(
        "--stall-check-warning-time-seconds 10 --stall-check-shutdown-time-seconds 20 x",
        "STALL_CHECK_TIME_SECONDS=10 STALL_SHUTDOWN_TIME_SECONDS=20",
    );
    check(
        "--mpi-threads-disable --num-nccl-streams 2 --thread-affinity 1 --gloo-timeout-seconds 60 x",
        "GLOO_TIMEOUT_SECONDS=60 MPI_THREADS_DISABLE=1 NUM_NCCL_STREAMS=2 THREAD_AFFINITY=1",
    );
    check("--log-level info --log-with-timestamp x", "LOG_HIDE_TIME=0 LOG_LEVEL=INFO");
    check("--log-without-timestamp x", "LOG_HIDE_TIME=1");
    check("--log-hide-timestamp --no-log-hide-timestamp x", "LOG_HIDE_TIME=0");
}

const CONFIG: &str = "
controller: mpi
params: {fusion_threshold_mb: 32, cycle_time_ms: 10, cache_capacity: 2048, hierarchical_allreduce: true}
autotune: {enabled: true, log_file: /tmp/log, gaussian_process_noise: 0.8}
timeline: {filename: /tmp/timeline.json, mark_cycles: true}
stall_check: {enabled: false, warning_time_seconds: 120}
library_options: {thread_affinity: 3, gloo_timeout_seconds: 60}
logging: {level: debug, with_timestamp: false}
extra: {key: 1}
params2: 3
";

#[test]
fn flags_win_over_the_file() {
    let config = config::parse(CONFIG).unwrap();
    assert_eq!(config.unknown, ["extra.key", "params2"]);
    assert_eq!(config.notices, ["`controller: mpi` is ignored; Ronde starts and connects the ranks itself"]);
    let merged = read("--fusion-threshold-mb 1 --no-autotune --stall-check x").parameters().or(config.parameters);
    let all = merged.variables().into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    assert_eq!(
        all.join(" ").replace("HOROVOD_", ""),
        "AUTOTUNE=0 CACHE_CAPACITY=2048 CYCLE_TIME=10.0 FUSION_THRESHOLD=1048576 GLOO_TIMEOUT_SECONDS=60 \
         HIERARCHICAL_ALLREDUCE=1 LOG_HIDE_TIME=1 LOG_LEVEL=DEBUG STALL_CHECK_DISABLE=0 STALL_CHECK_TIME_SECONDS=120 \
         THREAD_AFFINITY=3 TIMELINE=/tmp/timeline.json TIMELINE_MARK_CYCLES=1"
    );
}

#[test]
fn a_file_that_means_what_it_says_needs_no_notice() {
    let notices = |text: &str| config::parse(text).unwrap().notices.len();
    assert_eq!(notices("controller: gloo\nlibrary_options: {mpi_threads_disable: false}"), 0);
    assert_eq!(notices("controller: jsrun\nlibrary_options: {mpi_threads_disable: true}"), 2);
}

#[test]
fn a_wrong_file_is_refused() {
    let check = |text: &str, expected: &str| assert_eq!(config::parse(text).unwrap_err(), expected, "{text}");
    check("params: {cycle_time_ms: -1}", "`params.cycle_time_ms` is -1, not a non-negative number");
    check("params: {cache_capacity: many}", "`params.cache_capacity` is \"many\", not a non-negative integer");
    check("autotune: {enabled: 3}", "`autotune.enabled` is 3, not true or false");
    assert!(config::parse("- a\n- b").is_err());
    assert_eq!(config::parse("").unwrap(), config::Config::default());
}
