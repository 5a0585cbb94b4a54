//! Which form of an answer a client wants: plain JSON or YAML, a Table, or metadata only. Pure.

use crate::error::ApiError;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub shape: Shape,
    pub yaml: bool,
    /// Tables and metadata are asked for in their older version.
    pub beta: bool,
}

/// What is shown of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Whole,
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
}

impl Form {
    pub const JSON: Self = Self { shape: Shape::Whole, yaml: false, beta: false };

    /// Chooses the first form in `accept` that we have; `tables` says whether transformed forms exist here.
    ///
    /// # Errors
    /// If nothing in it can be had (406).
    pub fn choose(accept: Option<&str>, tables: bool) -> Result<Self, ApiError> {
        let Some(accept) = accept.filter(|text| !text.trim().is_empty()) else { return Ok(Self::JSON) };
        accept.split(',').find_map(|clause| Self::of_clause(clause, tables)).ok_or_else(not_acceptable)
    }

    /// Returns the version of the forms that are not the object itself.
    pub fn meta_version(self) -> &'static str {
        if self.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }

    /// # Errors
    /// If metadata is asked for in the form of a list where there is one object, or the other way round (406).
    pub fn check_count(self, is_list: bool, kind: &str) -> Result<(), ApiError> {
        let (asked, why) = match (self.shape, is_list) {
            (Shape::Metadata, true) => ("PartialObjectMetadata", format!("is a list (*core.{kind}List)")),
            (Shape::MetadataList, false) => ("PartialObjectMetadataList", format!("is not a list (*core.{kind})")),
            _ => return Ok(()),
        };
        let message = format!("you requested {asked}, but the requested object {why}");
        Err(ApiError::new(406, "NotAcceptable", message))
    }

    fn of_clause(clause: &str, tables: bool) -> Option<Self> {
        let mut parts = clause.split(';').map(str::trim);
        let yaml = match parts.next()? {
            "application/json" | "application/*" | "*/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let (mut kind, mut group, mut version) = ("", "", "");
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => kind = value,
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                _ => {}
            }
        }
        let shape = match kind {
            "" => Shape::Whole,
            _ if !tables || group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") => return None,
            "Table" => Shape::Table,
            "PartialObjectMetadata" => Shape::Metadata,
            "PartialObjectMetadataList" => Shape::MetadataList,
            _ => return None,
        };
        Some(Self { shape, yaml, beta: version == "v1beta1" })
    }
}

fn not_acceptable() -> ApiError {
    let types = "application/json, application/yaml";
    ApiError::new(406, "NotAcceptable", format!("only the following media types are accepted: {types}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expected: Option<(Shape, bool)>) {
        let form = Form::choose(Some(accept), true).ok().map(|form| (form.shape, form.yaml));
        assert_eq!(form, expected, "{accept}");
    }

    #[test]
    fn the_first_form_we_have_is_chosen() {
        check("", Some((Shape::Whole, false)));
        check("*/*", Some((Shape::Whole, false)));
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some((Shape::Table, false)));
        check("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some((Shape::Whole, false)));
        check("application/vnd.kubernetes.protobuf,application/json", Some((Shape::Whole, false)));
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some((Shape::MetadataList, false)));
        check("application/yaml", Some((Shape::Whole, true)));
        check("application/vnd.kubernetes.protobuf", None);
        check("text/html", None);
    }

    #[test]
    fn documents_without_tables_are_plain() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";
        assert_eq!(Form::choose(Some(accept), false), Ok(Form::JSON));
    }
}
