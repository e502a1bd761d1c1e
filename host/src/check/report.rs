//! What a check came to: for people at a glance, and as JSON.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::danger::{Danger, Weight};
use crate::config::{Diagnostic, Severity};

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// As it should be.
    Ok,
    /// It runs, and somebody should look at it.
    Warning,
    /// It must not run like this.
    Error,
    /// Could not be asked: broker or database.
    Unreachable,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// How it stands.
    pub mark: Mark,
    /// The danger's code, or a configuration mistake's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// What it belongs to: "configuration", a consumer, "database main".
    pub about: String,
    /// Which part of that: "plugin", "target settlements".
    pub subject: String,
    /// What was seen.
    pub text: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// `file:line:column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// How a danger sign stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Standing {
    /// Cannot happen.
    Excluded,
    /// Looked for, not there.
    Clear,
    /// Was not looked for: offline, or what it needs was missing.
    Unknown,
    /// There.
    Found,
}

/// Everything that a check saw, in order.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<Line>,
    dangers: BTreeMap<Danger, Standing>,
    online: bool,
}

impl Report {
    /// A report with the configuration's own mistakes and warnings.
    #[must_use]
    pub fn of(diagnostics: &[Diagnostic]) -> Self {
        let mut report = Self::default();
        for diagnostic in diagnostics {
            let mark = if diagnostic.severity == Severity::Error { Mark::Error } else { Mark::Warning };
            report.lines.push(Line {
                mark,
                code: Some(diagnostic.kind),
                about: "configuration".to_owned(),
                subject: diagnostic.key.clone(),
                text: diagnostic.message.clone(),
                help: diagnostic.help.clone(),
                place: Some(format!("{}:{}:{}", diagnostic.file.display(), diagnostic.line, diagnostic.column)),
            });
            if diagnostic.kind == "retention-too-short" {
                report.dangers.insert(Danger::RetentionTooShort, Standing::Found);
            }
        }
        report
    }

    /// Notes a thing.
    pub fn add(&mut self, mark: Mark, about: &str, subject: &str, text: impl Into<String>, help: Option<String>) {
        let (about, subject, text) = (about.to_owned(), subject.to_owned(), text.into());
        self.lines.push(Line { mark, code: None, about, subject, text, help, place: None });
    }

    /// Notes that something is as it should be.
    pub fn ok(&mut self, about: &str, subject: &str, text: impl Into<String>) {
        self.add(Mark::Ok, about, subject, text, None);
    }

    /// Broker and database are asked too.
    pub(super) fn online(&mut self) {
        self.online = true;
    }

    /// A danger sign was found.
    pub fn found(&mut self, danger: Danger, about: &str, subject: &str, seen: impl AsRef<str>) {
        let mark = if danger.weight() == Weight::Error { Mark::Error } else { Mark::Warning };
        self.lines.push(Line {
            mark,
            code: Some(danger.code()),
            about: about.to_owned(),
            subject: subject.to_owned(),
            text: format!("{}: {}", danger.title(), seen.as_ref()),
            help: Some(danger.way_out().to_owned()),
            place: None,
        });
        self.dangers.insert(danger, Standing::Found);
    }

    /// A danger sign was looked for and is not there.
    pub fn clear(&mut self, danger: Danger) {
        self.dangers.entry(danger).or_insert(Standing::Clear);
    }

    /// A danger sign could not be looked for everywhere.
    pub fn unknown(&mut self, danger: Danger) {
        if self.standing(danger) != Standing::Found {
            self.dangers.insert(danger, Standing::Unknown);
        }
    }

    fn standing(&self, danger: Danger) -> Standing {
        let default = if danger.excluded().is_some() { Standing::Excluded } else { Standing::Unknown };
        self.dangers.get(&danger).copied().unwrap_or(default)
    }

    fn count(&self, mark: Mark) -> usize {
        self.lines.iter().filter(|line| line.mark == mark).count()
    }

