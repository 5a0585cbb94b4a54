//! The steps that all writes share, from a decoded object to one that is stored.
//!
//! Their order, for a create (`create.rs`), an update and a patch (`update.rs`) alike:
//! 1. decode the body ([`super::body`]); a patch is applied to the stored object instead
//! 2. conform to the schema and set defaults: [`Call::conform`]
//! 3. note who owns which fields ([`Call::track`]; an apply has done so in [`Call::apply_to`]): before the server
//!    itself sets anything, for nobody comes to own that
//! 4. set what is the server's of the metadata: uid, times, what cannot change
//! 5. admit: let the rules of kinds that the server does not know set their defaults ([`Call::admit`])
//! 6. prepare, by the rules of the kind: clear what this request may not set, count the generation
//! 7. admit pods as the real server does, and choose addresses of services
//! 8. validate ([`Call::validate`]), all faults at once; then rights and pod security
//! 9. store, if nobody else has in between ([`Call::store`])

use serde_json::Value;

use super::{Call, Shown, meta};
use crate::{
    admission::{self, Operation, Review, Stored},
    decode::{self, FieldValidation},
    error::{ApiError, Cause, FieldError},
    kinds,
    patch::apply::{self, Writer},
    store::{Change, CommitError, Draft, Expect, Object},
};

/// How often a write without a version of its own is tried again when others write in between.
pub const TRIES_MAX: usize = 16;

/// The longest object that is stored: as long as the longest body. etcd takes half of that, of a more compact form.
const OBJECT_BYTES_MAX: usize = decode::BODY_BYTES_MAX;
/// What a deletion may add to it, such as the time of the end and finalizers, so that everything can be deleted.
const DELETION_BYTES_MAX: usize = 64 << 10;

