//! The words by which `get` and `delete` are told what is meant: `KIND`, `KIND,KIND`, `KIND NAME…` or `KIND/NAME…`.
//!
//! Pure. Whether there is such a kind is known to [`crate::resources`].

use crate::failure::{Blame, Failure};

/// An object by the words of a user, or all objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub kind: String,
    pub name: Option<String>,
}

/// Why words name nothing.
#[derive(Debug, thiserror::Error)]
pub enum WordError {
    #[error("`{text}` is not of the form `KIND/NAME`")]
    Half { text: String },
    #[error("`{text}` has no kind, but other arguments do")]
    Mixed { text: String },
    #[error("no kind in `{text}`")]
    NoKind { text: String },
}

impl Failure for WordError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Half { .. } => Some("write for example `pod/web`".to_owned()),
            Self::Mixed { text } => Some(format!("write `KIND/{text}`, or one kind followed by names only")),
            Self::NoKind { .. } => Some("separate kinds by commas, as in `deploy,svc`".to_owned()),
        }
    }
}

/// Reads the words; several kinds and several names are every name of every kind.
pub fn read<'a>(words: impl IntoIterator<Item = &'a String>) -> Result<Vec<Word>, WordError> {
    let words: Vec<&str> = words.into_iter().map(String::as_str).collect();
    if words.iter().any(|word| word.contains('/')) {
        return words.into_iter().map(pair).collect();
    }
    let Some((kinds, names)) = words.split_first() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for kind in kinds.split(',') {
        if kind.is_empty() {
            return Err(WordError::NoKind { text: (*kinds).to_owned() });
        }
        let word = |name: Option<&str>| Word { kind: kind.to_owned(), name: name.map(str::to_owned) };
        match names {
            [] => found.push(word(None)),
            names => found.extend(names.iter().map(|name| word(Some(name)))),
        }
    }
    Ok(found)
}

fn pair(text: &str) -> Result<Word, WordError> {
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Word { kind: kind.to_owned(), name: Some(name.to_owned()) })
        }
        Some(_) => Err(WordError::Half { text: text.to_owned() }),
        None => Err(WordError::Mixed { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let given: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let show = |word: &Word| format!("{}/{}", word.kind, word.name.as_deref().unwrap_or("*"));
        let shown = read(&given)
            .map(|found| found.iter().map(show).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.to_string());
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn objects_are_named_by_kind_and_name() {
        check("pods", Ok("pods/*"));
        check("pods web", Ok("pods/web"));
        check("pods web db", Ok("pods/web pods/db"));
        check("deploy,svc", Ok("deploy/* svc/*"));
        check("deploy,svc web db", Ok("deploy/web deploy/db svc/web svc/db"));
        check("pod/web vcjob/mnist", Ok("pod/web vcjob/mnist"));
        check("pods/", Err("`pods/` is not of the form `KIND/NAME`"));
        check("pods/a/b", Err("`pods/a/b` is not of the form `KIND/NAME`"));
        check("pod/web mnist", Err("`mnist` has no kind, but other arguments do"));
        check("pods,", Err("no kind in `pods,`"));
    }
}
