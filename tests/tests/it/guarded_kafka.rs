//! A broker that wants TLS and a password: librdkafka's own settings are passed through.

use std::time::Duration;

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
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

#[test]
fn the_guarded_listener_lets_only_its_user_in() {
    let folder = Folder::new().unwrap();
    let (_kafka, guarded) = Kafka::start_guarded(folder.path()).unwrap();
    // A refusal shows as silence, which need not be waited out.
    for (password, lets_in, patience) in [(Guarded::PASSWORD, true, 60), ("wrong", false, 5)] {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &guarded.bootstrap)
            .set("security.protocol", "SASL_SSL")
            .set("ssl.ca.location", guarded.ca.display().to_string())
            .set("sasl.mechanisms", "SCRAM-SHA-512")
            .set("sasl.username", Guarded::USER)
            .set("sasl.password", password)
            .create()
            .unwrap();
        assert_eq!(
            client.fetch_metadata(None, Duration::from_secs(patience)).is_ok(),
            lets_in,
            "password '{password}'"
        );
    }
}
