//! Where an executor thread looks for its next batch, and what it does before it sleeps.
//!
//! Where runs are short it counts for more which processor has a request in its caches than which executor is free. So
//! where there is an executor for each I/O thread, each keeps to one lane as long as that brings more: it neither takes
//! the first few rows of another's next batch nor sleeps while its own are being read.

use std::time::{Duration, Instant};

/// A batch of so many requests has company: more of them are being read when it is through.
const COMPANY: usize = 16;

/// A run that took no longer is short, and for as long at most the next batch of the same lane is awaited.
const SHORT: Duration = Duration::from_micros(50);

/// Behind a run with company others have the processor so often before the executor sleeps: once, or more often where a
/// batch of its lane is awaited, which ends sooner where nobody else wants the processor.
const YIELDS: usize = 16;

/// After so long another lane has its turn, too, each of them in its own; and whose batch waited longer has the executor.
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

/// A batch that an executor found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) lane: usize,
    pub(super) requests: usize,
    /// When the first of these came.
    pub(super) opened: Instant,
}

/// What one executor knows of its last batches.
#[derive(Debug)]
pub(super) struct Search {
    lanes: usize,
    /// The lane that it keeps to, and when another had its turn.
    lane: Option<(usize, Instant)>,
    /// Where the next turn of another begins.
    next: usize,
    /// Until when the next batch of that lane is awaited.
    awaits: Option<Instant>,
    yields: usize,
}

impl Search {
    /// Of so many lanes.
    pub(super) fn new(lanes: usize) -> Search {
        Search { lanes, lane: None, next: 0, awaits: None, yields: 0 }
    }

    /// Where to look now.
    pub(super) fn place(&self, now: Instant) -> Where {
        match self.lane {
            Some((kept, turn)) if is_turn(turn, now) => {
                let own = usize::from(self.next == kept);
                Where::First((self.next + own) % self.lanes)
            }
            Some((kept, _)) => {
                let awaits = self.yields > 0 && self.awaits.is_some_and(|until| now < until);
                if awaits { Where::Only(kept) } else { Where::First(kept) }
            }
            None => Where::Anywhere,
        }
    }

    /// This batch was found and has run; `keeps` says whether there is an executor for each lane.
    pub(super) fn ran(&mut self, found: Found, (began, ended): (Instant, Instant), keeps: bool) {
        let kept = match self.lane {
            Some((kept, turn)) if is_turn(turn, began) => {
                self.next = (found.lane + 1) % self.lanes;
                let waited = began.saturating_duration_since(found.opened);
                // Long runs too, each of which ends with a turn, leave every other batch to its own lane.
                (if waited > TURN { found.lane } else { kept }, ended)
            }
            Some(known) if known.0 == found.lane => known,
            _ => (found.lane, began),
        };
        let short = keeps && ended.saturating_duration_since(began) < SHORT;
        self.lane = keeps.then_some(kept);
        self.awaits = short.then(|| ended + SHORT);
        self.yields = match found.requests >= COMPANY {
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

/// Whether it is another lane's turn, the last of which was then.
fn is_turn(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) >= TURN
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(5);

    const LANES: usize = 3;

    /// An executor that has run a batch of this lane, which came at the moment `at`; for how long from then on.
    fn ran(search: &mut Search, lane: usize, requests: usize, at: Instant, took: Duration) {
        search.ran(Found { lane, requests, opened: at }, (at, at + took), true);
    }

    /// The longest waits in lanes that get a batch each so often, or have always one, of as many executors with short
    /// runs.
    fn longest_waits<const N: usize>(every: [Option<Duration>; N]) -> [Duration; N] {
        let (start, mut next_lane) = (Instant::now(), 0);
        let (mut came, mut longest) = ([start; N], [Duration::ZERO; N]);
        let mut executors: [_; N] = std::array::from_fn(|_| (start, Search::new(N)));
        loop {
            let Some((now, search)) = executors.iter_mut().min_by_key(|(free, _)| *free) else { return longest };
            if *now > start + 300 * TURN {
                return longest;
            }
            let (first, count) = match search.place(*now) {
                Where::Anywhere => (next_lane, N),
                Where::First(lane) => (lane, N),
                Where::Only(lane) => (lane, 1),
            };
            let Some(lane) = (first..first + count).map(|lane| lane % N).find(|lane| came[*lane] <= *now) else {
                search.yields();
                *now += SHORT / 50;
                continue;
            };
            let (began, opened) = (*now, came[lane]);
            longest[lane] = longest[lane].max(began - opened);
            came[lane] = every[lane].map_or(began, |every| opened + every);
            next_lane = (lane + 1) % N;
            *now += SHORT * 4 / 5;
            search.ran(Found { lane, requests: COMPANY, opened }, (began, *now), true);
        }
    }

    #[test]
    fn behind_a_short_run_with_company_the_next_batch_of_its_lane_is_awaited_for_a_while() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        assert_eq!(search.place(at), Where::Anywhere);
        ran(&mut search, 1, COMPANY, at, SHORT / 2);
        assert_eq!(search.place(at + SHORT), Where::Only(1));
        assert_eq!(search.place(at + 2 * SHORT), Where::First(1), "what others left waits long enough");
        assert_eq!((0..).take_while(|_| search.yields()).count(), YIELDS);
        assert_eq!(search.place(at + SHORT), Where::First(1), "before it sleeps it looks at all");
    }

    #[test]
    fn nothing_is_awaited_behind_a_long_run_or_one_of_few() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        ran(&mut search, 1, COMPANY - 1, at, SHORT / 2);
        assert_eq!((search.place(at + SHORT), search.yields()), (Where::First(1), false));
        ran(&mut search, 1, COMPANY, at, SHORT);
        assert_eq!((search.place(at + SHORT), search.yields(), search.yields()), (Where::First(1), true, false));
        ran(&mut search, 1, COMPANY, at, LONG);
        assert_eq!(search.place(at + LONG), Where::First(0), "another has its turn");
    }

