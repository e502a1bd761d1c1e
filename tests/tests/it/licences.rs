//! Every dependency has a licence that deny.toml allows and comes from where deny.toml allows.

use std::{collections::BTreeSet, fs, process::Command};

use tidegate_tests::services::checkout;

/// An SPDX expression, as far as crates use it: identifiers, WITH, AND, OR, parentheses; `/` is the old word for OR.
struct Expression<'a> {
    allowed: &'a BTreeSet<String>,
    tokens: Vec<String>,
    at: usize,
}

impl<'a> Expression<'a> {
    fn allows(text: &str, allowed: &'a BTreeSet<String>) -> bool {
        let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut expression = Self { allowed, tokens: spaced.split_whitespace().map(str::to_owned).collect(), at: 0 };
        let verdict = expression.any();
        verdict && expression.at == expression.tokens.len()
    }

    fn next_is(&mut self, word: &str) -> bool {
        let is = self.tokens.get(self.at).is_some_and(|token| token == word);
        self.at += usize::from(is);
        is
    }

    fn any(&mut self) -> bool {
        let mut verdict = self.all();
        while self.next_is("OR") {
            verdict |= self.all();
        }
        verdict
    }

    fn all(&mut self) -> bool {
        let mut verdict = self.one();
        while self.next_is("AND") {
            verdict &= self.one();
        }
        verdict
    }

    fn one(&mut self) -> bool {
        if self.next_is("(") {
            let verdict = self.any();
            return self.next_is(")") && verdict;
        }
        let Some(mut licence) = self.tokens.get(self.at).cloned() else { return false };
        self.at += 1;
        if self.next_is("WITH") {
            licence = format!("{licence} WITH {}", self.tokens.get(self.at).map_or("", String::as_str));
            self.at += 1;
        }
        self.allowed.contains(&licence)
    }
}

fn strings(value: &toml::Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn licences_and_sources_are_those_that_deny_toml_allows() {
    let policy: toml::Value = toml::from_str(&fs::read_to_string(checkout().join("deny.toml")).unwrap()).unwrap();
    let licences = strings(&policy["licenses"]["allow"]);
    let registries = strings(&policy["sources"]["allow-registry"]);

    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(checkout())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let licence = package["license"].as_str().unwrap_or("");
        if !Expression::allows(licence, &licences) {
            faults.push(format!("{name}: licence '{licence}'"));
        }
        if let Some(source) = package["source"].as_str()
            && !source.strip_prefix("registry+").is_some_and(|registry| registries.contains(registry))
        {
            faults.push(format!("{name}: source '{source}'"));
        }
    }
    assert!(faults.is_empty(), "deny.toml does not allow:\n{}", faults.join("\n"));
}

#[test]
fn expressions() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned));
    for yes in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND ISC", "Apache-2.0 WITH LLVM-exception"] {
        assert!(Expression::allows(yes, &allowed), "{yes}");
    }
    for no in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "Apache-2.0", "MIT AND (GPL-3.0 OR BSD)", "MIT ISC"] {
        assert!(!Expression::allows(no, &allowed), "{no}");
    }
}
