//! What the tests do to the values: each changed once, and some that make no sense.

/// One value, as Helm's `--set-json` takes it.
pub struct Change {
    pub set: &'static str,
    /// Whether it is about the agent; else about ssh.
    pub is_for_agent: bool,
}

const fn change(set: &'static str) -> Change {
    Change { set, is_for_agent: false }
}

const fn for_agent(set: &'static str) -> Change {
    Change { set, is_for_agent: true }
}

/// Every value of the chart, changed once; some of them in several ways.
pub const CHANGES: &[Change] = &[
    change("useHostPID=true"),
    change(r#"useHostNetwork=true,ssh={"port":2222,"useSecrets":true,"hostKey":"k"}"#),
    change(r#"launcher="agent""#),
    change("ssh.port=2222"),
    change("ssh.useSecrets=false"),
    change(r#"ssh.hostKey="another""#),
    change(r#"ssh.hostKeyPub="another""#),
    for_agent("agent.port=9010"),
    for_agent(r#"agent.program="/opt/ronde""#),
    for_agent(r#"agent.image.repository="example.test/ronde""#),
    for_agent(r#"agent.image.tag="1""#),
    for_agent(r#"agent.image.pullPolicy="Always""#),
    change("worker.number=3"),
    change("worker.number=0"),
    change(r#"worker.podManagementPolicy="OrderedReady""#),
    change(r#"worker.image.repository="example.test/worker""#),
    change(r#"worker.image.tag="1""#),
    change(r#"worker.image.pullPolicy="Never""#),
    change(r#"worker.env={"TEXT":"two words","NUMBER":1000000,"YES":true,"n":"007"}"#),
    change("worker.privileged=true"),
    change(r#"master.image.repository="example.test/master""#),
    change(r#"master.image.tag="1""#),
    change(r#"master.image.pullPolicy="Always""#),
    change("master.args=[]"),
    change("master.args={}"),
    change(r#"master.args=["horovodrun -np","3",1000000,"sh -c 'echo \"$(hostname): {{ a }}\"'"]"#),
    change(r#"master.env={"TEXT":"two words"}"#),
    change("master.privileged=true"),
    change("master.backoffLimit=0"),
    change("master.waitSeconds=5"),
    change(r#"resources={"limits":{"nvidia.com/gpu":4,"cpu":"8"},"requests":{"cpu":2}}"#),
    change(r#"resources={"limits":{"nvidia.com/gpu":"2"}}"#),
    change(r#"volumes=[{"name":"data","emptyDir":{}}]"#),
    change(r#"volumeMounts=[{"name":"data","mountPath":"/data"}]"#),
    change(r#"securityContext={"fsGroup":1000}"#),
    change("releaseWorkers=false"),
    change(r#"serviceAccountName="trainer""#),
    change("gang=true"),
    change(r#"queue="research",gang=true"#),
    change(r#"schedulerName="ronde""#),
    change(r#"nameOverride="dance""#),
    change(r#"fullnameOverride="on""#),
];

/// Values that are refused.
pub const WRONG: &[&str] = &[
    "wrker.number=2",
    "worker.numer=2",
    r#"worker.number="two""#,
    "worker.number=-1",
    "ssh.port=65536",
    r#"launcher="rsh""#,
    "worker.image.tag=1.10",
    r#"worker.env=[{"name":"A","value":"b"}]"#,
    r#"master.args={"command":"mpirun"}"#,
    r#"fullnameOverride="Not A Name""#,
    r#"master.env={"LAUNCHER":"torchrun"}"#,
    "ssh.useSecrets=true",
    "useHostNetwork=true",
    "securityContext.runAsUser=1000",
    r#"gang=true,worker.podManagementPolicy="OrderedReady""#,
];
