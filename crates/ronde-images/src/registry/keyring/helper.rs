//! Asks `docker-credential-NAME`, a program that keeps logins, for the one of a registry.
//!
//! The name of the server goes to its input, and the login comes from its output as JSON.

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::timeout,
};

use super::Login;
use crate::registry::error::{RegistryError, one_line};

/// Helpers of cloud providers ask a server of theirs.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Tokens have a few kilobytes.
const OUTPUT_SIZE_MAX: u64 = 64 << 10;
/// What helpers say, all with the same library, if they have no login for a server.
const NOT_FOUND: &str = "credentials not found";
/// The user of a login that is an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Returns the login that a helper has for a server, if it has one.
pub(super) async fn ask(name: &str, server: &str) -> Result<Option<Login>, RegistryError> {
    let program = format!("docker-credential-{name}");
    let fault = |cause: String| RegistryError::Helper { program: one_line(&program), cause };
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(fault("invalid name".to_owned()));
    }
    let asked = timeout(TIME_MAX, run(&program, server)).await;
    let asked = asked.map_err(|_| fault(format!("no answer in {} s", TIME_MAX.as_secs())))?;
    let (status, output) = asked.map_err(|error| fault(error.kind().to_string()))?;
    if output.len() as u64 > OUTPUT_SIZE_MAX {
        return Err(fault("the answer is too long".to_owned()));
    }
    if !status.success() {
        let said = one_line(&String::from_utf8_lossy(&output));
        return if said.contains(NOT_FOUND) { Ok(None) } else { Err(fault(said)) };
    }
    // The output has the secret, so no error may quote it.
    let answer: Answer = serde_json::from_slice(&output).map_err(|_| fault("invalid answer".to_owned()))?;
    Ok(Some(match answer.username.as_str() {
        TOKEN_USER => Login::IdentityToken(answer.secret),
        _ => Login::new(answer.username, answer.secret),
    }))
}

async fn run(program: &str, server: &str) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read its input fails by itself.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let output = read(&mut child).await?;
    Ok((child.wait().await?, output))
}

async fn read(child: &mut Child) -> std::io::Result<Vec<u8>> {
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(OUTPUT_SIZE_MAX + 1).read_to_end(&mut output).await?;
    }
    Ok(output)
}
