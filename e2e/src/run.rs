//! Carries a scenario out: sends its requests through a `kube::Client`, which may lead to a real
//! server or to a router in this process, and writes the transcript. Each run has a namespace of
//! its own. Trouble with one step is written into its block; the run goes on.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use kube::client::Body;
use serde_json::{Value, json};

use crate::{
    normalise::Normaliser,
    path::FieldPath,
    render,
    scenario::{Action, Condition, Options, ParseError, Scenario, Step, Subject},
    transcript::Transcript,
    watch::Watch,
};

/// A wait that takes longer has failed; the slowest real one (garbage collection) takes 3 s.
const WAIT: Duration = Duration::from_secs(30);
const WAIT_PAUSE: Duration = Duration::from_millis(50);
/// No answer that a scenario asks for takes longer.
const ANSWER: Duration = Duration::from_secs(30);
/// Becomes the field manager of requests that name none.
const USER_AGENT: &str = "ronde-e2e/1.0";
/// An answer in YAML is shown as one in JSON, because writers of YAML differ in quotes and order.
const YAML: &str = "application/yaml";
const HEADERS_SHOWN: [&str; 3] = ["warning", "retry-after", "allow"];

/// Runs a scenario in a fresh namespace and returns its transcript.
///
/// # Errors
///
/// When the text is not a scenario; what a server answers is never an error.
pub async fn run_scenario(client: &kube::Client, text: &str) -> Result<Transcript, ParseError> {
    let scenario: Scenario = text.parse()?;
    let mut run = Run::start(client, text).await;
    let mut transcript = Transcript::default();
    for step in &scenario.steps {
        let block = run.step(step).await;
        if !step.options.quiet {
            transcript.blocks.push(run.notes.drain(..).chain([block]).collect());
        }
    }
    for step in &scenario.cleanup {
        run.step(step).await;
    }
    run.finish().await;
    Ok(transcript)
}

struct Run<'c> {
    client: &'c kube::Client,
    variables: BTreeMap<String, String>,
    watches: BTreeMap<String, Watch>,
    normaliser: Normaliser,
    /// Quiet steps that failed; shown with the next step that is recorded.
    notes: Vec<String>,
}

/// What came back.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
    /// The text, when it is JSON or YAML.
    body: Option<Value>,
}

