//! What is wrong with a configuration, told like a good compiler error: place, source line, caret, way out.

use std::{fmt, path::PathBuf};

/// Whether it stops anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing runs with it.
    Error,
    /// It runs, and somebody should look at it.
    Warning,
}

/// One mistake. Nothing in it is secret: values of secret settings are masked before they get here.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Diagnostic {
    /// Whether it stops anything.
    pub severity: Severity,
    /// A stable word for scripts, such as `unknown-key`.
    pub kind: &'static str,
    /// The file, as it was named.
    pub file: PathBuf,
    /// From 1; 0 where there is no line, such as for a file that is not there.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The key's path, such as `consumer[settlement].ledger.retention`.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The source line, masked, and the characters that the caret marks.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

/// A line of the file with its marked part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, secrets masked, tabs made spaces.
    pub line: String,
    /// Characters before the marked part.
    pub start: usize,
    /// Marked characters, at least 1.
    pub length: usize,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(f, "{severity}[{}]: {}", self.kind, self.message)?;
        let margin = " ".repeat(self.line.to_string().len());
        if self.line == 0 {
            write!(f, "{margin}--> {}", self.file.display())?;
        } else {
            write!(f, "{margin}--> {}:{}:{}", self.file.display(), self.line, self.column)?;
        }
        if let Some(Excerpt { line, start, length }) = &self.excerpt {
            write!(f, "\n{margin} |\n{} | {line}", self.line)?;
            let marks = format!("{}{} {}", " ".repeat(*start), "^".repeat(*length), self.key);
            write!(f, "\n{margin} | {}", marks.trim_end())?;
        } else if !self.key.is_empty() {
            write!(f, "\n{margin} = at: {}", self.key)?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{margin} = help: {help}")?;
        }
        Ok(())
    }
}

/// Every mistake of a configuration at once, in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Errors first, then warnings; at least one error.
    pub diagnostics: Vec<Diagnostic>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            write!(f, "{diagnostic}\n\n")?;
        }
        let errors = self.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        let (mistakes, them) = if errors == 1 { ("mistake", "it") } else { ("mistakes", "them") };
        write!(f, "{errors} {mistakes} in the configuration; correct {them} and try again")
    }
}

impl std::error::Error for ConfigError {}
