//! A change in any file that the configuration comes from is seen, through whatever links lead there, and is taken as far as
//! a running process can take it; plugins' files, and signatures that come after them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use tidegate::{
    app::{App, Order, PluginLoader},
    config::{self, Consumer},
    metrics::Reloaded,
    plugin::{Plugin as _, PluginError},
};
use tidegate_tests::{builds::replace, wait};

use crate::{
    accounts,
    kafka_scene::{Scene, until_ready},
    reload::{events, last},
};

/// A mount of Kubernetes: each name leads through `..data` to the version that is there now.
struct Mount {
    folder: PathBuf,
    version: usize,
}

impl Mount {
    fn new(folder: &Path, files: &[(&str, String)]) -> Self {
        fs::create_dir(folder).unwrap();
        let mut mount = Self { folder: folder.to_owned(), version: 0 };
        mount.swap(files);
        for (name, _) in files {
            symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
        }
        mount
    }

    /// All files at once are others.
    fn swap(&mut self, files: &[(&str, String)]) {
        self.version += 1;
        let version = format!("..{}", self.version);
        let there = self.folder.join(&version);
        fs::create_dir(&there).unwrap();
        for (name, text) in files {
            fs::write(there.join(name), text).unwrap();
        }
        let new = self.folder.join("..data_tmp");
        symlink(&version, &new).unwrap();
        fs::rename(new, self.folder.join("..data")).unwrap();
    }
}

/// A name of the plugin's that says under which settings it was loaded.
fn named_by_settings() -> Arc<PluginLoader> {
    Arc::new(|consumer: &Consumer| {
        let name = consumer.plugin.settings.get("name").and_then(|name| name.as_str()).unwrap_or("unnamed");
        Ok(Arc::new(accounts::native(name)))
    })
}

/// What became of the configuration the last time that it was read.
fn configured(app: &App) -> (String, String) {
    let report = app.health().configuration();
    report.map(|report| (report.result.to_owned(), report.why.unwrap_or_default())).unwrap_or_default()
}

async fn until_configured(app: &App, result: &str, part: &str) {
    let says = |(found, why): &(String, String)| found == result && why.contains(part);
    wait::until(&format!("the configuration is {result}: {part}"), async || configured(app), says).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_in_any_file_of_the_configuration_is_seen() {
    let scene = Scene::new(1).await;
    scene.consumer("c").await;
    let folder = tempfile::tempdir().unwrap();
    let root = format!(
        "include = [\"mounted/consumers.toml\"]\n[database.main]\nurl_file = \"mounted/url\"\n[kafka.main]\n\"bootstrap.servers\" = \
         \"{}\"\n\"session.timeout.ms\" = 6000\n[http]\nlisten = \"off\"\n",
        scene.broker.bootstrap()
    );
    let consumers = |name: &str| {
        format!(
            "[[consumer]]\nname = \"c\"\ngroup = \"c-{topic}\"\ntopics = [\"{topic}\"]\nstart = \"earliest\"\nlanes = 1\n\
             plugin = {{ path = \"p.wasm\", settings = {{ name = \"{name}\" }} }}\n\
             [[consumer.target]]\nname = \"balances\"\ntable = \"c_balances\"\ncolumns = [\"account\", \"total\"]\n\
             key = [\"account\"]\nmerge = {{ total = \"add\" }}\n\
             [[consumer.target]]\nname = \"latest\"\ntable = \"c_latest\"\ncolumns = [\"account\", \"version\", \"note\"]\n\
             key = [\"account\"]\nguard = {{ newer_by = \"version\" }}\n",
            topic = scene.topic
        )
    };
    let files = |name: &str, url: &str| [("consumers.toml", consumers(name)), ("url", url.to_owned())];
    let url = scene.database.url().to_owned();
    // The first file stays as it is.
    let file = folder.path().join("tidegate.toml");
    fs::write(&file, root).unwrap();
    let mut mount = Mount::new(&folder.path().join("mounted"), &files("one", &url));
    let config = config::load(&file).unwrap();
    let app = App::start_with(config, named_by_settings(), vec![]).unwrap();
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    let rules = async || app.report()[0].plugin.as_ref().map(|plugin| plugin.name.clone()).unwrap_or_default();
    assert_eq!(rules().await, "one");

    // An included file, by a turned link.
    mount.swap(&files("two", &url));
    wait::until("the included file's settings rule", rules, |name| name == "two").await;
    until_configured(&app, "taken", "").await;

    // A secret takes a restart, and the reason tells no secret.
    mount.swap(&files("three", &format!("{url}{}application_name=hidden", if url.contains('?') { '&' } else { '?' })));
    until_configured(&app, "refused", "[database]: connections are made from it; restart the process").await;
    assert!(!configured(&app).1.contains("hidden"));
    assert!(app.metrics().text().contains("tidegate_config_reloads_total{result=\"refused\"} 1"));
    assert_eq!(rules().await, "two", "and nothing else of it is taken");

    // A mistake in an included file is seen, and so is where it is put right.
    let mut broken = files("four", &url);
    broken[0].1.push_str("[[consumer.target]]\nname = \"broken\"\n");
    mount.swap(&broken);
    until_configured(&app, "refused", "consumers.toml").await;
    mount.swap(&files("four", &url));
    wait::until("the mended file's settings rule", rules, |name| name == "four").await;
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, 400);
    scene.proofs("c").await;
}

