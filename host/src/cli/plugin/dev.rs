//! `tidegate plugin dev`: on every save the plugin is built and its cases are run; what has changed is shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::{
    super::{
        Exit,
        console::{answer, complain},
    },
    paint::Paint,
    subject::Subject,
    test::{Tested, shown, test},
};
use crate::plugin::{
    Runtime,
    build::MADE_BY_TOOLS,
    cases::{Answer, CaseReport, Difference, Finding},
};

/// Editors write a file in several steps; a build begins when they have been silent for so long.
const SILENCE: Duration = Duration::from_millis(150);

pub(super) fn run(folder: &Path) -> Exit {
    match watch(folder) {
        Ok(()) => Exit::Fine,
        Err(why) => {
            complain(&format!("tidegate plugin dev: {why}"));
            Exit::Environment
        }
    }
}

fn watch(folder: &Path) -> Result<(), String> {
    let paint = Paint::stdout();
    let mut watch = Watch::new()?;
    let mut last = BTreeMap::new();
    loop {
        // New folders are watched from here on, before their files are read.
        watch.follow(folder)?;
        match round(folder, paint, &last) {
            Ok(now) => last = now,
            // As it was: what is compared with is what ran last.
            Err(why) => answer(&format!("{} {why}", paint.red("✗"))),
        }
        answer(&format!("waiting for a change in {}", folder.display()));
        if !watch.wait() {
            return Ok(());
        }
    }
}

/// What the cases came to.
type Results = BTreeMap<String, CaseReport>;

fn round(folder: &Path, paint: Paint, last: &Results) -> Result<Results, String> {
    let begun = Instant::now();
    let subject = Subject::find(folder, None)?;
    let size = fs::metadata(&subject.file).map_or(0, |file| file.len());
    answer(&format!("built {} ({size} bytes) in {:.1} s", subject.file.display(), begun.elapsed().as_secs_f64()));
    let Some(cases) = &subject.cases else {
        answer("there is no folder cases yet: a case is a file that begins with body = '…'");
        return Ok(Results::new());
    };
    // A new one each time: what it compiled before would stay in memory.
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let tested = test(&runtime, &subject, cases).map_err(|error| error.to_string())?;
    let now: Results = tested.into_iter().map(|Tested { report, .. }| (report.name.clone(), report)).collect();
    for (name, change) in changes(last, &now) {
        match change {
            Change::Answer(difference) => {
                let text = paint.difference(&difference);
                let text: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
                answer(&format!("{} {name}: the answer has changed\n{}", paint.yellow("~"), text.join("\n")));
            }
            Change::Passes => answer(&format!("{} {name}: as expected now", paint.green("✓"))),
            Change::Gone => answer(&format!("{} {name}: gone", paint.yellow("~"))),
        }
    }
    let failed: Vec<(&String, &Finding)> =
        now.iter().filter_map(|(name, report)| Some((name, report.finding.as_ref()?))).collect();
    failed.iter().for_each(|(name, finding)| answer(&shown(paint, name, finding)));
    answer(&match failed.len() {
        0 => paint.green(&format!("{} as expected", now.len())),
        some => paint.red(&format!("{some} of {} not as expected", now.len())),
    });
    Ok(now)
}

/// How a case differs from the last round, besides failing, which is shown as it is.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Answer(Difference),
    Passes,
    Gone,
}

fn changes(last: &Results, now: &Results) -> Vec<(String, Change)> {
    let names: BTreeSet<&String> = last.keys().chain(now.keys()).collect();
    let change = |name: &&String| match (last.get(*name)?, now.get(*name)) {
        (_, None) => Some(Change::Gone),
        (before, Some(after)) => match difference(before.actual.as_ref(), after.actual.as_ref()) {
            Some(difference) => Some(Change::Answer(difference)),
            None if before.finding.is_some() && after.finding.is_none() => Some(Change::Passes),
            None => None,
        },
    };
    names.into_iter().filter_map(|name| Some((name.clone(), change(&name)?))).collect()
}

fn difference(before: Option<&Answer>, after: Option<&Answer>) -> Option<Difference> {
    Difference::between(before?, after?)
}

/// The folders that hold source.
struct Watch {
    watcher: RecommendedWatcher,
    events: Receiver<notify::Result<Event>>,
    followed: BTreeSet<PathBuf>,
}

impl Watch {
    fn new() -> Result<Self, String> {
        let (sender, events) = mpsc::channel();
        let watcher = notify::recommended_watcher(sender).map_err(|error| format!("cannot watch files: {error}"))?;
        Ok(Self { watcher, events, followed: BTreeSet::new() })
    }

    /// Every folder below this one. Each by itself, since what tools make has thousands of them.
    fn follow(&mut self, folder: &Path) -> Result<(), String> {
        // A folder that was removed and made again is another one.
        self.followed.retain(|folder| folder.is_dir());
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            if !self.followed.contains(&folder) {
                let watched = self.watcher.watch(&folder, RecursiveMode::NonRecursive);
                watched.map_err(|error| format!("cannot watch {}: {error}", folder.display()))?;
                self.followed.insert(folder.clone());
            }
            let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            folders.extend(paths.filter(|path| path.is_dir() && is_source(path)));
        }
        Ok(())
    }

    /// Until something was saved, and then until nothing more is. False where nobody watches any more.
    fn wait(&self) -> bool {
        loop {
            match self.events.recv() {
                Ok(Ok(event)) if matters(&event) => break,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        while self.events.recv_timeout(SILENCE).is_ok() {}
        true
    }
}

fn matters(event: &Event) -> bool {
    // Reading is what a build does.
    let written = matches!(event.kind, EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_));
    written && event.paths.iter().any(|path| is_source(path))
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A build would call for the next by what its tools make. Lock files are written by builds; hidden ones by editors.
    !MADE_BY_TOOLS.contains(&name.as_ref()) && !name.starts_with('.') && !name.ends_with('~') && name != "Cargo.lock"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::cases::Says;

    fn report(says: &str, finding: Option<Finding>) -> CaseReport {
        let actual = Answer { identity: None, says: Says::Skip(Some(says.to_owned())) };
        CaseReport { name: String::new(), actual: Some(actual), finding }
    }

    #[test]
    fn what_has_changed_is_told() {
        let results = |of: [(&str, CaseReport); 3]| of.map(|(name, report)| (name.to_owned(), report)).into();
        let last = results([
            ("same", report("a", None)),
            ("mended", report("a", Some(Finding::Open))),
            ("gone", report("a", None)),
        ]);
        let now = results([("same", report("b", None)), ("mended", report("a", None)), ("new", report("a", None))]);
        let told = changes(&last, &now);
        let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gone", "mended", "same"]);
        assert_eq!((&told[0].1, &told[1].1), (&Change::Gone, &Change::Passes));
        assert!(
            matches!(&told[2].1, Change::Answer(difference) if difference.to_string().contains("+ reason = \"b\""))
        );
        assert_eq!(changes(&now, &now), []);
    }

    #[test]
    fn builds_and_editors_do_not_call_for_a_build() {
        for path in ["p/target", "p/.git", "p/src/.lib.rs.swp", "p/src/lib.rs~", "p/Cargo.lock", "p/node_modules"] {
            assert!(!is_source(Path::new(path)), "{path}");
        }
        assert!(is_source(Path::new("p/src/lib.rs")) && is_source(Path::new("p/cases/a.toml")));
    }
}
