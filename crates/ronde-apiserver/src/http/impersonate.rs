//! Requests in somebody else's name (`kubectl --as`): the headers, and the rights that they need.

use http::HeaderMap;

use crate::{
    api::Api,
    auth::{AUTHENTICATED, Account, User},
    error::ApiError,
    rbac::{Attributes, Requested, ResourceAttributes},
};

/// Whom a request asks to be carried out as.
struct Wish<'a> {
    user: &'a str,
    groups: Vec<&'a str>,
    uid: Option<&'a str>,
}

/// Returns the user that a request is carried out as; its own without such a wish.
///
/// # Errors
/// If the user may not speak for that one, or it is not clear for whom.
pub fn impersonate(api: &Api, user: User, headers: &HeaderMap) -> Result<User, ApiError> {
    let Some(wish) = Wish::read(headers)? else { return Ok(user) };
    for requested in wish.subjects() {
        let attributes = Attributes { verb: "impersonate", requested: Requested::Resource(requested) };
        api.authorize(&user, &attributes)?;
    }
    Ok(wish.into_user())
}

impl<'a> Wish<'a> {
    fn read(headers: &'a HeaderMap) -> Result<Option<Self>, ApiError> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(None);
        }
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-extra-")) {
            return Err(ApiError::bad_request("impersonation with extra fields is not supported"));
        }
        let (users, uids) = (all(headers, "impersonate-user")?, all(headers, "impersonate-uid")?);
        match users[..] {
            [user] if !user.is_empty() => {
                Ok(Some(Self { user, groups: all(headers, "impersonate-group")?, uid: uids.first().copied() }))
            }
            _ => Err(ApiError::internal("impersonation without exactly one user to impersonate")),
        }
    }

    /// The namespace and name of a service account.
    fn account(&self) -> Option<(&'a str, &'a str)> {
        self.user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
    }

    /// Everything that the verb `impersonate` is needed for.
    fn subjects(&self) -> impl Iterator<Item = ResourceAttributes<'a>> {
        let of = |group, resource, namespace, name| ResourceAttributes {
            group,
            resource,
            namespace,
            name,
            ..ResourceAttributes::default()
        };
        let user = match self.account() {
            Some((namespace, name)) => of("", "serviceaccounts", namespace, name),
            None => of("", "users", "", self.user),
        };
        let groups = self.groups.iter().map(move |group| of("", "groups", "", group));
        let uid = self.uid.map(|uid| of("authentication.k8s.io", "uids", "", uid));
        [user].into_iter().chain(groups).chain(uid)
    }

    fn into_user(self) -> User {
        let uid = self.uid.unwrap_or_default().to_owned();
        if let Some((namespace, name)) = self.account().filter(|_| self.groups.is_empty()) {
            return User::service_account(&Account { namespace: namespace.to_owned(), name: name.to_owned(), uid });
        }
        let mut groups = self.groups;
        if !groups.contains(&AUTHENTICATED) && self.user != "system:anonymous" {
            groups.push(AUTHENTICATED);
        }
        User { uid, ..User::named(self.user, &groups) }
    }
}

fn all<'a>(headers: &'a HeaderMap, name: &str) -> Result<Vec<&'a str>, ApiError> {
    let values = headers.get_all(name).iter().map(|value| value.to_str());
    values.collect::<Result<_, _>>().map_err(|_| ApiError::bad_request(format!("the header {name} is not plain text")))
}
