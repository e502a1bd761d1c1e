//! Every `tidegate …` that a document, a message or a help text names is one that can be typed.

use std::{fs, path::Path};

use clap::{Command, CommandFactory};
use tidegate_tests::services::checkout;

use crate::documents::blocks;

/// What is wrong with this command, if anything. Values and places to fill in are not looked at.
fn fault(words: &[&str]) -> Option<String> {
    let root = tidegate::cli::Arguments::command();
    let mut command: &Command = &root;
    // Some options may stand behind whatever comes below theirs.
    let mut above = vec![&root];
    for word in words {
        if *word == "…" || *word == "..." {
            return None;
        }
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split('=').next().unwrap_or(option);
            let known = |of: &Command| of.get_arguments().any(|argument| argument.get_long() == Some(option));
            let below = |of: &&Command| {
                of.get_arguments().any(|argument| argument.is_global_set() && argument.get_long() == Some(option))
            };
            if !(known(command) || above.iter().any(below) || ["help", "version"].contains(&option)) {
                return Some(format!("{} has no --{option}", command.get_name()));
            }
        } else if let Some(option) = word.strip_prefix('-') {
            let known = |of: &Command| of.get_arguments().any(|argument| argument.get_short() == option.chars().next());
            if !(known(command) || known(&root)) {
                return Some(format!("{} has no -{option}", command.get_name()));
            }
        } else if command.has_subcommands() {
            match command.find_subcommand(word) {
                Some(found) => {
                    command = found;
                    above.push(found);
                }
                None => return Some(format!("{} has no command {word}", command.get_name())),
            }
        }
    }
    command.has_subcommands().then(|| format!("{} is no whole command", command.get_name())).filter(|_| words.len() > 1)
}

/// The commands between two marks, such as backticks.
fn quoted<'a>(text: &'a str, open: &str, close: &str) -> Vec<Vec<&'a str>> {
    let start = format!("{open}tidegate ");
    let found = text.split(start.as_str()).skip(1).filter_map(|rest| rest.split(close).next());
    found.map(|words| words.split_whitespace().collect()).collect()
}

fn files(folder: &Path, extension: &str, into: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, into);
        } else if path.extension().is_some_and(|found| found == extension) {
            into.push(path);
        }
    }
}

/// Text over several lines of source, as it is read.
fn joined(source: &str) -> String {
    let mut text = String::new();
    for line in source.lines() {
        let line = line.trim_start();
        let comment = ["//! ", "/// ", "// ", "# "].iter().find_map(|mark| line.strip_prefix(mark));
        text.push_str(comment.unwrap_or(line).trim_end_matches('\\'));
        text.push(if line.ends_with('\\') { '\u{0}' } else { '\n' });
    }
    // A literal's line that goes on does so where the backslash was.
    text.replace('\u{0}', "")
}

#[test]
fn every_command_that_is_named_can_be_typed() {
    let root = checkout();
    let mut paths = vec![root.join("config/reference.toml"), root.join("config/demo.toml")];
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "plugins/README.md"] {
        paths.push(root.join(document));
    }
    files(&root.join("docs"), "md", &mut paths);
    for folder in ["host/src", "guest-sdk/src"] {
        files(&root.join(folder), "rs", &mut paths);
    }
    let (mut faults, mut seen) = (Vec::new(), 0);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let read = joined(&text);
        let mut commands = quoted(&read, "`", "`");
        commands.extend(quoted(&read, "<code>", "</code>"));
        let typed = blocks(&text, "sh").join("\n");
        let typed = typed.lines().filter_map(|line| line.strip_prefix("tidegate "));
        commands.extend(typed.map(|line| line.split('#').next().unwrap_or(line).split_whitespace().collect()));
        seen += commands.len();
        for words in commands {
            let place = || format!("{}: tidegate {}", path.display(), words.join(" "));
            faults.extend(fault(&words).map(|fault| format!("{}: {fault}", place())));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert!(seen > 20, "only {seen} were found");
}

#[test]
fn what_cannot_be_typed_is_seen() {
    let faults = |line: &str| fault(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(faults("fly --to 5").as_deref(), Some("tidegate has no command fly"));
    assert_eq!(faults("check --on-line").as_deref(), Some("check has no --on-line"));
    assert_eq!(faults("plugin make DIR").as_deref(), Some("plugin has no command make"));
    assert_eq!(faults("plugin build DIR -o FILE"), None);
    assert_eq!(faults("check --config tidegate.toml --online"), None);
    assert_eq!(quoted(&joined("\"run `tidegate \\\n   seek` now\""), "`", "`"), [["seek"]]);
}
