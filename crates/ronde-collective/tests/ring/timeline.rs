//! What is written about a run, and what is counted.

use ronde_collective::{Operation, Rank, ReduceOp, Work};

use crate::fixture::{Spread, allreduce, barrier, f32s, floats, ring, ring_with};

#[test]
fn a_timeline_is_whole_json_after_every_operation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timeline.json");
    ring(2, Spread::OneHost, |engine| {
        engine.start_timeline(&path, true).unwrap();
        engine.run(barrier("both have begun")).unwrap();
        for length in [2, 100_000] {
            engine.run(allreduce(&format!("allreduce.x{length}"), ReduceOp::Sum, &vec![1.0; length])).unwrap();
            if engine.rank().0 == 0 {
                let text = fs_err::read_to_string(&path).unwrap();
                let records: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
                let names: Vec<&str> = records.iter().filter_map(|record| record["name"].as_str()).collect();
                for expected in ["CYCLE_START", "NEGOTIATE_ALLREDUCE", "ALLREDUCE", "0", "1"] {
                    assert!(names.contains(&expected), "no {expected} in {names:?}");
                }
                let opened = records.iter().filter(|record| record["ph"] == "B").count();
                assert_eq!(opened, records.iter().filter(|record| record["ph"] == "E").count());
                assert!(text.contains(&format!("allreduce.x{length}")) && text.contains("float32"));
            }
        }
        engine.stop_timeline();
        // The first rank writes; the others do not know when it has stopped.
        let len = || if engine.rank().0 == 0 { fs_err::read(&path).unwrap().len() } else { 0 };
        let before = len();
        engine.run(barrier("unseen")).unwrap();
        assert_eq!(len(), before);
    });
}

#[test]
fn a_timeline_shows_the_parts_of_operations_and_process_sets_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timeline.json");
    ring(3, Spread::OneHost, |engine| {
        engine.start_timeline(&path, false).unwrap();
        let set = engine.add_process_set(&[Rank(0), Rank(2)]).unwrap();
        let own = || vec![1.0; 100_000];
        if engine.rank() != Rank(1) {
            engine.run(allreduce("x", ReduceOp::Sum, &own()).on(set)).unwrap();
        }
        engine.run(allreduce("x", ReduceOp::Sum, &own())).unwrap();
        let group = Work::new("fused", Operation::Allreduce(ReduceOp::Sum.into()), vec![f32s(&own()), f32s(&own())]);
        engine.run(group).unwrap();
        engine.run(barrier("end")).unwrap();
    });
    let records: Vec<serde_json::Value> = serde_json::from_str(&fs_err::read_to_string(&path).unwrap()).unwrap();
    // Each line opens and closes its parts in turn.
    let of_line = |line: &str| -> Vec<String> {
        let is_name = |record: &&serde_json::Value| record["args"]["name"] == line && record["name"] == "process_name";
        let pid = &records.iter().find(is_name).unwrap()["pid"];
        let parts = records
            .iter()
            .filter(|record| record["pid"] == *pid && ["B", "E"].map(Some).contains(&record["ph"].as_str()));
        parts.map(|record| record["name"].as_str().unwrap_or("end").to_owned()).collect()
    };
    let whole = ["NEGOTIATE_ALLREDUCE", "end", "ALLREDUCE", "RONDE_ALLREDUCE", "end", "end"];
    assert_eq!(of_line("x"), whole);
    assert_eq!(of_line("process_set.1.x"), whole);
    let fused = ["ALLREDUCE", "MEMCPY_IN_FUSION_BUFFER", "end", "RONDE_ALLREDUCE", "end", "MEMCPY_OUT_FUSION_BUFFER"];
    assert_eq!(of_line("fused")[2..8], fused);
}

#[test]
fn autotune_tries_changes_nothing_in_results_and_writes_what_it_chose() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("autotune.csv");
    let change = |config: &mut ronde_collective::Config| {
        (config.autotune, config.autotune_log) = (true, Some(log.clone()));
    };
    ring_with(2, Spread::OneHost, change, |engine| {
        for _ in 0..400 {
            let done = engine.run(allreduce("x", ReduceOp::Sum, &vec![1.0; 20_000])).unwrap();
            assert_eq!(floats(&done, 0)[0].to_bits(), 2_f32.to_bits());
        }
    });
    let rows = fs_err::read_to_string(&log).unwrap();
    assert_eq!(rows.lines().count(), 4, "three candidates and the choice: {rows}");
}