impl<'c> Run<'c> {
    async fn start(client: &'c kube::Client, text: &str) -> Self {
        let mut run = Run {
            client,
            normaliser: Normaliser::new(text),
            variables: BTreeMap::new(),
            watches: BTreeMap::new(),
            notes: Vec::new(),
        };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "e2e-"}});
        let mut create = step_of(Method::POST, "/api/v1/namespaces", Some(body.to_string()));
        let name = ".metadata.name".parse().expect("the path is well formed");
        create.options.set.push(("ns".into(), name));
        run.step(&create).await;
        if let Some(namespace) = run.variables.get("ns") {
            run.normaliser.hide_namespace(namespace);
        }
        run
    }

    /// Asks for the deletion only: what is left in the namespace must not hold up the next run.
    async fn finish(&mut self) {
        self.watches.clear();
        self.step(&step_of(Method::DELETE, "/api/v1/namespaces/${ns}", None)).await;
    }

    async fn step(&mut self, step: &Step) -> String {
        let result = match &step.action {
            Action::Request { method, path, body } => self.request(method, path, body.as_deref(), &step.options).await,
            Action::Watch { name, path } => self.open_watch(name, path, &step.options).await,
            Action::Events { name, count } => self.events(name, *count, &step.options).await,
        };
        if let (Err(trouble), true) = (&result, step.options.quiet) {
            let note = format!("failed before: {}: {}\n", step.line, trouble.trim_end());
            self.notes.push(self.normaliser.text(&note));
        }
        let shown = result.unwrap_or_else(|trouble| self.normaliser.text(&format!("failed: {trouble}")));
        let mut lines = step.comment.clone();
        lines.push(step.line.clone());
        lines.push(shown);
        lines.join("\n").trim_end().replace("\n\n", "\n")
    }

    async fn request(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        options: &Options,
    ) -> Result<String, String> {
        let path = self.substitute(path)?;
        let body = match body {
            Some(text) if options.raw => self.substitute(text)?.into_bytes(),
            Some(text) => self.json(text)?,
            None => Vec::new(),
        };
        self.learn_generated_name(&body);
        let answer = self.send_until(method, &path, &body, options).await?;
        self.keep(&answer, options)?;
        if !options.quiet {
            return Ok(self.show(&answer, options));
        }
        // What a quiet step shows must not move the numbering, which may depend on timing.
        if options.until.is_none() && answer.status.is_client_error() {
            return Err(format!("{} {}", answer.status, answer.text));
        }
        Ok(String::new())
    }

    fn learn_generated_name(&mut self, body: &[u8]) {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(prefix) = body.pointer("/metadata/generateName").and_then(Value::as_str) {
            self.normaliser.expect_generated(prefix);
        }
    }

    async fn send_until(&self, method: &Method, path: &str, body: &[u8], options: &Options) -> Result<Answer, String> {
        let Some(condition) = &options.until else {
            return self.send(method, path, body, options).await;
        };
        let mut last = String::new();
        let wait = async {
            loop {
                let answer = self.send(method, path, body, options).await?;
                if condition.holds(&answer) {
                    return Ok(answer);
                }
                last = format!("{} {}", answer.status, answer.text);
                tokio::time::sleep(WAIT_PAUSE).await;
            }
        };
        let waited = tokio::time::timeout(WAIT, wait).await;
        waited.unwrap_or_else(|_| Err(format!("the condition did not come true; last: {last}")))
    }

    async fn send(&self, method: &Method, path: &str, body: &[u8], options: &Options) -> Result<Answer, String> {
        let exchange = async { Answer::read(self.exchange(method, path, body, options).await?).await };
        let waited = tokio::time::timeout(ANSWER, exchange).await;
        waited.unwrap_or_else(|_| Err("no answer".into()))
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: &[u8],
        options: &Options,
    ) -> Result<Response<Body>, String> {
        let request = build_request(method, path, body, options)?;
        self.client.send(request).await.map_err(|e| e.to_string())
    }

    fn keep(&mut self, answer: &Answer, options: &Options) -> Result<(), String> {
        for (name, path) in &options.set {
            let value = answer.body.as_ref().and_then(|body| path.get(body));
            let text = match value {
                Some(Value::String(text)) => text,
                Some(other) => other.to_string(),
                None => return Err(format!("{}: no {path} in {}", answer.status, answer.text)),
            };
            self.variables.insert(name.clone(), text);
        }
        Ok(())
    }

    fn show(&mut self, answer: &Answer, options: &Options) -> String {
        let mut shown = format!("{}\n", answer.status);
        if answer.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == YAML) {
            let _ = writeln!(shown, "content-type: {YAML}");
        }
        for name in HEADERS_SHOWN {
            for value in answer.headers.get_all(name) {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                let _ = writeln!(shown, "{name}: {}", self.normaliser.text(&value));
            }
        }
        match &answer.body {
            Some(body) => shown.push_str(&self.show_value(body, options)),
            None => shown.push_str(&self.normaliser.text(&answer.text)),
        }
        shown
    }

    fn show_value(&mut self, body: &Value, options: &Options) -> String {
        let mut body = body.clone();
        // Normalise the whole before picking, so that the numbering does not depend on the picks.
        self.normaliser.answer(&mut body);
        for path in &options.hide {
            path.remove(&mut body);
        }
        // An answer without any of the fields is an error that nobody expected: show it whole.
        if options.show.iter().all(|path| path.get(&body).is_none()) {
            return render::yaml(&body);
        }
        let pick = |path: &FieldPath| (path.to_string(), path.get(&body).unwrap_or(Value::Null));
        render::yaml(&Value::Object(options.show.iter().map(pick).collect()))
    }

    async fn open_watch(&mut self, name: &str, path: &str, options: &Options) -> Result<String, String> {
        let path = self.substitute(path)?;
        let open = async {
            loop {
                let response = self.exchange(&Method::GET, &path, &[], options).await?;
                if response.status() == StatusCode::OK {
                    return Ok(Ok(Watch::open(response.into_body())));
                }
                let answer = Answer::read(response).await?;
                if options.until.as_ref().is_none_or(|condition| condition.holds(&answer)) {
                    return Ok(Err(answer));
                }
                tokio::time::sleep(WAIT_PAUSE).await;
            }
        };
        let waited = tokio::time::timeout(WAIT, open).await;
        match waited.unwrap_or_else(|_| Err("the watch did not open".to_owned()))? {
            Ok(watch) => {
                self.watches.insert(name.into(), watch);
                Ok(StatusCode::OK.to_string())
            }
            Err(refused) => Ok(self.show(&refused, options)),
        }
    }

    async fn events(&mut self, name: &str, count: usize, options: &Options) -> Result<String, String> {
        let watch = self.watches.get_mut(name).ok_or(format!("no watch `{name}`"))?;
        let lines = watch.take(count, WAIT).await;
        let mut shown = String::new();
        for line in &lines {
            let event: Value = serde_json::from_str(line).map_err(|_| format!("not JSON: {line}"))?;
            shown.push_str("- ");
            shown.push_str(self.show_value(&event, options).trim_end().replace('\n', "\n  ").as_str());
            shown.push('\n');
        }
        if lines.len() < count {
            let _ = writeln!(shown, "only {} of {count} events came", lines.len());
        }
        Ok(shown)
    }

    fn json(&self, yaml: &str) -> Result<Vec<u8>, String> {
        let text = self.substitute(yaml)?;
        // `y` and `no` are ordinary strings.
        let options = serde_saphyr::options! { strict_booleans: true };
        let value: Value = serde_saphyr::from_str_with_options(&text, options).map_err(|e| format!("the body: {e}"))?;
        Ok(value.to_string().into_bytes())
    }

    fn substitute(&self, text: &str) -> Result<String, String> {
        let mut parts = text.split("${");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').ok_or("`${` without `}`")?;
            out.push_str(self.variables.get(name).ok_or(format!("variable `{name}` is not set"))?);
            out.push_str(rest);
        }
        Ok(out)
    }
}

