//! Request ids: their hash, the shares that they fall into, and which are taken over from clients.

use std::collections::HashSet;

use http::HeaderValue;
use tidegate_engine::request_id::{IdSource, MAX_LENGTH, RequestId, Share, hash};

#[test]
fn the_hash_is_fixed_for_ever() {
    assert_eq!(hash(b""), 0xf52a_15e9_a9b5_e89b);
    assert_eq!(hash(b"request-1"), hash(b"request-1"));
    assert_ne!(hash(b"request-1"), hash(b"request-2"));
}

#[test]
fn a_share_takes_about_its_part_and_smaller_shares_are_inside_larger_ones() {
    let source = IdSource::default();
    let (small, large) = (Share::new(0.1).unwrap(), Share::new(0.5).unwrap());
    let ids: Vec<RequestId> = (0..20_000).map(|_| RequestId::choose(None, &source)).collect();
    let count = ids.iter().filter(|id| id.sampled(large)).count();
    assert!((9_500..10_500).contains(&count), "{count}");
    assert!(ids.iter().filter(|id| id.sampled(small)).all(|id| id.sampled(large)));
    assert!(ids.iter().all(|id| id.sampled(Share::new(1.0).unwrap()) && !id.sampled(Share::default())));
}

#[test]
fn no_two_threads_make_the_same_id() {
    let source = IdSource::default();
    let ids: HashSet<String> = std::thread::scope(|scope| {
        let make = || (0..5_000).map(|_| RequestId::choose(None, &source).as_str().to_owned()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(make)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 40 * 5_000);
}

#[test]
fn an_id_that_cannot_be_kept_is_replaced() {
    let source = IdSource::default();
    let long = HeaderValue::from_str(&"x".repeat(MAX_LENGTH + 1)).unwrap();
    assert_eq!(RequestId::choose(Some(&long), &source).as_str().len(), 16);
    assert_eq!(RequestId::choose(Some(&HeaderValue::from_static("mine")), &source).as_str(), "mine");
    assert_ne!(RequestId::choose(None, &source).as_str(), RequestId::choose(None, &source).as_str());
}
