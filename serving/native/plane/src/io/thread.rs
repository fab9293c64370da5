//! One I/O thread: a current-thread runtime that accepts connections for both endpoints and answers on them.

use std::future::{Future, poll_fn};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tidegate_engine::batching::FinishedBatch;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Answering, Turn};
use tidegate_engine::tracker::Tracker;
use tokio::runtime::{Builder, Runtime};

use crate::aside::{Aside, large_answers};
use crate::connections::io_time::IoTime;
use crate::connections::pace::Pace;
use crate::endpoints::grpc::methods::GrpcMethods;
use crate::endpoints::reply::PlaneDispatcher;
use crate::endpoints::rest::routes::RestRoutes;
use crate::freed_memory::share_memory;
use crate::io::completion_queue::CompletionQueue;
use crate::io::host::Host;
use crate::io::listener::Listener;
use crate::io::signals::Signals;
use crate::state::PlaneState;
use crate::supervision::spawn_task;
use crate::system::System;

/// How long the refusals at the end of a drain may take on their way to the clients.
const FAREWELL: Duration = Duration::from_millis(250);

/// After so many answers others have their turn; and so many where others are asked beside it whose requests come alone.
/// Before another connection is answered, fewer are sent: its client has work then, while the others are answered.
const IN_A_ROW: Turn = Turn { enough: 16, most: 128 };
const IN_A_ROW_MIXED: Turn = Turn { enough: 8, most: 8 };

/// What one I/O thread works on.
#[derive(Clone)]
pub struct IoLane {
    /// The path of its requests.
    pub dispatcher: Arc<PlaneDispatcher>,
    /// Its finished batches.
    pub completions: Arc<CompletionQueue>,
    /// What all share.
    pub state: Arc<PlaneState>,
    /// The process.
    pub system: Arc<dyn System>,
}

/// The endpoints' listeners of one I/O thread.
pub struct Listeners {
    /// For gRPC, if that endpoint is there.
    pub grpc: Option<TcpListener>,
    /// For gRPC over a Unix socket, if it is there.
    pub unix: Option<UnixListener>,
    /// For REST, if that endpoint is there.
    pub rest: Option<TcpListener>,
}

/// What an I/O thread runs: made before the thread is, so that whoever starts it hears of what cannot be had.
pub struct IoThread {
    runtime: Runtime,
    listeners: Vec<(Endpoint, Listener)>,
}

impl IoThread {
    /// A runtime that knows the sockets. The error says what could not be had, such as a file descriptor.
    pub fn new(listeners: Listeners) -> std::io::Result<IoThread> {
        // Sockets are looked at when the tasks are done, not in between: batches grow, and calls to the poller are few.
        // What other threads woke, answers above all, goes before what was just read.
        let runtime =
            Builder::new_current_thread().enable_all().event_interval(1009).global_queue_interval(1).build()?;
        let _entered = runtime.enter();
        let Listeners { grpc, unix, rest } = listeners;
        let tcp = |listener| tokio::net::TcpListener::from_std(listener).map(Listener::Tcp);
        let grpc = grpc.map(tcp).transpose()?.map(|listener| (Endpoint::Grpc, listener));
        let unix = unix.map(tokio::net::UnixListener::from_std).transpose()?;
        let unix = unix.map(|listener| (Endpoint::Grpc, Listener::Unix(listener)));
        let rest = rest.map(tcp).transpose()?.map(|listener| (Endpoint::Rest, listener));
        let listeners = [grpc, unix, rest].into_iter().flatten().collect();
        drop(_entered);
        Ok(IoThread { runtime, listeners })
    }

    /// Runs what serves the listeners until it ends, and whatever else it began no longer.
    pub fn block_on<F: Future>(self, serve: impl FnOnce(Vec<(Endpoint, Listener)>) -> F) -> F::Output {
        self.runtime.block_on(serve(self.listeners))
    }

    /// Runs until the drain is over. True if all connections were closed in time; copies for shadows are waited for as
    /// long, but do not count.
    pub fn run(self, lane: &IoLane, signals: &Signals) -> bool {
        let complete = self.block_on(|listeners| serve(lane.clone(), listeners, signals.clone()));
        lane.completions.close();
        lane.dispatcher.close();
        complete
    }
}

