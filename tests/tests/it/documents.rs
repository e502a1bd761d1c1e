//! What the documents show works: configurations parse, SQL runs, links lead somewhere. (The README's plugin is a doctest
//! of the guest SDK; the commands are held by `documented_commands`.)

use std::{fs, path::Path};

use tidegate::{config, merge, plugin::scaffold::scaffold, store};
use tidegate_tests::{postgres, services::checkout};

/// The fenced blocks of this language.
pub(crate) fn blocks(markdown: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for line in markdown.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(tag)) => open = Some((tag == language, String::new())),
            (Some((true, text)), Some(_)) => {
                blocks.push(std::mem::take(text));
                open = None;
            }
            (Some((false, _)), Some(_)) => open = None,
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_readmes_configuration_is_one() {
    let readme = fs::read_to_string(checkout().join("README.md")).unwrap();
    let blocks = blocks(&readme, "toml");
    assert_eq!(blocks.len(), 1);
    let loaded = config::parse(&blocks[0], Path::new("README.md"), &|_| None);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.config.consumers[0].targets[0].name, "payments");
    assert_eq!(loaded.warnings.len(), 0, "{:?}", loaded.warnings);
}

#[test]
fn the_example_plugins_configuration_is_a_whole_one() {
    let readme = fs::read_to_string(checkout().join("plugins/README.md")).unwrap();
    let blocks = blocks(&readme, "toml");
    assert_eq!(blocks.len(), 1);
    let loaded = config::parse(&blocks[0], Path::new("plugins/README.md"), &|_| None);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = loaded.config.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
    assert_eq!(names, ["settlement-service", "order-summary-service"], "as in the demo");
    for consumer in &loaded.config.consumers {
        for target in &consumer.targets {
            let class = merge::classify(target);
            let row = readme
                .lines()
                .find(|line| line.starts_with("| [") && line.contains(&format!("`{}`, a row", target.name)));
            assert!(row.is_some_and(|row| row.contains(class.name())), "{} is {class}: {row:?}", target.name);
        }
    }
}

/// What `plugin new` makes takes the README's Rust.
#[test]
fn the_first_plugins_folder_has_what_the_readmes_plugin_uses() {
    let text = fs::read_to_string(checkout().join("docs/first-plugin.md")).unwrap();
    assert!(blocks(&text, "sh").concat().contains("tidegate plugin new --lang rust payments"), "{text}");
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("payments");
    scaffold("rust", &folder).unwrap();
    let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
    let readme = fs::read_to_string(checkout().join("README.md")).unwrap();
    let rust = blocks(&readme, "rust").remove(0);
    let used: Vec<_> = rust.lines().filter_map(|line| line.strip_prefix("use ")?.split("::").next()).collect();
    assert!(used.contains(&"tidegate_guest"), "{used:?}");
    for name in used {
        assert!(manifest["dependencies"].get(name.replace('_', "-")).is_some(), "{name} is not in {manifest}");
    }
}

/// In a schema for tidegate's tables alone, as the text recommends.
#[tokio::test]
async fn the_first_plugins_sql_runs_and_its_table_fits_the_readmes_configuration() {
    let read = |name| fs::read_to_string(checkout().join(name)).unwrap();
    let database = postgres().await;
    database.execute("CREATE SCHEMA tidegate").await;
    let options = "options=-c%20search_path%3Dtidegate,public";
    assert!(read("docs/first-plugin.md").contains(&format!("?{options}")));
    let separator = if database.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}{options}", database.url());
    let readme = blocks(&read("README.md"), "toml").remove(0);
    let environment = |name: &str| (name == "DATABASE_URL").then(|| url.clone());
    let loaded = config::parse(&readme, Path::new("README.md"), &environment).unwrap_or_else(|error| panic!("{error}"));
    let store = store::open(&loaded.config.databases["main"]).unwrap();
    store.migrate().await.unwrap();

    let statements = blocks(&read("docs/first-plugin.md"), "sql");
    assert_eq!(statements.len(), 3, "a table, a look at dead letters, settling one");
    for sql in &statements {
        database.execute(&format!("SET search_path = tidegate, public; {sql}")).await;
    }
    let target = &loaded.config.consumers[0].targets[0];
    let info = store.table_info(&target.table).await.unwrap();
    assert!(merge::resolve(target, &info).is_ok());
    let elsewhere = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'payments'";
    assert_eq!(database.number(elsewhere).await, 0, "tidegate's tables are apart");
}

#[test]
fn links_lead_somewhere() {
    let root = checkout();
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/checks.md",
        "docs/database-roles.md",
        "docs/demo.md",
        "docs/http.md",
        "docs/first-plugin.md",
        "docs/mutations.md",
        "docs/reload.md",
        "plugins/README.md",
    ];
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            if !root.join(document).parent().unwrap().join(path).exists() {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// The sources of all crates, as one text.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn what_security_promises_is_tested() {
    let root = checkout();
    let mut code = String::new();
    for folder in ["host/src", "tests/tests"] {
        sources(&root.join(folder), &mut code);
    }
    let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let words = text.split('`').skip(1).step_by(2);
    let tests: Vec<&str> = words.filter(|word| word.matches('_').count() >= 3 && !word.contains(['=', '.'])).collect();
    assert!(tests.len() >= 6, "{tests:?}");
    for test in tests {
        assert!(code.contains(&format!("fn {test}(")), "there is no test {test}");
    }
}

#[test]
fn every_invariant_names_tests_and_files_that_exist() {
    let root = checkout();
    let mut code = String::new();
    for folder in ["host/src", "guest-sdk/src", "tests/tests"] {
        sources(&root.join(folder), &mut code);
    }
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 6 && cells[1].parse::<u32>().is_ok())
        .collect();
    assert_eq!(rows.len(), 12, "one row an invariant");
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut missing = Vec::new();
    for row in rows {
        let (files, tests) = (names(row[3]), names(row[4]));
        assert!(!files.is_empty() && !tests.is_empty(), "invariant {} is enforced and tested somewhere", row[1]);
        missing.extend(files.into_iter().filter(|file| !root.join("host/src").join(file).exists()));
        // A conformance case is a function of its module; the macro makes the tests.
        let is_there = |test: &String| ["(", "<"].iter().any(|next| code.contains(&format!("fn {test}{next}")));
        missing.extend(tests.into_iter().filter(|test| !is_there(test)));
        assert!(code.contains(&format!("Invariant {}", row[1])), "invariant {} is cited", row[1]);
    }
    assert_eq!(missing, Vec::<String>::new());
}
