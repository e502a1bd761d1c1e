//! The command that goes on, for messages: as it can be typed, configuration file and all.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use crate::{
    identity::ConsumerName,
    source::{PartitionName, StopReason},
};

/// Makes commands for one consumer.
#[derive(Clone, Debug)]
pub(crate) struct WayOut {
    /// Whose place.
    pub(crate) consumer: ConsumerName,
    /// The configuration file, where it came from one.
    pub(crate) config: Option<Arc<PathBuf>>,
}

impl WayOut {
    /// `tidegate seek …`, which shows what it does when `--execute` is left out.
    pub(crate) fn command(&self, topic: &str, partition: Option<i32>, to: &str) -> String {
        let mut command = "tidegate seek".to_owned();
        if let Some(file) = &self.config {
            let _ = write!(command, " --config {}", quoted(&file.to_string_lossy()));
        }
        let _ = write!(command, " --consumer {} --topic {topic}", quoted(self.consumer.as_str()));
        if let Some(partition) = partition {
            let _ = write!(command, " --partition {partition}");
        }
        let _ = write!(command, " {to} --execute");
        command
    }

    /// What to do about a partition that was stopped; `None` where no seek helps.
    pub(crate) fn of(&self, name: &PartitionName, reason: &StopReason) -> Option<String> {
        let to = match reason {
            StopReason::TopicRecreated { .. } | StopReason::TopicGone { .. } => {
                let command = self.command(&name.topic, None, "--topic-recreated");
                let made =
                    if matches!(reason, StopReason::TopicGone { .. }) { "make the topic anew, then " } else { "" };
                return Some(format!(
                    "to go on at the new topic's start, {made}stop the consumer's hosts, run `{command}`, start them again"
                ));
            }
            StopReason::OffsetLost { offset, log: Some((_, end)), .. } if offset > end => "--start",
            StopReason::OffsetLost { .. } => "--offsets-lost",
            StopReason::Unreadable { .. } => return None,
        };
        let command = self.command(&name.topic, Some(name.partition), to);
        let at = if to == "--start" {
            "from the log's start (or --time, --offset: before the cut)"
        } else {
            "at the oldest record that is there"
        };
        Some(format!("to go on {at}, stop the consumer's hosts, run `{command}`, start them again"))
    }
}

/// For a shell: in quotes where it has to be.
pub(crate) fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_typed() {
        let consumer = ConsumerName::new("it's mine").unwrap();
        let way = WayOut { consumer, config: Some(Arc::new(PathBuf::from("/etc/tide gate.toml"))) };
        assert_eq!(
            way.command("orders", Some(3), "--offsets-lost"),
            r"tidegate seek --config '/etc/tide gate.toml' --consumer 'it'\''s mine' --topic orders --partition 3 --offsets-lost --execute"
        );
    }

    #[test]
    fn each_stop_has_its_own_way_out() {
        let way = WayOut { consumer: ConsumerName::new("c").unwrap(), config: None };
        let name = PartitionName { topic: "t".into(), partition: 1 };
        let lost = |offset| StopReason::OffsetLost { offset, log: Some((10, 20)), broker: String::new() };
        let says = |reason, part: &str| {
            let said = way.of(&name, &reason).unwrap();
            assert!(said.contains(part), "{said}");
        };
        says(lost(5), "`tidegate seek --consumer c --topic t --partition 1 --offsets-lost --execute`");
        says(lost(25), "`tidegate seek --consumer c --topic t --partition 1 --start --execute`");
        says(
            StopReason::TopicGone { topic: "t".into() },
            "`tidegate seek --consumer c --topic t --topic-recreated --execute`",
        );
        assert_eq!(way.of(&name, &StopReason::Unreadable { broker: "x".into() }), None);
    }
}