impl Answer {
    async fn read(response: Response<Body>) -> Result<Self, String> {
        let (head, body) = response.into_parts();
        let bytes = body.collect_bytes().await.map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_yaml = head.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == YAML);
        let body = if is_yaml { serde_saphyr::from_str(&text).ok() } else { serde_json::from_str(&text).ok() };
        Ok(Answer { status: head.status, headers: head.headers, text, body })
    }
}

impl Condition {
    fn holds(&self, answer: &Answer) -> bool {
        let found = match &self.subject {
            Subject::Status => answer.status.as_str().to_owned(),
            Subject::Field(path) => match answer.body.as_ref().and_then(|body| path.get(body)) {
                Some(Value::String(text)) => text,
                other => other.unwrap_or_default().to_string(),
            },
        };
        (found == self.value) == self.equal
    }
}

fn build_request(method: &Method, path: &str, body: &[u8], options: &Options) -> Result<Request<Body>, String> {
    let mut request = Request::builder()
        .method(method)
        .uri(path.replace(' ', "%20").replace('>', "%3E"))
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, options.accept.as_deref().unwrap_or("application/json"));
    let content_type = options.content_type.as_deref();
    if content_type.is_some() || !body.is_empty() {
        match content_type.unwrap_or("application/json") {
            "none" => {}
            other => request = request.header(header::CONTENT_TYPE, other),
        }
    }
    request.body(Body::from(body.to_vec())).map_err(|e| e.to_string())
}

fn step_of(method: Method, path: &str, body: Option<String>) -> Step {
    Step {
        comment: Vec::new(),
        line: format!("{method} {path}"),
        action: Action::Request { method, path: path.into(), body },
        options: Options { quiet: true, ..Options::default() },
    }
}
