//! Users and groups as the machine's files know them: who uid 1000 is, which groups he is in. Pure.

/// What `/etc/passwd` and `/etc/group` say of one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    pub gid: u32,
    pub home: Option<String>,
    pub groups: Vec<u32>,
}

/// Finds a user; one that the files do not know has group 0 and no home.
pub fn find(passwd: &str, group: &str, uid: u32) -> Account {
    let id = uid.to_string();
    let mut lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let Some(fields) = lines.find(|fields| fields.get(2) == Some(&id.as_str())) else { return Account::default() };
    let name = fields.first().copied().unwrap_or_default();
    let home = fields.get(5).filter(|home| !home.is_empty()).map(|home| (*home).to_owned());
    let gid = fields.get(3).and_then(|gid| gid.parse().ok()).unwrap_or(0);
    Account { gid, home, groups: groups_of(group, name) }
}

fn groups_of(group: &str, name: &str) -> Vec<u32> {
    let lines = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let has = |fields: &Vec<&str>| fields.get(3).is_some_and(|members| members.split(',').any(|member| member == name));
    lines.filter(has).filter_map(|fields| fields.get(2)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Account, find};

    #[test]
    fn users_are_found_with_their_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:100::/home/ann:/bin/sh\nbroken\n";
        let group = "root:x:0:\ndocker:x:999:bob,ann\nusers:x:100:\nvideo:x:44:annabel\n";
        let ann = Account { gid: 100, home: Some("/home/ann".to_owned()), groups: vec![999] };
        assert_eq!(find(passwd, group, 1000), ann);
        assert_eq!(find(passwd, group, 0).home.as_deref(), Some("/root"));
        assert_eq!(find(passwd, group, 4242), Account::default());
    }
}
