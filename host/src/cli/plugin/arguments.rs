//! What can be typed after `tidegate plugin`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::plugin::scaffold::languages;

/// What to do with plugins.
#[derive(Debug, clap::Subcommand)]
pub enum PluginCommand {
    /// Begin a plugin: a folder that builds, with cases that pass
    New(NewOptions),
    /// Build a plugin into a component
    Build {
        /// The plugin's folder: what is in it says in which language it is
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,

        /// Where to put it [default: target/plugins/NAME.wasm in the folder; Rust: in cargo's target folder]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Hold a plugin against its golden cases
    ///
    /// A case is a file: an input, and what the plugin shall say of it. Each runs alone in fresh instances, twice, and all of
    /// them in one batch.
    Test(TestOptions),
    /// Build a plugin and run its cases at every save, and show what has changed
    ///
    /// Until Ctrl-C.
    Dev {
        /// The plugin's folder
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Make cases of real messages, with what the plugin says of them now
    ///
    /// Reads the consumer's topics without joining its group; writes nothing but the cases.
    Capture(CaptureOptions),
    /// Sign a component: writes FILE.sig beside it
    Sign {
        /// The component
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// An Ed25519 private key in PEM, as `openssl genpkey -algorithm ed25519` makes it
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Put a component into an OCI registry, with the signatures beside it
    ///
    /// Credentials are those of `docker login`: $DOCKER_CONFIG/config.json, or ~/.docker/config.json.
    Push {
        /// The component
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Where to: oci://HOST/NAME:TAG
        #[arg(value_name = "REFERENCE")]
        reference: String,
    },
    /// Show what a component is: contract, imports, what it writes
    Inspect {
        /// The component, or the plugin's folder, which is built first
        #[arg(value_name = "FILE|DIR", default_value = ".")]
        plugin: PathBuf,

        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Look for what is wrong with a plugin before it sees a message
    ///
    /// Contract, imports, size, determinism, keys that depend on what they must not, keys that collide, time per event; and
    /// its golden cases. Exit code 2 where something would do harm.
    Check(PluginCheckOptions),
}

/// The languages that there are templates for, by their usual names as well.
fn language() -> impl TypedValueParser<Value = String> {
    let known = languages().into_iter().map(|language| {
        let aliases: &[&str] = match language {
            "js" => &["javascript"],
            "ts" => &["typescript"],
            "python" => &["py"],
            "go" => &["golang"],
            "rust" => &["rs"],
            _ => &[],
        };
        PossibleValue::new(language).aliases(aliases.iter().copied())
    });
    let known: Vec<PossibleValue> = known.collect();
    PossibleValuesParser::new(known.clone()).map(move |typed| {
        let named = known.iter().find(|language| language.matches(&typed, false));
        named.map_or_else(|| typed.clone(), |language| language.get_name().to_owned())
    })
}

/// Options of `tidegate plugin new`.
#[derive(Debug, clap::Args)]
pub struct NewOptions {
    /// The folder to make; its last part becomes the plugin's name, as in order-summary
    #[arg(value_name = "NAME")]
    pub folder: PathBuf,

    /// The language
    #[arg(long, value_name = "LANG", value_parser = language())]
    pub lang: String,
}

/// Options of `tidegate plugin test`.
#[derive(Debug, clap::Args)]
pub struct TestOptions {
    /// The plugin's folder, which is built first, or a component
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    pub plugin: PathBuf,

    /// The folder of cases [default: cases in the plugin's folder, NAME.cases beside NAME.wasm]
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,

    /// Write down what the plugin says now as what is expected
    #[arg(long)]
    pub update: bool,
}

/// Options of `tidegate plugin check`.
#[derive(Debug, clap::Args)]
pub struct PluginCheckOptions {
    /// The component, or the plugin's folder, which is built first
    #[arg(value_name = "FILE|DIR", default_value = ".")]
    pub plugin: PathBuf,

    /// The folder of cases [default: cases in the plugin's folder, NAME.cases beside NAME.wasm]
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,

    /// Real messages to try it on as well: a file with one body per line
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,

    /// With this consumer of the configuration: its settings, sources, limits and what it grants
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `tidegate plugin capture`.
#[derive(Debug, clap::Args)]
pub struct CaptureOptions {
    /// Whose messages
    #[arg(long, value_name = "NAME")]
    pub consumer: String,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max: usize,

    /// Where to begin: oldest, 2026-01-31T00:00:00Z, or -2h for two hours ago [default: the newest ones]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// Fields to leave out: customer.email, items[].name, card.*; @key, @header:NAME, @settings
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub redact: Vec<String>,

    /// Where to put the cases
    #[arg(long, value_name = "DIR", default_value = "cases")]
    pub cases: PathBuf,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(subcommand)]
        command: PluginCommand,
    }

    fn typed(words: &[&str]) -> Result<PluginCommand, clap::Error> {
        Line::try_parse_from([&["plugin"], words].concat()).map(|line| line.command)
    }

    #[test]
    fn a_language_has_its_usual_names() {
        for (word, language) in [
            ("js", "js"),
            ("javascript", "js"),
            ("typescript", "ts"),
            ("py", "python"),
            ("golang", "go"),
            ("rs", "rust"),
        ] {
            let PluginCommand::New(options) = typed(&["new", "--lang", word, "a"]).unwrap() else { panic!("{word}") };
            assert_eq!(options.lang, language);
        }
        let error = typed(&["new", "--lang", "cobol", "a"]).unwrap_err().to_string();
        assert!(error.contains("python") && !error.contains("golang"), "{error}");
    }

    #[test]
    fn without_a_folder_it_is_this_one() {
        for word in ["build", "test", "dev", "inspect", "check"] {
            let folder = match typed(&[word]).unwrap() {
                PluginCommand::Build { folder, .. } | PluginCommand::Dev { folder } => folder,
                PluginCommand::Test(options) => options.plugin,
                PluginCommand::Check(options) => options.plugin,
                PluginCommand::Inspect { plugin, .. } => plugin,
                other => panic!("{other:?}"),
            };
            assert_eq!(folder, PathBuf::from("."), "{word}");
        }
    }
}
