//! The SDK as it goes into a plugin's folder.

use std::borrow::Cow;

use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use super::below;

/// The workspace whose versions the Rust SDK's manifests refer to.
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");

type File = (String, Cow<'static, [u8]>);

/// The files of a language's SDK, by their path in its folder.
pub(super) fn sdk(language: &str) -> Result<Vec<File>, String> {
    let folder = match language {
        "rust" => return rust(),
        "ts" => "js",
        other => other,
    };
    let folder = format!("{folder}/");
    let files = below(&folder).map(|(path, content)| (path.to_owned(), Cow::Borrowed(content)));
    Ok(files.collect())
}

/// The crate and its derive. Their manifests lean on the workspace, which is not there.
fn rust() -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for folder in ["src", "derive", "wit"] {
        let below_it = format!("{folder}/");
        files.extend(below(&below_it).map(|(path, content)| (format!("{folder}/{path}"), content)));
    }
    files.extend(below("").filter(|(path, _)| *path == "Cargo.toml").map(|(path, content)| (path.to_owned(), content)));
    files
        .into_iter()
        .map(|(path, content)| {
            if !path.ends_with("Cargo.toml") {
                return Ok((path, Cow::Borrowed(content)));
            }
            let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
            let text = standing_alone(text).map_err(|wrong| format!("{path}: {wrong}"))?;
            Ok((path, Cow::Owned(text.into_bytes())))
        })
        .collect()
}

/// A manifest with what it takes from the workspace written out.
fn standing_alone(manifest: &str) -> Result<String, String> {
    let parse = |text: &str| text.parse::<DocumentMut>().map_err(|error| error.to_string());
    let (mut manifest, workspace) = (parse(manifest)?, parse(WORKSPACE)?);
    write_out(&mut manifest, "package", &workspace["workspace"]["package"])?;
    write_out(&mut manifest, "dependencies", &workspace["workspace"]["dependencies"])?;
    manifest.remove("lints");
    if let Some(package) = manifest["package"].as_table_like_mut() {
        package.remove("publish");
        package.insert("publish", false.into());
    }
    // Its examples name what is in the repository.
    if manifest.get("lib").is_none() {
        manifest["lib"] = toml_edit::table();
    }
    manifest["lib"]["doctest"] = false.into();
    Ok(manifest.to_string())
}

/// Replaces `KEY.workspace = true` of a table, or `KEY = { workspace = true, … }`, by what the workspace says.
fn write_out(manifest: &mut DocumentMut, table: &str, workspace: &Item) -> Result<(), String> {
    let Some(entries) = manifest.get_mut(table).and_then(Item::as_table_like_mut) else { return Ok(()) };
    let leaning = |item: &Item| item.as_table_like().is_some_and(|table| table.contains_key("workspace"));
    let names: Vec<String> =
        entries.iter().filter(|(_, item)| leaning(item)).map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let said = workspace.get(&name).and_then(Item::as_value).cloned();
        let said = said.ok_or_else(|| format!("the workspace says nothing of {table}.{name}"))?;
        let more = entries.get(&name).and_then(Item::as_table_like).map(without_workspace).unwrap_or_default();
        let mut whole = said;
        whole.decor_mut().clear();
        if !more.is_empty() {
            if let Value::String(version) = &whole {
                whole = InlineTable::from_iter([("version", version.value().as_str())]).into();
            }
            if let Some(table) = whole.as_inline_table_mut() {
                table.extend(more);
            }
        }
        entries.remove(&name);
        entries.insert(&name, Item::Value(whole));
    }
    Ok(())
}

fn without_workspace(table: &dyn TableLike) -> Vec<(String, Value)> {
    let entries = table.iter().filter(|(key, _)| *key != "workspace");
    entries.filter_map(|(key, item)| Some((key.to_owned(), item.as_value()?.clone()))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[test]
    fn the_rust_sdk_stands_alone() {
        let files = rust().unwrap();
        let manifests: Vec<_> = files.iter().filter(|(path, _)| path.ends_with("Cargo.toml")).collect();
        assert_eq!(manifests.len(), 2);
        for (path, content) in manifests {
            let text = std::str::from_utf8(content).unwrap();
            assert!(!text.contains("workspace"), "{path}: {text}");
            let table: toml::Table = text.parse().unwrap();
            assert!(table["package"]["version"].is_str() && table["package"]["edition"].is_str(), "{path}: {text}");
        }
        assert!(files.iter().any(|(path, _)| path == "wit/plugin.wit"));
        assert!(files.iter().any(|(path, _)| path == "src/lib.rs"));
    }

    #[test]
    fn what_leans_on_the_workspace_is_written_out() {
        let manifest = "[package]\nname = \"x\"\nversion.workspace = true\n[dependencies]\nserde.workspace = true\n\
                        wit-bindgen = { workspace = true, optional = true }\n[lints]\nworkspace = true\n";
        let text = standing_alone(manifest).unwrap();
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["dependencies"]["serde"]["features"][0].as_str(), Some("derive"), "{text}");
        assert_eq!(table["dependencies"]["wit-bindgen"]["optional"].as_bool(), Some(true), "{text}");
        assert!(standing_alone("[dependencies]\nnothing.workspace = true\n").is_err());
    }
}
