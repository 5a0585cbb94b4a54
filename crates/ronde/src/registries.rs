//! Where the settings of registries are: mirrors, certificates, plain HTTP. Read by who pulls, never written.

use std::path::PathBuf;

use crate::{
    args::RegistriesArgs,
    environment::{self, Environment},
};

/// What holds for all users of the machine.
const OF_MACHINE: &str = "/etc/ronde/registries";

/// Returns the folder named, or the default ones, which need not be there.
pub fn folders(args: &RegistriesArgs, environment: &Environment) -> Vec<PathBuf> {
    if let Some(named) = &args.registries {
        return vec![environment::absolute(named).unwrap_or_else(|_| named.clone())];
    }
    let own = environment.home.as_ref().filter(|_| !environment.is_root);
    own.map(|home| home.join(".config/ronde/registries")).into_iter().chain([OF_MACHINE.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &str, named: Option<&str>, is_root: bool, expected: &[&str]) {
        let environment = Environment { home: Some("/home/ada".into()), is_root, ..Environment::default() };
        let args = RegistriesArgs { registries: named.map(PathBuf::from) };
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(folders(&args, &environment), expected, "{what}");
    }

    #[test]
    fn users_have_settings_of_their_own_before_those_of_the_machine() {
        check("root", None, true, &[OF_MACHINE]);
        check("a user", None, false, &["/home/ada/.config/ronde/registries", OF_MACHINE]);
        check("named", Some("/named"), false, &["/named"]);
    }
}
