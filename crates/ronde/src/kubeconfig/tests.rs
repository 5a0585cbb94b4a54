//! Tables over whole kubeconfigs: what our entries look like in every style, and that taking them out leaves the
//! file as it was.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use fs_err as fs;
use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    entries::{self, EntriesError, Owner},
    *,
};

const DIR: &str = "/data/ronde";

fn access() -> Access {
    Access {
        server: "https://127.0.0.1:6443".to_owned(),
        certificate_authority: "Q0E=".to_owned(),
        credential: "/data/admin.credential".to_owned(),
        data_dir: DIR.to_owned(),
    }
}

/// What kubectl writes, with one foreign cluster.
const KIND: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: S0lORA==
    server: https://127.0.0.1:39999
  name: kind-dev
contexts:
- context:
    cluster: kind-dev
    user: kind-dev
  name: kind-dev
current-context: kind-dev
kind: Config
preferences: {}
users:
- name: kind-dev
  user:
    client-certificate-data: Q0VSVA==
";

const OUR_CLUSTER: &str = "\
- cluster:
    certificate-authority-data: Q0E=
    extensions:
    - extension:
        dataDir: /data/ronde
      name: ronde
    server: https://127.0.0.1:6443
  name: ronde
";
const OUR_CONTEXT: &str = "\
- context:
    cluster: ronde
    extensions:
    - extension:
        dataDir: /data/ronde
      name: ronde
    user: ronde
  name: ronde
";
const OUR_USER: &str = "\
- name: ronde
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args:
      - /data/admin.credential
      command: cat
      interactiveMode: Never
    extensions:
    - extension:
        dataDir: /data/ronde
      name: ronde
";

#[test]
fn a_new_kubeconfig_is_what_kubectl_would_write() {
    let text = entries::standalone(&access()).unwrap();
    let expected = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n{OUR_CLUSTER}contexts:\n{OUR_CONTEXT}users:\n{OUR_USER}\
         current-context: ronde\n"
    );
    assert_eq!(text, expected);
    assert!(entries::is_bare(&entries::uninstall(&text, DIR, None).unwrap()));
}

#[test]
fn our_entries_come_after_the_others() {
    let installed = entries::install(KIND, &access()).unwrap();
    let expected = KIND
        .replace("  name: kind-dev\ncontexts:", &format!("  name: kind-dev\n{OUR_CLUSTER}contexts:"))
        .replace("  name: kind-dev\ncurrent", &format!("  name: kind-dev\n{OUR_CONTEXT}current"))
        .replace("Q0VSVA==\n", &format!("Q0VSVA==\n{OUR_USER}"))
        .replace("current-context: kind-dev", "current-context: ronde");
    assert_eq!(installed.text, expected);
    assert_eq!(installed.replaced, Some(Some("kind-dev".to_owned())));
}

