//! Work that would keep an I/O thread for more than about a millisecond, on threads of its own: reading, unpacking and
//! writing much, and the keys of a TLS connection. Whatever waits for its turn waits as a task, which can be given up at
//! any time.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::FinishedBatch;
use tidegate_engine::sync::lock;
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{sleep_until, timeout_at};

use crate::fair_turns::{FairTurn, FairTurns};

/// What an I/O thread reads or writes itself, in bytes: up to about a millisecond of JSON.
pub const LARGE: usize = 64 << 10;

/// Work on more bytes never has all threads, so that what is less large need not wait until it is done.
const HUGE: usize = 1 << 20;

/// Large answers of fewer bytes each are many small ones, which took no less to read.
const SMALL_ANSWER: usize = 256;

/// A thread that had nothing to do for that long gives back what it keeps.
const IDLE: Duration = Duration::from_secs(1);

/// As many pieces of work are handed over at a time as there are threads, and one less of each kind that may come in
/// any number.
type Permits = (Option<OfKind>, OwnedSemaphorePermit);

/// Held until the work is done.
#[expect(dead_code, reason = "they end when they are dropped")]
enum OfKind {
    Huge(OwnedSemaphorePermit),
    List(OwnedSemaphorePermit),
    Tls(FairTurn),
}

struct Job {
    /// Where tasks run that the work begins.
    runtime: Handle,
    work: Box<dyn FnOnce() + Send>,
    permits: Permits,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// Work that was handed over.
#[derive(Default)]
struct Jobs {
    queue: Mutex<Queue>,
    came: Condvar,
}

/// The way to the threads.
pub struct Aside {
    threads: usize,
    turns: Arc<Semaphore>,
    huge_turns: Arc<Semaphore>,
    list_turns: Arc<Semaphore>,
    tls_turns: Arc<FairTurns>,
    jobs: Arc<Jobs>,
    closed: watch::Sender<bool>,
}

/// The threads' end of it.
pub struct AsideJobs(Arc<Jobs>);

/// Leave to begin; must be used on an I/O thread.
pub struct Turn {
    jobs: Arc<Jobs>,
    permits: Permits,
}

/// Both ends, for two threads or more.
pub fn aside(threads: usize) -> (Aside, AsideJobs) {
    let jobs = Arc::<Jobs>::default();
    let turns = |count| Arc::new(Semaphore::new(count));
    let aside = Aside {
        threads,
        turns: turns(threads),
        huge_turns: turns(threads - 1),
        list_turns: turns(1),
        tls_turns: FairTurns::new(threads - 1),
        jobs: jobs.clone(),
        closed: watch::channel(false).0,
    };
    (aside, AsideJobs(jobs))
}

impl Aside {
    /// A turn for work on so many bytes, unless the server stops.
    pub async fn turn(&self, bytes: usize) -> Result<Turn, Status> {
        let permits = self.permits(bytes).await.map_err(|_| stopping())?;
        Ok(Turn { jobs: self.jobs.clone(), permits })
    }

    /// The same, unless the deadline passes before.
    pub async fn turn_by(&self, bytes: usize, deadline: Instant) -> Result<Turn, Status> {
        timeout_at(deadline.into(), self.turn(bytes)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn permits(&self, bytes: usize) -> Result<Permits, AcquireError> {
        let huge = match bytes > HUGE {
            true => Some(OfKind::Huge(self.huge_turns.clone().acquire_owned().await?)),
            false => None,
        };
        Ok((huge, self.turns.clone().acquire_owned().await?))
    }

    /// What the work on the keys of a TLS connection with this peer gives, which takes long however few bytes came; None
    /// where the server stops, or the work panics. However many connections begin, a thread is left for requests, and
    /// however many begin with one peer, those with others have their turns between them, and one that `goes_on` after a
    /// first turn has its next before them.
    pub async fn begin_tls<T: Send + 'static>(
        &self,
        peer: IpAddr,
        goes_on: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let own = self.tls_turns.turn(peer, goes_on).await?;
        let permits = (Some(OfKind::Tls(own)), self.turns.clone().acquire_owned().await.ok()?);
        let (sender, result) = oneshot::channel();
        Turn { jobs: self.jobs.clone(), permits }.begin(move || drop(sender.send(work())));
        result.await.ok()
    }

    /// What the work gives, or why it gave nothing by the deadline. It goes on where nobody waits for it any more.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.run_while_awaited(bytes, deadline, |_: &mut dyn FnMut() -> bool| work()).await
    }