    /// 0 = nothing stops a consumer; 2 = the configuration, the plugin or the schema does; 3 = broker or database could
    /// not be asked.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.count(Mark::Error), self.count(Mark::Unreachable)) {
            (0, 0) => 0,
            (0, _) => 3,
            _ => 2,
        }
    }

    /// Everything, for scripts.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let dangers: Vec<_> = Danger::ALL
            .iter()
            .map(|danger| {
                serde_json::json!({
                    "code": danger.code(), "title": danger.title(), "state": self.standing(*danger),
                    "reason": danger.excluded(),
                })
            })
            .collect();
        serde_json::json!({
            "ok": self.exit_code() == 0,
            "errors": self.count(Mark::Error),
            "warnings": self.count(Mark::Warning),
            "unreachable": self.count(Mark::Unreachable),
            "findings": self.lines,
            "dangers": dangers,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.lines.iter().map(|line| line.subject.chars().count()).max().unwrap_or(0).min(32);
        let mut abouts: Vec<&str> = vec![];
        for line in &self.lines {
            if !abouts.contains(&line.about.as_str()) {
                abouts.push(&line.about);
            }
        }
        for about in abouts {
            writeln!(f, "{about}")?;
            for line in self.lines.iter().filter(|line| line.about == about) {
                let mark = match line.mark {
                    Mark::Ok => '✓',
                    Mark::Warning => '!',
                    Mark::Error => '✗',
                    Mark::Unreachable => '?',
                };
                let code = line.code.map(|code| format!("{code} ")).unwrap_or_default();
                writeln!(f, "  {mark} {:width$}  {code}{}", line.subject, line.text)?;
                if let Some(help) = &line.help {
                    writeln!(f, "    {:width$}  → {help}", "")?;
                }
                if let Some(place) = &line.place {
                    writeln!(f, "    {:width$}  at {place}", "")?;
                }
            }
        }
        let standing = |wanted| Danger::ALL.iter().filter(move |danger| self.standing(**danger) == wanted);
        let found = standing(Standing::Found).count();
        let (offline, lost): (Vec<&Danger>, Vec<&Danger>) =
            standing(Standing::Unknown).partition(|danger| danger.needs_services() && !self.online);
        let clear = Danger::ALL.len() - found - offline.len() - lost.len();
        write!(f, "\ndanger signs: {found} found, {clear} clear")?;
        let codes = |dangers: &[&Danger]| dangers.iter().map(|danger| danger.code()).collect::<Vec<_>>().join(", ");
        if !lost.is_empty() {
            write!(f, ", {} could not be looked for ({})", lost.len(), codes(&lost))?;
        }
        if !offline.is_empty() {
            write!(f, ", {} only with --online ({})", offline.len(), codes(&offline))?;
        }
        let (errors, warnings, unreachable) =
            (self.count(Mark::Error), self.count(Mark::Warning), self.count(Mark::Unreachable));
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mark = if self.exit_code() == 0 { '✓' } else { '✗' };
        write!(f, "\n{mark} {}, {}", plural(errors, "error"), plural(warnings, "warning"))?;
        if unreachable > 0 {
            write!(f, ", {unreachable} could not be asked")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_at_a_glance() {
        let mut report = Report::default();
        report.ok("settlement", "plugin", "settlement 0.1.0");
        report.found(Danger::Accumulating, "settlement", "target totals", "amount adds up");
        Danger::ALL[..6].iter().for_each(|danger| report.clear(*danger));
        let text = report.to_string();
        assert!(text.starts_with(
            "settlement\n  ✓ plugin         settlement 0.1.0\n  ! target totals  TG007 accumulating writes: amount adds up\n\
             \x20                  → store the amounts as rows"
        ), "{text}");
        assert!(
            text.ends_with(
                "danger signs: 1 found, 7 clear, 1 could not be looked for (TG010), 1 only with --online (TG009)\n✓ 0 errors, 1 warning"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_exit_code_tells_a_mistake_from_a_service_that_is_away() {
        let mut report = Report::default();
        report.add(Mark::Warning, "a", "b", "c", None);
        assert_eq!(report.exit_code(), 0);
        report.add(Mark::Unreachable, "a", "b", "c", None);
        assert_eq!(report.exit_code(), 3);
        report.found(Danger::NoUniqueKey, "a", "b", "c");
        assert_eq!(report.exit_code(), 2);
        let json = report.json();
        assert_eq!(
            (&json["ok"], &json["errors"], &json["dangers"][5]["state"]),
            (&false.into(), &1.into(), &"found".into())
        );
    }

    #[test]
    fn what_was_found_stays_found() {
        let mut report = Report::default();
        report.found(Danger::NoUniqueKey, "a", "b", "c");
        report.clear(Danger::NoUniqueKey);
        report.unknown(Danger::NoUniqueKey);
        assert_eq!(report.standing(Danger::NoUniqueKey), Standing::Found);
        report.clear(Danger::KeysChanged);
        report.unknown(Danger::KeysChanged);
        assert_eq!(report.standing(Danger::KeysChanged), Standing::Unknown, "clear in one place is not clear");
    }
}
