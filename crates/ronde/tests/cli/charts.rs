//! `ronde install` and `ronde uninstall` where they cannot work; that they do is told by the tests of pods.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn charts_need_helm_and_a_name_that_is_known() {
    let sandbox = Sandbox::new();
    let without_helm = |line: &str| {
        let output = sandbox.command(line).env("PATH", "/nowhere").output().unwrap();
        sandbox.describe(line, &output)
    };
    let all = ["install horovod mnist", "uninstall mnist", "install mysql data"];
    assert_snapshot!("charts_refused", all.map(without_helm).join("\n"));
}
