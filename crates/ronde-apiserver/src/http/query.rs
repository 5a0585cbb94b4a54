//! The query parameters of requests, parsed and checked once. Pure.

use serde_json::json;

use crate::{
    decode::FieldValidation,
    error::{ApiError, FieldError, Subject},
    store::Revision,
    verbs::options::{Continue, ListOptions, VersionRule, WriteOptions},
};

/// All parameters of a request, in order.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: Option<&str>) -> Self {
        Self(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The value of a parameter that may be there and empty.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is on, as the real server reads it for pods: any value but `0` and `false`.
    pub fn switch(&self, name: &str) -> bool {
        self.find(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1" | "t" | "T" | "True" | "TRUE")
    }

    /// # Errors
    /// If there is something but no number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.get(name) {
            "" => Ok(None),
            text => match text.parse::<i64>() {
                Ok(number) => Ok(Some(u64::try_from(number).unwrap_or(0))),
                Err(_) => Err(ApiError::bad_request(format!("{name}: expected a number, got {text:?}"))),
            },
        }
    }
}

impl ListOptions {
    /// # Errors
    /// If a parameter is malformed or forbidden in this combination.
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
        let text = |name: &str| query.get(name).to_owned();
        let resume = match query.get("continue") {
            "" => None,
            token => Some(Continue::decode(token)?),
        };
        let send_initial_events = match query.get("sendInitialEvents") {
            "" => None,
            _ => Some(query.flag("sendInitialEvents")),
        };
        let options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            watch: query.flag("watch"),
            limit: query.number("limit")?.map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            resume,
            version: version_rule(query)?,
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
            timeout_seconds: query.number("timeoutSeconds")?,
        };
        let errors = list_errors(query, &options);
        if !errors.is_empty() {
            return Err(invalid_options("ListOptions", &errors));
        }
        if options.resume.is_some() && !matches!(query.get("resourceVersion"), "" | "0") {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        Ok(options)
    }
}

fn version_rule(query: &Query) -> Result<VersionRule, ApiError> {
    let revision = parse_revision(query.get("resourceVersion")).map_err(|error| {
        if query.flag("watch") {
            return ApiError::new(500, "", error.message);
        }
        ApiError::bad_request(format!("invalid resource version: {}", error.message))
    })?;
    Ok(match (revision, query.get("resourceVersionMatch")) {
        (None | Some(0), _) => VersionRule::Any,
        (Some(revision), "Exact") => VersionRule::Exact(revision),
        // A page with a version but no rule is exact, as it was before there were rules.
        (Some(revision), "") if !query.get("limit").is_empty() && !query.flag("watch") => VersionRule::Exact(revision),
        (Some(revision), _) => VersionRule::NotOlderThan(revision),
    })
}

fn list_errors(query: &Query, options: &ListOptions) -> Vec<FieldError> {
    let (version, rule) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    let mut forbid = |field: &str, why: &str| errors.push(FieldError::forbidden(field, why));
    if options.send_initial_events.is_some() && !options.watch {
        forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        return errors;
    }
    if options.send_initial_events.is_some() {
        if rule != "NotOlderThan" {
            forbid(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            if !rule.is_empty() {
                errors.push(FieldError::not_supported(field, rule.into(), &["NotOlderThan"]));
            }
        }
        return errors;
    }
    if rule.is_empty() {
        return errors;
    }
    if options.watch {
        forbid(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        return errors;
    }
    if version.is_empty() {
        forbid(field, "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if options.resume.is_some() {
        forbid(field, "resourceVersionMatch is forbidden when continue is provided");
    }
    if rule == "Exact" && version == "0" {
        forbid(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    if !matches!(rule, "Exact" | "NotOlderThan") {
        errors.push(FieldError::not_supported(field, rule.into(), &["Exact", "NotOlderThan", ""]));
    }
    errors
}

/// Reads a `resourceVersion`; absent when empty.
///
/// # Errors
/// If it is not a number.
pub fn parse_revision(text: &str) -> Result<Option<Revision>, ApiError> {
    match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("resourceVersion: Invalid value: {text:?}: must be a number"))),
    }
}

impl WriteOptions {
    /// # Errors
    /// If a parameter has a value that is not known. `options` is the kind named in the error, as in `CreateOptions`.
    pub fn parse(query: &Query, options: &str) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let dry_run = match query.get("dryRun") {
            "" => false,
            "All" => true,
            other => {
                errors.push(FieldError::not_supported("dryRun", json!([other]), &["All"]));
                false
            }
        };
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other.into(), &supported));
                FieldValidation::Warn
            }
        };
        let field_manager = query.get("fieldManager").to_owned();
        errors.extend(field_manager_errors(&field_manager));
        if !errors.is_empty() {
            return Err(invalid_options(options, &errors));
        }
        Ok(Self { dry_run, field_manager, field_validation, force: query.flag("force") })
    }
}

