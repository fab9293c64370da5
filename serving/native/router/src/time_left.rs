//! How long a node may take for all of an answer: until the request's deadline, and as much later as its client took to take what
//! came, so that a slow client does not lose what its node sends in time.

use std::future::{Future, pending};
use std::time::Instant;

use tokio::time::sleep_until;

/// The time that a node has left for an answer.
#[derive(Debug)]
pub struct TimeLeft {
    until: Option<Instant>,
    handed: Instant,
}

impl TimeLeft {
    /// Until the deadline; for ever where there is none.
    pub fn until(deadline: Option<Instant>) -> TimeLeft {
        TimeLeft { until: deadline, handed: Instant::now() }
    }

    /// Something came, and goes to the client.
    pub fn hand(&mut self) {
        self.handed = Instant::now();
    }

    /// The client has taken it: the time until now was its own.
    pub fn taken(&mut self) {
        self.until = self.until.map(|until| until + self.handed.elapsed());
    }

    /// Waits until none is left.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let until = self.until;
        async move {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => pending().await,
            }
        }
    }
}
