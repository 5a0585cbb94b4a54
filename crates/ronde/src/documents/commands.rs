//! The pages of the command line: every verb with its arguments, and the exit codes.

use clap::{Arg, Command, CommandFactory as _};
use ronde_launch::args::Arguments;

use super::{cell, check_page};
use crate::{args::Args, failure::EXIT_CODES};

#[test]
fn the_page_of_commands_is_current() {
    let mut command = Args::command();
    command.build();
    let verbs: Vec<&Command> = visible(&command).collect();
    let mut page = "# Commands\n\nEvery verb of `ronde`. `-q`, `--quiet` prints only results and errors, with any of \
                    them. The options of `ronde run` are those of [horovodrun](horovodrun.md).\n\n| command | what it \
                    does |\n|---|---|\n"
        .to_owned();
    for verb in &verbs {
        let name = verb.get_name();
        page += &format!("| [`ronde {name}`](#ronde-{name}) | {} |\n", cell(&about(verb)));
    }
    verbs.iter().for_each(|verb| page += &section("ronde", verb, 2));
    check_page("commands.md", &page);
}

#[test]
fn the_page_of_the_launcher_is_current() {
    let mut command = Arguments::command().name("horovodrun").bin_name("horovodrun");
    command.build();
    let page = format!(
        "# horovodrun\n\n{}\n\n`ronde run` is the same command. Flags come before the program. Long flags may be \
         shortened, and `-np`, `-cb`, `-hostfile` and `-prefix-timestamp` may have one dash.\n{}\n## Exit codes\n\n{}",
        about(&command),
        arguments(&command, 2),
        exit_codes(command.get_after_help().unwrap().to_string().as_str()),
    );
    check_page("horovodrun.md", &page);
}

#[test]
fn the_page_of_exit_codes_is_current() {
    let launcher = Arguments::command().get_after_help().unwrap().to_string();
    let page = format!(
        "# Exit codes\n\n## ronde\n\n{}\nCalled as `arena`, every failure is 1.\n\n## ronde run and horovodrun\n\n{}",
        exit_codes(EXIT_CODES),
        exit_codes(&launcher)
    );
    check_page("exit-codes.md", &page);
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

fn about(command: &Command) -> String {
    let text = command.get_about().map(ToString::to_string).unwrap_or_default();
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// Describes a command and those below it.
fn section(parent: &str, command: &Command, level: usize) -> String {
    let name = format!("{parent} {}", command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let mut text =
        format!("\n{} {name}\n\n{}\n\n```text\n{usage}\n```\n", "#".repeat(level), about(command).replace('<', "&lt;"));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        text += &format!("\nAlso called {}.\n", aliases.join(", "));
    }
    if command.get_name() != "run" {
        text += &arguments(command, level + 1);
    }
    visible(command).for_each(|below| text += &section(&name, below, level + 1));
    text
}

/// Returns the arguments of a command as tables, one for each heading of its help.
fn arguments(command: &Command, level: usize) -> String {
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help")
        .collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &shown {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    let mut text = String::new();
    for heading in headings {
        if let Some(heading) = heading {
            text += &format!("\n{} {heading}\n", "#".repeat(level));
        }
        text += "\n| argument | what it does |\n|---|---|\n";
        for arg in shown.iter().filter(|arg| arg.get_help_heading() == heading) {
            text += &format!("| {} | {} |\n", spelling(arg), cell(&meaning(arg)));
        }
    }
    text
}

/// Returns how an argument is typed.
fn spelling(arg: &Arg) -> String {
    let names =
        arg.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect::<Vec<_>>().join(" ");
    let takes_value = arg.get_action().takes_values();
    let mut words: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    words.extend(arg.get_long().map(|long| format!("--{long}")));
    words.extend(arg.get_visible_aliases().unwrap_or_default().iter().map(|alias| format!("--{alias}")));
    let Some(last) = words.last_mut() else {
        return format!("`{}`", names.replace('|', "\\|"));
    };
    if takes_value {
        *last += &format!(" {names}");
    }
    words.iter().map(|word| format!("`{}`", word.replace('|', "\\|"))).collect::<Vec<_>>().join(", ")
}

/// Returns what an argument does, with its values, default and variable.
fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if !text.ends_with('.') {
        text.push('.');
    }
    if arg.get_action().takes_values() {
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !values.is_empty() && !arg.is_hide_possible_values_set() {
            text += &format!(" One of {}.", values.join(", "));
        }
        let defaults: Vec<String> =
            arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
        if !defaults.is_empty() && !arg.is_hide_default_value_set() {
            text += &format!(" Default: {}.", defaults.join(", "));
        }
    }
    if let Some(variable) = arg.get_env() {
        text += &format!(" Variable: `{}`.", variable.display());
    }
    text
}

/// Returns the lines of a help text that list exit codes, as a table.
fn exit_codes(help: &str) -> String {
    let mut text = "| code | meaning |\n|---|---|\n".to_owned();
    for line in help.lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        let is_number = code.parse::<u8>().is_ok();
        let (code, meaning) = if is_number { (code, meaning) } else { ("other", line) };
        text += &format!("| {code} | {} |\n", cell(meaning));
    }
    text
}