/// By the watch alone: nobody is told.
#[tokio::test(flavor = "multi_thread")]
async fn consumers_that_share_a_plugin_s_file_all_take_its_change() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("a").await, scene.consumer("b").await];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared.wasm");
    fs::write(&file, "one").unwrap();
    let loader: Arc<PluginLoader> = Arc::new(|consumer: &Consumer| {
        let name = fs::read_to_string(consumer.plugin.origin.file().unwrap()).unwrap();
        Ok(Arc::new(accounts::native(&name)))
    });
    let mut config = scene.config(&wanted);
    config.plugins.watch = true;
    config.consumers.iter_mut().for_each(|consumer| consumer.plugin.origin = file.as_path().into());
    let app = App::start_with(config, loader, vec![]).unwrap();
    let rule = async || {
        let names = app.report().into_iter().map(|report| report.plugin.map(|plugin| plugin.name).unwrap_or_default());
        names.collect::<Vec<_>>()
    };
    wait::until("both run", rule, |names| *names == ["one", "one"]).await;
    until_ready(&app).await;
    for name in ["two", "three"] {
        replace(&file, name.as_bytes());
        wait::until("both have taken it", rule, |names| names.iter().all(|rules| rules == name)).await;
    }
    assert!(["a", "b"].into_iter().all(|consumer| last(&app, consumer).1 == "taken"));
    scene.produce(0, events(0..20));
    scene.consumed(&app, "a").await;
    scene.consumed(&app, "b").await;
    app.drain().await;
    assert_eq!((scene.sum("a").await, scene.sum("b").await), (200, 200));
}

/// A plugin by the content of its file: its name. What is pinned is its digest; `loaded` is told of each that was read.
fn named_by_content(loaded: impl Fn(&Path, &str) + Send + Sync + 'static) -> Arc<PluginLoader> {
    Arc::new(move |consumer: &Consumer| {
        let file = consumer.plugin.origin.file().unwrap();
        let refuse = |message: String| PluginError::Load { path: file.display().to_string(), message };
        let name = fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
        let plugin = accounts::native(&name);
        if consumer.plugin.sha256.is_some_and(|pin| pin != plugin.digest()) {
            return Err(refuse("another one is pinned".to_owned()));
        }
        loaded(file, &name);
        Ok(Arc::new(plugin))
    })
}

fn rules(app: &App) -> String {
    app.report()[0].plugin.as_ref().map(|plugin| plugin.name.clone()).unwrap_or_default()
}

/// Whoever replaces it a moment after it was read is before the first look of the watch.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_while_it_is_loaded_is_looked_at_again() {
    let scene = Scene::new(1).await;
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("p.wasm"), folder.path().join("q.wasm"));
    fs::write(&first, "first").unwrap();
    fs::write(&second, "second").unwrap();
    let mut config = scene.config(&[scene.consumer("c").await]);
    config.plugins.watch = true;
    config.consumers[0].plugin.origin = first.as_path().into();
    // Long enough for a look in between.
    let loader = named_by_content(|file, name| {
        if matches!(name, "first" | "second") {
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            replace(file, format!("{name}, replaced").as_bytes());
        }
    });
    let app = App::start_with(config.clone(), loader, vec![]).unwrap();
    wait::until("what came at the start rules", async || rules(&app), |name| name == "first, replaced").await;
    config.consumers[0].plugin.origin = second.as_path().into();
    assert_eq!(app.reconfigure(config).await, Reloaded::Taken);
    wait::until("what came with the configuration rules", async || rules(&app), |name| name == "second, replaced")
        .await;
    replace(&second, b"third");
    wait::until("the file is watched", async || rules(&app), |name| name == "third").await;
    app.drain().await;
}

