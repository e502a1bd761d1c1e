//! A machine whose Go is too old for the SDK: it fetches a newer one, once, and nothing but the very one that is pinned.

use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use tidegate_tests::{plugin_command::tidegate_with, services::Folder};

/// Where `tidegate` finds programs: first a `go` that says it is 1.19, downloads modules and can do nothing else.
fn path_with_an_old_go(folder: &Path) -> String {
    let path = env::var("PATH").unwrap();
    let own = env::split_paths(&path).map(|folder| folder.join("go")).find(|file| file.is_file()).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\nenv) echo go1.19.8 ;;\nmod) exec '{}' \"$@\" ;;\n*) echo \"too old to $1\" >&2; exit 1 ;;\n\
         esac\n",
        own.display()
    );
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("go"), script).unwrap();
    fs::set_permissions(bin.join("go"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", bin.display())
}

/// It stays where the other toolchains of the tests are, so that it is fetched once.
#[test]
fn an_old_go_fetches_a_newer_one() {
    let folder = Folder::new().unwrap();
    let path = path_with_an_old_go(folder.path());
    let typed = |words: &[&str]| tidegate_with(folder.path(), &[("PATH", &path)], words).expect(0);
    let _ = typed(&["plugin", "new", "--lang", "go", "p"]);
    let said = typed(&["plugin", "test", "p"]);
    assert!(said.contains("cases as expected"), "{said}");
}

#[test]
fn a_go_that_is_not_the_pinned_one_is_never_run() {
    let folder = Folder::new().unwrap();
    let (path, toolchains) = (path_with_an_old_go(folder.path()), folder.path().join("toolchains"));
    // A proxy, as Go knows one: files. Whoever runs what is in its archive has written a file.
    let proxy = folder.path().join("proxy/golang.org/toolchain/@v");
    let script = r##"
import pathlib, sys, zipfile
proxy = pathlib.Path(sys.argv[1])
proxy.mkdir(parents=True)
for machine in ["linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"]:
    version = "v0.0.1-" + sys.argv[2] + "." + machine
    (proxy / (version + ".info")).write_text('{"Version":"%s"}' % version)
    (proxy / (version + ".mod")).write_text("module golang.org/toolchain\n")
    with zipfile.ZipFile(proxy / (version + ".zip"), "w") as archive:
        archive.writestr("golang.org/toolchain@%s/bin/go" % version, "#!/bin/sh\ntouch %s\n" % sys.argv[3])
"##;
    let (version, ran) = (tidegate::plugin::build::GO, folder.path().join("ran"));
    let made = Command::new("python3").args(["-c", script]).arg(&proxy).arg(version).arg(&ran).status().unwrap();
    assert!(made.success());
    let url = format!("file://{}", folder.path().join("proxy").display());
    let variables =
        [("PATH", path.as_str()), ("TIDEGATE_TOOLCHAINS", toolchains.to_str().unwrap()), ("GOPROXY", url.as_str())];
    let _ = tidegate_with(folder.path(), &variables, &["plugin", "new", "--lang", "go", "p"]).expect(0);
    for _ in 0..2 {
        let said = tidegate_with(folder.path(), &variables, &["plugin", "build", "p"]).expect(2);
        assert!(said.contains("checksum mismatch") && said.contains(&format!("fetching {version} by go")), "{said}");
        assert!(!ran.exists() && !folder.path().join("p/target/plugins/p.wasm").exists());
    }
}