/// Adds and removes our entries; the file must be the same byte for byte.
fn check_round_trip(name: &str, text: &str) {
    let installed = entries::install(text, &access()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(entries::owner(&installed.text, DIR).unwrap(), Owner::Us, "{name}");
    let again = entries::install(&installed.text, &access()).unwrap();
    assert_eq!(again.text, installed.text, "{name}: a second time changes nothing");
    assert_eq!(again.replaced, None, "{name}: our own context is not a previous one");
    let removed = entries::uninstall(&installed.text, DIR, installed.replaced.unwrap()).unwrap();
    assert_eq!(removed, text, "{name}");
}

#[test]
fn adding_and_removing_leaves_every_byte() {
    check_round_trip("as kubectl writes it", KIND);
    check_round_trip("nothing selected", &KIND.replace("current-context: kind-dev", "current-context: \"\""));
    check_round_trip("no selection at all", &KIND.replace("current-context: kind-dev\n", ""));
    check_round_trip(
        "all lists empty, as kubectl leaves them",
        "apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n",
    );
    check_round_trip(
        "empty lists in flow style",
        "apiVersion: v1\nclusters: []\ncontexts: []\ncurrent-context: \"\"\nkind: Config\nusers: []\n",
    );
    check_round_trip(
        "indented lists",
        &KIND
            .replace("\n- ", "\n  - ")
            .replace("\n    ", "\n      ")
            .replace("\n  name", "\n    name")
            .replace("\n  user:", "\n    user:"),
    );
    check_round_trip(
        "comments everywhere",
        &format!(
            "# mine\n{}# the end\n",
            KIND.replace("  name: kind-dev\n", "  name: kind-dev # here\n  # and here\n\n")
        ),
    );
    check_round_trip(
        "a comment behind the selection",
        &KIND.replace("current-context: kind-dev", "current-context: kind-dev # work"),
    );
    check_round_trip("Windows line ends", &KIND.replace('\n', "\r\n"));
    check_round_trip("document markers", &format!("---\n{KIND}...\n"));
    check_round_trip("blank lines at the end", &format!("{KIND}\n\n"));
    check_round_trip("unknown fields", &KIND.replace("kind: Config", "kind: Config\nx-tool: {a: [1, 2], b: ~}"));
    check_round_trip(
        "anchors and aliases of others",
        &KIND.replace("client-certificate-data: Q0VSVA==", "a: &cert Q0VSVA==\n    b: *cert"),
    );
    check_round_trip(
        "a block scalar at the end",
        &KIND.replace("client-certificate-data: Q0VSVA==", "notes: |\n      two\n\n      lines"),
    );
    check_round_trip("long folded strings", &KIND.replace("Q0VSVA==", ">-\n      Q0VS\n      VA=="));
    check_round_trip(
        "keys in another order",
        "kind: Config\nusers:\n- {name: a, user: {}}\ncontexts:\n- {name: a, context: {}}\nclusters:\n- {name: a, cluster: {}}\ncurrent-context: a\napiVersion: v1\n",
    );
    check_round_trip("a dash on a line of its own", &KIND.replace("- cluster:", "-\n  cluster:"));
    check_round_trip("other scripts", &KIND.replace("kind-dev", "küche-日本"));
    check_round_trip(
        "JSON in one line",
        r#"{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{}}],"contexts":[{"name":"a","context":{}}],"users":[{"name":"a","user":{}}],"current-context": "a"}"#,
    );
    check_round_trip(
        "JSON in many lines",
        "{\n  \"clusters\": [\n    { \"name\": \"a\" }\n  ],\n  \"contexts\": [],\n  \"current-context\": \"\",\n  \"users\": []\n}\n",
    );
}

#[test]
fn other_contexts_come_back_as_they_were() {
    let removed = |text: &str, previous: Option<&str>| {
        entries::uninstall(&entries::install(text, &access()).unwrap().text, DIR, previous.map(str::to_owned)).unwrap()
    };
    assert_eq!(removed(KIND, Some("kind-dev")), KIND, "the previous one is selected again");
    let none = KIND.replace("current-context: kind-dev", "current-context: \"\"");
    assert_eq!(removed(KIND, Some("gone")), none, "a context that is gone is not selected");

    let mine = entries::install(KIND, &access()).unwrap().text;
    let switched = mine.replace("current-context: ronde", "current-context: kind-dev");
    assert_eq!(entries::uninstall(&switched, DIR, Some("other".into())).unwrap(), KIND, "the user's choice stays");
    assert_eq!(entries::uninstall(KIND, DIR, None).unwrap(), KIND, "nothing of ours, nothing changed");
    let renamed = mine.replace("  name: ronde\ncurrent-context: ronde", "  name: mine\ncurrent-context: mine");
    assert_eq!(entries::uninstall(&renamed, DIR, Some("kind-dev".into())).unwrap(), KIND, "a renamed context is ours");
}

#[test]
fn a_restart_updates_what_changed_and_keeps_what_the_user_added() {
    let mine = entries::install(KIND, &access()).unwrap().text;
    let mine = mine.replace("    user: ronde\n", "    namespace: team-a\n    user: ronde\n");
    let moved = Access { server: "https://127.0.0.1:7000".to_owned(), ..access() };
    let updated = entries::install(&mine, &moved).unwrap();
    assert_eq!(updated.text, mine.replace("https://127.0.0.1:6443", "https://127.0.0.1:7000"));
}

fn check_owner(name: &str, text: &str, expected: &Owner) {
    assert_eq!(&entries::owner(text, DIR).unwrap(), expected, "{name}");
}

#[test]
fn the_owner_of_the_name_is_found() {
    let mine = entries::install(KIND, &access()).unwrap().text;
    let other = mine.replace("/data/ronde", "/data/other");
    check_owner("an empty file", "", &Owner::Nobody);
    check_owner("somebody's clusters", KIND, &Owner::Nobody);
    check_owner("our entries", &mine, &Owner::Us);
    check_owner("another data directory", &other, &Owner::OtherInstance { data_dir: "/data/other".into() });
    for (section, content) in [("clusters", "cluster"), ("contexts", "context"), ("users", "user")] {
        let text = format!("{section}:\n- name: ronde\n  {content}: {{}}\n");
        check_owner("an entry without our mark", &text, &Owner::Stranger { section });
    }
    let marked = "users:\n- name: ronde\n  user: {extensions: [{name: minikube, extension: {dataDir: /data/ronde}}]}\n";
    check_owner("an entry with another mark", marked, &Owner::Stranger { section: "users" });
}

fn check_refused(name: &str, text: &str, expected: &str) {
    let error = entries::install(text, &access()).expect_err(name);
    let shown = match &error {
        EntriesError::Yaml(source) => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    assert!(shown.starts_with(expected), "{name}: {shown}");
}

#[test]
fn what_is_not_a_kubeconfig_is_refused() {
    check_refused("broken YAML", "clusters: [\n", "it is not valid YAML: line 1, column 11: ");
    check_refused("tabs", "clusters:\n\t- a\n", "it is not valid YAML: line 2, column ");
    check_refused("two documents", "a: 1\n---\nb: 2\n", "it is not valid YAML: it holds more than one YAML document");
    check_refused("a key twice", "users: []\nusers: []\n", "it is not valid YAML: ");
    check_refused("an undefined alias", "users: *nobody\n", "it is not valid YAML: ");
    check_refused("a list", "- a\n", "it is not a kubeconfig: its top level is not a mapping");
    check_refused("a word", "hello\n", "it is not a kubeconfig: its top level is not a mapping");
    check_refused("another kind", "kind: Pod\n", "it is not a kubeconfig: its kind is \"Pod\"");
    check_refused(
        "clusters that are no list",
        "clusters: {a: b}\n",
        "it is not a kubeconfig: `clusters` is not a list",
    );
    check_refused(
        "a nameless entry",
        "users:\n- user: {}\n",
        "it is not a kubeconfig: an entry of `users` has no name",
    );
    check_refused(
        "an odd selection",
        "current-context: [a]\n",
        "it is not a kubeconfig: `current-context` is not a string",
    );
    check_refused("a shared list", "x: &l []\nclusters: *l\n", "its YAML is written in a way that cannot be edited");
}

#[test]
fn no_secret_of_the_file_is_shown_in_an_error() {
    let text = KIND.replace("client-certificate-data: Q0VSVA==", "token: s3cret\n    token: s3cret");
    assert!(!entries::install(&text, &access()).unwrap_err().to_string().contains("s3cret"));
}

/// A home with a kubeconfig and two data directories.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new(text: Option<&str>) -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        for name in ["data", "other"] {
            fs::create_dir(home.path(name)).unwrap();
        }
        if let Some(text) = text {
            fs::create_dir(home.path(".kube")).unwrap();
            fs::write(home.config(), text).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.path(".kube/config")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.config()).unwrap()
    }

    fn add(&self, data_dir: &str) -> Result<Added, KubeconfigError> {
        let data_dir = self.path(data_dir);
        let access = Access { data_dir: data_dir.display().to_string(), ..access() };
        check(&self.config(), &data_dir, |_| false)?;
        add(&self.config(), &data_dir, &access, |_| false)
    }

    fn mode(&self) -> u32 {
        fs::metadata(self.config()).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn a_missing_kubeconfig_is_made_and_deleted_again() {
    let home = Home::new(None);
    let added = home.add("data").unwrap();
    assert_eq!((added.previous, added.tightened_from), (None, None));
    assert_eq!(home.mode(), 0o600);
    assert!(matches!(remove(&home.path("data"), None).unwrap(), Removed::Entries { .. }));
    assert!(!home.config().exists());
    assert_eq!(remove(&home.path("data"), None).unwrap(), Removed::Nothing, "twice is fine");
    assert_eq!(fs::read_dir(home.path(".kube")).unwrap().count(), 0, "no lock or temporary file stays");
}

#[test]
fn what_was_done_is_undone_without_the_data_directory() {
    let home = Home::new(Some(KIND));
    let record = home.add("data").unwrap().record;
    fs::remove_dir_all(home.path("data")).unwrap();
    assert_eq!(remove(&home.path("data"), None).unwrap(), Removed::Nothing, "nobody knows of it");
    assert!(matches!(remove(&home.path("data"), Some(record)).unwrap(), Removed::Entries { .. }));
    assert_eq!(home.text(), KIND);
}

#[test]
fn a_kubeconfig_that_others_could_read_becomes_private() {
    let home = Home::new(Some(KIND));
    fs::set_permissions(home.config(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let added = home.add("data").unwrap();
    assert_eq!((added.previous, added.tightened_from), (Some("kind-dev".into()), Some(0o644)));
    assert_eq!(home.mode(), 0o600);
    remove(&home.path("data"), None).unwrap();
    assert_eq!(home.text(), KIND);
}

#[test]
fn a_symbolic_link_stays_one() {
    let home = Home::new(None);
    fs::create_dir(home.path(".kube")).unwrap();
    fs::write(home.path("real"), KIND).unwrap();
    std::os::unix::fs::symlink("../real", home.config()).unwrap();
    home.add("data").unwrap();
    assert!(fs::symlink_metadata(home.config()).unwrap().is_symlink());
    assert!(fs::read_to_string(home.path("real")).unwrap().contains("name: ronde"));
    remove(&home.path("data"), None).unwrap();
    assert_eq!(fs::read_to_string(home.path("real")).unwrap(), KIND);
}

#[test]
fn what_is_not_ours_is_never_written() {
    for text in ["clusters: [\n", "kind: Pod\n", "users:\n- name: ronde\n  user: {token: x}\n"] {
        let home = Home::new(Some(text));
        let error = home.add("data").unwrap_err();
        assert_eq!(error.blame(), Blame::User);
        assert!(error.hint().unwrap().contains("--kubeconfig FILE"), "{error}");
        assert_eq!(home.text(), text);
    }
}

#[test]
fn a_lock_that_nobody_removes_is_named() {
    let home = Home::new(Some(KIND));
    let lock = home.path(".kube/config.lock");
    fs::write(&lock, "").unwrap();
    let error = home.add("data").unwrap_err();
    assert!(error.hint().unwrap().contains(&lock.display().to_string()));
    assert_eq!(home.text(), KIND);
    assert!(lock.exists(), "a lock that is not ours is not removed");
}

#[test]
fn a_lock_of_a_killed_ronde_is_taken_over() {
    let home = Home::new(Some(KIND));
    let lock = home.path(".kube/config.lock");
    fs::write(&lock, "ronde\n").unwrap();
    home.add("data").unwrap();
    assert!(!lock.exists());
}

#[test]
fn the_entries_of_a_killed_instance_are_replaced() {
    let home = Home::new(Some(KIND));
    home.add("other").unwrap();
    let added = home.add("data").unwrap();
    assert_eq!(added.previous.as_deref(), Some("kind-dev"), "not the dead instance's own context");
    assert!(!home.text().contains("other"));
    remove(&home.path("data"), None).unwrap();
    assert_eq!(home.text(), KIND);
}

#[test]
fn the_entries_of_a_running_instance_are_kept() {
    let home = Home::new(Some(KIND));
    home.add("other").unwrap();
    let before = home.text();
    let error = check(&home.config(), &home.path("data"), |dir: &Path| dir == home.path("other")).unwrap_err();
    assert!(matches!(error, KubeconfigError::OtherInstance { .. }));
    assert!(error.hint().unwrap().contains("ronde down --data-dir"));
    assert_eq!(home.text(), before);
}

#[test]
fn after_a_crash_the_context_of_before_is_still_known() {
    let home = Home::new(Some(KIND));
    home.add("data").unwrap();
    assert_eq!(home.add("data").unwrap().previous.as_deref(), Some("kind-dev"), "the second start remembers");
    remove(&home.path("data"), None).unwrap();
    assert_eq!(home.text(), KIND);
}

#[test]
fn another_kubeconfig_after_a_crash_leaves_nothing_in_the_first() {
    let home = Home::new(Some(KIND));
    home.add("data").unwrap();
    let second = home.path("second");
    let data_dir = home.path("data");
    add(&second, &data_dir, &Access { data_dir: data_dir.display().to_string(), ..access() }, |_| false).unwrap();
    assert_eq!(home.text(), KIND);
    remove(&data_dir, None).unwrap();
    assert!(!second.exists());
}

/// Kubeconfigs as people have them: some sections, some comments, some styles.
fn kubeconfig() -> impl Strategy<Value = String> {
    let name = "[a-z][a-z0-9-]{0,8}";
    let entry = (name, any::<bool>(), any::<bool>(), "[ -~]{0,20}");
    let section = prop::collection::vec(entry, 0..4);
    (section.clone(), section.clone(), section, any::<[bool; 4]>()).prop_map(
        |(clusters, contexts, users, [a, b, c, d])| {
            let mut text = String::new();
            if a {
                text.push_str("# made by hand\n");
            }
            for (title, field, entries) in
                [("clusters", "cluster", &clusters), ("contexts", "context", &contexts), ("users", "user", &users)]
            {
                let pad = if b { "  " } else { "" };
                text.push_str(&format!("{title}:{}\n", if entries.is_empty() { " null" } else { "" }));
                for (name, flow, comment, note) in entries {
                    let note = serde_json::to_string(note).unwrap();
                    if *flow {
                        text.push_str(&format!("{pad}- {{name: x-{name}, {field}: {{note: {note}}}}}\n"));
                    } else {
                        text.push_str(&format!("{pad}- {field}:\n{pad}    note: {note}\n{pad}  name: x-{name}\n"));
                    }
                    if *comment {
                        text.push_str("  # why\n\n");
                    }
                }
            }
            if c {
                text.push_str("current-context: x-somewhere # chosen\n");
            }
            if d { text.replace('\n', "\r\n") } else { text }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_kubeconfig_survives_a_visit(text in kubeconfig()) {
        let installed = entries::install(&text, &access()).unwrap();
        prop_assert_eq!(entries::owner(&installed.text, DIR).unwrap(), Owner::Us);
        let previous = installed.replaced.unwrap();
        let removed = entries::uninstall(&installed.text, DIR, previous.clone()).unwrap();
        // The context of `current-context` may not exist here; then nothing is selected afterwards.
        let expected = text.replace("x-somewhere", "\"\"");
        prop_assert!(removed == text || previous.is_some() && removed == expected, "{removed}");
    }

    #[test]
    fn no_text_makes_the_editor_panic(text in "(?s)[a-z:\\-\\[\\]{}&*#|> \"'\n]{0,80}") {
        let _ = entries::install(&text, &access());
        let _ = entries::uninstall(&text, DIR, None);
    }
}
