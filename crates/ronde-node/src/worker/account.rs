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

/// Finds whom an image means by `USER`: a name or number, perhaps with a group.
///
/// # Errors
/// Words that say which name the files do not know.
pub fn parse_user(passwd: &str, group: &str, user: &str) -> Result<(u32, Option<u32>), String> {
    let (user, wanted_group) = user.split_once(':').map_or((user, None), |(user, group)| (user, Some(group)));
    let find = |text: &str, name: &str| {
        let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        lines.find(|fields| fields.first() == Some(&name)).and_then(|fields| fields.get(2)?.parse().ok())
    };
    let number = |text: &str, name: &str, file: &str| {
        let found = name.parse().ok().or_else(|| find(text, name));
        found.ok_or_else(|| format!("unable to find `{name}` in /etc/{file} of the image"))
    };
    let uid = if user.is_empty() { 0 } else { number(passwd, user, "passwd")? };
    let gid = wanted_group.filter(|name| !name.is_empty()).map(|name| number(group, name, "group")).transpose()?;
    Ok((uid, gid))
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
    fn the_user_of_an_image_is_a_name_or_a_number() {
        let (passwd, group) = ("ann:x:1000:100::/home/ann:/bin/sh\n", "staff:x:50:\n");
        let rows = [
            ("", Ok((0, None))),
            ("ann", Ok((1000, None))),
            ("7", Ok((7, None))),
            ("ann:staff", Ok((1000, Some(50)))),
            ("7:8", Ok((7, Some(8)))),
            ("bob", Err("unable to find `bob` in /etc/passwd of the image".to_owned())),
        ];
        for (user, expected) in rows {
            assert_eq!(super::parse_user(passwd, group, user), expected, "{user}");
        }
    }

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
