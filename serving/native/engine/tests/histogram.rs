//! Buckets of histograms.

use tidegate_engine::metrics::histogram::Histogram;

#[test]
fn a_value_counts_in_the_first_bucket_that_holds_it() {
    let histogram = Histogram::default();
    for value in [0, 1, 2, 3, 4, 5, u64::MAX] {
        histogram.add(value);
    }
    let mut list = Vec::new();
    histogram.samples(&mut list, "h", "a=\"b\"", 1.0);
    assert_eq!(list[0], ("h_bucket{a=\"b\",le=\"1\"}".to_owned(), 2.0));
    assert_eq!(list[1].1, 3.0);
    assert_eq!(list[2].1, 5.0);
    assert_eq!(list[3].1, 6.0);
    assert_eq!(list.last().unwrap().1, 7.0);
}
