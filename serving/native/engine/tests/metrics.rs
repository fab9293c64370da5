//! Counters of versions that come and go.

use tidegate_engine::metrics::{Gauges, Metrics, Page, help_of};

#[test]
fn counters_of_the_newest_versions_that_are_gone_are_kept_and_of_all_that_are_there() {
    let metrics = Metrics::default();
    for number in 1..=30 {
        metrics.version("m", number).observe(Box::new(|| 0));
        metrics.version("n", number).settle(0);
    }
    for number in 2..=25 {
        metrics.version("m", number).settle(0);
        metrics.forget_oldest("m", number);
    }
    let numbers = |model| -> Vec<i64> {
        let mut samples = Vec::new();
        metrics.samples(Some(model), &mut samples);
        let names =
            samples.iter().filter_map(|(name, _)| name.strip_prefix("tidegate_batches_total{")?.split('"').nth(3));
        names.map(|number| number.parse().unwrap()).collect()
    };
    assert_eq!(numbers("m"), [1].into_iter().chain(10..=30).collect::<Vec<_>>());
    assert_eq!(numbers("n").len(), 30);
}

#[test]
fn counters_of_models_that_come_and_go_are_kept_of_those_that_went_last_and_of_all_that_are_there() {
    let metrics = Metrics::default();
    metrics.version("a", 1).observe(Box::new(|| 0));
    let went = |name: &str, number| {
        metrics.version(name, number).settle(0);
        metrics.forget_oldest(name, number);
    };
    went("b", 1);
    metrics.version("b", 1).observe(Box::new(|| 0));
    for model in 0..3000 {
        went(&format!("m{model:04}"), 1);
        went("z", model);
    }
    let kept: Vec<String> = metrics.of(None, None).into_iter().map(|((name, _), _)| name).collect();
    assert_eq!((&*kept[0], &*kept[1], kept.len()), ("a", "b", 2 + 1024));
    assert_eq!(kept.iter().filter(|name| *name == "z").count(), 16);
    assert!(kept.contains(&"m2999".to_owned()) && kept.contains(&"m2100".to_owned()), "those that went last");
    assert!(!kept.contains(&"m0000".to_owned()));
}

#[test]
fn samples_of_one_model_leave_the_others_out() {
    let metrics = Metrics::default();
    metrics.version("m", 1).count_batch(3, 4);
    metrics.version("m2", 1).count_batch(4, 4);
    let mut samples = Vec::new();
    metrics.samples(Some("m"), &mut samples);
    assert!(samples.iter().any(|(name, value)| name.contains("model=\"m\"") && *value == 3.0));
    assert!(!samples.iter().any(|(name, _)| name.contains("model=\"m2\"")));
    assert!(samples.iter().any(|(name, _)| name == "tidegate_log_waiting_bytes"));
}

#[test]
fn the_page_has_each_family_once_with_its_help_and_its_samples_together() {
    let (metrics, gauges) = (Metrics::default(), Gauges::default());
    metrics.version("m", 1).count_batch(3, 4);
    metrics.version("a \"b\"", 2).count_batch(1, 1);
    gauges.set("alone", "One\nnumber.", vec![(Vec::new(), 1.5)]).unwrap();
    let mut page = Page::default();
    metrics.samples(None, &mut page);
    gauges.samples(None, &mut page);
    let page = page.finish(|family| gauges.help(family).unwrap_or_else(|| help_of(family).to_owned()));
    let batches = "# HELP tidegate_batches_total Executor calls.\n# TYPE tidegate_batches_total counter\n\
                   tidegate_batches_total{model=\"a \\\"b\\\"\",version=\"2\"} 1\n\
                   tidegate_batches_total{model=\"m\",version=\"1\"} 1\n# HELP";
    assert!(page.contains(batches), "{page}");
    assert!(page.contains("# HELP alone One\\nnumber.\n# TYPE alone gauge\nalone 1.5\n"), "{page}");
    assert!(page.contains("# TYPE tidegate_batch_rows histogram\ntidegate_batch_rows_bucket{"), "{page}");
    let mut families: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let count = families.len();
    families.dedup();
    assert_eq!((families.is_sorted(), families.len()), (true, count));
}
