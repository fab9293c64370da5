//! Counters of versions that come and go.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidegate_engine::metrics::Metrics;

#[test]
fn counters_of_the_newest_versions_that_are_gone_are_kept_and_of_all_that_are_there() {
    let metrics = Metrics::default();
    for number in 1..=30 {
        metrics.version("m", number).observe(Box::new(|| 0));
        metrics.version("n", number).settle(0);
    }
    for number in 2..=25 {
        metrics.version("m", number).settle(0);
        metrics.forget_oldest("m");
    }
    let numbers = |model| -> Vec<i64> {
        let samples = metrics.samples(Some(model));
        let names =
            samples.iter().filter_map(|(name, _)| name.strip_prefix("tidegate_batches_total{")?.split('"').nth(3));
        names.map(|number| number.parse().unwrap()).collect()
    };
    assert_eq!(numbers("m"), [1].into_iter().chain(10..=30).collect::<Vec<_>>());
    assert_eq!(numbers("n").len(), 30);
}

#[test]
fn samples_of_one_model_leave_the_others_out() {
    let metrics = Metrics::default();
    metrics.version("m", 1).count_batch(3, 4);
    metrics.version("m2", 1).count_batch(4, 4);
    let samples = metrics.samples(Some("m"));
    assert!(samples.iter().any(|(name, value)| name.contains("model=\"m\"") && *value == 3.0));
    assert!(!samples.iter().any(|(name, _)| name.contains("model=\"m2\"")));
    assert!(samples.iter().any(|(name, _)| name == "tidegate_log_waiting_bytes"));
}
