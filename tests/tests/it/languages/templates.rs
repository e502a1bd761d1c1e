//! From an empty folder to a plugin that passes its cases, as the guide says.

use std::{path::Path, process::Command};

use tidegate_tests::{host::program, services::Folder};

fn tidegate(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program("tidegate")).args(arguments).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "tidegate {arguments:?}: {}\n{said}", output.status);
    said
}

fn assert_begins_well(language: &str) {
    let folder = Folder::new().unwrap();
    tidegate(folder.path(), &["plugin", "new", "--lang", language, "card-payments"]);
    let said = tidegate(folder.path(), &["plugin", "test", "card-payments"]);
    assert!(said.contains("cases as expected"), "{said}");
    let component = folder.path().join("card-payments/target/plugins/card_payments.wasm");
    assert!(component.is_file(), "{} is not there", component.display());
}

#[test]
fn a_new_plugin_in_rust_passes_its_cases() {
    assert_begins_well("rust");
}

#[test]
fn a_new_plugin_in_javascript_passes_its_cases() {
    assert_begins_well("js");
}

#[test]
fn a_new_plugin_in_typescript_passes_its_cases() {
    assert_begins_well("ts");
}

#[test]
fn a_new_plugin_in_python_passes_its_cases() {
    assert_begins_well("python");
}

#[test]
fn a_new_plugin_in_go_passes_its_cases() {
    assert_begins_well("go");
}

#[test]
fn a_new_plugin_in_c_passes_its_cases() {
    assert_begins_well("c");
}