    /// The same of long work, which can ask whether nobody waits for it any more, and then give up.
    pub async fn run_while_awaited<T: Send + 'static>(
        &self,
        bytes: usize,
        deadline: Instant,
        work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let turn = self.turn_by(bytes, deadline).await?;
        let (sender, result) = oneshot::channel();
        turn.begin(move || {
            let given = work(&mut || sender.is_closed());
            let _ = sender.send(given);
        });
        self.told(result, deadline).await
    }

    /// A turn for what tells of all models, however many there are: written one at a time, so that requests wait for one of
    /// them at most.
    pub async fn list_turn(&self) -> Result<Turn, Status> {
        let permits = async {
            let own = self.list_turns.clone().acquire_owned().await?;
            Ok::<_, AcquireError>((Some(OfKind::List(own)), self.turns.clone().acquire_owned().await?))
        };
        let permits = permits.await.map_err(|_| stopping())?;
        Ok(Turn { jobs: self.jobs.clone(), permits })
    }

    /// What work gave that was handed over, or why it gave nothing by the deadline.
    pub async fn told<T>(&self, result: oneshot::Receiver<T>, deadline: Instant) -> Result<T, Status> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            result = result => result.map_err(|_| match *self.closed.borrow() {
                true => stopping(),
                false => Status::internal("the request could not be read"),
            }),
            () = sleep_until(deadline.into()) => Err(late()),
            _ = closed.wait_for(|closed| *closed) => Err(stopping()),
        }
    }

    /// No more turns from now on; the threads do what they have and end. True if there is any, or was waited for.
    pub fn close(&self) -> bool {
        let idle = self.turns.available_permits() == self.threads;
        self.closed.send_replace(true);
        self.turns.close();
        self.huge_turns.close();
        self.list_turns.close();
        self.tls_turns.close();
        self.jobs.close();
        !idle
    }
}

/// The answer to a request whose time is over before it is read.
pub(crate) fn late() -> Status {
    Status::new(Code::DeadlineExceeded, "the deadline passed while the request waited to be read")
}

fn stopping() -> Status {
    Status::new(Code::Unavailable, "the server stopped before the request was read")
}

impl Turn {
    /// Hands the work over.
    pub fn begin(self, work: impl FnOnce() + Send + 'static) {
        let job = Job { runtime: Handle::current(), work: Box::new(work), permits: self.permits };
        self.jobs.put(job);
    }
}

impl Jobs {
    fn close(&self) {
        lock(&self.queue).closed = true;
        self.came.notify_all();
    }

    /// Leaves a job; where no thread takes it any more it is dropped, which answers whoever waits for it.
    fn put(&self, job: Job) {
        let mut queue = lock(&self.queue);
        if queue.closed {
            drop(queue);
            return drop(job);
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.came.notify_one();
    }

    /// The next job, once there is one; none after the last one. `idle` is called where that takes long.
    fn take(&self, idle: &dyn Fn()) -> Option<Job> {
        let mut queue = lock(&self.queue);
        let mut until = Some(Instant::now() + IDLE);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            queue = match left {
                None => self.came.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    until = None;
                    drop(queue);
                    idle();
                    lock(&self.queue)
                }
                Some(left) => self.came.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl AsideJobs {
    /// One of the threads; `idle` is called on it when it had nothing to do for a while.
    pub fn run(&self, idle: &dyn Fn()) {
        while let Some(Job { runtime, work, permits }) = self.0.take(idle) {
            let _entered = runtime.enter();
            // A fault in one request must not keep all others; it has been printed where it happened.
            let _ = catch_unwind(AssertUnwindSafe(work));
            drop(permits);
        }
    }
}

impl Drop for AsideJobs {
    /// Nobody takes what is left.
    fn drop(&mut self) {
        self.0.close();
        let left = std::mem::take(&mut lock(&self.0.queue).jobs);
        drop(left);
    }
}

/// The bytes that a batch's answers are made of, where they are large.
pub fn large_answers(finished: &FinishedBatch) -> Option<usize> {
    let outputs = finished.parts.iter().filter_map(|part| part.outputs.as_ref().ok()).flatten();
    let bytes = outputs.map(|output| output.column.byte_size()).sum();
    (bytes > LARGE && bytes > finished.entries.len() * SMALL_ANSWER).then_some(bytes)
}