/// A new plugin and the configuration that asks for it are two files: whichever comes first, both are taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_comes_before_its_plugin_is_taken_with_it() {
    let scene = Scene::new(1).await;
    scene.consumer("c").await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |plugin: &str| {
        let text = format!(
            "[database.main]\nurl = \"{}\"\n[kafka.main]\n\"bootstrap.servers\" = \"{}\"\n\"session.timeout.ms\" = 6000\n\
             [http]\nlisten = \"off\"\n[[consumer]]\nname = \"c\"\ngroup = \"c-{topic}\"\ntopics = [\"{topic}\"]\n\
             start = \"earliest\"\nlanes = 1\nplugin = {{ {plugin} }}\n\
             [[consumer.target]]\nname = \"balances\"\ntable = \"c_balances\"\ncolumns = [\"account\", \"total\"]\n\
             key = [\"account\"]\nmerge = {{ total = \"add\" }}\n\
             [[consumer.target]]\nname = \"latest\"\ntable = \"c_latest\"\ncolumns = [\"account\", \"version\", \"note\"]\n\
             key = [\"account\"]\nguard = {{ newer_by = \"version\" }}\n",
            scene.database.url(),
            scene.broker.bootstrap(),
            topic = scene.topic
        );
        replace(&at("tidegate.toml"), text.as_bytes());
    };
    let pinned = |file: &str, name: &str| {
        format!("path = \"{file}\", sha256 = \"{}\"", hex::encode(accounts::native(name).digest()))
    };
    fs::write(at("p.wasm"), "one").unwrap();
    write(&pinned("p.wasm", "one"));
    let app =
        App::start_with(config::load(&at("tidegate.toml")).unwrap(), named_by_content(|_, _| ()), vec![]).unwrap();
    wait::until("it runs", async || rules(&app), |name| name == "one").await;
    until_ready(&app).await;

    // Another pin, then the file.
    write(&pinned("p.wasm", "two"));
    until_configured(&app, "refused", "another one is pinned").await;
    assert_eq!(rules(&app), "one");
    replace(&at("p.wasm"), b"two");
    wait::until("the pinned file rules", async || rules(&app), |name| name == "two").await;
    until_configured(&app, "taken", "").await;
    // Another path, then the file.
    write("path = \"q.wasm\"");
    until_configured(&app, "refused", "q.wasm").await;
    replace(&at("q.wasm"), b"three");
    wait::until("the file that came later rules", async || rules(&app), |name| name == "three").await;
    until_configured(&app, "taken", "").await;
    // The file, then the pin.
    write(&pinned("q.wasm", "three"));
    let taken = async || app.metrics().text().contains("tidegate_config_reloads_total{result=\"taken\"} 3");
    wait::until("the pin is taken", taken, |taken| *taken).await;
    let before = last(&app, "c").0;
    replace(&at("q.wasm"), b"four");
    wait::until("it is refused", async || last(&app, "c"), |now| now.0 > before && now.1 == "refused").await;
    write(&pinned("q.wasm", "four"));
    wait::until("the file that came first rules", async || rules(&app), |name| name == "four").await;
    app.drain().await;
}

/// The shadow's file is the consumer's from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_shadow_s_file_is_watched() {
    let scene = Scene::new(1).await;
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("p.wasm"), folder.path().join("q.wasm"));
    fs::write(&first, "first").unwrap();
    fs::write(&second, "second").unwrap();
    let mut config = scene.config(&[scene.consumer("c").await]);
    config.plugins.watch = true;
    config.consumers[0].plugin.origin = first.as_path().into();
    let shadow = config::Plugin { origin: second.as_path().into(), ..config.consumers[0].plugin.clone() };
    config.consumers[0].shadow = Some(shadow);
    let app = App::start_with(config.clone(), named_by_content(|_, _| ()), vec![]).unwrap();
    until_ready(&app).await;
    wait::until("the shadow looks on", async || app.control().shadow("c").is_some(), |there| *there).await;
    app.control().order("c", Order::Promote).unwrap();
    wait::until("the shadow rules", async || rules(&app), |name| name == "second").await;
    replace(&first, b"first, again");
    replace(&second, b"third");
    wait::until("its file is watched", async || rules(&app), |name| name == "third").await;
    // Reading the configuration goes back.
    assert_eq!(app.reconfigure(config).await, Reloaded::Taken);
    assert_eq!(rules(&app), "first, again");
    app.drain().await;
}
