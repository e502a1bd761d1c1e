//! A finished run, ready to be shown.

use super::{
    measure::{Measurements, Outcomes},
    proof::Proof,
    service::Service,
};

/// What the summary and the JSON object are made of.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) events: u64,
    pub(super) seed: u64,
    pub(super) measured: Measurements,
    pub(super) proofs: Vec<Proof>,
    pub(super) places: Places,
}

/// Where things are, in words that can be pasted.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) database: String,
    pub(super) log: String,
    pub(super) config: String,
    pub(super) broker: String,
    pub(super) metrics: Option<String>,
    /// Commands that show more: what for, and how.
    pub(super) next: Vec<(&'static str, String)>,
    /// Commands that take away what the demo made outside its folder.
    pub(super) clean_up: Vec<String>,
}

impl Report {
    pub(super) fn ok(&self) -> bool {
        self.proofs.iter().all(Proof::holds)
    }

    /// Over all consumers.
    pub(super) fn all(&self) -> Outcomes {
        let mut all = Outcomes::default();
        self.measured.services.values().for_each(|m| all += m.outcomes);
        all
    }

    pub(super) fn target_duplicates(&self) -> i64 {
        self.measured.services.values().map(|m| m.target_duplicates).sum()
    }

    /// The object that `--json` prints.
    pub(super) fn json(&self) -> serde_json::Value {
        let consumers: serde_json::Map<_, _> = self
            .measured
            .services
            .iter()
            .map(|(service, m)| {
                let mut object = outcomes(&m.outcomes);
                object.insert("target_duplicates".into(), m.target_duplicates.into());
                object.insert("payload_conflicts".into(), m.payload_conflicts.into());
                object.insert("superseded".into(), m.superseded.into());
                object.insert("totals".into(), totals(*service, &m.totals));
                object.insert("ok".into(), self.holds_for(*service).into());
                (service.name().to_owned(), object.into())
            })
            .collect();
        let mut object = outcomes(&self.all());
        object.insert("target_duplicates".into(), self.target_duplicates().into());
        object.insert("ok".into(), self.ok().into());
        object.insert("events".into(), self.events.into());
        object.insert("seed".into(), self.seed.into());
        object.insert("produced".into(), self.measured.in_broker.values().sum::<i64>().into());
        object.insert("repeated_attempts".into(), self.measured.repeated_attempts.into());
        object.insert("repeated_inputs".into(), self.measured.repeated_inputs.into());
        object.insert("consumers".into(), consumers.into());
        object.insert("proofs".into(), self.proofs.iter().map(proof).collect());
        object.insert("database".into(), self.places.database.clone().into());
        object.insert("log".into(), self.places.log.clone().into());
        object.insert("config".into(), self.places.config.clone().into());
        object.into()
    }

    fn holds_for(&self, service: Service) -> bool {
        self.proofs.iter().filter(|p| p.service == Some(service)).all(Proof::holds)
    }
}

fn outcomes(o: &Outcomes) -> serde_json::Map<String, serde_json::Value> {
    [
        ("consumed", o.consumed),
        ("applied", o.applied),
        ("duplicate", o.duplicate),
        ("skipped", o.skipped),
        ("dead", o.dead),
        ("too_old", o.too_old),
    ]
    .into_iter()
    .map(|(name, count)| (name.to_owned(), count.into()))
    .collect()
}

fn totals(service: Service, values: &[i64]) -> serde_json::Value {
    service
        .totals()
        .iter()
        .zip(values)
        .map(|(t, v)| (t.label.to_owned(), (*v).into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn proof(proof: &Proof) -> serde_json::Value {
    serde_json::json!({
        "code": proof.code,
        "consumer": proof.service.map(Service::name),
        "claim": proof.claim,
        "expected": proof.expected,
        "found": proof.found,
        "ok": proof.holds(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::demo::{proof, story::Feed};

    pub(in crate::demo) fn faultless() -> Report {
        let (oracle, measured) = proof::tests::faultless();
        let places = Places {
            database: "/tmp/demo/demo.db".into(),
            log: "/tmp/demo/tidegate.log".into(),
            config: "/tmp/demo/tidegate.toml".into(),
            broker: "embedded".into(),
            metrics: None,
            next: vec![("every partition", "tidegate status --config /tmp/demo/tidegate.toml".into())],
            clean_up: vec!["rm -r /tmp/demo".into()],
        };
        Report { events: 2_000, seed: 42, proofs: proof::proofs(&oracle, &measured), measured, places }
    }

    #[test]
    fn the_object_has_what_scripts_ask_for() {
        let mut report = faultless();
        let json = report.json();
        for key in ["consumed", "applied", "duplicate", "skipped", "dead", "too_old", "target_duplicates"] {
            let of = |object: &serde_json::Value| object[key].as_i64();
            let parts: Option<i64> =
                ["settlement-service", "order-summary-service"].iter().map(|name| of(&json["consumers"][name])).sum();
            assert_eq!(of(&json), parts, "{key}: the whole is the sum of its parts");
        }
        assert_eq!((&json["ok"], &json["target_duplicates"]), (&true.into(), &0.into()));
        assert_eq!(json["consumers"]["settlement-service"]["ok"], true);

        report.proofs[0].found += 1;
        assert_eq!(report.json()["ok"], false);
        report.measured.in_broker.insert(Feed::Orders, 0);
        assert!(!report.ok());
    }
}
