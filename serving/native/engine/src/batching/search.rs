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

/// So often an executor looks whether a batch of another lane has waited for so long, and goes over to that lane. What
/// waits less is left to the executor of its lane: another one comes too early, to a batch that is still being filled, and
/// leaves that executor its own lane, so that both go on with requests in each other's caches.
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
    /// Where to look now; and before when another lane's batch came, or was due by its time-out, that is taken first, where
    /// that is looked at.
    pub(super) fn place(&self, now: Instant) -> (Where, Option<Instant>) {
        let Some((kept, turn)) = self.lane else { return (Where::Anywhere, None) };
        let awaits = self.yields > 0 && self.awaits.is_some_and(|until| now < until);
        let place = if awaits { Where::Only(kept) } else { Where::First(kept) };
        (place, now.checked_sub(TURN).filter(|_| is_turn(turn, now)))
    }

    /// This batch was found and has run; `keeps` says whether there is an executor for each lane.
    pub(super) fn ran(&mut self, found: Found, (began, ended): (Instant, Instant), keeps: bool) {
        let kept = match self.lane {
            // Behind a long run, too, its own lane is next.
            Some((_, turn)) if is_turn(turn, began) => (found.lane, ended),
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

/// Whether it is the turn of others, the last of which was then.
fn is_turn(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) >= TURN
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(5);

    const LANES: usize = 3;

    /// An executor that has run a batch of this lane from then on for so long.
    fn ran(search: &mut Search, lane: usize, requests: usize, at: Instant, took: Duration) {
        search.ran(Found { lane, requests }, (at, at + took), true);
    }

    /// The lane of which a search takes a batch now, where the first of each lane came at these times.
    fn taken<const N: usize>(search: &Search, came: &[Instant; N], next: usize, now: Instant) -> Option<usize> {
        let (place, overdue) = search.place(now);
        let (first, count) = match place {
            Where::Anywhere => (next, N),
            Where::First(lane) => (lane, N),
            Where::Only(lane) => (lane, 1),
        };
        let mut others = (first + 1..first + N).map(|lane| lane % N);
        let passed = others.find(|lane| overdue.is_some_and(|before| came[*lane] <= before));
        passed.or((first..first + count).map(|lane| lane % N).find(|lane| came[*lane] <= now))
    }

    /// The longest waits in lanes that get a batch each so often, or have always one, of as many executors with short
    /// runs.
    fn longest_waits<const N: usize>(every: [Option<Duration>; N]) -> [Duration; N] {
        let (start, mut next_lane) = (Instant::now() + LONG, 0);
        let (mut came, mut longest) = ([start; N], [Duration::ZERO; N]);
        let mut executors: [_; N] = std::array::from_fn(|_| (start, Search::default()));
        loop {
            let Some((now, search)) = executors.iter_mut().min_by_key(|(free, _)| *free) else { return longest };
            if *now > start + 300 * TURN {
                return std::array::from_fn(|lane| longest[lane].max(now.saturating_duration_since(came[lane])));
            }
            let Some(lane) = taken(search, &came, next_lane, *now) else {
                search.yields();
                *now += SHORT / 50;
                continue;
            };
            let (began, opened) = (*now, came[lane]);
            longest[lane] = longest[lane].max(began - opened);
            came[lane] = every[lane].map_or(began, |every| opened + every);
            next_lane = (lane + 1) % N;
            *now += SHORT * 4 / 5;
            ran(search, lane, COMPANY, began, SHORT * 4 / 5);
        }
    }

    #[test]
    fn behind_a_short_run_with_company_the_next_batch_of_its_lane_is_awaited_for_a_while() {
        let (mut search, at) = (Search::default(), Instant::now());
        assert_eq!(search.place(at), (Where::Anywhere, None));
        ran(&mut search, 1, COMPANY, at, SHORT / 2);
        assert_eq!(search.place(at + SHORT), (Where::Only(1), None));
        assert_eq!(search.place(at + 2 * SHORT), (Where::First(1), None), "what others left waits long enough");
        assert_eq!((0..).take_while(|_| search.yields()).count(), YIELDS);
        assert_eq!(search.place(at + SHORT), (Where::First(1), None), "before it sleeps it looks at all");
    }

    #[test]
    fn nothing_is_awaited_behind_a_long_run_or_one_of_few() {
        let (mut search, at) = (Search::default(), Instant::now());
        ran(&mut search, 1, COMPANY - 1, at, SHORT / 2);
        assert_eq!((search.place(at + SHORT).0, search.yields()), (Where::First(1), false));
        ran(&mut search, 1, COMPANY, at, SHORT);
        assert_eq!((search.place(at + SHORT).0, search.yields(), search.yields()), (Where::First(1), true, false));
    }

    #[test]
    fn every_turn_it_is_looked_who_waits_for_long_also_while_a_batch_is_awaited() {
        let (mut search, at) = (Search::default(), Instant::now() + LONG);
        let step = SHORT / 2;
        let turns = (0..100).map(|run| at + run * step).filter(|now| {
            let (_, overdue) = search.place(*now);
            assert!(overdue.is_none_or(|before| before + TURN == *now));
            ran(&mut search, 1, COMPANY, *now, step);
            overdue.is_some()
        });
        assert_eq!(turns.count(), (99 * step).as_micros() as usize / (TURN + step).as_micros() as usize);
        assert_eq!(search.place(at + 100 * step).0, Where::Only(1));
    }

    #[test]
    fn what_waits_less_than_a_turn_is_left_to_the_executor_of_its_lane() {
        let (mut search, at) = (Search::default(), Instant::now() + LONG);
        ran(&mut search, 1, 1, at, SHORT);
        let now = at + 2 * TURN;
        let taken_of = |came: [Duration; LANES]| taken(&search, &came.map(|since| now - since), 0, now);
        assert_eq!(taken_of([TURN - SHORT, SHORT, TURN - SHORT]), Some(1));
        assert_eq!(taken_of([TURN, 2 * TURN, SHORT]), Some(0));
    }

    #[test]
    fn an_executor_whose_lane_is_empty_goes_over_to_another() {
        let (mut search, at) = (Search::default(), Instant::now());
        ran(&mut search, 1, 1, at, SHORT);
        ran(&mut search, 2, 1, at + SHORT, SHORT);
        assert_eq!(search.place(at + 2 * SHORT).0, Where::First(2));
    }

    #[test]
    fn of_long_runs_each_lane_has_two_after_the_other() {
        let (mut search, at) = (Search::default(), Instant::now() + LONG);
        let found = [0, 1, 2, 3, 4, 5].map(|run| {
            let now = at + run * LONG;
            let lane = taken(&search, &[at - LONG; LANES], 1, now);
            ran(&mut search, lane.unwrap_or(LANES), 1, now, LONG);
            lane
        });
        assert_eq!(found, [1, 2, 2, 0, 0, 1].map(Some));
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
        let (mut search, at) = (Search::default(), Instant::now());
        search.ran(Found { lane: 1, requests: COMPANY }, (at, at), false);
        assert_eq!((search.place(at), search.yields(), search.yields()), ((Where::Anywhere, None), true, false));
    }
}
