//! Watchers that never read: in a process of its own, because it looks at how the process grows.

mod running;

use anyhow::Context as _;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;

use self::running::{Running, send};

const SLEEPERS: usize = 20;
const UPDATES: usize = 40;
const UPDATE_BYTES: usize = 500_000;
/// What is there when the watches begin.
const PRESENT: usize = 20;
/// A queue for each watcher would hold four times as much, and a copy of what is present twice.
const GROWTH_MAX: usize = 100 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_never_read_hold_nobody_up() -> anyhow::Result<()> {
    let server = Running::start().await?;
    let admin = server.admin()?;
    let maps = "/api/v1/namespaces/default/configmaps";
    send(&admin, "POST", maps, json!({"metadata": {"name": "big"}}).to_string()).await?;
    for number in 0..PRESENT {
        let data = json!({"x": "y".repeat(UPDATE_BYTES)});
        let present = json!({"metadata": {"name": format!("present-{number}")}, "data": data}).to_string();
        assert_eq!(send(&admin, "POST", maps, present).await?.0, StatusCode::CREATED);
    }
    let before = resident_bytes()?;
    let mut asleep = Vec::new();
    for _ in 0..SLEEPERS {
        let sleeper = server.client(Some(&server.token))?;
        let watch = Request::get(format!("{maps}?watch=1")).body(Body::empty())?;
        asleep.push((sleeper.send(watch).await?, sleeper));
    }
    for number in 0..UPDATES {
        let data = json!({"n": number.to_string(), "x": "y".repeat(UPDATE_BYTES)});
        let update = json!({"metadata": {"name": "big"}, "data": data}).to_string();
        let (status, answer) = send(&admin, "PUT", &format!("{maps}/big"), update).await?;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let grown = resident_bytes()?.saturating_sub(before);
    assert!(grown < GROWTH_MAX, "the process grew by {} MB", grown >> 20);
    let file = fs_err::metadata(server.folder.path().join("store.redb"))?.len();
    let kept = (PRESENT + 1) * UPDATE_BYTES;
    assert!(file < (kept + (16 << 20)) as u64, "objects of {kept} bytes take {} MB on disk", file >> 20);
    Ok(())
}

fn resident_bytes() -> anyhow::Result<usize> {
    let statm = fs_err::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split_whitespace().nth(1).context("no size")?.parse()?;
    Ok(pages * 4096)
}
