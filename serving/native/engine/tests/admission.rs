//! The last eighth of a long queue: what a connection may put there depends on what it has under way.

use std::sync::Arc;

use crate::support::{Fixture, fill, fixture};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::{Appended, Entry, Role};

/// Appends rows of a connection that has so many under way.
fn append(fixture: &Fixture, rows: usize, under_way: usize) -> Result<Appended, Status> {
    let entry = Entry { under_way, ..fixture.entry(1) };
    fixture.queue.append(&Arc::new(()), 0, entry, 4 * rows, &|page| fill(page, 1.0, rows))
}

/// A queue of which one connection has filled seven eighths.
fn filled() -> Fixture {
    let fixture = fixture(64, 1024);
    (0..14).for_each(|number| drop(append(&fixture, 64, 64 * number).unwrap()));
    fixture
}

#[test]
fn one_connection_leaves_an_eighth_of_a_long_queue_to_others() {
    let fixture = filled();
    for rows in [1, 64] {
        let refused = append(&fixture, rows, 896).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        let words = "1 more rows beside the 896 that this connection has under way would be more than half of the 128";
        assert!(refused.message.contains(words), "{}", refused.message);
    }
    append(&fixture, 1, 0).unwrap();
    assert_eq!(fixture.queue.queued_rows(), 897, "what is refused is not counted");
}

#[test]
fn the_less_is_left_the_fewer_rows_a_connection_may_have() {
    let fixture = filled();
    append(&fixture, 64, 0).unwrap();
    append(&fixture, 33, 0).unwrap_err();
    append(&fixture, 32, 0).unwrap();
    append(&fixture, 1, 16).unwrap_err();
    (0..30).for_each(|_| drop(append(&fixture, 1, 0).unwrap()));
    assert_eq!(fixture.queue.queued_rows(), 1022);
}

#[test]
fn copies_leave_it_to_requests() {
    let fixture = filled();
    let copy = Entry { role: Role::Shadow, under_way: usize::MAX, ..fixture.entry(1) };
    let refused = fixture.queue.append(&Arc::new(()), 0, copy, 4, &|page| fill(page, 1.0, 1));
    assert_eq!(refused.unwrap_err().code, Code::ResourceExhausted);
}

#[test]
fn a_short_queue_is_for_whoever_comes_first() {
    let fixture = fixture(64, 1023);
    append(&fixture, 1022, 1022).unwrap();
    append(&fixture, 1, 1022).unwrap();
    let refused = append(&fixture, 1, 0).unwrap_err();
    assert!(refused.message.contains("limit of 1023 rows"), "{}", refused.message);
}