/// The real server's limit on the name of a field manager.
const FIELD_MANAGER_MAX: usize = 128;

fn field_manager_errors(manager: &str) -> Option<FieldError> {
    if manager.len() > FIELD_MANAGER_MAX {
        let detail = format!("may not be more than {FIELD_MANAGER_MAX} bytes");
        return Some(FieldError::new(crate::error::FieldErrorKind::TooLong, "fieldManager", manager.into(), detail));
    }
    let (at, hidden) = manager.chars().enumerate().find(|(_, letter)| letter.is_control())?;
    let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(hidden));
    Some(FieldError::invalid("fieldManager", manager.into(), detail))
}

fn invalid_options(kind: &str, errors: &[FieldError]) -> ApiError {
    ApiError::invalid(Subject { group: "meta.k8s.io", what: kind, name: "" }, errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NamespacedName;

    fn list(query: &str) -> Result<ListOptions, String> {
        ListOptions::parse(&Query::parse(Some(query))).map_err(|error| error.message)
    }

    #[test]
    fn versions_and_rules_combine() {
        let rule = |query: &str| list(query).map(|options| options.version);
        assert_eq!(rule(""), Ok(VersionRule::Any));
        assert_eq!(rule("resourceVersion=0"), Ok(VersionRule::Any));
        assert_eq!(rule("resourceVersion=7"), Ok(VersionRule::NotOlderThan(7)));
        assert_eq!(rule("resourceVersion=7&limit=2"), Ok(VersionRule::Exact(7)));
        assert_eq!(rule("resourceVersion=7&resourceVersionMatch=Exact"), Ok(VersionRule::Exact(7)));
        assert!(rule("resourceVersionMatch=Exact").is_err_and(|e| e.contains("unless resourceVersion is provided")));
        assert!(rule("resourceVersion=0&resourceVersionMatch=Exact").is_err());
        assert!(rule("resourceVersion=x").is_err_and(|e| e.contains("must be a number")));
        assert!(rule("resourceVersion=1&resourceVersionMatch=Never").is_err_and(|e| e.contains("Unsupported value")));
        assert!(list("sendInitialEvents=true").is_err());
        assert!(list("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
    }

    #[test]
    fn a_continue_token_comes_back_and_garbage_does_not() {
        let token = Continue { at: Some(5), after: NamespacedName::new("a", "b") };
        assert_eq!(list(&format!("continue={}", token.encode())).map(|o| o.resume), Ok(Some(token)));
        for garbage in ["x", "e30", "!!", "eyJ2IjoiIn0"] {
            assert_eq!(list(&format!("continue={garbage}")), Err("continue key is not valid".to_owned()));
        }
    }

    #[test]
    fn write_options_name_what_they_do_not_know() {
        let parse = |query: &str| WriteOptions::parse(&Query::parse(Some(query)), "CreateOptions");
        assert!(parse("dryRun=All&fieldManager=me&fieldValidation=Strict").is_ok_and(|o| o.dry_run));
        assert!(parse("dryRun=Some").is_err_and(|e| e.code == 422));
        assert!(parse("fieldValidation=Maybe").is_err_and(|e| e.message.contains("\"Maybe\"")));
        assert!(parse(&format!("fieldManager={}", "x".repeat(129))).is_err());
    }
}
