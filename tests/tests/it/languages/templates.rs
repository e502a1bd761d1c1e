//! From an empty folder to a plugin that passes its cases, as the guide says.

use tidegate_tests::{plugin_command::tidegate, services::Folder};

fn assert_begins_well(language: &str) {
    let folder = Folder::new().unwrap();
    tidegate(folder.path(), &["plugin", "new", "--lang", language, "card-payments"]).expect(0);
    let said = tidegate(folder.path(), &["plugin", "test", "card-payments"]).expect(0);
    assert!(said.contains("cases as expected"), "{said}");
    let component = folder.path().join("card-payments/target/plugins/card_payments.wasm");
    assert!(component.is_file(), "{} is not there", component.display());
}

/// Types are checked by every build, the event's fields and the SDK's functions included.
#[test]
fn a_wrong_type_in_typescript_fails_the_build_with_its_place() {
    let folder = Folder::new().unwrap();
    tidegate(folder.path(), &["plugin", "new", "--lang", "ts", "p"]).expect(0);
    let file = folder.path().join("p/plugin.ts");
    let source = std::fs::read_to_string(&file).unwrap();
    for (right, wrong, says) in [
        ("payment.amount.isNegative()", "payment.amount < 0n", "TS2365"),
        ("payment_id: payment.payment_id", "payment_id: payment.paymentId", "paymentId"),
        ("messageId: payment.event_id", "messageId: payment.version", "TS2769"),
    ] {
        assert!(source.contains(right), "the template has no {right}");
        std::fs::write(&file, source.replace(right, wrong)).unwrap();
        let said = tidegate(folder.path(), &["plugin", "build", "p"]).expect(2);
        assert!(said.contains("plugin.ts(") && said.contains(says) && said.contains("checking the types"), "{said}");
    }
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
