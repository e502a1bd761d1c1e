//! The proofs: what the producer knows was to come of a run, held against what the database and the broker say.

use super::{
    measure::Measurements,
    oracle::{Expected, Oracle},
    service::Service,
    story::Feed,
};

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// The consumer that it is about; `None` = all.
    pub(super) service: Option<Service>,
    /// A short stable word for scripts.
    pub(super) code: &'static str,
    /// For people.
    pub(super) claim: String,
    pub(super) expected: i64,
    pub(super) found: i64,
}

impl Proof {
    pub(super) fn holds(&self) -> bool {
        self.expected == self.found
    }
}

/// Everything that must hold after a run that consumed all there is.
pub(super) fn proofs(oracle: &Oracle, measured: &Measurements) -> Vec<Proof> {
    let mut proofs: Vec<_> = Feed::ALL
        .into_iter()
        .map(|feed| Proof {
            service: None,
            code: "in_broker",
            claim: format!("the broker has every record published to {}", feed.topic()),
            expected: oracle.published_to(feed),
            found: measured.in_broker.get(&feed).copied().unwrap_or(0),
        })
        .collect();
    for service in Service::ALL {
        proofs.extend(of_service(service, &oracle.expected(service), measured));
    }
    proofs.push(Proof {
        service: None,
        code: "torn_links",
        claim: "every checkpoint begins where the one before it ended".into(),
        expected: 0,
        found: measured.torn_links,
    });
    proofs
}

