//! May they? Every request passes here, before anything else looks at it: who asks, or in whose name, is held against
//! roles and bindings. What a request wants is read from its path by the same code that answers it.

use axum::{
    extract::{Request, State},
    middleware::Next,
};
use http::Method;

use super::{
    discard,
    impersonate::impersonate,
    is_public,
    query::Query,
    reply::{self, Reply},
};
use crate::{
    api::Api,
    auth::User,
    error::ApiError,
    rbac::{Attributes, Requested, ResourceAttributes},
    selector::FieldSelector,
    target::Target,
};

/// Lets a request through if its user may do what it asks for; the [`User`] it is carried out as is left in it.
pub async fn authorize(State(api): State<Api>, mut request: Request, next: Next) -> Reply {
    match check(&api, &request) {
        Ok(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(error) => {
            discard(request.into_body()).await;
            reply::error(&error)
        }
    }
}

fn check(api: &Api, request: &Request) -> Result<User, ApiError> {
    // In process nobody is asked for a token.
    let user = request.extensions().get::<User>().cloned().unwrap_or_else(User::admin);
    let user = impersonate(api, user, request.headers())?;
    let path = request.uri().path();
    if user.is_admin() || is_public(path) {
        return Ok(user);
    }
    let target = Target::parse(path);
    let asked = Wanted::new(request.method(), path, target.as_ref(), &Query::parse(request.uri().query()));
    api.authorize(&user, &asked.attributes()).map(|()| user)
}

/// What a request wants to do.
struct Wanted<'a> {
    verb: String,
    path: &'a str,
    target: Option<&'a Target>,
    /// As in the path; of a collection, the one that a field selector picks out.
    name: String,
}

impl<'a> Wanted<'a> {
    fn new(method: &Method, path: &'a str, target: Option<&'a Target>, query: &Query) -> Self {
        let Some(target) = target else {
            return Self { verb: method.as_str().to_lowercase(), path, target: None, name: String::new() };
        };
        let is_collection = target.name.is_empty();
        let verb = match (method.as_str(), is_collection) {
            ("GET" | "HEAD", _) if target.watch => "watch",
            ("GET" | "HEAD", true) if query.flag("watch") => "watch",
            ("GET" | "HEAD", true) => "list",
            ("GET" | "HEAD", false) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            _ => "",
        };
        let selected =
            || FieldSelector::parse(query.get("fieldSelector")).ok()?.exact("metadata.name").map(str::to_owned);
        let name = match verb {
            "list" | "watch" | "deletecollection" if is_collection => selected().unwrap_or_default(),
            _ => target.name.clone(),
        };
        Self { verb: verb.to_owned(), path, target: Some(target), name }
    }

    fn attributes(&self) -> Attributes<'_> {
        let requested = match self.target {
            None => Requested::Path(self.path),
            Some(target) => Requested::Resource(ResourceAttributes { name: &self.name, ..target.attributes() }),
        };
        Attributes { verb: &self.verb, requested }
    }
}
