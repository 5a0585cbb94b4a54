//! `kill -9` at random points: a child process writes, the parent kills it and looks at what is left.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use ronde_apiserver::store::{Change, Draft, Expect, Key, Range, Store};
use serde_json::json;

const FOLDER: &str = "RONDE_CRASH_FOLDER";
const KILLS: u64 = 300;
/// As many on a machine so busy that most children are killed before they write.
const KILLS_MAX: u64 = 1000;
/// Acknowledged writes, below which the kills show nothing.
const WRITES_MIN: usize = 200;
const WRITERS: usize = 8;
/// How many states an object has before it is removed; then it begins anew.
const STATES: u64 = 20;

fn key(name: &str) -> Key {
    Key::new(&"configmaps".into(), "default", name)
}

/// The child: eight writers on keys of their own, each acknowledged write noted in a file.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent tells its child through the environment where to write")]
fn child() -> anyhow::Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(()) };
    let folder = Path::new(&folder);
    let store = Store::open(&folder.join("store"))?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), folder.to_owned(), writer)));
        for writer in writers.collect::<Vec<_>>() {
            writer.await??;
        }
        Ok(())
    })
}

async fn write(store: Store, folder: std::path::PathBuf, writer: usize) -> anyhow::Result<()> {
    let mut notes = OpenOptions::new().append(true).create(true).open(folder.join("acknowledged"))?;
    let name = format!("w{writer}");
    // One system call: a kill leaves the whole line or none of it.
    let mut note = |what: &str, revision: u64| notes.write_all(format!("{name} {what} {revision}\n").as_bytes());
    loop {
        let current = store.get(&key(&name));
        let number = current.as_ref().map_or(0, |object| object.value()["data"]["first"].as_u64().unwrap_or(0) + 1);
        let value = json!({
            "metadata": {"name": name, "namespace": "default"},
            "data": {"first": number, "filler": "x".repeat(usize::try_from(number)? * 131 % 9000), "last": number},
        });
        let revision = current.as_ref().map_or(0, |object| object.revision);
        let removes = number == STATES;
        if removes {
            note("removing", revision)?;
        }
        let expect = current.map_or(Expect::Absent, |object| Expect::Revision(object.revision));
        let written = store.commit(Change { key: key(&name), expect, draft: Draft::new(&value), removes }).await?;
        note(if removes { "removed" } else { "written" }, written.revision)?;
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // As long as no child came to write there is no file.
    let acknowledged =
        || fs_err::read_to_string(folder.path().join("acknowledged")).unwrap_or_default().lines().count();
    let mut chance = 0x5EED_u64;
    for kills in 0..KILLS_MAX {
        if kills >= KILLS && acknowledged() > WRITES_MIN {
            return Ok(());
        }
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = Command::new(std::env::current_exe()?)
            .args(["child", "--exact", "--quiet"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_micros((chance >> 33) % (60_000 * (1 + kills.saturating_sub(KILLS) / 50))));
        child.kill()?;
        child.wait()?;
        check(folder.path())?;
    }
    anyhow::bail!("the child hardly wrote: the test shows nothing")
}

fn check(folder: &Path) -> anyhow::Result<()> {
    let notes = fs_err::read_to_string(folder.join("acknowledged")).unwrap_or_default();
    let mut newest: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
    // The last line may be cut off: what was not noted whole is not claimed.
    for line in notes.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        if let [name, what, revision] = line.split_whitespace().collect::<Vec<_>>()[..] {
            newest.insert(name, (what, revision.parse()?));
        }
    }
    let store = Store::open(&folder.join("store"))?;
    for (name, (what, revision)) in newest {
        let found = store.get(&key(name)).map(|object| object.revision);
        let as_noted = match what {
            "written" => found.is_some_and(|found| found >= revision),
            // It was not answered: it may be there still, be gone, or have begun anew.
            "removing" => found.is_none_or(|found| found >= revision),
            _ => found.is_none_or(|found| found > revision),
        };
        anyhow::ensure!(as_noted, "{name}: {what} at {revision}, found at {found:?}");
        anyhow::ensure!(store.revision() >= revision, "the revision went back");
    }
    for object in store.list("configmaps", &Range::default()).map_err(|_| anyhow::anyhow!("no list"))?.objects {
        let value = object.value();
        anyhow::ensure!(value["data"]["first"] == value["data"]["last"], "half an object: {}", object.place.name);
    }
    Ok(())
}
