//! Lists: a page of a collection at one revision, consistent from the first page to the last.

use std::sync::Arc;

use super::{
    filter::Filter,
    options::{Continue, ListOptions, VersionRule},
    watch::{expired, wait_for},
};
use crate::{
    api::Api,
    error::ApiError,
    registry::Resource,
    store::{Object, Range, Revision, TooOld},
};

/// A page of a list.
pub struct Page {
    pub revision: Revision,
    pub objects: Vec<Arc<Object>>,
    /// The token for the next page; empty on the last.
    pub resume: String,
    /// How many objects follow, when that is known without looking at them.
    pub remaining: Option<usize>,
}

const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start \
    a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
    the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
    modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Returns the objects that a client asked for.
///
/// # Errors
/// If the version asked for is not yet there or no longer kept.
pub async fn list(api: &Api, resource: &Resource, filter: &Filter, options: &ListOptions) -> Result<Page, ApiError> {
    if let VersionRule::NotOlderThan(revision) | VersionRule::Exact(revision) = options.version {
        wait_for(api, revision).await?;
    }
    let page = api.store().list(&resource.collection, &range(filter, options)).map_err(|old| too_old(old, options))?;
    let mut objects = page.objects;
    if !filter.takes_all() {
        objects.retain(|object| filter.matches(object));
    }
    let (mut resume, mut remaining) = (String::new(), None);
    if options.limit > 0 && objects.len() > options.limit {
        remaining = filter.takes_all().then(|| objects.len() - options.limit);
        objects.truncate(options.limit);
        let after = objects.last().map(|object| object.place.clone());
        resume = after.map_or_else(String::new, |after| Continue { at: Some(page.revision), after }.encode());
    }
    Ok(Page { revision: page.revision, objects, resume, remaining })
}

fn range(filter: &Filter, options: &ListOptions) -> Range {
    let at = match (&options.resume, options.version) {
        (Some(resume), _) => resume.at,
        (None, VersionRule::Exact(revision)) => Some(revision),
        (None, _) => None,
    };
    let after = options.resume.as_ref().map(|resume| resume.after.clone());
    Range { namespace: filter.namespace.clone(), after, at }
}

fn too_old(old: TooOld, options: &ListOptions) -> ApiError {
    match &options.resume {
        None => expired(old.asked, old.oldest),
        Some(resume) => {
            let token = Continue { at: None, after: resume.after.clone() }.encode();
            ApiError { resume: Some(token), ..ApiError::expired(INCONSISTENT) }
        }
    }
}
