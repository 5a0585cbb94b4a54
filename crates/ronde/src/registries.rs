//! Where the settings of registries are: mirrors, certificates, plain HTTP. Read by who pulls, never written.

use std::path::PathBuf;

use crate::{
    args::RegistriesArgs,
    environment::{self, Environment},
};

/// Returns the folder named, or the default one, which need not be there.
pub fn folder(args: &RegistriesArgs, environment: &Environment) -> PathBuf {
    let named = args.registries.as_ref().map(|named| environment::absolute(named).unwrap_or_else(|_| named.clone()));
    named.unwrap_or_else(|| match environment.home.as_ref().filter(|_| !environment.is_root) {
        Some(home) => home.join(".config/ronde/registries"),
        None => PathBuf::from("/etc/ronde/registries"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_users_have_places_of_their_own() {
        let ada = Environment { home: Some("/home/ada".into()), ..Environment::default() };
        let root = Environment { is_root: true, ..ada.clone() };
        let none = RegistriesArgs { registries: None };
        assert_eq!(folder(&none, &ada), PathBuf::from("/home/ada/.config/ronde/registries"));
        assert_eq!(folder(&none, &root), PathBuf::from("/etc/ronde/registries"));
        let named = RegistriesArgs { registries: Some("/named".into()) };
        assert_eq!(folder(&named, &root), PathBuf::from("/named"));
    }
}