impl Call {
    /// Brings a decoded object into the form of its schema and defaults it; returns the warnings this leads to.
    ///
    /// # Errors
    /// If a field has the wrong type, or is unknown and that is asked to be an error.
    pub fn conform(&self, value: &mut Value, mut problems: Vec<String>) -> Result<Vec<String>, ApiError> {
        problems.extend(self.resource.conform(value)?);
        self.resource.default(value);
        match self.options.field_validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(problems),
            FieldValidation::Strict if problems.is_empty() => Ok(problems),
            FieldValidation::Strict => {
                Err(self.undecodable(&format!("strict decoding error: {}", problems.join(", "))))
            }
        }
    }

    /// The body cannot be read as an object of this kind.
    pub fn undecodable(&self, why: &str) -> ApiError {
        let info = &self.resource.info;
        ApiError::not_of_kind(&info.kind, &info.version, &info.kind, why)
    }

    /// Lets the rules of kinds that the server does not know set their defaults.
    pub fn admit(&self, new: &mut Value, old: Option<&Value>) {
        let review = self.review(operation(old));
        for admission in self.api.admission() {
            admission.default(&review, new, old);
        }
    }

    /// The circumstances of this call, for such rules.
    pub fn review(&self, operation: Operation) -> Review<'_> {
        let stored = Stored(self.api.store());
        let subresource = self.target.subresource.as_str();
        Review { operation, resource: &self.resource.info, subresource, user: &self.user, stored }
    }

    /// Checks an object; returns warnings.
    ///
    /// # Errors
    /// All mistakes of the object at once.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Result<Vec<String>, ApiError> {
        let verdict = match (self.target.subresource.as_str(), old) {
            ("status", Some(old)) => self.resource.validate_status(new, old),
            _ => self.resource.validate(new, old),
        };
        let review = self.review(operation(old));
        let ruled = self.api.admission().iter().filter_map(|admission| admission.check(&review, new, old));
        let verdict = admission::join(verdict, ruled.collect());
        self.refuse(new, &verdict.errors)?;
        Ok(verdict.warnings)
    }

    /// # Errors
    /// If there are any errors.
    pub fn refuse(&self, object: &Value, errors: &[FieldError]) -> Result<(), ApiError> {
        if errors.is_empty() {
            return Ok(());
        }
        let info = &self.resource.info;
        Err(kinds::invalid(&info.group, &info.kind, meta::text(object, "name"), errors))
    }

    /// Records who owns the fields that this write changes.
    pub fn track(&self, old: Option<&Value>, new: &mut Value) {
        let (api_version, now) = (self.resource.info.api_version(), self.api.clock_and_ids().now_text());
        let target = self.resource.apply_target(&api_version, &self.target.subresource);
        apply::track_update(&target, &self.writer(&now), old, new);
    }

    /// Merges a configuration into an object, or makes a new one of it.
    ///
    /// # Errors
    /// If others own what would change, or the configuration makes no sense.
    pub fn apply_to(&self, live: Option<&Value>, applied: &Value) -> Result<Value, ApiError> {
        let (api_version, now) = (self.resource.info.api_version(), self.api.clock_and_ids().now_text());
        let target = self.resource.apply_target(&api_version, &self.target.subresource);
        apply::apply(&target, &self.writer(&now), live, applied)
    }

    pub fn writer<'a>(&'a self, now: &'a str) -> Writer<'a> {
        let named = self.options.field_manager.as_str();
        let manager = if named.is_empty() { self.user.agent.as_str() } else { named };
        Writer { manager, now, force: self.options.force }
    }

    /// Stores an object; `over` is the state it replaces.
    ///
    /// # Errors
    /// If another write came first.
    pub async fn store(&self, value: Value, over: Option<&Object>) -> Result<Shown, ApiError> {
        if self.options.dry_run {
            let taken = over.is_none() && self.api.store().get(&self.key()).is_some();
            let value = self.resource.filled(value);
            return if taken { Err(self.taken()) } else { Ok(Shown::Value(value)) };
        }
        let expect = over.map_or(Expect::Absent, |old| Expect::Revision(old.revision));
        let draft = Draft::new(&self.resource.to_stored(value));
        check_size(&draft)?;
        self.commit(Change { key: self.key(), expect, draft, removes: false }).await
    }

    /// Removes an object; watches see `last`.
    ///
    /// # Errors
    /// If another write came first.
    pub async fn remove(&self, last: Value, over: &Object) -> Result<Shown, ApiError> {
        if self.options.dry_run {
            return Ok(Shown::Value(last));
        }
        let expect = Expect::Revision(over.revision);
        let change =
            Change { key: self.key(), expect, draft: Draft::new(&self.resource.to_stored(last)), removes: true };
        self.commit(change).await
    }

    async fn commit(&self, change: Change) -> Result<Shown, ApiError> {
        let written = self.api.store().commit(change).await.map_err(|error| self.commit_error(error))?;
        self.api.written(&self.resource);
        Ok(Shown::Stored(written))
    }

    fn taken(&self) -> ApiError {
        let mut error = ApiError::already_exists(self.subject());
        if self.api.store().get(&self.key()).is_some_and(|object| object.is_deleting()) {
            error.message.insert_str(0, "object is being deleted: ");
        }
        error
    }

    fn commit_error(&self, error: CommitError) -> ApiError {
        match error {
            CommitError::Exists => self.taken(),
            CommitError::Missing => ApiError::not_found(self.subject()),
            CommitError::Changed => {
                ApiError { cause: Some(Cause::Race), ..ApiError::conflict(self.subject(), MODIFIED) }
            }
            CommitError::Full => ApiError::new(507, "InsufficientStorage", FULL),
            CommitError::Disk(source) => ApiError::internal(format!("cannot write to the store: {source}")),
            CommitError::Closing => {
                ApiError::new(503, "ServiceUnavailable", "the server is shutting down or has failed")
            }
        }
    }
}

/// Refuses what patch after patch could make of an object.
fn check_size(draft: &Draft) -> Result<(), ApiError> {
    let limit = if draft.is_deleting() { OBJECT_BYTES_MAX + DELETION_BYTES_MAX } else { OBJECT_BYTES_MAX };
    if draft.size() > limit { Err(decode::too_large()) } else { Ok(()) }
}

fn operation(old: Option<&Value>) -> Operation {
    if old.is_some() { Operation::Update } else { Operation::Create }
}

const FULL: &str = "the disk is full: existing objects can be changed and deleted, new ones cannot be stored";

/// The answer to a write on an outdated object.
pub const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
