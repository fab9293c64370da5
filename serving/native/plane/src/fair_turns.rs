//! Turns that peers have one after the other: however many one of them waits for, another one's comes soon.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use tidegate_engine::sync::lock;
use tokio::sync::oneshot;

type Waiting = VecDeque<oneshot::Sender<FairTurn>>;

/// So many turns at a time.
#[derive(Debug)]
pub(crate) struct FairTurns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    closed: bool,
    /// Who waits, by peer, and the order in which peers have their turns.
    waiting: HashMap<IpAddr, Waiting>,
    order: VecDeque<IpAddr>,
}

/// A turn, until it is dropped: then it is the next one's.
#[derive(Debug)]
pub(crate) struct FairTurn(Option<Arc<FairTurns>>);

impl FairTurns {
    /// So many at a time.
    pub(crate) fn new(free: usize) -> Arc<FairTurns> {
        let (waiting, order) = (HashMap::new(), VecDeque::new());
        Arc::new(FairTurns(Mutex::new(State { free, closed: false, waiting, order })))
    }

    /// A turn of this peer's, once it is its own; none once they are closed. Who goes on with what an earlier turn began
    /// does not wait until all others of the same peer have begun.
    pub(crate) async fn turn(self: &Arc<FairTurns>, peer: IpAddr, goes_on: bool) -> Option<FairTurn> {
        let coming = {
            let mut state = lock(&self.0);
            if state.closed {
                return None;
            }
            if state.free > 0 {
                state.free -= 1;
                return Some(FairTurn(Some(self.clone())));
            }
            state.wait(network(peer), goes_on)
        };
        coming.await.ok()
    }

    /// There are no more, also for those who wait.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.0);
        state.closed = true;
        state.order.clear();
        state.waiting.clear();
    }

    /// A turn is over: the next one who still waits has it.
    fn hand_on(self: &Arc<FairTurns>) {
        loop {
            let next = {
                let mut state = lock(&self.0);
                let Some(next) = state.next() else {
                    state.free += 1;
                    return;
                };
                next
            };
            match next.send(FairTurn(Some(self.clone()))) {
                Ok(()) => return,
                // Nobody waits for it any more, and it was not had.
                Err(mut unused) => unused.0 = None,
            }
        }
    }
}

impl State {
    fn wait(&mut self, peer: IpAddr, goes_on: bool) -> oneshot::Receiver<FairTurn> {
        let (sender, coming) = oneshot::channel();
        let own = self.waiting.entry(peer).or_default();
        if own.is_empty() {
            self.order.push_back(peer);
        }
        if goes_on {
            own.push_front(sender);
        } else {
            own.push_back(sender);
        }
        coming
    }

    fn next(&mut self) -> Option<oneshot::Sender<FairTurn>> {
        let peer = self.order.pop_front()?;
        let own = self.waiting.get_mut(&peer)?;
        let next = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&peer);
        } else {
            self.order.push_back(peer);
        }
        next
    }
}

impl Drop for FairTurn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.hand_on();
        }
    }
}

/// What one peer has at least of the addresses: one of IPv4, and of IPv6 all with the same first half.
fn network(peer: IpAddr) -> IpAddr {
    const HOST: u128 = u64::MAX as u128;
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !HOST).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn those_who_gave_up_are_left_out_and_a_turn_that_nobody_took_is_not_lost() {
        let turns = FairTurns::new(1);
        let mut context = Context::from_waker(Waker::noop());
        let mut begin = || {
            let turns = turns.clone();
            let mut waits = Box::pin(async move { turns.turn(ONE, false).await });
            (waits.as_mut().poll(&mut context), waits)
        };
        let (Poll::Ready(Some(first)), _) = begin() else { panic!("one is free") };
        let gone: Vec<_> = (0..100_000).map(|_| begin()).collect();
        let (_, given_up) = begin();
        let (_, mut last) = begin();
        drop(gone);
        drop(first);
        // It is this one's now, who goes without a look at it.
        drop(given_up);
        let Poll::Ready(Some(own)) = last.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the turn is lost");
        };
        drop(own);
        assert_eq!(lock(&turns.0).free, 1);
    }

    #[test]
    fn who_goes_on_does_not_wait_for_those_of_its_peer_who_begin() {
        let turns = FairTurns::new(1);
        let context = &mut Context::from_waker(Waker::noop());
        let wait = |goes_on| {
            let turns = turns.clone();
            Box::pin(async move { turns.turn(ONE, goes_on).await })
        };
        let Poll::Ready(Some(first)) = wait(false).as_mut().poll(context) else { panic!("one is free") };
        let mut waiting = [wait(false), wait(false), wait(true)];
        assert!(waiting.iter_mut().all(|waits| waits.as_mut().poll(context).is_pending()));
        drop(first);
        let ready: Vec<bool> = waiting.iter_mut().map(|waits| waits.as_mut().poll(context).is_ready()).collect();
        assert_eq!(ready, [false, false, true]);
    }

    #[test]
    fn addresses_that_one_peer_has_are_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
