//! What became of an order that a running host was given. Pure: it compares what the host said before and what it says now.

use serde_json::Value;

use super::table::plain;

/// What an order comes to in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// A look at a plugin, which ends with another `last_reload`.
    Reload,
    /// A start.
    Start,
}

impl Awaited {
    /// How it ended, for people; `None` while it has not. The error where it was refused or has failed.
    pub(super) fn outcome(self, before: &Value, now: &Value) -> Option<Result<String, String>> {
        match self {
            Self::Reload if !now["last_reload"].is_null() && now["last_reload"] != before["last_reload"] => {
                Some(reloaded(&now["last_reload"]))
            }
            _ if matches!(now["state"].as_str(), Some("stopped" | "drained")) => Some(Err(ended(now))),
            // The host has had the order, and has no such consumer any more.
            _ if now.is_null() => Some(Err("it is gone from the host".to_owned())),
            Self::Start if matches!(now["state"].as_str(), Some("running" | "paused")) => {
                Some(Ok(format!("is {} again", now["state"].as_str().unwrap_or_default())))
            }
            _ => None,
        }
    }
}

fn reloaded(reload: &Value) -> Result<String, String> {
    let result = reload["result"].as_str().map(plain).unwrap_or_default();
    let why = reload["why"].as_str().map(|why| format!(": {}", plain(why))).unwrap_or_default();
    let plugin = reload["sha256"].as_str().and_then(|sha256| sha256.get(..12)).map(plain);
    match result.as_str() {
        "taken" => {
            let warning = reload["warning"].as_str().map(|text| format!("\n  ! {}", plain(text))).unwrap_or_default();
            let plugin =
                plugin.map(|short| format!(": plugin {short}… rules from the next batch on")).unwrap_or_default();
            Ok(format!("taken{plugin}{warning}"))
        }
        "unchanged" => Ok("unchanged: what is found there is in force already".to_owned()),
        _ => Err(format!("{result}{why}")),
    }
}

/// Why it does not run.
fn ended(now: &Value) -> String {
    let reasons = now["reasons"].as_array().into_iter().flatten();
    let reasons: Vec<String> = reasons.filter_map(|reason| reason["text"].as_str()).map(plain).collect();
    let state = now["state"].as_str().map(plain).unwrap_or_default();
    if reasons.is_empty() { state } else { reasons.join("; ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reloaded_at(at: u32, result: &str) -> Value {
        json!({ "state": "running", "last_reload": { "at": at.to_string(), "result": result, "why": null } })
    }

    #[test]
    fn a_reload_has_ended_once_another_one_is_the_last() {
        let outcome = |before: &Value, now: &Value| Awaited::Reload.outcome(before, now);
        let none = json!({ "state": "running", "last_reload": null });
        assert_eq!(outcome(&none, &none), None);
        let old = reloaded_at(1, "taken");
        assert_eq!(outcome(&old, &old), None, "what was there before says nothing of this one");
        let taken = Some(Ok("taken".to_owned()));
        assert_eq!(outcome(&none, &old), taken);
        assert_eq!(outcome(&old, &reloaded_at(2, "taken")), taken);
        assert!(matches!(outcome(&old, &reloaded_at(2, "unchanged")), Some(Ok(text)) if text.starts_with("unchanged")));
        let mut refused = reloaded_at(2, "refused");
        refused["last_reload"]["why"] = json!("other\nkeys");
        assert_eq!(outcome(&old, &refused), Some(Err("refused: other keys".to_owned())));
        assert!(matches!(outcome(&old, &reloaded_at(2, "failed")), Some(Err(_))));
        let mut warned = reloaded_at(2, "taken");
        warned["last_reload"]["sha256"] = json!("0123456789abcdef");
        warned["last_reload"]["warning"] = json!("held against nothing");
        let text = "taken: plugin 0123456789ab… rules from the next batch on\n  ! held against nothing";
        assert_eq!(outcome(&old, &warned), Some(Ok(text.to_owned())));
    }

    #[test]
    fn what_does_not_run_or_is_gone_comes_to_no_end() {
        let stopped = json!({ "state": "stopped", "last_reload": null, "reasons": [{ "text": "stopped: no table" }] });
        for awaited in [Awaited::Reload, Awaited::Start] {
            assert_eq!(awaited.outcome(&Value::Null, &stopped), Some(Err("stopped: no table".to_owned())));
            assert!(matches!(awaited.outcome(&stopped, &Value::Null), Some(Err(_))));
            assert_eq!(awaited.outcome(&stopped, &json!({ "state": "starting" })), None);
        }
        for state in ["running", "paused"] {
            let now = json!({ "state": state });
            assert_eq!(Awaited::Start.outcome(&stopped, &now), Some(Ok(format!("is {state} again"))));
        }
    }
}
