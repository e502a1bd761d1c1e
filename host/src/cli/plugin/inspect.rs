//! `tidegate plugin inspect`.

use std::path::Path;

use serde_json::json;

use super::{
    super::{
        Exit,
        console::{answer, complain},
    },
    subject::Subject,
};
use crate::plugin::{Runtime, anatomy::Anatomy};

pub(super) fn run(plugin: &Path, as_json: bool) -> Exit {
    let fail = |why: String| {
        complain(&format!("tidegate plugin inspect: {why}"));
        Exit::Invalid
    };
    let Subject { file, bytes, .. } = match Subject::find(plugin, None) {
        Ok(subject) => subject,
        Err(why) => return fail(why),
    };
    let anatomy = match Anatomy::of(&bytes) {
        Ok(anatomy) => anatomy,
        Err(why) => return fail(format!("{}: {why}", file.display())),
    };
    // What is refused has still been taken apart: that is what one wants to see then.
    let described = Runtime::new(None).and_then(|runtime| runtime.inspect(&file));
    let (described, refused) = match described {
        Ok((described, _)) => (Some(described), None),
        Err(error) => (None, Some(error.to_string())),
    };
    if as_json {
        let description = described.as_ref().map(
            |it| json!({"name": it.name, "version": it.version, "key_version": it.key_version, "targets": it.targets}),
        );
        let json = json!({
            "file": file.display().to_string(), "size": anatomy.size, "sha256": hex::encode(anatomy.sha256),
            "component": anatomy.component, "contract": anatomy.contract, "imports": anatomy.imports,
            "description": description, "refused": refused,
        });
        answer(&json.to_string());
    } else {
        let mut lines = vec![];
        if let Some(it) = &described {
            lines.push(format!("{} {}", it.name, it.version).trim_end().to_owned());
        }
        let kind = if anatomy.component { "component" } else { "core module, which the host makes a component of" };
        lines.push(format!("  file      {} ({} bytes, {kind})", file.display(), anatomy.size));
        lines.push(format!("  sha256    {}", hex::encode(anatomy.sha256)));
        let contract =
            anatomy.contract.map_or("none: this is no plugin".to_owned(), |it| format!("tidegate:plugin@{it}"));
        lines.push(format!("  contract  {contract}"));
        let imports = if anatomy.imports.is_empty() { "nothing".to_owned() } else { anatomy.imports.join(", ") };
        lines.push(format!("  imports   {imports}"));
        if let Some(it) = &described {
            lines.push(format!("  keys      version {}", it.key_version));
            for (target, columns) in &it.targets {
                lines.push(format!("  writes    {target} ({})", columns.join(", ")));
            }
            if it.targets.is_empty() {
                lines.push("  writes    what it does not say beforehand".to_owned());
            }
        }
        answer(&lines.join("\n"));
    }
    match refused {
        None => Exit::Fine,
        Some(why) => {
            complain(&format!("tidegate plugin inspect: {why}"));
            Exit::Invalid
        }
    }
}
