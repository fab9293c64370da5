//! Calls of one version's model that run now: since when, for whom, and whether they take far longer than usual.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::request_id::RequestId;
use crate::sync::lock;

/// A call that takes this many times as long as calls usually do may be stuck.
const FAR_BEYOND_USUAL: u32 = 10;
/// The usual time follows new calls by one part in this many.
const MEMORY: u32 = 8;

/// A call of a model that has not returned.
#[derive(Clone, Debug)]
pub struct RunningCall {
    /// The signature that it runs.
    pub signature: String,
    /// Rows of its batch.
    pub rows: usize,
    /// The first request of its batch.
    pub request: RequestId,
    /// When the model was entered.
    pub since: Instant,
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<RunningCall>,
    next: u64,
    usual: Option<Duration>,
}

/// The calls of one version that run now, and how long calls usually take.
#[derive(Debug, Default)]
pub struct RunningCalls(Mutex<State>);

/// Counts a call as running until it is dropped.
pub struct CallToken<'a> {
    calls: &'a RunningCalls,
    number: u64,
}

impl RunningCalls {
    /// A call begins.
    pub fn begin(&self, signature: &str, rows: usize, request: &RequestId) -> CallToken<'_> {
        let mut state = lock(&self.0);
        let number = state.next;
        state.next += 1;
        let (signature, request, since) = (signature.to_owned(), request.clone(), Instant::now());
        state.running.push(RunningCall { signature, rows, request, since, number });
        CallToken { calls: self, number }
    }

    /// All that run, the longest first.
    pub fn list(&self) -> Vec<RunningCall> {
        let mut list = lock(&self.0).running.clone();
        list.sort_by_key(|call| call.since);
        list
    }

    /// How long the longest of them has run; zero where none runs.
    pub fn longest(&self, now: Instant) -> Duration {
        let state = lock(&self.0);
        let runs = state.running.iter().map(|call| now.saturating_duration_since(call.since));
        runs.max().unwrap_or_default()
    }

    /// Those that run for longer than `least` and far longer than calls of this version usually take, the longest first.
    pub fn stuck(&self, now: Instant, least: Duration) -> Vec<RunningCall> {
        let usual = lock(&self.0).usual.unwrap_or_default();
        let bound = least.max(usual.saturating_mul(FAR_BEYOND_USUAL));
        let mut list = self.list();
        list.retain(|call| now.saturating_duration_since(call.since) > bound);
        list
    }

    fn end(&self, number: u64) {
        let mut state = lock(&self.0);
        let Some(at) = state.running.iter().position(|call| call.number == number) else { return };
        let took = state.running.swap_remove(at).since.elapsed();
        state.usual = Some(match state.usual {
            Some(usual) => usual - usual / MEMORY + took / MEMORY,
            None => took,
        });
    }
}

impl Drop for CallToken<'_> {
    fn drop(&mut self) {
        self.calls.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_id::IdSource;

    #[test]
    fn a_call_runs_until_its_token_is_dropped() {
        let (calls, id) = (RunningCalls::default(), RequestId::from_text(None, &IdSource::default()));
        let token = calls.begin("s", 2, &id);
        assert_eq!(calls.list().len(), 1);
        assert!(calls.longest(Instant::now() + Duration::from_secs(5)) >= Duration::from_secs(5));
        drop(token);
        assert_eq!((calls.list().len(), calls.longest(Instant::now())), (0, Duration::ZERO));
    }

    #[test]
    fn a_call_is_stuck_beyond_the_least_time_and_ten_times_the_usual() {
        let (calls, id) = (RunningCalls::default(), RequestId::from_text(None, &IdSource::default()));
        lock(&calls.0).usual = Some(Duration::from_secs(6));
        let _token = calls.begin("s", 1, &id);
        let after = |seconds| calls.stuck(Instant::now() + Duration::from_secs(seconds), Duration::from_secs(30)).len();
        assert_eq!((after(59), after(61)), (0, 1), "ten times the usual six seconds");
        lock(&calls.0).usual = Some(Duration::from_millis(1));
        assert_eq!((after(29), after(31)), (0, 1), "the least time");
    }
}