    #[test]
    fn others_have_their_turn_however_much_one_lane_brings() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        let step = SHORT / 2;
        let runs: Vec<_> = (0..100).map(|run| at + run * step).collect();
        let anywhere = runs.iter().filter(|begins| {
            let place = search.place(**begins);
            ran(&mut search, 1, COMPANY, **begins, step);
            !matches!(place, Where::First(1) | Where::Only(1))
        });
        assert_eq!(anywhere.count(), 1 + (99 * step).as_micros() as usize / TURN.as_micros() as usize);
    }

    #[test]
    fn an_executor_whose_lane_is_empty_goes_over_to_another_and_comes_back_from_a_turn() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        ran(&mut search, 1, 1, at, SHORT);
        ran(&mut search, 2, 1, at + SHORT, SHORT);
        assert_eq!(search.place(at + 2 * SHORT), Where::First(2), "the first was empty");
        ran(&mut search, 1, 1, at + 2 * TURN, SHORT);
        assert_eq!(search.place(at + 2 * TURN), Where::First(2), "the other had its turn");
    }

    #[test]
    fn others_have_their_turns_one_after_the_other_and_who_waited_for_long_has_the_executor() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        ran(&mut search, 1, 1, at, SHORT);
        let turns = [2, 4, 6].map(|turn| {
            let Where::First(lane) = search.place(at + turn * TURN) else { return LANES };
            ran(&mut search, lane, 1, at + turn * TURN, SHORT);
            lane
        });
        assert_eq!((turns, search.place(at + 6 * TURN)), ([0, 2, 0], Where::First(1)));
        let began = at + 8 * TURN;
        search.ran(Found { lane: 2, requests: 1, opened: at }, (began, began + SHORT), true);
        assert_eq!(search.place(began + SHORT), Where::First(2));
    }

    #[test]
    fn of_long_runs_every_other_one_is_its_own_lanes() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        ran(&mut search, 1, 1, at, LONG);
        let found = [1, 2, 3, 4, 5].map(|run| {
            let Where::First(lane) = search.place(at + run * LONG) else { return LANES };
            ran(&mut search, lane, 1, at + run * LONG, LONG);
            lane
        });
        assert_eq!(found, [0, 1, 2, 1, 0]);
    }

    #[test]
    fn no_lane_waits_for_long_however_much_others_bring() {
        let (flood, light, mid) = (Some(SHORT / 5), Some(TURN / 4), Some(TURN / 3));
        let [_, two] = longest_waits([None, light]);
        let [_, flooded] = longest_waits([flood, light]);
        let [_, first, second] = longest_waits([None, mid, mid]);
        let [_, _, third, fourth] = longest_waits([flood, None, light, light]);
        let longest = [two, flooded, first, second, third, fourth];
        assert!(longest.iter().all(|longest| *longest < 4 * TURN), "{longest:?}");
    }

    #[test]
    fn where_lanes_are_more_than_executors_each_has_its_turn() {
        let (mut search, at) = (Search::new(LANES), Instant::now());
        search.ran(Found { lane: 1, requests: COMPANY, opened: at }, (at, at), false);
        assert_eq!((search.place(at), search.yields(), search.yields()), (Where::Anywhere, true, false));
    }
}
