//! Where an executor thread looks for its next batch, and what it does before it sleeps.
//!
//! Where runs are short it counts for more which processor has a request in its caches than which executor is free. So
//! where there is an executor for each I/O thread, each keeps to one lane as long as that brings more: it neither takes
//! the first few rows of another's next batch nor sleeps while its own are being read.

use std::time::{Duration, Instant};

/// A batch of so many requests has company: more of them are being read when it is through.
const COMPANY: usize = 16;

/// A run that took no longer is short, and for as long the next batch of the same lane is awaited.
const SHORT: Duration = Duration::from_micros(50);

/// Behind a run with company others have the processor so often before the executor sleeps: once, or more often where a
/// batch of its lane is awaited.
const YIELDS: usize = 16;

/// After so long the other lanes have their turn, too.
const TURN: Duration = Duration::from_millis(1);

/// Which lanes to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// All, each in its turn.
    Anywhere,
    /// All, this one first.
    First(usize),
    /// This one.
    Only(usize),
}

/// What one executor knows of its last batches.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The lane that it keeps to, and when others had their turn.
    lane: Option<(usize, Instant)>,
    /// Until when the next batch of that lane is awaited.
    awaits: Option<Instant>,
    yields: usize,
}

impl Search {
    /// Where to look now.
    pub(super) fn place(&self, now: Instant) -> Where {
        match self.lane {
            Some((lane, turn)) if now.saturating_duration_since(turn) < TURN => {
                let awaits = self.yields > 0 && self.awaits.is_some_and(|until| now < until);
                if awaits { Where::Only(lane) } else { Where::First(lane) }
            }
            _ => Where::Anywhere,
        }
    }

    /// A batch of so many requests of this lane was found and has run; `keeps` says whether there is an executor for each
    /// lane.
    pub(super) fn ran(&mut self, lane: usize, requests: usize, (began, ended): (Instant, Instant), keeps: bool) {
        let kept = match (self.place(began), self.lane) {
            (Where::First(kept) | Where::Only(kept), Some(known)) if kept == lane => known,
            (Where::Anywhere, Some((kept, _))) => (kept, began),
            _ => (lane, began),
        };
        let short = keeps && ended.saturating_duration_since(began) < SHORT;
        self.lane = keeps.then_some(kept);
        self.awaits = short.then(|| ended + SHORT);
        self.yields = match requests >= COMPANY {
            true if short => YIELDS,
            true => 1,
            false => 0,
        };
    }

    /// Nothing was found: whether the processor is to be yielded once more before the executor sleeps.
    pub(super) fn yields(&mut self) -> bool {
        let yields = self.yields > 0;
        self.yields = self.yields.saturating_sub(1);
        yields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(5);

    /// An executor that has run a batch of this lane; for how long from the moment `at`.
    fn ran(search: &mut Search, lane: usize, requests: usize, at: Instant, took: Duration) {
        search.ran(lane, requests, (at, at + took), true);
    }

    #[test]
    fn behind_a_short_run_with_company_the_next_batch_of_its_lane_is_awaited_for_a_while() {
        let (mut search, at) = (Search::default(), Instant::now());
        assert_eq!(search.place(at), Where::Anywhere);
        ran(&mut search, 1, COMPANY, at, SHORT / 2);
        assert_eq!(search.place(at + SHORT), Where::Only(1));
        assert_eq!(search.place(at + 2 * SHORT), Where::First(1), "what others left waits long enough");
        assert_eq!((0..).take_while(|_| search.yields()).count(), YIELDS);
        assert_eq!(search.place(at + SHORT), Where::First(1), "before it sleeps it looks at all");
    }

    #[test]
    fn nothing_is_awaited_behind_a_long_run_or_one_of_few() {
        let (mut search, at) = (Search::default(), Instant::now());
        ran(&mut search, 1, COMPANY - 1, at, SHORT / 2);
        assert_eq!((search.place(at + SHORT), search.yields()), (Where::First(1), false));
        ran(&mut search, 1, COMPANY, at, SHORT);
        assert_eq!((search.place(at + SHORT), search.yields(), search.yields()), (Where::First(1), true, false));
        ran(&mut search, 1, COMPANY, at, LONG);
        assert_eq!(search.place(at + LONG), Where::Anywhere);
    }

    #[test]
    fn others_have_their_turn_however_much_one_lane_brings() {
        let (mut search, at) = (Search::default(), Instant::now());
        let step = SHORT / 2;
        let runs: Vec<_> = (0..100).map(|run| at + run * step).collect();
        let anywhere = runs.iter().filter(|begins| {
            let place = search.place(**begins);
            ran(&mut search, 1, COMPANY, **begins, step);
            place == Where::Anywhere
        });
        assert_eq!(anywhere.count(), 1 + (99 * step).as_micros() as usize / TURN.as_micros() as usize);
    }

    #[test]
    fn an_executor_whose_lane_is_empty_goes_over_to_another_and_comes_back_from_a_turn() {
        let (mut search, at) = (Search::default(), Instant::now());
        ran(&mut search, 1, 1, at, SHORT);
        ran(&mut search, 2, 1, at + SHORT, SHORT);
        assert_eq!(search.place(at + 2 * SHORT), Where::First(2), "the first was empty");
        ran(&mut search, 1, 1, at + 2 * TURN, SHORT);
        assert_eq!(search.place(at + 2 * TURN), Where::First(2), "the other had its turn");
    }

    #[test]
    fn where_lanes_are_more_than_executors_each_has_its_turn() {
        let (mut search, at) = (Search::default(), Instant::now());
        search.ran(1, COMPANY, (at, at), false);
        assert_eq!((search.place(at), search.yields(), search.yields()), (Where::Anywhere, true, false));
    }
}
