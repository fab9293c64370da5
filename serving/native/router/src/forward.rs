//! The way of one request: to a node, to a second one where the first does not answer it, and to a second one beside the first
//! where that takes long or the fleet has lost it. Only what no answer has begun for is sent again: all that is forwarded may be asked twice.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_codec::status::{Code, Status};
use tokio::time::timeout;

use crate::copy::ModelCopy;
use crate::hedging::Hedging;
use crate::node::Node;
use crate::routes::Model;

/// Why a node has not answered.
#[derive(Debug)]
pub enum Missed<A> {
    /// Nothing came of it.
    Unreachable(String),
    /// It says that it cannot now, or does not have the model; this is what it says.
    Refused(A),
}

/// When a second copy of a request goes while the first is under way.
#[derive(Clone, Copy)]
pub enum Copies<'a> {
    /// Never: what is asked is more than one message.
    Never,
    /// Once the fleet has lost the first node.
    OfLost,
    /// Then, and where the first one takes long.
    AlsoOfLate(&'a Hedging),
}

/// The answer of a node of the model, which is waited for until then. Both nodes of a pair that refused it are as good; an error
/// says that none was reached.
pub async fn forward<A, F, Fut>(model: &Model, copies: Copies<'_>, until: Instant, send: F) -> Result<A, Status>
where
    F: Fn(Arc<Node>) -> Fut,
    Fut: Future<Output = Result<A, Missed<A>>>,
{
    let chosen = model.choose(None, Instant::now());
    let copy = chosen.ok_or_else(|| unreachable(model, "it is on no node"))?;
    let mut first = pin!(ask(copy.clone(), until, &send));
    let missed = tokio::select! {
        biased;
        ended = first.as_mut() => ended,
        other = due(model, &copy, copies) => return race(model, first, pin!(ask(other, until, &send))).await,
    };
    let missed = match missed {
        Ok(answer) => return Ok(answer),
        Err(missed) => missed,
    };
    match model.choose(Some(&copy), Instant::now()) {
        Some(other) => {
            model.counts.retried.fetch_add(1, Ordering::Relaxed);
            settle(model, ask(other, until, &send).await, missed)
        }
        None => end(model, missed),
    }
}

/// Asks the node of a copy.
async fn ask<A, F, Fut>(copy: Arc<ModelCopy>, until: Instant, send: &F) -> Result<A, Missed<A>>
where
    F: Fn(Arc<Node>) -> Fut,
    Fut: Future<Output = Result<A, Missed<A>>>,
{
    let mut asking = copy.ask(until);
    let ended = send(copy.node.clone()).await;
    match &ended {
        Err(Missed::Unreachable(_)) => asking.missed(),
        _ => asking.answered(),
    }
    ended
}

/// Where a second copy goes, once it is to; never where there is no other node.
async fn due(model: &Model, first: &Arc<ModelCopy>, copies: Copies<'_>) -> Arc<ModelCopy> {
    if let Copies::AlsoOfLate(hedging) = copies
        && model.copies.len() > 1
    {
        hedging.note();
        if timeout(hedging.after, first.node.lost()).await.is_err()
            && let Some(other) = model.choose(Some(first), Instant::now()).filter(|other| other.is_fit(Instant::now()))
            && hedging.take()
        {
            return counted(model, other);
        }
    }
    if !matches!(copies, Copies::Never) {
        first.node.lost().await;
        if let Some(other) = model.choose(Some(first), Instant::now()) {
            return counted(model, other);
        }
    }
    pending().await
}

fn counted(model: &Model, other: Arc<ModelCopy>) -> Arc<ModelCopy> {
    model.counts.hedged.fetch_add(1, Ordering::Relaxed);
    other
}

/// The first answer of two; the other copy is dropped, which cancels it.
async fn race<A, Fut>(model: &Model, mut first: Pin<&mut Fut>, mut second: Pin<&mut Fut>) -> Result<A, Status>
where
    Fut: Future<Output = Result<A, Missed<A>>>,
{
    let (ended, other) = tokio::select! {
        biased;
        ended = first.as_mut() => (ended, second),
        ended = second.as_mut() => (ended, first),
    };
    match ended {
        Ok(answer) => Ok(answer),
        Err(missed) => settle(model, other.await, missed),
    }
}

/// What is answered once the last node was asked: what it says, or, where nothing came of it, what the first one said.
fn settle<A>(model: &Model, last: Result<A, Missed<A>>, before: Missed<A>) -> Result<A, Status> {
    match (last, before) {
        (Ok(answer), _) => Ok(answer),
        (Err(Missed::Unreachable(_)), Missed::Refused(answer)) => Ok(answer),
        (Err(missed), _) => end(model, missed),
    }
}

fn end<A>(model: &Model, missed: Missed<A>) -> Result<A, Status> {
    match missed {
        Missed::Refused(answer) => Ok(answer),
        Missed::Unreachable(why) => Err(unreachable(model, &why)),
    }
}

fn unreachable(model: &Model, why: &str) -> Status {
    Status::new(Code::Unavailable, format!("no node answers for model '{}': {why}; try again", model.name))
}