async fn serve(lane: IoLane, listeners: Vec<(Endpoint, Listener)>, signals: Signals) -> bool {
    let tracker = Arc::new(Tracker::default());
    let IoLane { dispatcher, completions, state, system } = lane;
    let aside = state.aside.clone();
    let (answering, beside) = (dispatcher.clone(), aside.clone());
    spawn_task(move || answer_batches(answering.clone(), completions.clone(), beside.clone()));
    let flushing = dispatcher.clone();
    spawn_task(move || flushing.clone().run_idle_flush());
    let sweeping = dispatcher.clone();
    spawn_task(move || sweeping.clone().run_sweep());
    let sharing = dispatcher.clone();
    spawn_task(move || share_memory(sharing.clone(), system.clone()));
    if dispatcher.lane == 0 {
        signals.connections.begin_to_tend();
    }
    let copies = dispatcher.copies.clone();
    let grpc = Arc::new(GrpcMethods { dispatcher: dispatcher.clone(), state: state.clone() });
    let rest = Arc::new(RestRoutes { dispatcher: dispatcher.clone(), state: state.clone() });
    let pace = Pace::new(dispatcher.mixture());
    let time = IoTime::default();
    let host = Arc::new(Host { state, pace, time, grpc, rest, tracker: tracker.clone(), signals: signals.clone() });
    host.accept_all(listeners).await;
    let until = signals.until.borrow().unwrap_or_else(Instant::now);
    let complete = tokio::time::timeout_at(until.into(), tracker.empty()).await.is_ok();
    if !complete {
        let refused = dispatcher.refuse_waiting() > 0;
        if aside.close() || refused {
            let _ = tokio::time::timeout(FAREWELL, tracker.empty()).await;
        }
    }
    let _ = tokio::time::timeout_at(until.into(), copies.empty()).await;
    complete
}

/// Answers every request of finished batches, for as long as the runtime lives: of each batch some at a time, so that a
/// small one need not wait behind a large one.
async fn answer_batches(dispatcher: Arc<PlaneDispatcher>, completions: Arc<CompletionQueue>, aside: Arc<Aside>) {
    let mixture = dispatcher.mixture();
    let (mut finished, mut begun, mut answered) = (Vec::new(), Vec::new(), 0);
    loop {
        match begun.is_empty() {
            true => completions.take(&mut finished).await,
            false => completions.take_now(&mut finished),
        }
        for batch in finished.drain(..) {
            match large_answers(&batch) {
                Some(bytes) => drop(tokio::spawn(answer_aside(dispatcher.clone(), batch, bytes, aside.clone()))),
                None => begun.push(Answering::new(batch)),
            }
        }
        let turn = if mixture.is_mixed() { IN_A_ROW_MIXED } else { IN_A_ROW };
        if begun.len() > 1 {
            begun.sort_by_key(Answering::left);
        }
        for mut answering in std::mem::take(&mut begun) {
            // A fault in one batch must not silence all later ones; the deadline sweep answers what was left out.
            let done = catch_unwind(AssertUnwindSafe(|| {
                answered += dispatcher.answer_some(&mut answering, turn);
                match answering.left() {
                    0 => dispatcher.end_answers(answering),
                    _ => begun.push(answering),
                }
            }));
            drop(done);
            if mixture.is_mixed() {
                // What was answered of the smaller ones is sent before the larger ones go on.
                let_others_run().await;
            }
        }
        let looks = answered >= turn.most;
        if looks {
            answered = 0;
        }
        if looks && (begun.is_empty() || mixture.is_mixed()) {
            // A request that came alone waits to be read, perhaps.
            tokio::task::yield_now().await;
        } else if !begun.is_empty() {
            let_others_run().await;
        }
    }
}

/// Lets tasks run that can, without a look at the sockets: it is known what is to be done next.
async fn let_others_run() {
    let mut had_their_turn = false;
    poll_fn(|context| {
        if std::mem::replace(&mut had_their_turn, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Answers the requests of a batch whose answers take long to write.
async fn answer_aside(dispatcher: Arc<PlaneDispatcher>, batch: FinishedBatch, bytes: usize, aside: Arc<Aside>) {
    if let Ok(turn) = aside.turn(bytes).await {
        turn.begin(move || dispatcher.answer_batch(batch));
    }
}
