//! The open connections of all I/O threads: how many there may be, who goes where there are too many, and which are given
//! up because nothing is heard of them, their requests do not come or their answers are not taken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_engine::limits::Limits;
use tidegate_engine::metrics::{Closing, Endpoint, Metrics};
use tidegate_engine::sync::lock;

use crate::connections::lifeline::{CLOSE, LEAVE, Lifeline, PING};
use crate::settings::Patience;
use crate::supervision::spawn_task;

/// Connections beyond the limit that may ask for the server's health.
pub const RESERVE: usize = 16;
/// The longest time in which a peer has to answer a ping.
const PONG: Duration = Duration::from_secs(20);
/// Between two looks at all connections.
const LOOK: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];
/// Where there are too many, whoever has no answer due keeps its place for this part of the time in which a head has to come.
const GRACE: u32 = 4;
/// Whoever has just come keeps its place for this part of that time, in which its first request may come, unless it is one of a
/// crowd.
const WELCOME: u32 = 400;
/// Whoever sends so many bytes of its requests in that time does not keep others waiting for them.
const PART: usize = 16 << 10;

/// What was seen of a connection when it was last looked at.
#[derive(Debug)]
struct Seen {
    lifeline: Arc<Lifeline>,
    heard: Instant,
    calls: u64,
    busy: Instant,
    /// When it was needed last.
    due: Instant,
    /// How much of its requests had come then.
    came: usize,
    partial: (u64, Instant),
    blocked: (u64, Instant),
    pinged: Option<Instant>,
    left: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By the order in which they were opened.
    open: BTreeMap<u64, Seen>,
    reserved: usize,
}

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    state: Mutex<State>,
    patience: Patience,
    limits: Arc<Limits>,
    metrics: Arc<Metrics>,
}

/// An open connection in every count of them.
pub struct OpenConnection {
    connections: Arc<Connections>,
    /// What is known of it.
    pub lifeline: Arc<Lifeline>,
    number: u64,
}

impl Connections {
    /// None yet.
    pub fn new(patience: Patience, limits: Arc<Limits>, metrics: Arc<Metrics>) -> Arc<Connections> {
        Arc::new(Connections { state: Mutex::default(), patience, limits, metrics })
    }

    /// How long connections are waited for.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Counts a connection in. Where there are too many, one that nobody needs goes for it: the oldest of those that did not
    /// begin a call soon, or of a crowd of those that began none, or the one that has had no answer due for longest: it is idle, its request does not come, or it
    /// waits for news alone. Where all are needed, the new one may only ask for health.
    pub fn admit(self: &Arc<Connections>, endpoint: Endpoint) -> OpenConnection {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let full = state.open.len() - state.reserved >= self.limits.max_connections();
        let mut reserved = false;
        if full {
            match state.dispensable(now, &self.patience) {
                Some(number) => self.close(&mut state, number, Closing::Evicted),
                None => reserved = true,
            }
        }
        if reserved
            && state.reserved >= RESERVE
            && let Some(number) = state.oldest_reserved()
        {
            self.refuse(endpoint);
            self.close(&mut state, number, Closing::Evicted);
        }
        let lifeline = Lifeline::new(endpoint, reserved);
        state.reserved += usize::from(reserved);
        state.next += 1;
        let number = state.next;
        state.open.insert(number, Seen::new(lifeline.clone(), now));
        drop(state);
        self.metrics.connections[endpoint as usize].fetch_add(1, Ordering::Relaxed);
        OpenConnection { connections: self.clone(), lifeline, number }
    }

    /// Closes a connection that nobody needs, where there is one: the process may open no more files.
    pub fn make_room(&self) {
        let mut state = lock(&self.state);
        if let Some(number) = state.dispensable(Instant::now(), &self.patience) {
            self.close(&mut state, number, Closing::Evicted);
        }
    }

