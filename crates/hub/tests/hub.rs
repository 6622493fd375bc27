//! The hub: engines by workspace, sessions on them, and settings that come only from the caller.

#![allow(clippy::expect_used, reason = "a test that does not get what it expects should stop")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::session::SessionId;
use windlass::{CallResult, Mode, Outcome, Session, ToolCall};
use windlass_hub::trust::{ActingFiles, TrustedWorkspaces};
use windlass_hub::{
    ConfigOverrides, Environment, Hub, HubSettings, OnWarning, People, Places, Recording,
    SessionOptions, ToolChoice, Workspace,
};

/// A directory with workspaces, a state directory and a configuration directory.
struct TestFolder(tempfile::TempDir);

impl TestFolder {
    fn new(workspaces: &[&str]) -> Self {
        let ground = Self(tempfile::tempdir().expect("a folder"));
        for name in workspaces.iter().chain(&["config"]) {
            std::fs::create_dir(ground.path(name)).expect("a folder");
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn settings(&self) -> HubSettings {
        let overrides = ConfigOverrides { mode: Some(Mode::Auto), ..ConfigOverrides::default() };
        let places = Places { config: Some(self.path("config")), ..Places::default() };
        HubSettings { overrides, places, ..HubSettings::new(self.path("state")) }
    }

    fn hub(&self) -> Hub {
        Hub::new(self.settings())
    }
}

async fn call(open: &Workspace, session: &Arc<Session>, tool: &str, input: Value) -> CallResult {
    open.call(session, ToolCall::new(tool, input)).await
}

async fn names(open: &Workspace, options: SessionOptions) -> Vec<String> {
    let session = open.session(options).expect("a session");
    open.tools(&session).await.iter().map(|spec| spec.name.to_string()).collect()
}

fn named(id: &str) -> SessionOptions {
    SessionOptions { id: Some(SessionId::new(id)), ..SessionOptions::default() }
}

#[test]
fn a_workspace_has_one_engine_for_as_long_as_it_is_in_use() {
    let ground = TestFolder::new(&["one", "two"]);
    std::os::unix::fs::symlink(ground.path("one"), ground.path("link")).expect("a link");
    let hub = ground.hub();
    let one = hub.open(&ground.path("one")).expect("a workspace");
    assert!(Arc::ptr_eq(&one, &hub.open(&ground.path("link")).expect("a workspace")));
    assert!(!Arc::ptr_eq(&one, &hub.open(&ground.path("two")).expect("a workspace")));
    let before = Arc::downgrade(&one);
    drop(one);
    assert!(before.upgrade().is_none(), "an engine that is not in use is closed");
    assert!(hub.open(&ground.path("one")).is_ok());
}

#[tokio::test]
async fn workspaces_share_the_journal() {
    let ground = TestFolder::new(&["one", "two"]);
    let hub = ground.hub();
    let mut open = Vec::new();
    for name in ["one", "two"] {
        let workspace = hub.open(&ground.path(name)).expect("a workspace");
        let session = workspace.session(named(name)).expect("a session");
        let write = json!({"path": "a.txt", "content": "a\n"});
        let result = call(&workspace, &session, "write", write).await;
        assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
        open.push(workspace);
    }
    drop(open);
    let store = hub.store().expect("a journal");
    let mut sessions: Vec<String> = store
        .sessions(windlass::journal::SessionFilter::default())
        .expect("sessions")
        .iter()
        .map(|row| row.id.to_string())
        .collect();
    sessions.sort();
    assert_eq!(sessions, ["one", "two"]);
    store.verify().expect("a whole journal");
}

#[tokio::test]
async fn continued_session_remembers_seen_files() {
    let ground = TestFolder::new(&["w"]);
    ground.put("w/a.txt", "one\n");
    let write = || json!({"path": "a.txt", "content": "two\n"});
    let hub = ground.hub();
    let open = hub.open(&ground.path("w")).expect("a workspace");
    let session = open.session(named("s1")).expect("a session");
    assert_eq!(call(&open, &session, "read", json!({"path": "a.txt"})).await.outcome, Outcome::Ok);
    let other = open.session(SessionOptions::default()).expect("a session");
    let unseen = call(&open, &other, "write", write()).await;
    let again = open.session(named("s1")).expect("a session");
    let seen = call(&open, &again, "write", write()).await;
    assert_eq!(seen.outcome, Outcome::Ok, "{}", seen.output.to_text());
    assert_eq!(unseen.outcome, Outcome::Error, "{}", unseen.output.to_text());
}

#[tokio::test]
async fn session_offers_the_chosen_tools() {
    let ground = TestFolder::new(&["w"]);
    ground.put("config/config.toml", "without = [\"fetch\", \"grep\"]\n");
    let open = ground.hub().open(&ground.path("w")).expect("a workspace");
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (tools, has, has_not) in [
        (ToolChoice::default(), list(&["read", "bash"]), list(&["grep"])),
        (
            ToolChoice { only: Some(list(&["read", "grep"])), ..ToolChoice::default() },
            list(&["read"]),
            list(&["bash", "grep"]),
        ),
        (
            ToolChoice { only: Some(Vec::new()), ..ToolChoice::default() },
            list(&[]),
            list(&["read"]),
        ),
        (
            ToolChoice { without: list(&["bash"]), ..ToolChoice::default() },
            list(&["read"]),
            list(&["bash", "grep"]),
        ),
        (
            ToolChoice { role: Some(windlass::tool::Role::Explorer), ..ToolChoice::default() },
            list(&["read"]),
            list(&["write", "grep"]),
        ),
    ] {
        let told = format!("{tools:?}");
        let offered = names(&open, SessionOptions { tools, ..SessionOptions::default() }).await;
        assert!(has.iter().all(|name| offered.contains(name)), "{told}: {offered:?}");
        assert!(!has_not.iter().any(|name| offered.contains(name)), "{told}: {offered:?}");
    }
}

#[tokio::test]
async fn secrets_come_from_the_environment_that_was_handed_over() {
    let ground = TestFolder::new(&["w"]);
    ground.put("w/notes.txt", "the token is hunter2hunter2\n");
    let mut settings = ground.settings();
    settings.places.environment = Environment::new([("MY_TOKEN".into(), "hunter2hunter2".into())]);
    let hub = Hub::new(settings);
    let open = hub.open(&ground.path("w")).expect("a workspace");
    let session = open.session(SessionOptions::default()).expect("a session");
    let text = call(&open, &session, "read", json!({"path": "notes.txt"})).await.output.to_text();
    assert!(text.contains("the token is [secret MY_TOKEN]"), "{text}");
    let secrets = hub.secrets(&ground.path("w")).expect("secrets");
    assert_eq!(secrets.redact("hunter2hunter2"), "[secret MY_TOKEN]");
}

#[tokio::test]
async fn layers_apply_in_order_and_a_workspace_needs_trust() {
    let ground = TestFolder::new(&["w"]);
    ground.put("config/config.toml", "mode = \"auto\"\ntimeout = 60\n");
    ground.put("w/.windlass/config.toml", "mode = \"plan\"\ntimeout = 30\n");
    ground.put("more.toml", "timeout = 20\n");
    let workspace = ground.path("w").canonicalize().expect("a workspace");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = heard.clone();
    let on_warning = OnWarning::call(move |warning| {
        hear.lock().expect("no panic").push(warning.to_owned());
    });
    let overrides = ConfigOverrides::default();
    let settings = HubSettings { overrides, on_warning, ..ground.settings() };
    let value = |settings: &HubSettings, key: &str| {
        let config = Hub::new(settings.clone()).config(&workspace).expect("a configuration");
        config.explain(windlass_hub::key(key).expect("a key")).0
    };
    assert_eq!(
        (value(&settings, "mode"), value(&settings, "timeout")),
        ("\"auto\"".into(), "60".into())
    );
    drop(Hub::new(settings.clone()).open(&workspace).expect("a workspace"));
    let told = heard.lock().expect("no panic").join("\n");
    assert!(told.starts_with("the configuration of this workspace is not in force"), "{told}");
    let found = ActingFiles::in_workspace(&workspace).expect("files");
    TrustedWorkspaces::trust(&settings.state, &workspace, &found).expect("trusted");
    assert_eq!(
        (value(&settings, "mode"), value(&settings, "timeout")),
        ("\"plan\"".into(), "30".into())
    );
    let more = HubSettings { config_file: Some(ground.path("more.toml")), ..settings.clone() };
    assert_eq!(value(&more, "timeout"), "20");
    let overrides = ConfigOverrides { mode: Some(Mode::Yolo), ..ConfigOverrides::default() };
    assert_eq!(value(&HubSettings { overrides, ..settings }, "mode"), "\"yolo\"");
}

#[tokio::test]
async fn names_of_command_tools_are_known() {
    let ground = TestFolder::new(&["w"]);
    let tool = |name: &str| format!("---\nname: {name}\ncommand: 'true'\n---\nDoes nothing.\n");
    ground.put("config/tools/own.md", &tool("changelog"));
    ground.put("config/tools/broken.md", "---\nname: broken\n");
    ground.put("w/.windlass/tools/theirs.md", &tool("deploy_all"));
    let workspace = ground.path("w").canonicalize().expect("a workspace");
    let settings = ground.settings();
    let found = ActingFiles::in_workspace(&workspace).expect("files");
    TrustedWorkspaces::trust(&settings.state, &workspace, &found).expect("trusted");
    for (line, expected) in [
        ("allow = [\"tool changelog\"]", Ok("")),
        ("deny = [\"tool deploy_all\"]", Ok("")),
        ("without = [\"changelog\", \"bash\"]", Ok("")),
        ("allow = [\"tool of_elsewhere\"]", Ok("there is no tool `of_elsewhere`")),
        ("allow = [\"tool chnagelog\"]", Err("did you mean `changelog`?")),
        ("without = [\"deploy_al\"]", Err("did you mean `deploy_all`?")),
    ] {
        ground.put("config/config.toml", line);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = heard.clone();
        let on_warning = OnWarning::call(move |warning| {
            hear.lock().expect("no panic").push(warning.to_owned());
        });
        let opened = Hub::new(HubSettings { on_warning, ..settings.clone() }).open(&workspace);
        let told = heard.lock().expect("no panic").join("\n");
        match (opened, expected) {
            (Ok(_), Ok("")) => assert_eq!(told, "", "{line}"),
            (Ok(_), Ok(warning)) => assert!(told.contains(warning), "{line}: {told}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{line}: {error}"),
            (opened, _) => panic!("{line}: {:?} {told}", opened.err()),
        }
    }
    ground.put("config/config.toml", "");
    let open = Hub::new(settings).open(&workspace).expect("a workspace");
    let only = |name: &str| SessionOptions {
        tools: ToolChoice { only: Some(vec![name.to_owned()]), ..ToolChoice::default() },
        ..SessionOptions::default()
    };
    assert!(open.session(only("changelog")).is_ok() && open.session(only("chnagelog")).is_err());
}

#[tokio::test]
async fn people_are_asked_as_the_settings_say() {
    for (people, expected) in [
        (People::NoAttendant, Outcome::Denied),
        (People::Beforehand, Outcome::Ok),
        (People::Attendant(Arc::new(|_: &windlass::people::ApprovalRequest| true)), Outcome::Ok),
        (
            People::Attendant(Arc::new(|_: &windlass::people::ApprovalRequest| false)),
            Outcome::Denied,
        ),
    ] {
        let told = format!("{people:?}");
        let ground = TestFolder::new(&["w"]);
        let overrides = ConfigOverrides { mode: Some(Mode::Ask), ..ConfigOverrides::default() };
        let hub = Hub::new(HubSettings { overrides, people, ..ground.settings() });
        let open = hub.open(&ground.path("w")).expect("a workspace");
        let session = open.session(SessionOptions::default()).expect("a session");
        let write = json!({"path": "a.txt", "content": "a\n"});
        assert_eq!(call(&open, &session, "write", write).await.outcome, expected, "{told}");
    }
}

#[test]
fn without_recording_nothing_is_written() {
    let ground = TestFolder::new(&["w"]);
    let hub = Hub::new(HubSettings { recording: Recording::Off, ..ground.settings() });
    let open = hub.open(&ground.path("w")).expect("a workspace");
    assert!(open.store().is_none() && open.session(named("s1")).is_ok());
    assert!(!ground.path("state").exists());
}

#[tokio::test]
async fn the_anchor_is_outside_of_the_state_or_nowhere() {
    for (data, has_anchor, expected) in
        [("data", true, true), ("data", false, false), ("state/data", true, false)]
    {
        let ground = TestFolder::new(&["w"]);
        let mut settings = HubSettings { has_anchor, ..ground.settings() };
        settings.places.data = Some(ground.path(data));
        let open = Hub::new(settings).open(&ground.path("w")).expect("a workspace");
        let session = open.session(SessionOptions::default()).expect("a session");
        call(&open, &session, "write", json!({"path": "a.txt", "content": "a\n"})).await;
        drop((session, open));
        assert_eq!(ground.path(data).join("anchors").exists(), expected, "{data} {has_anchor}");
    }
}