fn of_service(service: Service, expected: &Expected, measurements: &Measurements) -> Vec<Proof> {
    let Some(measured) = measurements.services.get(&service) else { return Vec::new() };
    let in_broker = service.feeds().iter().filter_map(|f| measurements.in_broker.get(f)).sum();
    let proof = |code, claim: &str, expected, found| Proof {
        service: Some(service),
        code,
        claim: claim.into(),
        expected,
        found,
    };
    let outcomes = measured.outcomes;
    let mut proofs = vec![
        proof("consumed", "consumed every record in its topics", in_broker + measured.redelivered, outcomes.consumed),
        proof("applied", "applied every distinct valid event once", expected.applied, outcomes.applied),
        proof("ledger", "has a ledger row for each of them", outcomes.applied, measured.ledger_rows),
    ];
    if measured.redelivered == 0 {
        proofs.extend([
            proof("duplicate", "skipped every copy", expected.duplicate, outcomes.duplicate),
            proof("skipped", "left alone what is not for it", expected.skipped, outcomes.skipped),
            proof("dead", "found every broken event", expected.dead, outcomes.dead),
        ]);
    } else {
        // Which of them came twice is the broker's affair; their number is not.
        let expected = expected.duplicate + expected.skipped + expected.dead + measured.redelivered;
        let found = outcomes.duplicate + outcomes.skipped + outcomes.dead;
        proofs.push(proof("not_applied", "applied nothing of what came again", expected, found));
    }
    proofs.extend([
        proof("dead_letters", "kept each broken event as a dead letter", expected.dead, measured.dead_letters),
        proof("superseded", "closed those that came corrected", expected.superseded, measured.superseded),
        proof(
            "payload_conflict",
            "kept every copy with another payload",
            expected.conflicts,
            measured.payload_conflicts,
        ),
        proof("too_old", "met no event older than its memory", 0, outcomes.too_old),
        proof("target_duplicates", "has no key twice in its table", 0, measured.target_duplicates),
    ]);
    if let Some(committed) = measurements.committed.get(&service) {
        proofs.push(proof("committed", "told Kafka of everything that it consumed", in_broker, *committed));
    }
    for (total, (expected, found)) in service.totals().iter().zip(expected.totals.iter().zip(&measured.totals)) {
        proofs.push(proof("total", total.label, *expected, *found));
    }
    proofs
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::demo::{
        measure::{Measured, Outcomes},
        story::Story,
    };

    /// A story, and what a host that makes no mistake makes of it.
    pub(in crate::demo) fn faultless() -> (Oracle, Measurements) {
        let mut story = Story::new(42, 6, 0);
        (0..2_000).for_each(|_| drop(story.next_event()));
        story.close();
        story.corrections();
        let oracle = story.oracle().clone();
        let of = |service: Service| {
            let e = oracle.expected(service);
            let consumed = service.feeds().iter().map(|f| oracle.published_to(*f)).sum();
            let outcomes = Outcomes {
                consumed,
                applied: e.applied,
                duplicate: e.duplicate,
                skipped: e.skipped,
                dead: e.dead,
                too_old: 0,
            };
            Measured {
                outcomes,
                redelivered: 0,
                ledger_rows: e.applied,
                dead_letters: e.dead,
                superseded: e.superseded,
                payload_conflicts: e.conflicts,
                target_duplicates: 0,
                totals: e.totals[..service.totals().len()].to_vec(),
            }
        };
        let services: BTreeMap<_, _> = Service::ALL.into_iter().map(|s| (s, of(s))).collect();
        let in_broker = Feed::ALL.into_iter().map(|f| (f, oracle.published_to(f))).collect();
        let committed = services.iter().map(|(s, m)| (*s, m.outcomes.consumed)).collect();
        (
            oracle,
            Measurements {
                in_broker,
                services,
                repeated_attempts: 999,
                repeated_inputs: 250,
                dead_letter_codes: vec![("bad-json".into(), 12), ("bad-amount".into(), 6)],
                committed,
                torn_links: 0,
            },
        )
    }

    fn failing(oracle: &Oracle, measured: &Measurements) -> Vec<&'static str> {
        proofs(oracle, measured).iter().filter(|p| !p.holds()).map(|p| p.code).collect()
    }

    #[test]
    fn a_faultless_run_proves_everything() {
        let (oracle, measured) = faultless();
        assert_eq!(failing(&oracle, &measured), Vec::<&str>::new());
        let e = oracle.expected(Service::OrderSummary);
        let outcomes = e.applied + e.duplicate + e.skipped + e.dead;
        assert_eq!(outcomes, measured.services[&Service::OrderSummary].outcomes.consumed, "nothing is left over");
    }

    #[test]
    fn every_fault_is_seen() {
        type Fault = fn(&mut Measured);
        let faults: [(Fault, &[&str]); 8] = [
            (|m| m.outcomes.consumed -= 1, &["consumed"]),
            (|m| m.outcomes.applied += 1, &["applied", "ledger"]),
            (|m| m.outcomes.too_old = 1, &["too_old"]),
            (|m| m.dead_letters -= 1, &["dead_letters"]),
            (|m| m.superseded += 1, &["superseded"]),
            (|m| m.payload_conflicts -= 1, &["payload_conflict"]),
            (|m| m.target_duplicates = 1, &["target_duplicates"]),
            (|m| m.totals[1] += 1, &["total"]),
        ];
        for (fault, codes) in faults {
            for service in Service::ALL {
                let (oracle, mut measured) = faultless();
                measured.services.entry(service).and_modify(fault);
                assert_eq!(failing(&oracle, &measured), codes, "{}", service.name());
            }
        }
        let (oracle, mut measured) = faultless();
        measured.torn_links = 1;
        assert_eq!(failing(&oracle, &measured), ["torn_links"]);
        measured.in_broker.insert(Feed::Orders, 0);
        assert_eq!(failing(&oracle, &measured), ["in_broker", "consumed", "committed", "torn_links"]);
        let (oracle, mut measured) = faultless();
        measured.committed.insert(Service::Settlement, 0);
        assert_eq!(failing(&oracle, &measured), ["committed"]);
    }

    #[test]
    fn a_redelivery_is_no_fault_but_an_application_of_it_is() {
        let (oracle, mut measured) = faultless();
        measured.services.entry(Service::Settlement).and_modify(|m| {
            (m.redelivered, m.outcomes.consumed) = (5, m.outcomes.consumed + 5);
            (m.outcomes.duplicate, m.outcomes.dead) = (m.outcomes.duplicate + 4, m.outcomes.dead + 1);
        });
        assert_eq!(failing(&oracle, &measured), Vec::<&str>::new());
        measured.services.entry(Service::Settlement).and_modify(|m| {
            (m.outcomes.duplicate, m.outcomes.applied) = (m.outcomes.duplicate - 1, m.outcomes.applied + 1);
            m.ledger_rows += 1;
        });
        assert_eq!(failing(&oracle, &measured), ["applied", "not_applied"]);
    }
}
