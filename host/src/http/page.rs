//! The status page: one table a person reads at a glance. Plain HTML, no script, reloads itself.

use std::fmt::Write;

use crate::{
    health::{ConsumerReport, ReloadReport},
    instant::whole_seconds,
    metrics::Outcomes,
};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1c2733;\
background:#fff}h1{font-size:1.2rem}h2{font-size:1.05rem;margin:2rem 0 .3rem}table{border-collapse:collapse;width:100%}\
th,td{padding:.25rem .8rem .25rem 0;text-align:left;border-bottom:1px solid #dde3e9}td.n,th.n{text-align:right}\
.ok{color:#1a7f37}.bad{color:#b3261e}.note{color:#5b6875}@media(prefers-color-scheme:dark){body{color:#d7dee6;\
background:#11161c}th,td{border-color:#2a333d}.ok{color:#57c274}.bad{color:#ff8a80}.note{color:#93a1af}}";

/// Renders the page.
pub(super) fn render(
    consumers: &[ConsumerReport],
    configuration: Option<&ReloadReport>,
    live: bool,
    outcomes: impl Fn(&str) -> Outcomes,
) -> String {
    let troubled = consumers.iter().filter(|consumer| !consumer.reasons.is_empty()).count();
    let (class, verdict) = match (live, troubled) {
        (false, _) => ("bad", "stuck: restart this process".to_owned()),
        (true, 0) => ("ok", "all consumers do their work".to_owned()),
        (true, n) => ("bad", format!("{n} of {} consumers need attention", consumers.len())),
    };
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"refresh\" content=\"5\"><title>tidegate</title><style>{STYLE}</style>\
         <h1>tidegate {} · <span class=\"{class}\">{verdict}</span></h1>",
        env!("CARGO_PKG_VERSION")
    );
    if let Some((reload, why)) = configuration.and_then(|reload| Some((reload, reload.why.as_deref()?))) {
        let _ = write!(
            html,
            "<p class=\"bad\">The configuration file was {} {}, that of before stays: {}</p>",
            reload.result,
            whole_seconds(&reload.at),
            escape(why)
        );
    }
    for consumer in consumers {
        one(&mut html, consumer, outcomes(&consumer.consumer));
    }
    html.push_str("<p class=\"note\">Since this process started. The database's own figures: <code>tidegate status</code>. \
         For machines: <a href=\"/v1/consumers\">/v1/consumers</a>, <a href=\"/metrics\">/metrics</a>, <a href=\"/readyz\">/readyz</a>, <a href=\"/livez\">/livez</a>.</p></html>\n");
    html
}

// Writing into a String does not fail.
fn one(html: &mut String, consumer: &ConsumerReport, outcomes: Outcomes) {
    let class = if consumer.reasons.is_empty() { "ok" } else { "bad" };
    let progress =
        outcomes.last_progress.map_or_else(|| "no progress yet".to_owned(), |at| format!("last progress {at}"));
    let _ = write!(
        html,
        "<h2>{} · <span class=\"{class}\">{}</span></h2><p class=\"note\">{progress} · lanes: {}</p>",
        escape(&consumer.consumer),
        consumer.phase,
        consumer.lanes.iter().map(|lane| lane.state).collect::<Vec<_>>().join(", ")
    );
    if let Some(plugin) = &consumer.plugin {
        let short = plugin.sha256.get(..12).unwrap_or_default();
        let _ =
            write!(html, "<p class=\"note\">plugin: {} {} ({short}…)", escape(&plugin.name), escape(&plugin.version));
        if let Some(reload) = &consumer.last_reload {
            let why = reload.why.as_deref().map(|why| format!(": {}", escape(why))).unwrap_or_default();
            let class = if reload.why.is_some() { "bad" } else { "note" };
            let _ = write!(
                html,
                " · <span class=\"{class}\">last reload {} {}{why}</span>",
                whole_seconds(&reload.at),
                reload.result
            );
        }
        html.push_str("</p>");
        if let Some(warning) = &plugin.warning {
            let _ = write!(html, "<p class=\"bad\">plugin: {}</p>", escape(warning));
        }
    }
    for reason in &consumer.reasons {
        let _ = write!(html, "<p class=\"bad\">{}: {}</p>", escape(&reason.about), escape(&reason.text));
    }
    html.push_str("<table><tr>");
    for (name, _) in outcomes.counts {
        let _ = write!(html, "<th class=\"n\">{name}</th>");
    }
    html.push_str("</tr><tr>");
    for (_, count) in outcomes.counts {
        let _ = write!(html, "<td class=\"n\">{}</td>", grouped(count));
    }
    html.push_str("</tr></table>");
    if !consumer.partitions.is_empty() {
        html.push_str("<table><tr><th>partition</th><th>state</th><th class=\"n\">behind</th></tr>");
        for (partition, state) in &consumer.partitions {
            let lag = consumer.lag.get(partition).and_then(|lag| u64::try_from(*lag).ok());
            let lag = lag.map_or_else(|| "?".to_owned(), grouped);
            let _ = write!(html, "<tr><td>{}</td><td>{state}</td><td class=\"n\">{lag}</td></tr>", escape(partition));
        }
        html.push_str("</table>");
    }
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Reloaded;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_configuration_that_was_not_taken_is_told_and_one_that_was_is_not() {
        let page = |result, why: Option<&str>| {
            let reload = ReloadReport::now(result, None, why.map(str::to_owned));
            render(&[], Some(&reload), true, |_| unreachable!("there is no consumer"))
        };
        let html = page(Reloaded::Refused, Some("<t.toml>: no such key"));
        assert!(html.contains("was refused 2") && html.contains("&lt;t.toml&gt;: no such key"), "{html}");
        assert!(!page(Reloaded::Taken, None).contains("configuration file"));
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
    }
}
