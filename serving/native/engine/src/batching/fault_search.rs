//! The search for the requests that make a batch fail: which of its parts to run next, and when it is hopeless.

use std::ops::Range;

/// Parts of a failed batch that have not run on their own.
#[derive(Debug, Default)]
pub(crate) struct FaultSearch {
    hunts: Vec<Hunt>,
    hopeless: Vec<Range<usize>>,
}

/// The search in one part, until something in it runs well: then what is left of it is searched part by part.
///
/// It alternates between the largest piece, to find good halves wherever they are, and the smallest, to find good
/// requests where most are bad. It is hopeless after 2 log2(n) + 8 failing runs: with a model that always raises, which
/// would take 2n - 1. One bad request, or a few, never get there: k of them spoil at most k pieces of a size, so that
/// after 2k of the largest ones a good one has run. Nor is a good request given up easily among many bad ones: the
/// smallest pieces come down to a single request in log2(n) runs, as many of the largest are between them, and with 8
/// more some of its neighbours are tried.
#[derive(Debug)]
struct Hunt {
    pieces: Vec<Range<usize>>,
    largest_next: bool,
    failed: usize,
    most: usize,
}

impl Hunt {
    fn new(part: Range<usize>) -> Hunt {
        let most = 2 * part.len().max(1).ilog2() as usize + 8;
        Hunt { pieces: vec![part], largest_next: false, failed: 0, most }
    }

    fn next_piece(&mut self) -> Option<Range<usize>> {
        let by_length = |index: &usize| self.pieces[*index].len();
        let at = match self.largest_next {
            true => (0..self.pieces.len()).max_by_key(by_length),
            false => (0..self.pieces.len()).min_by_key(by_length),
        }?;
        self.largest_next = !self.largest_next;
        Some(self.pieces.swap_remove(at))
    }
}

impl FaultSearch {
    /// All of them together have failed.
    pub(crate) fn new(failed: Range<usize>) -> FaultSearch {
        let hunt = Hunt { pieces: Vec::new(), ..Hunt::new(failed.clone()) };
        let mut search = FaultSearch { hunts: vec![hunt], hopeless: Vec::new() };
        search.failed(failed);
        search
    }

    /// The part to be run next; none when there is no other.
    pub(crate) fn next_part(&mut self) -> Option<Range<usize>> {
        while let Some(hunt) = self.hunts.last_mut() {
            if hunt.failed < hunt.most
                && let Some(piece) = hunt.next_piece()
            {
                return Some(piece);
            }
            self.hopeless.extend(self.hunts.pop().into_iter().flat_map(|hunt| hunt.pieces));
        }
        None
    }

    /// The part that was run last ran well.
    pub(crate) fn succeeded(&mut self) {
        let left = self.hunts.pop().into_iter().flat_map(|hunt| hunt.pieces);
        self.hunts.extend(left.map(Hunt::new));
    }

    /// The part that was run last failed: its halves are to be run, where it has any.
    pub(crate) fn failed(&mut self, part: Range<usize>) {
        let Some(hunt) = self.hunts.last_mut() else { return };
        hunt.failed += 1;
        if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            hunt.pieces.extend([part.start..middle, middle..part.end]);
        }
    }

    /// The parts that are not run.
    pub(crate) fn hopeless(self) -> Vec<Range<usize>> {
        self.hopeless
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches where just these are bad: who failed, after how many runs, and how many parts were left.
    fn search(count: usize, bad: &[bool]) -> (Vec<bool>, usize, usize) {
        let (mut failed, mut runs) = (vec![false; count], 1);
        let mut search = FaultSearch::new(0..count);
        let mut seen = vec![0; count];
        while let Some(part) = search.next_part() {
            runs += 1;
            if bad[part.clone()].contains(&true) {
                if part.len() == 1 {
                    failed[part.start] = true;
                    seen[part.start] += 1;
                }
                search.failed(part);
            } else {
                part.for_each(|index| seen[index] += 1);
                search.succeeded();
            }
        }
        let rest = search.hopeless();
        for index in rest.iter().cloned().flatten() {
            failed[index] = true;
            seen[index] += 1;
        }
        assert!(seen.iter().all(|times| *times == 1), "everybody gets one answer");
        (failed, runs, rest.len())
    }

    #[test]
    fn one_bad_request_fails_alone_wherever_it_is() {
        for count in 2..=300 {
            for at in 0..count {
                let bad: Vec<bool> = (0..count).map(|index| index == at).collect();
                let (failed, runs, left) = search(count, &bad);
                assert_eq!((failed, left), (bad, 0), "{at} of {count}");
                assert!(runs <= 2 * (count.ilog2() as usize + 1) + 1, "{runs} runs for {at} of {count}");
            }
        }
    }

    #[test]
    fn a_model_that_always_raises_is_given_up_soon() {
        for (count, most) in [(2, 3), (8, 15), (64, 21), (1024, 29)] {
            let (failed, runs, _) = search(count, &vec![true; count]);
            assert!(runs <= most && failed.iter().all(|failed| *failed), "{runs} runs of {count}");
        }
    }

    #[test]
    fn a_run_of_bad_requests_at_either_end_or_in_the_middle_takes_no_good_ones_with_it() {
        for bad in [0..32, 496..528, 992..1024, 100..612] {
            let bad: Vec<bool> = (0..1024).map(|index| bad.contains(&index)).collect();
            let (failed, runs, _) = search(1024, &bad);
            assert_eq!(failed, bad);
            assert!(runs < 400, "{runs} runs");
        }
    }

    proptest! {
        #[test]
        fn bad_requests_fail_and_a_few_of_them_fail_alone(
            count in 2usize..1500,
            at in proptest::collection::vec(0usize..1500, 1..4),
        ) {
            let mut bad = vec![false; count];
            at.iter().for_each(|index| bad[index % count] = true);
            let (failed, _, left) = search(count, &bad);
            prop_assert_eq!((failed, left), (bad, 0));
        }

        #[test]
        fn nobody_who_is_bad_gets_away(bad in proptest::collection::vec(any::<bool>(), 2..600)) {
            prop_assume!(bad.contains(&true));
            let (failed, runs, _) = search(bad.len(), &bad);
            prop_assert!(failed.iter().zip(&bad).all(|(failed, bad)| *failed || !*bad));
            prop_assert!(runs < 2 * bad.len());
        }
    }
}