    /// Counts somebody who was turned away because there are too many connections.
    pub fn refuse(&self, endpoint: Endpoint) {
        self.metrics.refused_connections[endpoint as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed.
    pub(crate) fn count_closed(&self, endpoint: Endpoint, why: Closing) {
        self.metrics.closed_connections[endpoint as usize][why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Has all connections looked after, for as long as the runtime lives. Must be used on an I/O thread.
    pub fn begin_to_tend(self: &Arc<Connections>) {
        let connections = self.clone();
        spawn_task(move || connections.clone().tend());
    }

    async fn tend(self: Arc<Connections>) {
        let Patience { header, idle, keepalive, write } = self.patience;
        let look = (header.min(idle).min(keepalive).min(write) / 4).clamp(LOOK[0], LOOK[1]);
        loop {
            tokio::time::sleep(look).await;
            self.look(Instant::now());
        }
    }

    fn look(&self, now: Instant) {
        let mut state = lock(&self.state);
        let due: Vec<(u64, Closing)> = state
            .open
            .iter_mut()
            .filter_map(|(number, seen)| seen.look(now, &self.patience).map(|why| (*number, why)))
            .collect();
        for (number, why) in due {
            self.close(&mut state, number, why);
        }
    }

    fn close(&self, state: &mut State, number: u64, why: Closing) {
        let Some(seen) = state.remove(number) else { return };
        self.count_closed(seen.lifeline.endpoint, why);
        seen.lifeline.order(CLOSE);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let left: &AtomicU64 = &self.connections.metrics.connections[self.lifeline.endpoint as usize];
        left.fetch_sub(1, Ordering::Relaxed);
        drop(lock(&self.connections.state).remove(self.number));
    }
}

impl State {
    fn remove(&mut self, number: u64) -> Option<Seen> {
        let seen = self.open.remove(&number)?;
        self.reserved -= usize::from(seen.lifeline.reserved);
        Some(seen)
    }

    /// Who goes first where there are too many.
    fn dispensable(&self, now: Instant, patience: &Patience) -> Option<u64> {
        let undue = || self.open.iter().filter(|(_, seen)| !seen.lifeline.reserved && !seen.is_needed(now, patience));
        let is_silent = |seen: &Seen| !seen.lifeline.is_busy() && !seen.lifeline.has_completed();
        let silent: Vec<_> = undue().filter(|(_, seen)| is_silent(seen)).take(RESERVE + 1).collect();
        if let Some((number, oldest)) = silent.first() {
            let waited = now.saturating_duration_since(oldest.lifeline.opened);
            if silent.len() > RESERVE || waited > patience.header / WELCOME {
                return Some(**number);
            }
        }
        let (number, longest) = undue().min_by_key(|(_, seen)| seen.due)?;
        (now.saturating_duration_since(longest.due) > patience.header / GRACE).then_some(*number)
    }

    fn oldest_reserved(&self) -> Option<u64> {
        let reserved = || self.open.iter().filter(|(_, seen)| seen.lifeline.reserved);
        let idle = reserved().find(|(_, seen)| !seen.lifeline.is_busy());
        idle.or_else(|| reserved().next()).map(|(number, _)| *number)
    }
}

impl Seen {
    fn new(lifeline: Arc<Lifeline>, now: Instant) -> Seen {
        let nothing = (0, now);
        let (heard, busy, due, partial, blocked) = (now, now, now, nothing, nothing);
        Seen { lifeline, heard, calls: 0, busy, due, came: 0, partial, blocked, pinged: None, left: None }
    }

    /// Whether an answer is due, or taken, or there were requests or much of one since the last look.
    fn is_needed(&self, now: Instant, patience: &Patience) -> bool {
        let (lifeline, (write, since)) = (&self.lifeline, self.blocked);
        let blocked = lifeline.blocked.load(Ordering::Relaxed);
        let takes = || blocked != write || now.saturating_duration_since(since) <= patience.header;
        lifeline.is_due()
            || lifeline.calls() != self.calls
            || blocked != 0 && takes()
            || lifeline.came().wrapping_sub(self.came) >= PART
    }

    /// Notes what has changed, gives orders, and says why it has to go, where it has.
    fn look(&mut self, now: Instant, patience: &Patience) -> Option<Closing> {
        if self.is_needed(now, patience) {
            (self.due, self.came) = (now, self.lifeline.came());
        }
        let Seen { lifeline, heard, calls, busy, partial, blocked, pinged, left, .. } = self;
        if lifeline.heard.swap(false, Ordering::Relaxed) {
            *heard = now;
            *pinged = None;
        }
        let begun = lifeline.calls();
        if lifeline.is_busy() || begun != *calls {
            (*calls, *busy) = (begun, now);
        }
        if for_longer(blocked, lifeline.blocked.load(Ordering::Relaxed), now) > patience.write {
            return Some(Closing::Write);
        }
        if for_longer(partial, lifeline.partial.load(Ordering::Relaxed), now) > patience.header {
            return Some(Closing::Header);
        }
        let idle = if lifeline.reserved { patience.header.min(patience.idle) } else { patience.idle };
        let idle_for = now.saturating_duration_since(*busy);
        if idle_for > idle {
            let since = *left.get_or_insert(now);
            lifeline.order(LEAVE);
            return (now.saturating_duration_since(since) > patience.header).then_some(Closing::Idle);
        }
        if lifeline.endpoint == Endpoint::Grpc && now.saturating_duration_since(*heard) > patience.keepalive {
            match pinged {
                None => {
                    *pinged = Some(now);
                    lifeline.order(PING);
                }
                Some(at) if now.saturating_duration_since(*at) > patience.keepalive.min(PONG) => {
                    return Some(Closing::Keepalive);
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// For how long the same thing is under way; `now_at` is its number, 0 for nothing.
fn for_longer(known: &mut (u64, Instant), now_at: u64, now: Instant) -> Duration {
    if known.0 != now_at {
        *known = (now_at, now);
    }
    if now_at == 0 { Duration::ZERO } else { now.saturating_duration_since(known.1) }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, pending};
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::connections::io_time::IoTime;

    /// A connection whose task cannot be woken.
    struct Faulty;

    impl Wake for Faulty {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_fault_at_one_connection_keeps_no_other_from_being_looked_after() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        let patience = Patience { header: short, idle: long, keepalive: long, write: long };
        let limits = Arc::new(Limits::new(1 << 20, 8, long, short, 1 << 30));
        let connections = Connections::new(patience, limits, Arc::default());
        let open: Vec<OpenConnection> = (0..2).map(|_| connections.admit(Endpoint::Rest)).collect();
        let mut running = pin!(open[0].lifeline.clone().run(pending(), IoTime::default()));
        let waker = Waker::from(Arc::new(Faulty));
        assert!(running.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        connections.begin_to_tend();
        let closed = async {
            while open[1].lifeline.orders() & CLOSE == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap();
    }

    #[test]
    fn whoever_has_just_come_makes_no_room_for_the_next() {
        let second = Duration::from_secs(1);
        let patience = Patience { header: 10 * second, idle: 600 * second, keepalive: 30 * second, write: 30 * second };
        let (mut state, lifeline) = (State::default(), Lifeline::new(Endpoint::Rest, false));
        let opened = lifeline.opened;
        state.open.insert(1, Seen::new(lifeline, opened));
        assert_eq!(state.dispensable(opened + second / 100, &patience), None);
        assert_eq!(state.dispensable(opened + second / 20, &patience), Some(1));
        for number in 2..=RESERVE as u64 + 1 {
            state.open.insert(number, Seen::new(Lifeline::new(Endpoint::Rest, false), opened));
        }
        assert_eq!(state.dispensable(opened, &patience), Some(1), "the oldest of a crowd");
    }

    #[test]
    fn where_the_one_idle_for_longest_has_just_asked_something_the_next_makes_room() {
        let second = Duration::from_secs(1);
        let patience = Patience { header: second, idle: 600 * second, keepalive: 30 * second, write: 30 * second };
        let (mut state, opened) = (State::default(), Instant::now());
        let lifelines: Vec<Arc<Lifeline>> = (0..3).map(|_| Lifeline::new(Endpoint::Grpc, false)).collect();
        for (number, lifeline) in (1..).zip(&lifelines) {
            drop(lifeline.begin_call());
            lifeline.note_head();
            let mut seen = Seen::new(lifeline.clone(), opened);
            assert!(seen.look(opened + number as u32 * second, &patience).is_none());
            state.open.insert(number, seen);
        }
        let now = opened + 10 * second;
        assert_eq!(state.dispensable(now, &patience), Some(1));
        drop(lifelines[0].begin_call());
        assert_eq!(state.dispensable(now, &patience), Some(2));
    }
}
