//! `tidegate plugin test`.

use std::path::{Path, PathBuf};

use super::{
    super::{
        Exit,
        console::{answer, complain},
    },
    arguments::TestOptions,
    paint::Paint,
    subject::Subject,
};
use crate::{
    config::PluginLimits,
    plugin::{
        Runtime,
        cases::{self, CaseReport, CasesError, Difference, Finding},
    },
};

pub(super) fn run(options: &TestOptions) -> Exit {
    let fail = |why: String| {
        complain(&format!("tidegate plugin test: {why}"));
        Exit::Invalid
    };
    let subject = match Subject::find(&options.plugin, options.cases.as_deref()) {
        Ok(subject) => subject,
        Err(why) => return fail(why),
    };
    let Some(folder) = &subject.cases else {
        return fail(format!(
            "there are no cases beside {}: make the folder cases with a file that begins with body = '…', or name one with \
             --cases",
            options.plugin.display()
        ));
    };
    let runtime = match Runtime::new(None) {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start the plugin runtime: {error}"));
            return Exit::Environment;
        }
    };
    let tested = match test(&runtime, &subject, folder) {
        Ok(tested) => tested,
        Err(error) => return fail(error.to_string()),
    };
    if tested.is_empty() {
        return fail(format!(
            "{} has no cases: a case is a file NAME.toml that begins with body = '…'",
            folder.display()
        ));
    }
    let paint = Paint::stdout();
    let mut failed = 0;
    for Tested { path, report } in &tested {
        match (&report.finding, options.update) {
            (None, _) => answer(&format!("{} {}", paint.green("✓"), report.name)),
            (Some(finding), true) if may_be_written(finding) => {
                match report.actual.as_ref().map(|it| cases::update(path, it)) {
                    Some(Ok(())) => answer(&written(paint, &report.name, finding)),
                    Some(Err(error)) => return fail(error.to_string()),
                    None => failed += 1,
                }
            }
            (Some(finding), _) => {
                failed += 1;
                answer(&shown(paint, &report.name, finding));
            }
        }
    }
    let all = tested.len();
    answer(&match failed {
        0 => paint.green(&format!("{all} {} as expected", if all == 1 { "case" } else { "cases" })),
        _ => paint.red(&format!("{failed} of {all} not as expected")),
    });
    if failed == 0 { Exit::Fine } else { Exit::Failed }
}

/// A case's file and what became of it.
pub(super) struct Tested {
    pub(super) path: PathBuf,
    pub(super) report: CaseReport,
}

/// Runs a folder's cases.
pub(super) fn test(runtime: &Runtime, subject: &Subject, folder: &Path) -> Result<Vec<Tested>, CasesError> {
    let (paths, these): (Vec<_>, Vec<_>) = cases::read_folder(folder)?.into_iter().unzip();
    let report = match subject.load(runtime, PluginLimits::default()) {
        Ok(plugin) => cases::run(&these, plugin.as_ref(), None),
        Err(error) => cases::Report::broken(&these, &error),
    };
    Ok(paths.into_iter().zip(report.cases).map(|(path, report)| Tested { path, report }).collect())
}

/// Whether what the plugin says can be what is expected from now on.
fn may_be_written(finding: &Finding) -> bool {
    matches!(finding, Finding::Wrong(_) | Finding::Open)
}

fn written(paint: Paint, name: &str, finding: &Finding) -> String {
    let head = format!("{} {name}: written down", paint.yellow("~"));
    match finding {
        Finding::Wrong(difference) => format!("{head}\n{}", indented(paint, difference)),
        _ => head,
    }
}

/// A case that is not as it should be, with the difference.
pub(super) fn shown(paint: Paint, name: &str, finding: &Finding) -> String {
    let (why, difference) = match finding {
        Finding::Wrong(difference) => ("another answer than expected", Some(difference)),
        Finding::Unstable(difference) => {
            ("not deterministic: a second instance gives another answer to the same input", Some(difference))
        }
        Finding::Company(difference) => ("the answer depends on what else is in the batch", Some(difference)),
        Finding::Open | Finding::Broke(_) => ("", None),
    };
    let head = format!("{} {name}", paint.red("✗"));
    match difference {
        Some(difference) => format!("{head}: {why}\n{}", indented(paint, difference)),
        None => format!("{head}: {finding}"),
    }
}

fn indented(paint: Paint, difference: &Difference) -> String {
    paint.difference(difference).lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
