//! A broker that wants TLS and a password: librdkafka's own settings are passed through.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
};
use tidegate_tests::{
    Broker,
    host::HostProcess,
    postgres,
    services::{Folder, Guarded, Kafka},
    workload::Workload,
};

use crate::payments::Payments;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_consumes_through_tls_and_sasl() {
    let folder = Folder::new().unwrap();
    let (kafka, guarded) = Kafka::start_guarded(folder.path()).unwrap();
    tokio::task::block_in_place(|| assert_guarded(&guarded));
    let events = Workload { messages: 500, seed: 15 }.events();
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        let payments = Payments::new(Broker::at(&kafka.bootstrap()), postgres().await, 2).await;
        payments.publish(&events);
        let setup = payments
            .setup()
            .with_kafka("bootstrap.servers", &guarded.bootstrap)
            .with_kafka("security.protocol", "SASL_SSL")
            .with_kafka("ssl.ca.location", &guarded.ca.display().to_string())
            .with_kafka("sasl.mechanisms", mechanism)
            .with_kafka("sasl.username", Guarded::USER)
            .with_kafka("sasl.password", Guarded::PASSWORD);
        let mut host = HostProcess::start(mechanism, &setup);
        host.alive_during(payments.until_consumed()).await;
        host.terminate();
        assert_eq!(host.wait().code(), Some(0), "{mechanism}");
        assert!(!host.log().contains(Guarded::PASSWORD), "the log holds a password");
        payments.assert_each_applied_once(&events).await;
    }
}

/// Keeps the words with which a broker refused the password.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Option<String>>>);

impl Heard {
    fn refusal(&self) -> Option<String> {
        self.0.lock().unwrap().clone()
    }
}

impl ClientContext for Heard {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Authentication) {
            *self.0.lock().unwrap() = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Heard {}

/// The guarded listener lets only its user in, or a host that comes through says nothing.
fn assert_guarded(guarded: &Guarded) {
    let client = |password: &str| {
        let heard = Heard::default();
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &guarded.bootstrap)
            .set("security.protocol", "SASL_SSL")
            .set("ssl.ca.location", guarded.ca.display().to_string())
            .set("sasl.mechanisms", "SCRAM-SHA-512")
            .set("sasl.username", Guarded::USER)
            .set("sasl.password", password);
        let client: BaseConsumer<Heard> = config.create_with_context(heard.clone()).unwrap();
        (client, heard)
    };

    let (right, heard) = client(Guarded::PASSWORD);
    right.fetch_metadata(None, Duration::from_secs(60)).unwrap();
    assert_eq!(heard.refusal(), None);

    // That nothing comes could be slowness: the broker has to say no.
    let (wrong, heard) = client("wrong");
    for _ in 0..600 {
        assert!(wrong.fetch_metadata(None, Duration::from_millis(100)).is_err(), "a wrong password lets in");
        // What the client has to say is told while it is polled.
        let _ = wrong.poll(Duration::ZERO);
        if heard.refusal().is_some() {
            break;
        }
    }
    let refusal = heard.refusal().expect("the broker refuses a wrong password");
    assert!(refusal.contains("invalid credentials"), "{refusal}");
}
