//! A request that comes, as those who admit it and those who decode it into a batch know it.

use std::time::Instant;

use tidegate_codec::signatures::RequestRows;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::Page;

use crate::batching::batch::KeepAlive;
use crate::batching::limits::Batching;

/// Writes a request's rows onto a page. It is called again, with another page, where a request turns out to be large.
pub type Decode<'a> = dyn Fn(&mut Page<'_>) -> Result<RequestRows, Status> + 'a;

/// A request that comes.
pub(super) struct Incoming<'a> {
    pub(super) version: &'a dyn Fn() -> KeepAlive,
    pub(super) lane: usize,
    /// Where it stands among the tiers, 0 for the highest.
    pub(super) tier: usize,
    pub(super) received: Instant,
    pub(super) deadline: Instant,
    /// Whether it waits where there is no place for it.
    pub(super) may_wait: bool,
    /// Rows of its connection that are under way.
    pub(super) under_way: usize,
    pub(super) batching: &'a Batching,
    pub(super) decode: &'a Decode<'a>,
}
