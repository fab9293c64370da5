//! What runs a batch, and the thread that feeds it: take, drop the dead, run, check, send back.
//! Batches come from the queues of one version; finished ones go to the I/O thread whose requests they carry.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::batch::{Answer, Entry};
use crate::batch::{Batch, Finished, Part, Work};
use crate::bisect;
use crate::column::Column;
use crate::crew::{Crew, Word};
use crate::mailbox::Mailbox;
use crate::queue::Taken;
use crate::status::{Code, Status};
use crate::version::ServedSignature;

/// Runs batches; Python stands behind it.
pub trait Executor: Send + Sync {
    /// Runs one batch. May be called by as many threads at once as the version's `concurrency`.
    fn execute(&self, work: Work) -> Result<Answer, Status>;

    /// How often the model was entered so far.
    fn entries(&self) -> u64;

    /// Runs an executor thread, inside of whatever that thread should keep between batches.
    fn host(&self, thread: &mut (dyn FnMut() + Send)) {
        thread();
    }
}

/// Everything that an executor thread needs.
#[derive(Clone)]
pub struct Station {
    /// Where it sleeps.
    pub crew: Arc<Crew>,
    /// The version's queues.
    pub served_signatures: Arc<[Arc<ServedSignature>]>,
    /// The model.
    pub executor: Arc<dyn Executor>,
    /// One per I/O thread.
    pub mailboxes: Arc<[Arc<Mailbox>]>,
}

impl Station {
    /// An executor thread; what it holds of the version is gone before nobody waits for it any more.
    pub fn run(self) {
        self.executor.host(&mut || self.serve_until_dismissed());
        let crew = self.crew.clone();
        drop(self);
        crew.let_go();
    }

    /// Answers what waits, where there is no thread to run it.
    pub fn turn_away(&self, status: &Status) {
        for served in &*self.served_signatures {
            while let Taken::Batch(mut batch) = served.queue.take_early() {
                let entries = std::mem::take(&mut batch.entries);
                self.answer_unrun(served, &batch, entries, status.clone());
            }
        }
    }

    /// Serves until dismissed and nothing waits any more.
    fn serve_until_dismissed(&self) {
        let crew = &*self.crew;
        let mut turn = 0;
        loop {
            let mut later: Option<Instant> = None;
            let mut ran = false;
            let now = Instant::now();
            for step in 0..self.served_signatures.len() {
                let served = &self.served_signatures[(turn + step) % self.served_signatures.len()];
                match served.queue.take(now) {
                    Taken::Batch(batch) => {
                        self.serve(served, *batch);
                        turn += step + 1;
                        ran = true;
                        break;
                    }
                    Taken::Later(due) => later = Some(later.map_or(due, |other| other.min(due))),
                    Taken::Nothing => {}
                }
            }
            let word = match ran {
                true if crew.may_leave() => Word::Leave,
                true => Word::Work,
                false => crew.wait(later),
            };
            match word {
                Word::Work => {}
                Word::Finish if !self.nothing_waits() => {}
                Word::Finish => return,
                Word::Leave => {
                    // What this thread was woken for may still wait.
                    crew.wake();
                    return;
                }
            }
        }
    }

    fn nothing_waits(&self) -> bool {
        self.served_signatures.iter().all(|served| served.queue.queued_rows() == 0)
    }

    fn serve(&self, served: &Arc<ServedSignature>, mut batch: Batch) {
        let now = Instant::now();
        let specs = &served.signature.inputs;
        let dead = batch.drop_dead(specs, |entry| entry.cancelled || entry.deadline <= now);
        if !dead.is_empty() {
            self.answer_dead(served, &batch, dead);
        }
        if batch.entries.is_empty() {
            return;
        }
        let sizes = served.queue.limits().allowed_batch_sizes();
        let again = batch.entries.len() > 1 || bisect::may_run_again(&served.signature, batch.whole, &sizes);
        let logged = batch.entries.iter().any(|entry| entry.logged);
        // The model owns its inputs and may write into them: what is logged or run again is copied before.
        let kept: Vec<Column> = if again || logged {
            batch.columns.iter().map(|column| Column::clone(column)).collect()
        } else {
            Vec::new()
        };
        let lane = batch.lane;
        let parts = bisect::run(&*self.executor, served, &mut batch, &kept, &sizes);
        let inputs = if logged { kept } else { Vec::new() };
        self.mailboxes[lane].put(Finished {
            version: batch.version,
            served: served.clone(),
            entries: batch.entries,
            inputs,
            shapes: batch.shapes,
            parts,
        });
    }

    /// Requests that nobody waits for any more are not computed; the late ones are answered so.
    fn answer_dead(&self, served: &Arc<ServedSignature>, batch: &Batch, dead: Vec<Entry>) {
        for entry in &dead {
            let counter = if entry.cancelled { &served.metrics.cancelled } else { &served.metrics.deadline_drops };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let late =
            Status::new(Code::DeadlineExceeded, "the deadline passed while the request waited in the batch queue");
        self.answer_unrun(served, batch, dead, late);
    }

    fn answer_unrun(&self, served: &Arc<ServedSignature>, batch: &Batch, mut entries: Vec<Entry>, why: Status) {
        for entry in &mut entries {
            entry.logged = false;
        }
        let part =
            Part { entries: 0..entries.len(), first_row: 0, whole: batch.whole, outputs: Err(why), errors: Vec::new() };
        self.mailboxes[batch.lane].put(Finished {
            version: batch.version.clone(),
            served: served.clone(),
            entries,
            inputs: Vec::new(),
            shapes: batch.shapes.clone(),
            parts: vec![part],
        });
    }
}
